"""The benchmark on this machine, and every rule that refuses a row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unplug.mobile_bench
from unplug.export import Artifact, load_artifact
from unplug.export.artifact import card_path, write_card
from unplug.export.runtime.base import Placement
from unplug.export.schema import schema_text
from unplug.mobile_bench import DEVICES, BenchReport, bench_artifacts
from unplug.mobile_bench.devices import DeviceInfo, Plan, Timing, Untimed
from unplug.mobile_bench.schemas import SCHEMAS
from unplug.plugins.errors import ConversionError, InputError, ReportError
from unplug.plugins.files import sha256_tree

NEVER_HERE = (
    "soc",
    "gpu_driver",
    "init_ms_cached",
    "energy_mj",
    "thermal_before",
    "thermal_during",
    "thermal_after",
    "thermal_gate",
)


@pytest.fixture(scope="session")
def report(onnx: Artifact, coreml: Artifact, checkpoint: Path) -> BenchReport:
    return bench_artifacts([onnx, coreml], checkpoint=checkpoint, threads=1, warmup=2, iterations=7, repeats=2)


def test_a_host_row_is_complete(report: BenchReport, onnx: Artifact) -> None:
    row = report.rows[0]
    assert (row.status, row.valid, row.reasons, row.where) == ("ok", True, (), "host")
    assert (row.artifact_sha256, row.model_sha256) == (onnx.card.sha256, onnx.card.checkpoint_sha256)
    assert row.device and row.os and row.runtime_version and row.inputs_sha256
    assert (row.threads, row.warmup, row.iterations, row.parity_reference) == (1, 2, 7, "checkpoint")
    assert [len(repeat.latencies_ms) for repeat in row.repeats] == [7, 7]
    assert all(latency > 0 for repeat in row.repeats for latency in repeat.latencies_ms)
    assert all(repeat.parity_db is not None and repeat.parity_db > 100 for repeat in row.repeats)
    assert row.summary is not None and row.summary.count == 14 and row.summary.p99 is None
    assert row.summary.min <= row.summary.p50 <= row.summary.p90 <= row.summary.p95 <= row.summary.max
    assert row.median_ci95_ms is not None and row.median_ci95_ms[0] <= row.summary.p50 <= row.median_ci95_ms[1]
    assert row.init_ms_cold is not None and row.init_ms_cold > 0 and row.spread is not None
    assert row.flop_bound_ms is not None and 0 < row.flop_bound_ms < row.summary.min
    assert all(getattr(row, name) is None for name in NEVER_HERE)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_that_of_the_child_alone(report: BenchReport) -> None:
    row = report.rows[0]
    assert row.peak_memory_bytes is not None and row.base_memory_bytes is not None
    # torch is loaded in this process; a child that reported its parent's peak would be far above.
    assert 20e6 < row.base_memory_bytes < row.peak_memory_bytes < 150e6


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML runs on macOS")
def test_core_ml_is_not_run_and_says_why(report: BenchReport) -> None:
    row = report.rows[1]
    assert (row.status, row.valid, row.repeats, row.summary) == ("not_run", False, (), None)
    assert "macOS only" in row.reasons[0]


def test_report_round_trip(report: BenchReport, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    report.save(path)
    assert BenchReport.load(path) == report
    raw = json.loads(path.read_text())
    raw["rows"][0]["p50"] = 1.0
    path.write_text(json.dumps(raw))
    with pytest.raises(ReportError, match=r"rows\.0\.p50"):
        BenchReport.load(path)


def test_broken_artifact_is_a_failed_row_and_the_others_go_on(onnx: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(onnx.path.read_bytes()[:1000])
    digest, size = sha256_tree(path)
    broken = write_card(path, replace(onnx.card, file=path.name, sha256=digest, bytes=size))
    assert card_path(path).is_file()
    steps: list[tuple[int, int, str]] = []
    rows = bench_artifacts(
        [load_artifact(broken.path), onnx], warmup=0, iterations=1, repeats=1, progress=lambda *step: steps.append(step)
    ).rows
    assert [(row.status, row.valid) for row in rows] == [("failed", False), ("ok", True)]
    assert "cannot load it" in rows[0].reasons[0]
    assert (rows[1].parity_reference, rows[1].repeats[0].parity_db) == ("first_run", None), "a run must equal its own repeat"
    assert [step[:2] for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]


class FakeDevice:
    """A device whose measurements a test chooses."""

    def __init__(self, *, latency: float = 1.0, offset: float = 0.0, got: str | None = "cpu", crash: bool = False) -> None:
        self.latency, self.offset, self.got, self.crash = latency, offset, got, crash

    def describe(self) -> DeviceInfo:
        return DeviceInfo(where="emulated", device="fake", os="none")

    def runtime(self, artifact: Artifact) -> str:
        return "onnx"

    def unavailable(self, artifact: Artifact) -> str | None:
        return None

    def peak_flops(self, artifact: Artifact, threads: int) -> float | None:
        return 1e9

    def _outputs(self, samples: int) -> dict[str, np.ndarray]:
        return {"age_logits": np.ones((samples, 10), np.float32), "expected_age": np.ones((samples, 1), np.float32)}

    def untimed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, np.ndarray]) -> Untimed:
        return Untimed(outputs=self._outputs(len(inputs["image"])), peak_memory_bytes=None, base_memory_bytes=None)

    def timed(self, artifact: Artifact, plan: Plan, inputs: Mapping[str, np.ndarray]) -> Timing:
        if self.crash:
            raise ConversionError("fake", "its child process was killed by SIGSEGV")
        return Timing(
            init_ms=1.0,
            first_inference_ms=1.0,
            latencies_ms=(self.latency,) * plan.iterations,
            enqueue_ms=0.0,
            read_back_ms=0.0,
            placement=Placement(delegate_asked=plan.delegate, delegate_got=self.got),
            outputs={name: array + self.offset for name, array in self._outputs(1).items()},
            sample=0,
        )


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (FakeDevice(offset=0.01), "parity: age_logits: 40.0 dB is below 100 dB"),
        (FakeDevice(offset=np.nan), "parity: age_logits: the output holds NaN"),
        (FakeDevice(latency=0.001), "less than the arithmetic bound"),
        (FakeDevice(got="none"), "cpu was asked for and none ran"),
        (FakeDevice(crash=True), "SIGSEGV"),
    ],
)
def test_refused_rows_are_kept_and_marked(
    onnx: Artifact, device: FakeDevice, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(DEVICES._targets, "fake", device)
    card = replace(onnx.card, flops=10**5)  # 0.1 ms at the fake device's 1 GFLOP/s
    report = bench_artifacts([replace(onnx, card=card)], on="fake", iterations=3)
    (row,) = report.rows
    assert not row.valid and reason in row.reasons[0]
    assert row.where == "emulated"
    report.save(tmp_path / "bench.json")
    assert BenchReport.load(tmp_path / "bench.json") == report


def test_a_good_row_of_the_fake_device_is_valid(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    for got in ("cpu", None):  # a runtime that does not tell is not refused for it
        monkeypatch.setitem(DEVICES._targets, "fake", FakeDevice(got=got))
        (row,) = bench_artifacts([replace(onnx, card=replace(onnx.card, flops=10**5))], on="fake", iterations=3).rows
        assert row.valid and row.reasons == ()
        assert (row.spread, row.median_ci95_ms, row.delegate_got) == (0.0, (1.0, 1.0), got)


def test_artifact_of_other_weights_is_refused(onnx: Artifact, checkpoint: Path) -> None:
    stranger = replace(onnx, card=replace(onnx.card, checkpoint_sha256="0" * 64))
    (row,) = bench_artifacts([stranger], checkpoint=checkpoint, warmup=0, iterations=1, repeats=1).rows
    assert not row.valid and "exported from other weights" in row.reasons[0]


def test_bad_requests(onnx: Artifact) -> None:
    for change, message in (
        ({"on": "hosts"}, "device 'hosts': no such name. Did you mean host"),
        ({"iterations": 0}, "iterations 0: out of range"),
        ({"repeats": -1}, "repeats -1: out of range"),
        ({"threads": 0}, "threads 0: out of range"),
        ({"warmup": -1}, "out of range"),
        ({"inputs": {}}, "input 'image': is missing"),
    ):
        with pytest.raises(InputError, match=message):
            bench_artifacts([onnx], **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no artifact is given"):
        bench_artifacts([])


def test_door_and_schema() -> None:
    door = unplug.mobile_bench
    assert door.__all__ == sorted(door.__all__)
    assert all(getattr(door, name) is not None for name in door.__all__)
    script = "import sys, unplug.mobile_bench; print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    for name, kind in SCHEMAS.items():
        committed = Path(door.__file__).parent / "schemas" / name
        assert committed.read_text() == schema_text(kind), "run: python -m unplug.mobile_bench.schemas"
        assert json.loads(committed.read_text())["properties"]["schema"]["const"] == name.removesuffix("-1.json") + "/1"


@pytest.mark.parametrize("name", list(DEVICES))
def test_device_contract(name: str, onnx: Artifact) -> None:
    device = DEVICES.get(name)
    info = device.describe()
    assert info.device and info.os and info.where in ("device", "emulated", "host")
    assert isinstance(device.runtime(onnx), str)
    bound = device.peak_flops(onnx, 1)
    assert bound is None or bound > 1e9
