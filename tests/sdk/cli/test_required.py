"""What must work here is said, or found: delegates of a bench in CI, and the file of a bundle that
is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.mobile_bench.fakes import FakeDevice

from unplug import export
from unplug.core import InputError, MissingExtraError
from unplug.export import RUNTIMES, Artifact
from unplug.mobile_bench import DEVICES
from unplug.sdk.cli import main
from unplug.sdk.drawing.inference import runnable_file

from .calls import fail


class Two(FakeDevice):
    """Two delegates, the second of which falls back to the first and says nothing."""

    def delegates(self, runtime: str) -> tuple[str, ...]:
        return ("cpu", "gpu")


FALLS_BACK = "REQUIRED gpu does not work with age.fp32.tflite: "


@pytest.mark.parametrize(
    ("required", "asked", "code", "line"),
    [
        ("", "cpu,gpu", 1, "REFUSED"),
        ("cpu", "cpu,gpu", 0, "REFUSED"),
        ("gpu", "cpu,gpu", 1, FALLS_BACK),
        ("cpu,gpu", "cpu,gpu", 1, FALLS_BACK),
        ("webgl", "", 1, "REQUIRED webgl does not work with age.fp32.tflite: it has no such row"),
    ],
)
def test_a_bench_is_told_what_must_work(
    required: str,
    asked: str,
    code: int,
    line: str,
    artifacts: dict[str, Artifact],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        DEVICES._targets, "fake", Two(latencies=lambda start, plan: (50.0,) * plan.iterations)
    )
    words = [
        "bench",
        "run",
        str(artifacts["age.fp32.tflite"].path),
        "--on",
        "fake",
        "--iterations",
        "5",
        "--repeats",
        "2",
    ]
    done = CliRunner().invoke(main, [*words, "--require", required, "--delegate", asked])
    assert done.exit_code == code and line in done.stdout, done.output
    assert ("REQUIRED" in done.stdout) == line.startswith("REQUIRED")
    said = fail(*words, "--delegate", "cpu", "--require", "gpu")
    assert said.line.startswith("error: --require gpu: --delegate leaves it out.")


BY_SUFFIX = {".mlpackage": "mil", ".tflite": "litert", ".onnx": "onnx", ".aimodel": "coreml"}
FILES = [Path(f"age.fp32{suffix}") for suffix in BY_SUFFIX]


@pytest.mark.parametrize(
    ("installed", "taken"),
    [
        (
            {"coreml", "run"},
            "age.fp32.tflite",
        ),  # a stand-in comes last, whatever the order of the files
        ({"onnx"}, "age.fp32.onnx"),
        ({"coreml"}, "age.fp32.mlpackage"),
    ],
)
def test_a_bundle_is_run_by_the_file_whose_runtime_is_here(
    installed: set[str], taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {
        "coreml": {"torch", "coremltools"},
        "run": {"ai_edge_litert", "onnxruntime"},
        "onnx": {"onnxruntime"},
    }
    here = set().union(*(packages[extra] for extra in installed))

    def required(modules: Iterable[str], extra: str) -> None:
        if missing := [name for name in modules if name.partition(".")[0] not in here]:
            raise MissingExtraError(missing[0], extra)

    monkeypatch.setattr(export, "load_artifact", lambda path: path)
    monkeypatch.setattr(export, "runtime_of", lambda path: RUNTIMES.get(BY_SUFFIX[path.suffix]))
    monkeypatch.setattr("unplug.sdk.drawing.inference.bundled.require_modules", required)
    assert runnable_file(Path("a.unplug"), FILES).name == taken
    here.clear()
    with pytest.raises(MissingExtraError, match="is not installed: this needs the extra"):
        runnable_file(Path("a.unplug"), FILES)
    with pytest.raises(InputError, match=r"none of its files runs here \(age.fp32.aimodel: "):
        runnable_file(Path("a.unplug"), FILES[3:])
