"""The traps: whatever makes a latency a lie refuses the row, which is kept and says why."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unplug.export import Artifact, checkpoint_artifact, export_checkpoint
from unplug.export.runtime import RUNTIMES
from unplug.export.runtime.base import Placement
from unplug.mobile_bench import BenchReport, Plan, bench_artifacts, compare_reports
from unplug.mobile_bench.devices.base import State
from unplug.mobile_bench.devices.host_child import Watch, pending_ms, time_runs
from unplug.plugins.errors import ConversionError, InputError

from .fakes import FakeDevice, on_fake


def rising(start: int, plan: Plan) -> tuple[float, ...]:
    return tuple(np.linspace(1.0, 1.4, plan.iterations))


def falling(start: int, plan: Plan) -> tuple[float, ...]:
    return tuple(np.linspace(1.4, 1.0, plan.iterations))


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (FakeDevice(offset=0.01), "parity: age_logits: 40.0 dB is below 100 dB"),
        (FakeDevice(offset=np.nan), "parity: age_logits: the output holds NaN"),
        (FakeDevice(latencies=lambda start, plan: (0.001,) * plan.iterations), "less than the arithmetic bound"),
        (FakeDevice(got="none"), "cpu was asked for and none ran"),
        (FakeDevice(pending_ms=0.5), "a call returned before its work was done: 1 ms timed, and reading the outputs then"),
        (FakeDevice(latencies=rising), "it throttled: runs became 33% slower within a cold start"),
        (FakeDevice(states=lambda: State(thermal="severe")), "the device says that it throttles (severe)"),
        (FakeDevice(states=lambda: State(temperature_c=61.0)), "the device was too hot to begin: gave up after 0 s at 61.0 °C"),
        (FakeDevice(crash=ConversionError("fake", "its child process was killed by SIGSEGV")), "SIGSEGV"),
    ],
)  # fmt: skip
def test_refused_rows_are_kept_and_marked(
    onnx: Artifact, device: FakeDevice, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = Plan(iterations=9, repeats=3, max_temperature_c=40.0, cool_down_s=0.0)
    (row,) = on_fake(device, onnx, monkeypatch, plan=plan)
    assert not row.valid and any(reason in said for said in row.reasons), row.reasons
    assert row.where == "emulated"
    report = BenchReport(rows=(row,), seed=0, versions={}, git_revision=None)
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report


def test_what_is_worth_a_warning(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = on_fake(FakeDevice(latencies=falling), onnx, monkeypatch)
    assert row.valid and "33% faster within a cold start: the warm-up is too short" in row.warnings[0]
    (row,) = on_fake(FakeDevice(), onnx, monkeypatch, plan=Plan(repeats=1))
    assert row.valid and "there is no interval" in row.warnings[0] and row.median_ci95_ms is None
    (row,) = on_fake(FakeDevice(latencies=lambda start, plan: (float(start),) * 9), onnx, monkeypatch)
    assert "cold starts differ by 200%" in row.warnings[0]


def test_a_hot_device_is_waited_for(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.mobile_bench.drive.POLL_S", 0.01)
    heat = iter([61.0, 55.0, 39.0, 38.0, 38.0, 38.0, 41.5])
    device = FakeDevice(states=lambda: State(temperature_c=next(heat), thermal="light"))
    (row,) = on_fake(device, onnx, monkeypatch, plan=Plan(iterations=9, repeats=3, max_temperature_c=40.0))
    assert row.valid and row.thermal_gate is not None and row.thermal_gate.startswith("waited 0 s until 39.0 °C")
    assert [repeat.temperature_c for repeat in row.repeats] == [39.0, 38.0, 38.0]
    assert (row.thermal_before, row.thermal_during, row.thermal_after) == ("light", "light", "light")


def test_clock_modes_are_not_compared(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def times(start: int, plan: Plan) -> tuple[float, ...]:
        return (1.0 + 0.01 * (start % 3),) * plan.iterations

    rows = [on_fake(FakeDevice(latencies=times, info={"clock_mode": mode}), onnx, monkeypatch) for mode in ("fixed", "free")]
    old, new = (BenchReport(rows=row, seed=0, versions={}, git_revision=None) for row in rows)
    (change,) = compare_reports(old, new).changes
    assert change.verdict == "not comparable" and change.reasons == ("clock mode changed from fixed to free",)


CPU = Placement(delegate_asked="cpu", delegate_got="cpu")


@dataclass
class Runner:
    """Computes x + 1; what it does besides is chosen."""

    lazy_s: float = 0.0
    wrong_after: int = 10**9
    calls: int = 0
    due: float = 0.0
    placement: Placement = CPU

    def feed(self, inputs: Any) -> None:
        self.x = inputs["x"]

    def invoke(self) -> None:
        self.calls += 1
        self.due = time.perf_counter() + self.lazy_s

    def read(self) -> dict[str, np.ndarray]:
        while time.perf_counter() < self.due:
            pass
        return {"y": self.x + (2.0 if self.calls > self.wrong_after else 1.0)}


def test_work_that_a_call_leaves_behind_is_seen() -> None:
    sample = {"x": np.ones((1, 4), np.float32)}
    assert pending_ms(Runner(), sample) < 1.0
    assert 4.0 < pending_ms(Runner(lazy_s=0.005), sample) < 50.0


@pytest.mark.parametrize("wrong_after", [1, 3, 20])
def test_a_run_that_is_wrong_once_the_first_was_right(wrong_after: int) -> None:
    """The outputs of the worst run are those compared with the reference, whichever run it was."""
    runner, watch, sample = Runner(wrong_after=wrong_after), Watch(), {"x": np.zeros((1, 2), np.float32)}
    for _ in range(30):
        runner.feed(sample)
        runner.invoke()
        watch.look(0, runner.read())
    assert watch.worst()[1]["y"].tolist() == [[2.0, 2.0]]


def test_every_run_is_watched_warm_ups_too(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's whole loop with a runtime that is wrong from its second run on."""
    from unplug.export.worker import Job

    @dataclass
    class Runtime:
        modules: tuple[str, ...] = ()

        def open(self, *_: Any, **__: Any) -> Runner:
            return Runner(wrong_after=1)

    monkeypatch.setitem(RUNTIMES._targets, "odd", Runtime())
    job = Job.__new__(Job)
    object.__setattr__(job, "values", {
        "runtime": "odd", "iospec": {"inputs": [], "outputs": []}, "path": "x", "threads": 1, "delegate": "cpu",
        "warmup": 1, "iterations": 3, "sustain_s": None,
    })  # fmt: skip
    object.__setattr__(job, "arrays", {"x": np.zeros((2, 1), np.float32)})
    reply = time_runs(job)
    assert reply.arrays["y"].tolist() == [[2.0]] and len(reply.values["latencies_ms"]) == 3


