"""The vectors that apps share are what Python computes, and the report that the Kotlin core writes passes Python's checks."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.vectors.app import bench, bundle, generator, make

from unplug.core import sha256_file
from unplug.mobile_bench.received import check_received

HERE = make.HERE
RELATIVE = 1e-6
"""Of floats that another build of NumPy or ONNX Runtime may round otherwise."""


def check(wanted: Any, got: Any, place: str) -> None:
    if isinstance(wanted, dict):
        assert wanted.keys() == got.keys(), place
        for key in wanted:
            check(wanted[key], got[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(got), place
        for number, (one, two) in enumerate(zip(wanted, got, strict=True)):
            check(one, two, f"{place}[{number}]")
    elif isinstance(wanted, float):
        assert math.isclose(wanted, got, rel_tol=RELATIVE, abs_tol=RELATIVE), (place, wanted, got)
    else:
        assert wanted == got and type(wanted) is type(got), place


@pytest.mark.parametrize("name", [name for name in sorted(make.MADE) if name != "faces.json"])
def test_the_vectors_are_current(name: str) -> None:
    check(json.loads((HERE / name).read_text(encoding="utf-8")), json.loads(make.text_of(name)), name)


def test_faces_are_drawn_as_they_were() -> None:
    pytest.importorskip("mediapipe")
    check(json.loads((HERE / "faces.json").read_text(encoding="utf-8")), json.loads(make.text_of("faces.json")), "faces.json")


def decibels(wanted: str, got: str) -> float:
    one, two = (np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64) for text in (wanted, got))
    noise = float(np.sqrt(np.mean((one - two) ** 2)))
    return math.inf if noise == 0.0 else 20 * math.log10(float(np.abs(one).max()) / noise)


def test_the_tiny_generator_draws_the_pictures_that_lie_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    generator.write_pipeline(tmp_path)
    for path in tmp_path.rglob("*.onnx"):
        assert sha256_file(path) == sha256_file(generator.HERE / path.relative_to(tmp_path)), path
    kept = json.loads((generator.HERE / "pictures.json").read_text(encoding="utf-8"))
    for wanted, got in zip(kept["orders"], generator.pictures(generator.HERE)["orders"], strict=True):
        for name in ("latent", "decoded"):
            assert decibels(wanted.pop(name), got.pop(name)) >= generator.MIN_DB, (name, wanted)
        assert wanted == got


def test_the_bundle_with_a_model_is_what_its_script_makes() -> None:
    pytest.importorskip("onnxruntime")
    kept, made = json.loads((HERE / "bundle.json").read_text(encoding="utf-8")), bundle.made()
    for case in (kept, made):
        files = case.pop("files")
        outputs = {name for name in files if name.endswith(("-age_logits.f32", "-expected_age.f32"))}
        assert len(outputs) == 4
        # Outputs may round otherwise elsewhere, and with them the manifest and its signature.
        case["files"] = {name: text for name, text in files.items() if name not in outputs | {"manifest.json", "model.sig"}}
        case["outputs"] = {name: np.frombuffer(base64.b64decode(files[name]), "<f4").astype(float).tolist() for name in outputs}
    check(kept, made, "bundle.json")


def rows_of(folder: Path, report: bytes) -> Any:
    return check_received(report, bench.jobs(folder), bench.PLAN)


def test_what_is_asked_for_is_what_the_plan_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    asked = json.loads(bench.exchange(tmp_path).plan_json())
    assert asked == json.loads((bench.HERE / "plan.json").read_text(encoding="utf-8"))


def test_the_report_of_the_kotlin_core_passes_and_its_numbers_are_pythons(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    raw = (bench.HERE / "report.json").read_bytes()
    rows, said = rows_of(tmp_path, raw), json.loads(raw)["rows"]
    assert [(row.status, row.valid) for row in rows] == [("ok", True), ("ok", True), ("not_run", False)]
    derived = (
        "init_ms_cold",
        "first_inference_ms",
        "median_ms",
        "spread",
        "drift",
        "outlier_share",
        "thermal_gate",
        "interruptions",
    )
    for row, told in zip(rows[:2], said[:2], strict=True):
        for name in derived:
            check(told[name], json.loads(json.dumps(getattr(row, name))), name)
        for name in ("median_ci95_ms", "drift_ci95"):
            check(told[name], list(getattr(row, name)), name)
        check(told["summary"], vars(row.summary), "summary")
    assert rows[0].thermal_before == "none" and rows[0].battery_percent == 80.0


def lie(told: dict[str, Any]) -> None:
    told["repeats"][0]["latencies_ms"].pop()


def blind(told: dict[str, Any]) -> None:
    told["repeats"][0]["compared"] = 0


@pytest.mark.parametrize(("change", "error"), [(lie, "timed runs"), (blind, None)])
def test_a_report_that_was_meddled_with_is_not_believed(change: Any, error: str | None, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    report = json.loads((bench.HERE / "report.json").read_text(encoding="utf-8"))
    change(report["rows"][0])
    raw = json.dumps(report).encode()
    if error is None:
        assert not rows_of(tmp_path, raw)[0].valid
    else:
        with pytest.raises(Exception, match=error):
            rows_of(tmp_path, raw)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts) < 2**20
