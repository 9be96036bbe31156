"""unplug export of several models in every precision, checked on the way out; of a conditioning
plugin, with parity and run.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests.exported import EVERYWHERE
from torch import nn

from unplug.core import call_in_child
from unplug.export import TARGETS, ParityReport, measure_parity, plan_pairs
from unplug.export.precisions import ON_REQUEST
from unplug.plugins import ConditioningPlugin, save_checkpoint
from unplug.sdk.cli import main

from ..conftest import World
from .calls import fail, leftovers

pytestmark = pytest.mark.long


def run(*args: object) -> Any:
    return CliRunner().invoke(main, [*map(str, args)])


@pytest.mark.nightly
def test_several_models_in_all_precisions(world: World, tmp_path: Path) -> None:
    out, models = tmp_path / "out", (world.original.path, world.unlearned.path)
    done = run(
        "export",
        *models,
        "--to",
        "onnx",
        "--precision",
        "all",
        "--calibrate",
        world.spec,
        "--calibration-samples",
        16,
        "--check",
        8,
        "--out",
        out,
        "--json",
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    called = [
        f"{path.name}/age.{precision}.onnx"
        for path in models
        for precision in ("fp32", "fp16", "int8-static")
    ]
    assert [Path(item["path"]).relative_to(out).as_posix() for item in said["artifacts"]] == called
    files = [name for file in called for name in (file, f"{file}.json")] + [
        f"{path.name}/parity.json" for path in models
    ]
    assert leftovers(out) == sorted([*files, *(path.name for path in models)])
    for path, checkpoint, report in zip(
        models, (world.original, world.unlearned), said["parity"], strict=True
    ):
        assert report["checkpoint_sha256"] == checkpoint.sha256 and report["samples"] == 8
        assert {row["status"] for row in report["rows"]} == {"pass"} and len(report["rows"]) == 6
        assert json.loads((out / path.name / "parity.json").read_text())["rows"] == report["rows"]


def test_out_of_tolerance_is_exit_1(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(*args: Any, **kwargs: Any) -> ParityReport:
        report = measure_parity(*args, **kwargs)
        return replace(
            report, rows=tuple(replace(row, status="fail", reason="planted") for row in report.rows)
        )

    monkeypatch.setattr("unplug.sdk.exporting.measure_parity", strict)
    call = (
        "export",
        world.original.path,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--check",
        2,
        "--out",
        tmp_path,
    )
    done = run(*call)
    assert done.exit_code == 1 and "planted" in done.output


def test_all_leaves_out_what_is_made_on_request() -> None:
    pairs = plan_pairs(EVERYWHERE, ["all"])
    assert {name: set(found) for name, found in pairs.items()} == {
        name: set(TARGETS.get(name).precisions) - set(ON_REQUEST) for name in EVERYWHERE
    }
    assert plan_pairs(["litert"], ["fp32", "all", "int8-dynamic"])["litert"][0] == "fp32"
    assert "int8-dynamic" in plan_pairs(["litert"], ["all", "int8-dynamic"])["litert"]


def test_two_models_of_one_name(world: World, tmp_path: Path) -> None:
    twin = tmp_path / world.original.path.name
    shutil.copytree(world.original.path, twin)
    line = fail("export", world.original.path, twin, "--to", "onnx", "--out", tmp_path / "out").line
    assert "two checkpoints have this name" in line and not (tmp_path / "out").exists()


def test_a_wrong_second_model_is_told_before_the_first_is_converted(
    world: World, tmp_path: Path
) -> None:
    line = fail(
        "export",
        world.original.path,
        tmp_path / "nowhere",
        "--to",
        "onnx",
        "--out",
        tmp_path / "out",
    ).line
    assert "nowhere: no such folder" in line and not (tmp_path / "out").exists()


SIDE = 64
BASE = {
    "block_out_channels": [32, 48],
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "sample_size": SIDE // 8,
}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = ConditioningPlugin.for_unet(BASE, condition="canny", size="nano").train()
    with torch.no_grad():
        for projection in model.projections:
            nn.init.normal_(projection.weight, std=0.2)
        for _ in range(5):
            model(torch.rand(4, 3, SIDE, SIDE))
    path = tmp_path_factory.mktemp("cli") / "plugin"
    save_checkpoint(model.eval(), path, record={}, card="A test plugin.")
    return path


@pytest.fixture(scope="module")
def exported(plugin: Path) -> tuple[Any, Path]:
    out = plugin.parent / "out"
    call = ("export", plugin, "--to", "onnx", "--precision", "fp32,fp16", "--out", out, "--json")
    result = CliRunner().invoke(main, [*map(str, call)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), out


def test_export(exported: tuple[Any, Path], plugin: Path) -> None:
    said, out = exported
    assert leftovers(out) == sorted(
        f"plugin.{p}.onnx{card}" for p in ("fp32", "fp16") for card in ("", ".json")
    )
    for card in said["artifacts"]:
        assert card["model_type"] == "plugin" and card["iospec"]["inputs"][0]["name"] == "condition"
        assert [item["name"] for item in card["iospec"]["outputs"]] == [
            "adapter_res_samples_00",
            "adapter_res_samples_01",
        ]


@pytest.mark.parametrize("source", ["edges of synthetic faces", "a folder of conditions"])
def test_parity(exported: tuple[Any, Path], plugin: Path, source: str, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for index in range(2):
        Image.effect_noise((SIDE + 8 * index, SIDE), 90).convert("RGB").save(
            pictures / f"{index}.png"
        )
    chosen = ("--samples", "2") if source.startswith("edges") else ("--images", str(pictures))
    files = sorted(exported[1].glob("*.onnx"))
    call = (
        "parity",
        *files,
        "--checkpoint",
        plugin,
        "--out",
        tmp_path / "parity.json",
        *chosen,
        "--json",
    )
    result = CliRunner().invoke(main, [*map(str, call)])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said == json.loads((tmp_path / "parity.json").read_text())
    assert said["model_type"] == "plugin" and said["samples"] == 2
    assert [row["status"] for row in said["rows"]] == ["pass"] * 4
    assert all(row["psnr_db"] >= row["threshold_db"] for row in said["rows"])


def test_run_shows_the_residuals_of_a_condition(
    exported: tuple[Any, Path], plugin: Path, tmp_path: Path
) -> None:
    Image.effect_noise((SIDE, SIDE), 90).convert("RGB").save(tmp_path / "a.png")
    said = {}
    for model in (plugin, exported[1] / "plugin.fp32.onnx"):
        call = (
            "run",
            model,
            "--image",
            tmp_path / "a.png",
            "-o",
            tmp_path / "out.npz",
            "-o",
            tmp_path / "out.png",
            "--json",
        )
        result = CliRunner().invoke(main, [*map(str, call)])
        assert result.exit_code == 0, result.output
        said[model] = json.loads(result.stdout)
        arrays = np.load(tmp_path / "out.npz")
        assert [row["shape"] for row in said[model]["outputs"]] == [
            list(arrays[name].shape) for name in arrays.files
        ]
        assert Image.open(tmp_path / "out.png").size == (3 * SIDE + 2 * 4, SIDE)
    ours, exports = (value["outputs"] for value in said.values())
    for one, other in zip(ours, exports, strict=True):
        assert one["rms"] == pytest.approx(other["rms"], rel=1e-4) and one["name"] == other["name"]
    assert (
        "needs one kind of input"
        in fail("run", plugin, "--image", tmp_path / "a.png", "--random").line
    )
    text = CliRunner().invoke(main, ["run", str(plugin), "--random"]).stdout
    assert text.split()[:2] == ["output", "shape"] and "adapter_res_samples_01  1x48x4x4" in text


def test_broken_plugins_are_refused_in_one_line(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(plugin, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"widths": [10**9, 8]}))
    assert (
        "widths 1000000000: out of range"
        in fail("export", broken, "--to", "onnx", "--out", tmp_path / "out").line
    )
    assert leftovers(tmp_path / "out") == []
    # Without the extra, the child says what to install.
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['diffusers'] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hide"), prepend=os.pathsep)
    assert call_in_child("unplug.core.worker:echo", {"a": 1}, what="echo").values == {"a": 1}
    line = fail("export", plugin, "--to", "onnx", "--out", tmp_path / "out").line
    assert "diffusers is not installed" in line and '[diffusion]"' in line
