"""The traps: whatever makes a latency a lie refuses the row, which is kept and says why."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from unplug.core import ConversionError, InputError, Job
from unplug.export import RUNTIMES, Artifact, Placement, checkpoint_artifact
from unplug.mobile_bench import BenchReport, Plan, at_fault, bench_artifacts, compare_reports
from unplug.mobile_bench.devices.bench_device import State
from unplug.mobile_bench.devices.host_child import pending_ms, time_runs
from unplug.mobile_bench.parity import ParityWatch, judge
from unplug.mobile_bench.validity import refusals

from .conftest import OnFake
from .fakes import FakeDevice, repeat_of, report_of


def between(first: float, last: float) -> FakeDevice:
    """Its runs become slower, or faster, within each cold start."""
    return FakeDevice(latencies=lambda _, plan: tuple(np.linspace(first, last, plan.iterations)))


def alternately(*states: State) -> Callable[[], State]:
    turns = itertools.cycle(states)
    return lambda: next(turns)


CLOCKS = (State(clock_mode="a"),) * 2 + (State(clock_mode="b"),) * 2
"""Two of each: before and behind a cold start."""
REFUSED = [
    (FakeDevice(offset=0.01), "parity: age_logits: 40.0 dB is below 100 dB"),
    (FakeDevice(offset=np.nan), "parity: age_logits: the output holds NaN"),
    (between(0.001, 0.001), "less than the arithmetic bound"),
    (FakeDevice(got="none"), "cpu was asked for and none ran"),
    (
        FakeDevice(pending_ms=0.5),
        "a call returned before its work was done: 1.00 ms timed, and reading the outputs then",
    ),
    (FakeDevice(compared=0), "parity: nobody looked at the outputs"),
    (FakeDevice(crash=ConversionError("fake", "its child was killed by SIGSEGV")), "SIGSEGV"),
]
SPOILT = [
    (FakeDevice(states=alternately(*CLOCKS)), "clock mode changed between cold"),
    (
        FakeDevice(states=alternately(State(thermal="none"), State(thermal="severe"))),
        "throttles (severe)",
    ),
    (between(1.0, 1.4), "it throttled: runs became 33% slower within a cold start"),
    (
        FakeDevice(states=lambda: State(thermal="severe")),
        "the device says that it throttles (severe)",
    ),
    (
        FakeDevice(states=lambda: State(temperature_c=61.0)),
        "the device was too hot to begin: gave up after 0 s at 61.0 °C",
    ),
]
"""By the machine: another time, the same file may do."""


@pytest.mark.parametrize(
    ("device", "reason", "fault"),
    [(*row, True) for row in REFUSED] + [(*row, False) for row in SPOILT],
)
def test_refused_rows_are_kept_and_marked(
    on_fake: OnFake, device: FakeDevice, reason: str, fault: bool, tmp_path: Path
) -> None:
    plan = Plan(iterations=9, repeats=3, max_temperature_c=40.0, cool_down_s=0.0)
    row = on_fake(device, plan=plan)
    assert not row.valid and any(reason in told for told in row.reasons), row.reasons
    assert row.where == "emulated" and bool(at_fault(row)) is fault
    report = report_of(row)
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report


@pytest.mark.parametrize(
    ("device", "repeats", "words"),
    [
        (between(1.4, 1.0), 3, "33% faster within a cold start: the warm-up is too short"),
        (FakeDevice(), 1, "there is no interval"),
        (
            FakeDevice(latencies=lambda start, _: (float(start),) * 9),
            3,
            "cold starts differ by 200%",
        ),
    ],
)
def test_what_is_worth_a_warning(
    on_fake: OnFake, device: FakeDevice, repeats: int, words: str
) -> None:
    row = on_fake(device, plan=Plan(iterations=9, repeats=repeats))
    assert row.valid and words in row.warnings[0]
    assert (row.median_ci95_ms is None) == (repeats == 1)


def test_a_hot_device_is_waited_for(on_fake: OnFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.mobile_bench.drive.POLL_S", 0.01)
    heat = iter([61.0, 55.0, 39.0, 44.0, 38.0, 39.5, 38.0, 38.5, 41.5])
    device = FakeDevice(states=lambda: State(temperature_c=next(heat), thermal="light"))
    row = on_fake(device, plan=Plan(iterations=9, repeats=3, max_temperature_c=40.0))
    assert row.valid and (row.thermal_gate or "").startswith("waited 0 s until 39.0 °C")
    around = [(repeat.temperature_c, repeat.temperature_after_c) for repeat in row.repeats]
    assert around == [(39.0, 44.0), (38.0, 39.5), (38.0, 38.5)]
    assert {row.thermal_before, row.thermal_during, row.thermal_after} == {"light"}


@pytest.mark.parametrize("repeats", [1, 2])
def test_throttling_shows_in_few_cold_starts_too(on_fake: OnFake, repeats: int) -> None:
    row = on_fake(between(1.0, 1.4), plan=Plan(iterations=20, repeats=repeats))
    assert not row.valid and "it throttled" in row.reasons[0]


@pytest.mark.long
def test_noise_is_not_called_throttling(on_fake: OnFake) -> None:
    generator = np.random.default_rng(0)

    def wild(start: int, plan: Plan) -> tuple[float, ...]:
        bursts = generator.random(plan.iterations) < 0.15
        return tuple(np.exp(generator.normal(0.0, 0.10, plan.iterations)) * (1 + 0.5 * bursts))

    rows = [on_fake(FakeDevice(latencies=wild), plan=Plan()) for _ in range(100)]
    assert sum(row.valid for row in rows) >= 99


@pytest.mark.parametrize(("delegated", "valid"), [(44 / 45, True), (20 / 45, False), (1.0, True)])
def test_an_accelerator_that_took_little(delegated: float, valid: bool) -> None:
    repeats = [repeat_of((1.0,) * 9, delegate_got="gpu")]
    how: Any = {"flop_bound_ms": None, "sustained": False, "gate": None}
    told = refusals(repeats, delegate_asked="gpu", delegated=delegated, **how)
    assert (not list(told)) == valid


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
    kept = sorted((sample, float(outputs["y"][0, 0])) for sample, outputs in watch.kept())
    assert kept == [(0, 1.0), (0, 7.0), (1, 2.0)]


def test_a_small_answer_is_as_far_off_here_as_in_a_parity_report() -> None:
    """By hand: rms .05 under a peak of 50 is 60 dB, whatever the sample itself answers."""
    card = SimpleNamespace(checkpoint_sha256="a", precision="fp32")
    job: Any = SimpleNamespace(artifact=SimpleNamespace(card=card), reference=None, delegate="cpu")
    wanted = {"years": np.array([[50.0], [2.0]])}
    found = judge(job, wanted, [(1, {"years": np.array([[2.05]])})])
    assert found.parity_db == pytest.approx(60.0)


def test_every_run_is_watched_warm_ups_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's whole loop with a runtime that is wrong from its second run on."""

    class Runtime:
        modules = ()

        def open(self, *_: Any, **__: Any) -> Runner:
            return Runner(wrong_after=1)

    monkeypatch.setitem(RUNTIMES._targets, "odd", Runtime())
    how = {"threads": 1, "delegate": "cpu", "warmup": 1, "iterations": 3, "sustain_s": None}
    file = {"runtime": "odd", "iospec": {"inputs": [], "outputs": []}, "path": "x"}
    reply = time_runs(Job(tmp_path, {**how, **file}, {"x": np.zeros((2, 1), np.float32)}, {}))
    assert [2.0] in [array[0].tolist() for array in reply.arrays.values()]
    assert len(reply.values["latencies_ms"]) == 3
    assert (reply.values["samples"], reply.values["compared"]) == ([0, 1, 0], 5)


