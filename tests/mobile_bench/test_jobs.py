"""What runs where: one rule for the host, phones, browsers and apps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import InputError
from unplug.export import Artifact
from unplug.mobile_bench import Plan
from unplug.mobile_bench.devices.base import Job, Order
from unplug.mobile_bench.jobs import RunsFiles, plan_jobs

APP = RunsFiles(
    name="the app", by_suffix={".mlpackage": "coreml-app", ".tflite": "litert-app"},
    by_runtime={"coreml-app": ("all", "ane"), "litert-app": ("xnnpack", "gpu")},
)  # fmt: skip


@pytest.fixture
def files(onnx: Artifact) -> dict[str, Artifact]:
    targets = {"tflite": "litert", "onnx": "onnx", "mlpackage": "coreml"}
    return {end: replace(onnx, path=Path(f"a.{end}"), card=replace(onnx.card, target=name)) for end, name in targets.items()}


def plan(files: dict[str, Artifact], *ends: str, every: bool = False, **asked: Any) -> list[Job]:
    order = Order(
        artifacts=tuple(files[end] for end in ends), plan=Plan(), inputs_of=lambda _: {"x": np.zeros(1, np.float32)},
        reference_of=lambda _: None, runtime=asked.get("runtime"), delegates=asked.get("delegates", ()),
    )  # fmt: skip
    return plan_jobs(APP, order, every=every)


def shown(jobs: list[Job]) -> list[tuple[str, str, str | None]]:
    return [(job.runtime, job.delegate, job.not_run) for job in jobs]


def test_the_first_delegate_or_every_one(files: dict[str, Artifact]) -> None:
    assert shown(plan(files, "mlpackage")) == [("coreml-app", "all", None)]
    assert shown(plan(files, "mlpackage", every=True)) == [("coreml-app", "all", None), ("coreml-app", "ane", None)]


def test_files_that_nothing_runs_say_so_whatever_was_asked(files: dict[str, Artifact]) -> None:
    for asked in ({}, {"delegates": ("xnnpack",)}, {"runtime": "litert-app"}):
        first, other = plan(files, "tflite", "onnx", **asked)
        assert first.not_run is None
        assert (other.runtime, other.not_run) == ("none", "the app does not run onnx files")
    assert shown(plan(files, "onnx", runtime="x", delegates=("y",))) == [("none", "y", "the app does not run onnx files")]


def test_what_only_some_files_have(files: dict[str, Artifact]) -> None:
    jobs = plan(files, "tflite", "mlpackage", delegates=("gpu", "ane"))
    assert shown(jobs) == [("litert-app", "gpu", None), ("coreml-app", "ane", None)]
    (_, other) = plan(files, "tflite", "mlpackage", delegates=("gpu",))
    assert other.not_run == "coreml-app has no delegate gpu (all, ane)"
    (_, other) = plan(files, "tflite", "mlpackage", runtime="litert-app")
    assert other.not_run == "litert-app does not run this file, coreml-app does"


def test_what_no_file_has_is_refused(files: dict[str, Artifact]) -> None:
    with pytest.raises(InputError, match=r"delegate 'npu': nothing here has it. Known: xnnpack, gpu"):
        plan(files, "tflite", "onnx", delegates=("gpu", "npu"))
    with pytest.raises(InputError, match=r"runtime 'coreml-app': it does not run a.tflite. Use litert-app"):
        plan(files, "tflite", runtime="coreml-app")
