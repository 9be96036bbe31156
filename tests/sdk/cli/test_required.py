"""What must work here is said, or found: delegates of a bench in CI, and the file of a bundle that
is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.exported import age_files
from tests.mobile_bench.fakes import FakeDevice

from unplug import export
from unplug.core import InputError, MissingExtraError
from unplug.export import RUNTIMES
from unplug.mobile_bench import DEVICES
from unplug.sdk.drawing.inference import runnable_file

from .calls import run


class Two(FakeDevice):
    """Two delegates, the second of which falls back to the first and says nothing."""

    def delegates(self, runtime: str) -> tuple[str, ...]:
        return ("cpu", "gpu")


FALLS_BACK = "REQUIRED gpu does not work with age.fp32.tflite: "


@pytest.mark.parametrize(
    ("required", "asked", "code", "line"),
    [
        ("''", "cpu,gpu", 1, "REFUSED"),
        ("cpu", "cpu,gpu", 0, "REFUSED"),
        ("gpu", "cpu,gpu", 1, FALLS_BACK),
        ("cpu,gpu", "cpu,gpu", 1, FALLS_BACK),
        ("webgl", "''", 1, "REQUIRED webgl does not work with age.fp32.tflite: it has no such row"),
        ("gpu", "cpu", 2, "error: --require gpu: --delegate leaves it out."),
    ],
)
def test_a_bench_is_told_what_must_work(
    required: str,
    asked: str,
    code: int,
    line: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Two(latencies=lambda start, plan: (50.0,) * plan.iterations)
    monkeypatch.setitem(DEVICES._targets, "fake", device)
    file = age_files(tmp_path_factory)["age.fp32.tflite"].path
    words = f"bench run {file} --on fake --iterations 5 --repeats 2 --require {required}"
    told = run(f"{words} --delegate {asked}", code).output
    assert line in told and ("REQUIRED" in told) == line.startswith("REQUIRED")


BY_SUFFIX = {".mlpackage": "mil", ".tflite": "litert", ".onnx": "onnx", ".aimodel": "coreml"}
FILES = [Path(f"age.fp32{suffix}") for suffix in BY_SUFFIX]


@pytest.mark.parametrize(
    ("here", "taken"),
    [
        # a stand-in comes last, whatever the order of the files
        ({"torch", "coremltools", "ai_edge_litert", "onnxruntime"}, "age.fp32.tflite"),
        ({"onnxruntime"}, "age.fp32.onnx"),
        ({"torch", "coremltools"}, "age.fp32.mlpackage"),
        (set(), None),
    ],
)
def test_a_bundle_is_run_by_the_file_whose_runtime_is_here(
    here: set[str], taken: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def required(modules: Iterable[str], extra: str) -> None:
        if missing := [name for name in modules if name.partition(".")[0] not in here]:
            raise MissingExtraError(missing[0], extra)

    monkeypatch.setattr(export, "load_artifact", lambda path: path)
    monkeypatch.setattr(export, "runtime_of", lambda path: RUNTIMES.get(BY_SUFFIX[path.suffix]))
    monkeypatch.setattr("unplug.sdk.drawing.inference.bundled.require_modules", required)
    if taken is not None:
        assert runnable_file(Path("a.unplug"), FILES).name == taken
        return
    with pytest.raises(MissingExtraError, match="is not installed: this needs the extra"):
        runnable_file(Path("a.unplug"), FILES)
    with pytest.raises(InputError, match=r"none of its files runs here \(age.fp32.aimodel: "):
        runnable_file(Path("a.unplug"), FILES[3:])
