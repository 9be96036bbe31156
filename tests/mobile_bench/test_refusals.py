"""The traps: whatever makes a latency a lie refuses the row, which is kept and says why."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unplug.core import ConversionError, InputError
from unplug.export import RUNTIMES, Artifact, Placement, checkpoint_artifact
from unplug.mobile_bench import (
    BenchReport,
    Plan,
    Repeat,
    at_fault,
    bench_artifacts,
    compare_reports,
    summarize,
)
from unplug.mobile_bench.devices.bench_device import State
from unplug.mobile_bench.devices.host_child import pending_ms, time_runs
from unplug.mobile_bench.parity import ParityWatch
from unplug.mobile_bench.validity import refusals

from .fakes import FakeDevice, on_fake


def rising(start: int, plan: Plan) -> tuple[float, ...]:
    return tuple(np.linspace(1.0, 1.4, plan.iterations))


def falling(start: int, plan: Plan) -> tuple[float, ...]:
    return tuple(np.linspace(1.4, 1.0, plan.iterations))


def alternately(*states: State) -> Callable[[], State]:
    """Two of each: before and behind a cold start."""
    given = itertools.cycle(
        states if states[0].clock_mode is None else [state for state in states for _ in range(2)]
    )
    return lambda: next(given)


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (FakeDevice(offset=0.01), "parity: age_logits: 40.0 dB is below 100 dB"),
        (FakeDevice(offset=np.nan), "parity: age_logits: the output holds NaN"),
        (
            FakeDevice(latencies=lambda start, plan: (0.001,) * plan.iterations),
            "less than the arithmetic bound",
        ),
        (FakeDevice(got="none"), "cpu was asked for and none ran"),
        (
            FakeDevice(pending_ms=0.5),
            "a call returned before its work was done: 1 ms timed, and reading the outputs then",
        ),
        (FakeDevice(compared=0), "parity: nobody looked at the outputs"),
        (
            FakeDevice(states=alternately(State(clock_mode="a"), State(clock_mode="b"))),
            "clock mode changed between cold",
        ),
        (
            FakeDevice(states=alternately(State(thermal="none"), State(thermal="severe"))),
            "throttles (severe)",
        ),
        (FakeDevice(latencies=rising), "it throttled: runs became 33% slower within a cold start"),
        (
            FakeDevice(states=lambda: State(thermal="severe")),
            "the device says that it throttles (severe)",
        ),
        (
            FakeDevice(states=lambda: State(temperature_c=61.0)),
            "the device was too hot to begin: gave up after 0 s at 61.0 °C",
        ),
        (
            FakeDevice(crash=ConversionError("fake", "its child process was killed by SIGSEGV")),
            "SIGSEGV",
        ),
    ],
)
def test_refused_rows_are_kept_and_marked(
    onnx: Artifact, device: FakeDevice, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = Plan(iterations=9, repeats=3, max_temperature_c=40.0, cool_down_s=0.0)
    (row,) = on_fake(device, onnx, monkeypatch, plan=plan)
    assert not row.valid and any(reason in said for said in row.reasons), row.reasons
    assert row.where == "emulated"
    of_the_machine = any(word in reason for word in ("throttle", "too hot", "clock mode"))
    assert bool(at_fault(row)) is not of_the_machine
    report = BenchReport(rows=(row,), seed=0, versions={}, git_revision=None)
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report


def test_what_is_worth_a_warning(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = on_fake(FakeDevice(latencies=falling), onnx, monkeypatch)
    assert (
        row.valid and "33% faster within a cold start: the warm-up is too short" in row.warnings[0]
    )
    (row,) = on_fake(FakeDevice(), onnx, monkeypatch, plan=Plan(repeats=1))
    assert row.valid and "there is no interval" in row.warnings[0] and row.median_ci95_ms is None
    (row,) = on_fake(
        FakeDevice(latencies=lambda start, plan: (float(start),) * 9), onnx, monkeypatch
    )
    assert "cold starts differ by 200%" in row.warnings[0]


def test_a_hot_device_is_waited_for(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.mobile_bench.drive.POLL_S", 0.01)
    heat = iter([61.0, 55.0, 39.0, 44.0, 38.0, 39.5, 38.0, 38.5, 41.5])
    device = FakeDevice(states=lambda: State(temperature_c=next(heat), thermal="light"))
    (row,) = on_fake(
        device, onnx, monkeypatch, plan=Plan(iterations=9, repeats=3, max_temperature_c=40.0)
    )
    assert (
        row.valid
        and row.thermal_gate is not None
        and row.thermal_gate.startswith("waited 0 s until 39.0 °C")
    )
    assert [(repeat.temperature_c, repeat.temperature_after_c) for repeat in row.repeats] == [
        (39.0, 44.0),
        (38.0, 39.5),
        (38.0, 38.5),
    ]
    assert (row.thermal_before, row.thermal_during, row.thermal_after) == (
        "light",
        "light",
        "light",
    )


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_throttling_shows_in_few_cold_starts_too(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch, repeats: int
) -> None:
    (row,) = on_fake(
        FakeDevice(latencies=rising), onnx, monkeypatch, plan=Plan(iterations=20, repeats=repeats)
    )
    assert not row.valid and "it throttled" in row.reasons[0]


@pytest.mark.long
def test_noise_is_not_called_throttling(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)

    def wild(start: int, plan: Plan) -> tuple[float, ...]:
        return tuple(
            np.exp(generator.normal(0.0, 0.10, plan.iterations))
            * (1 + 0.5 * (generator.random(plan.iterations) < 0.15))
        )

    rows = [
        on_fake(FakeDevice(latencies=wild), onnx, monkeypatch, plan=Plan())[0] for _ in range(100)
    ]
    assert sum(row.valid for row in rows) >= 99


@pytest.mark.parametrize(("taken", "valid"), [(44, True), (20, False)])
def test_an_accelerator_that_took_little(taken: int, valid: bool) -> None:
    repeat = Repeat(
        init_ms=1.0,
        first_inference_ms=1.0,
        latencies_ms=(1.0,) * 9,
        summary=summarize((1.0,) * 9),
        compared=9,
        parity_db=None,
        parity_reason=None,
        delegate_got="gpu",
    )
    said = {"flop_bound_ms": None, "sustained": False, "gate": None}
    assert (
        bool(list(refusals([repeat], delegate_asked="gpu", delegated=taken / 45, **said))) != valid
    )  # type: ignore[arg-type]
    assert not list(refusals([repeat] * 2, delegate_asked="gpu", delegated=1.0, **said))  # type: ignore[arg-type]


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


def test_work_that_a_call_leaves_behind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own, which goes on by a tenth of a millisecond whenever it is looked at."""
    sample, ticks = {"x": np.ones((1, 4), np.float32)}, itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-4 * next(ticks))
    assert pending_ms(Runner(), sample) < 1.0
    assert 4.0 < pending_ms(Runner(lazy_s=0.005), sample) < 6.0