@pytest.mark.long
def test_sustained_load_on_the_host(onnx: Artifact) -> None:
    (row,) = bench_artifacts([onnx], plan=Plan(sustain_s=1.0, warmup=1)).rows
    assert (row.mode, len(row.repeats), row.repeats[0].latencies_ms) == ("sustained", 1, ())
    assert row.valid and row.summary is not None
    assert row.summary.count == sum(window.count for window in row.curve)
    assert row.curve[-1].end_s >= 1.0 and row.median_ms is not None
    changes = compare_reports(report_of(row), report_of(replace(row, mode="burst"))).changes
    assert changes == (), "full load and cold starts are two different questions"


QUICK = Plan(warmup=1, iterations=3, repeats=1)


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
    plan = replace(QUICK, iterations=5)
    (row,) = bench_artifacts([litert], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert (row.valid, row.where, row.delegate_got) == (True, "emulated", "gpu")
    assert "SwiftShader" in str(row.gpu_driver)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "sitecustomize.py").write_text(
        "import ai_edge_litert.gpu_options as o\n"
        "made = o.GpuOptions\n"
        "o.GpuOptions = lambda **_: made()\n"
    )
    (row,) = bench_artifacts([litert], plan=plan, delegates=["gpu"], checkpoint=checkpoint).rows
    assert not row.valid and "a call returned before its work was done" in row.reasons[0]


@pytest.mark.nightly
@pytest.mark.long
def test_pytorch_beside_what_was_exported(checkpoint: Path, onnx: Artifact) -> None:
    net = checkpoint_artifact(checkpoint)
    eager, file = bench_artifacts([net, onnx], plan=QUICK, checkpoint=checkpoint).rows
    assert (eager.target, eager.runtime, eager.delegate_got) == ("checkpoint", "torch", "eager")
    assert (eager.artifact_sha256, eager.flops) == (file.model_sha256, file.flops)
    assert eager.valid and eager.repeats[0].parity_reason is None
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="PyTorch finds no CUDA device"):
            bench_artifacts([net], plan=QUICK, delegates=["eager-cuda"])


@pytest.mark.nightly
def test_compiled_pytorch(checkpoint: Path) -> None:
    net, how = checkpoint_artifact(checkpoint), ["compiled"]
    (row,) = bench_artifacts([net], plan=QUICK, delegates=how, checkpoint=checkpoint).rows
    assert row.valid and row.delegate_got == "compiled" and row.first_inference_ms is not None
    assert row.median_ms is not None
    assert row.first_inference_ms > row.median_ms, "the first run compiles"
