"""``unplug export`` of several models at once, in every precision, checked on the way out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import unplug.export
from unplug.export import TARGETS, ParityReport, measure_parity, plan_pairs
from unplug.export.precisions import ON_REQUEST
from unplug.sdk.cli import main

from ..conftest import World
from .calls import fail, leftovers

pytestmark = pytest.mark.long


def run(*args: object) -> Any:
    return CliRunner().invoke(main, [*map(str, args)])


def test_several_models_in_all_precisions(world: World, tmp_path: Path) -> None:
    out, models = tmp_path / "out", (world.original.path, world.unlearned.path)
    done = run(
        "export", *models, "--to", "onnx", "--precision", "all", "--calibrate", world.spec, "--calibration-samples", 16,
        "--check", 8, "--out", out, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    called = [f"{path.name}/age.{precision}.onnx" for path in models for precision in ("fp32", "fp16", "int8-static")]
    assert [Path(item["path"]).relative_to(out).as_posix() for item in said["artifacts"]] == called
    files = [name for file in called for name in (file, f"{file}.json")] + [f"{path.name}/parity.json" for path in models]
    assert leftovers(out) == sorted([*files, *(path.name for path in models)])
    for path, checkpoint, report in zip(models, (world.original, world.unlearned), said["parity"], strict=True):
        assert report["checkpoint_sha256"] == checkpoint.sha256 and report["samples"] == 8
        assert {row["status"] for row in report["rows"]} == {"pass"} and len(report["rows"]) == 6
        assert json.loads((out / path.name / "parity.json").read_text())["rows"] == report["rows"]


def test_out_of_tolerance_is_exit_1(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(*args: Any, **kwargs: Any) -> ParityReport:
        report = measure_parity(*args, **kwargs)
        return replace(report, rows=tuple(replace(row, status="fail", reason="planted") for row in report.rows))

    monkeypatch.setattr(unplug.export, "measure_parity", strict)
    call = ("export", world.original.path, "--to", "onnx", "--precision", "fp32", "--check", 2, "--out", tmp_path)
    done = run(*call)
    assert done.exit_code == 1 and "planted" in done.output


def test_all_leaves_out_what_is_made_on_request() -> None:
    pairs = plan_pairs(list(TARGETS), ["all"])
    assert {name: set(found) for name, found in pairs.items()} == {
        name: set(TARGETS.get(name).precisions) - set(ON_REQUEST) for name in TARGETS
    }
    assert plan_pairs(["litert"], ["fp32", "all", "int8-dynamic"])["litert"][0] == "fp32"
    assert "int8-dynamic" in plan_pairs(["litert"], ["all", "int8-dynamic"])["litert"]


def test_two_models_of_one_name(world: World, tmp_path: Path) -> None:
    twin = tmp_path / world.original.path.name
    shutil.copytree(world.original.path, twin)
    line = fail("export", world.original.path, twin, "--to", "onnx", "--out", tmp_path / "out").line
    assert "two checkpoints have this name" in line and not (tmp_path / "out").exists()


def test_a_wrong_second_model_is_told_before_the_first_is_converted(world: World, tmp_path: Path) -> None:
    line = fail("export", world.original.path, tmp_path / "nowhere", "--to", "onnx", "--out", tmp_path / "out").line
    assert "nowhere: no such folder" in line and not (tmp_path / "out").exists()