def test_a_first_run_that_is_wrong_and_a_sample_that_always_is() -> None:
    """Kept are both the first of a sample and the one that differs most from it, of every sample."""
    watch = ParityWatch()
    for run in range(10):
        watch.look(0, {"y": np.full((1, 1), 7.0 if run == 0 else 1.0)})
        watch.look(1, {"y": np.full((1, 1), 2.0)})
    assert sorted((sample, float(outputs["y"][0, 0])) for sample, outputs in watch.kept()) == [
        (0, 1.0),
        (0, 7.0),
        (1, 2.0),
    ]


def test_every_run_is_watched_warm_ups_too(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's whole loop with a runtime that is wrong from its second run on."""
    from unplug.core import Job

    @dataclass
    class Runtime:
        modules: tuple[str, ...] = ()

        def open(self, *_: Any, **__: Any) -> Runner:
            return Runner(wrong_after=1)

    monkeypatch.setitem(RUNTIMES._targets, "odd", Runtime())
    job = Job.__new__(Job)
    object.__setattr__(
        job,
        "values",
        {
            "runtime": "odd",
            "iospec": {"inputs": [], "outputs": []},
            "path": "x",
            "threads": 1,
            "delegate": "cpu",
            "warmup": 1,
            "iterations": 3,
            "sustain_s": None,
        },
    )
    object.__setattr__(job, "arrays", {"x": np.zeros((2, 1), np.float32)})
    reply = time_runs(job)
    assert [2.0] in [array[0].tolist() for array in reply.arrays.values()] and len(
        reply.values["latencies_ms"]
    ) == 3
    assert (reply.values["samples"], reply.values["compared"]) == ([0, 1, 0], 5)


@pytest.mark.long
def test_sustained_load_on_the_host(onnx: Artifact) -> None:
    (row,) = bench_artifacts([onnx], plan=Plan(sustain_s=1.0, warmup=1)).rows
    assert (row.mode, len(row.repeats), row.repeats[0].latencies_ms) == ("sustained", 1, ())
    assert (
        row.valid
        and row.summary is not None
        and row.summary.count == sum(window.count for window in row.curve)
    )
    assert row.curve[-1].end_s >= 1.0 and row.median_ms is not None
    burst = replace(row, mode="burst")
    one, other = (
        BenchReport(rows=(item,), seed=0, versions={}, git_revision=None) for item in (row, burst)
    )
    assert compare_reports(one, other).changes == (), (
        "full load and cold starts are two different questions"
    )


@pytest.mark.long
@pytest.mark.skipif(
    "VK_DRIVER_FILES" not in os.environ, reason="VK_DRIVER_FILES names no Vulkan driver"
)
def test_a_gpu_that_is_waited_for_and_one_that_is_not(
    checkpoint: Path, litert: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteRT's own trap, on a software device: without benchmark mode a run of 20 ms returns within
    one.
    """
    plan = Plan(warmup=1, iterations=5, repeats=1)
    (row,) = bench_artifacts([litert], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert (row.valid, row.where, row.delegate_got) == (
        True,
        "emulated",
        "gpu",
    ) and "SwiftShader" in str(row.gpu_driver)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    hasty = (
        "import ai_edge_litert.gpu_options as o; made = o.GpuOptions\no.GpuOptions = lambda **_: "
        "made()\n"
    )
    (tmp_path / "sitecustomize.py").write_text(hasty)
    (row,) = bench_artifacts([litert], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert not row.valid and "a call returned before its work was done" in row.reasons[0]


@pytest.mark.nightly
@pytest.mark.long
def test_pytorch_beside_what_was_exported(checkpoint: Path, onnx: Artifact) -> None:
    plan = Plan(warmup=1, iterations=3, repeats=1)
    eager, file = bench_artifacts(
        [checkpoint_artifact(checkpoint), onnx], plan=plan, checkpoint=checkpoint
    ).rows
    assert (eager.target, eager.runtime, eager.delegate_got, eager.valid) == (
        "checkpoint",
        "torch",
        "eager",
        True,
    )
    assert (
        eager.artifact_sha256 == file.model_sha256
        and eager.flops == file.flops
        and eager.repeats[0].parity_reason is None
    )
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="PyTorch finds no CUDA device"):
            bench_artifacts([checkpoint_artifact(checkpoint)], plan=plan, delegates=["eager-cuda"])


@pytest.mark.nightly
def test_compiled_pytorch(checkpoint: Path) -> None:
    plan = Plan(warmup=1, iterations=3, repeats=1)
    (row,) = bench_artifacts(
        [checkpoint_artifact(checkpoint)], plan=plan, delegates=["compiled"], checkpoint=checkpoint
    ).rows
    assert row.valid and row.delegate_got == "compiled" and row.first_inference_ms is not None
    assert row.median_ms is not None and row.first_inference_ms > row.median_ms, (
        "the first run compiles"
    )