def test_sustained_load_on_the_host(onnx: Artifact) -> None:
    (row,) = bench_artifacts([onnx], plan=Plan(sustain_s=1.0, warmup=1)).rows
    assert (row.mode, len(row.repeats), row.repeats[0].latencies_ms) == ("sustained", 1, ())
    assert row.valid and row.summary is not None and row.summary.count == sum(window.count for window in row.curve)
    assert 1.0 <= row.curve[-1].end_s < 3.0 and row.median_ms is not None
    burst = replace(row, mode="burst")
    one, other = (BenchReport(rows=(item,), seed=0, versions={}, git_revision=None) for item in (row, burst))
    assert compare_reports(one, other).changes == (), "full load and cold starts are two different questions"


@pytest.mark.skipif("VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver")
def test_a_gpu_that_is_waited_for_and_one_that_is_not(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteRT's own trap, on a software device: without benchmark mode a run of 20 ms returns within one."""
    artifact = export_checkpoint(checkpoint, targets=["litert"], out=tmp_path)[0]
    plan = Plan(warmup=1, iterations=5, repeats=1)
    (row,) = bench_artifacts([artifact], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert (row.valid, row.where, row.delegate_got) == (True, "emulated", "gpu") and "SwiftShader" in str(row.gpu_driver)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    hasty = "import ai_edge_litert.gpu_options as o; made = o.GpuOptions\no.GpuOptions = lambda **_: made()\n"
    (tmp_path / "sitecustomize.py").write_text(hasty)
    (row,) = bench_artifacts([artifact], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert not row.valid and "a call returned before its work was done" in row.reasons[0]


def test_pytorch_beside_what_was_exported(checkpoint: Path, onnx: Artifact) -> None:
    plan = Plan(warmup=1, iterations=3, repeats=1)
    eager, file = bench_artifacts([checkpoint_artifact(checkpoint), onnx], plan=plan, checkpoint=checkpoint).rows
    assert (eager.target, eager.runtime, eager.delegate_got, eager.valid) == ("checkpoint", "torch", "eager", True)
    assert eager.artifact_sha256 == file.model_sha256 and eager.flops == file.flops and eager.repeats[0].parity_db is None
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="PyTorch finds no CUDA device"):
            bench_artifacts([checkpoint_artifact(checkpoint)], plan=plan, delegates=["eager-cuda"])


@pytest.mark.slow
def test_compiled_pytorch(checkpoint: Path) -> None:
    plan = Plan(warmup=1, iterations=3, repeats=1)
    (row,) = bench_artifacts([checkpoint_artifact(checkpoint)], plan=plan, delegates=["compiled"], checkpoint=checkpoint).rows
    assert row.valid and row.delegate_got == "compiled" and row.first_inference_ms is not None
    assert row.median_ms is not None and row.first_inference_ms > 10 * row.median_ms, "the first run compiles"
