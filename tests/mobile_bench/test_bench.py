"""The benchmark on this machine, and every rule that refuses a row."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import unplug.mobile_bench
from unplug.core import InputError, ReportError, schema_text, sha256_tree
from unplug.export import Artifact, card_path, load_artifact
from unplug.export.artifact import write_card
from unplug.mobile_bench import DEVICES, BenchReport, Plan, bench_artifacts
from unplug.mobile_bench.schemas import SCHEMAS
from unplug.sdk.cli import main

from .fakes import FakeDevice, on_fake

NEVER_HERE = (
    "soc",
    "gpu_driver",
    "init_ms_cached",
    "thermal_before",
    "thermal_during",
    "thermal_after",
    "thermal_gate",
)


@pytest.fixture(scope="session")
def report(onnx: Artifact, coreml: Artifact, checkpoint: Path) -> BenchReport:
    return bench_artifacts([onnx, coreml], checkpoint=checkpoint, plan=Plan(threads=1, warmup=2, iterations=7, repeats=2))


@pytest.mark.long
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
    assert row.median_ms is not None and row.median_ci95_ms is not None
    assert row.median_ci95_ms[0] <= row.median_ms <= row.median_ci95_ms[1]
    assert row.init_ms_cold is not None and row.init_ms_cold > 0 and row.spread is not None
    assert row.flop_bound_ms is not None and 0 < row.flop_bound_ms < row.summary.min
    assert all(getattr(row, name) is None for name in NEVER_HERE)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_that_of_the_child_alone(report: BenchReport) -> None:
    import resource

    row = report.rows[0]
    assert row.peak_memory_bytes is not None and row.base_memory_bytes is not None
    # torch is loaded in this process; a child that reported its parent's peak would be far above.
    parent_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 20e6 < row.base_memory_bytes < row.peak_memory_bytes < 0.6 * parent_peak_bytes


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


@pytest.mark.long
def test_broken_artifact_is_a_failed_row_and_the_others_go_on(onnx: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(onnx.path.read_bytes()[:1000])
    digest, size = sha256_tree(path)
    broken = write_card(path, replace(onnx.card, file=path.name, sha256=digest, bytes=size))
    assert card_path(path).is_file()
    steps: list[tuple[int, int, str]] = []
    plan = Plan(warmup=0, iterations=1, repeats=1)
    rows = bench_artifacts([load_artifact(broken.path), onnx], plan=plan, progress=lambda *step: steps.append(step)).rows
    assert [(row.status, row.valid) for row in rows] == [("failed", False), ("ok", True)]
    assert "cannot load it" in rows[0].reasons[0]
    assert (rows[1].parity_reference, rows[1].repeats[0].parity_db) == ("first_run", None), "a run must equal its own repeat"
    assert [step[:2] for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_good_row_of_the_fake_device_is_valid(onnx: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    for got in ("cpu", None):  # a runtime that does not tell is not refused for it
        (row,) = on_fake(FakeDevice(got=got), onnx, monkeypatch)
        assert row.valid and row.reasons == () and row.warnings == ()
        assert (row.spread, row.median_ci95_ms, row.delegate_got) == (0.0, (1.0, 1.0), got)


@pytest.mark.long
def test_artifact_of_other_weights_is_refused(onnx: Artifact, checkpoint: Path) -> None:
    stranger = replace(onnx, card=replace(onnx.card, checkpoint_sha256="0" * 64))
    plan = Plan(warmup=0, iterations=1, repeats=1)
    (row,) = bench_artifacts([stranger], checkpoint=checkpoint, plan=plan).rows
    assert not row.valid and "exported from other weights" in row.reasons[0]


def test_bad_requests(onnx: Artifact) -> None:
    for change, message in (
        ({"on": "hosts"}, "device 'hosts': no such name. Did you mean host"),
        ({"on": ["host", "host"]}, "no device is given, or one twice"),
        ({"on": "host:2"}, "there is one host only"),
        ({"runtime": "litert"}, "it does not run age.fp32.onnx. Use onnx"),
        ({"delegates": ["gpu"]}, "delegate 'gpu': nothing here has it. Known: cpu, cuda"),
        ({"plan": Plan(iterations=0)}, "iterations 0: out of range"),
        ({"plan": Plan(repeats=-1)}, "repeats -1: out of range"),
        ({"plan": Plan(threads=0)}, "threads 0: out of range"),
        ({"plan": Plan(warmup=-1)}, "out of range"),
        ({"plan": Plan(max_temperature_c=float("nan"))}, "degrees nan: not a number from 0 on"),
        ({"plan": Plan(cool_down_s=float("inf"))}, "seconds to cool down inf: not a number"),
        ({"inputs": {}}, "input 'image': is missing"),
    ):
        with pytest.raises(InputError, match=message):
            bench_artifacts([onnx], **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no artifact is given"):
        bench_artifacts([])
    with pytest.raises(InputError, match=r"age.fp32.onnx: it is given twice"):
        bench_artifacts([onnx, onnx])


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
def test_device_contract(name: str) -> None:
    assert callable(DEVICES.get(name).bench)


@pytest.mark.long
def test_the_command_fails_where_nothing_was_timed(onnx: Artifact, coreml: Artifact) -> None:
    run = [*("bench", "--iterations", "1", "--repeats", "1", "--threads", "1", "--json"), str(coreml.path)]
    assert CliRunner().invoke(main, run).exit_code == 1
    assert CliRunner().invoke(main, [*run, str(onnx.path)]).exit_code == 0
