"""The benchmark on this machine, what runs where, and every rule that refuses a row."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import InputError, sha256_tree
from unplug.export import Artifact, card_path, load_artifact
from unplug.export.artifact import write_card
from unplug.mobile_bench import DEVICES, BenchReport, Plan, bench_artifacts
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceOrder
from unplug.mobile_bench.jobs import RunsFiles, plan_jobs
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
    return bench_artifacts(
        [onnx, coreml],
        checkpoint=checkpoint,
        plan=Plan(threads=1, warmup=2, iterations=7, repeats=2),
    )


@pytest.mark.long
def test_a_host_row_is_complete(report: BenchReport, onnx: Artifact) -> None:
    row = report.rows[0]
    assert (row.status, row.valid, row.reasons, row.where) == ("ok", True, (), "host")
    assert (row.artifact_sha256, row.model_sha256) == (
        onnx.card.sha256,
        onnx.card.checkpoint_sha256,
    )
    assert row.device and row.os and row.runtime_version and row.inputs_sha256
    assert (row.threads, row.warmup, row.iterations, row.parity_reference) == (
        1,
        2,
        7,
        "checkpoint",
    )
    assert [len(repeat.latencies_ms) for repeat in row.repeats] == [7, 7]
    assert all(latency > 0 for repeat in row.repeats for latency in repeat.latencies_ms)
    assert all(repeat.parity_db is not None and repeat.parity_db > 100 for repeat in row.repeats)
    assert row.summary is not None and row.summary.count == 14 and row.summary.p99 is None
    assert (
        row.summary.min <= row.summary.p50 <= row.summary.p90 <= row.summary.p95 <= row.summary.max
    )
    assert row.median_ms is not None and row.median_ci95_ms is not None
    assert row.median_ci95_ms[0] <= row.median_ms <= row.median_ci95_ms[1]
    assert row.init_ms_cold is not None and row.init_ms_cold > 0 and row.spread is not None
    assert row.flop_bound_ms is not None and 0 < row.flop_bound_ms < row.summary.min
    assert all(getattr(row, name) is None for name in NEVER_HERE)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_that_of_the_child_alone(report: BenchReport) -> None:
    import resource

    row = report.rows[0]
    assert row.peak_memory_bytes is not None and row.base_memory_bytes is not None
    # torch is loaded in this process; a child that reported its parent's peak would be far above.
    parent_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 20e6 < row.base_memory_bytes < row.peak_memory_bytes < 0.6 * parent_peak_bytes


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML runs on macOS")
def test_core_ml_is_not_run_and_says_why(report: BenchReport) -> None:
    row = report.rows[1]
    assert (row.status, row.valid, row.repeats, row.summary) == ("not_run", False, (), None)
    assert "macOS only" in row.reasons[0]


@pytest.mark.long
def test_broken_artifact_is_a_failed_row_and_the_others_go_on(
    onnx: Artifact, tmp_path: Path
) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(onnx.path.read_bytes()[:1000])
    digest, size = sha256_tree(path)
    broken = write_card(path, replace(onnx.card, file=path.name, sha256=digest, bytes=size))
    assert card_path(path).is_file()
    steps: list[tuple[int, int, str]] = []
    plan = Plan(warmup=0, iterations=1, repeats=1)
    rows = bench_artifacts(
        [load_artifact(broken.path), onnx], plan=plan, progress=lambda *step: steps.append(step)
    ).rows
    assert [(row.status, row.valid) for row in rows] == [("failed", False), ("ok", True)]
    assert "cannot load it" in rows[0].reasons[0]
    assert (rows[1].parity_reference, rows[1].repeats[0].parity_db) == ("first_run", None), (
        "a run must equal its own repeat"
    )
    assert [step[:2] for step in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_good_row_of_the_fake_device_is_valid(
    onnx: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("name", list(DEVICES))
def test_device_contract(name: str) -> None:
    assert callable(DEVICES.get(name).bench)


@pytest.mark.long
def test_the_command_fails_where_nothing_was_timed(onnx: Artifact, coreml: Artifact) -> None:
    run = [
        *("bench", "--iterations", "1", "--repeats", "1", "--threads", "1", "--json"),
        str(coreml.path),
    ]
    assert CliRunner().invoke(main, run).exit_code == 1
    assert CliRunner().invoke(main, [*run, str(onnx.path)]).exit_code == 0


APP = RunsFiles(
    name="the app",
    by_suffix={".mlpackage": "coreml-app", ".tflite": "litert-app"},
    by_runtime={"coreml-app": ("all", "ane"), "litert-app": ("xnnpack", "gpu")},
)


@pytest.fixture
def files(onnx: Artifact) -> dict[str, Artifact]:
    targets = {"tflite": "litert", "onnx": "onnx", "mlpackage": "coreml"}
    return {
        end: replace(onnx, path=Path(f"a.{end}"), card=replace(onnx.card, target=name))
        for end, name in targets.items()
    }


def plan(
    files: dict[str, Artifact], *ends: str, every: bool = False, **asked: Any
) -> list[BenchJob]:
    order = DeviceOrder(
        artifacts=tuple(files[end] for end in ends),
        plan=Plan(),
        inputs_of=lambda _: {"x": np.zeros(1, np.float32)},
        reference_of=lambda _: None,
        runtime=asked.get("runtime"),
        delegates=asked.get("delegates", ()),
    )
    return plan_jobs(APP, order, every=every)


def shown(jobs: list[BenchJob]) -> list[tuple[str, str, str | None]]:
    return [(job.runtime, job.delegate, job.not_run) for job in jobs]


def test_the_first_delegate_or_every_one(files: dict[str, Artifact]) -> None:
    assert shown(plan(files, "mlpackage")) == [("coreml-app", "all", None)]
    assert shown(plan(files, "mlpackage", every=True)) == [
        ("coreml-app", "all", None),
        ("coreml-app", "ane", None),
    ]


def test_files_that_nothing_runs_say_so_whatever_was_asked(files: dict[str, Artifact]) -> None:
    for asked in ({}, {"delegates": ("xnnpack",)}, {"runtime": "litert-app"}):
        first, other = plan(files, "tflite", "onnx", **asked)
        assert first.not_run is None
        assert (other.runtime, other.not_run) == ("none", "the app does not run onnx files")
    assert shown(plan(files, "onnx", runtime="x", delegates=("y",))) == [
        ("none", "y", "the app does not run onnx files")
    ]


def test_what_only_some_files_have(files: dict[str, Artifact]) -> None:
    jobs = plan(files, "tflite", "mlpackage", delegates=("gpu", "ane"))
    assert shown(jobs) == [("litert-app", "gpu", None), ("coreml-app", "ane", None)]
    (_, other) = plan(files, "tflite", "mlpackage", delegates=("gpu",))
    assert other.not_run == "coreml-app has no delegate gpu (all, ane)"
    (_, other) = plan(files, "tflite", "mlpackage", runtime="litert-app")
    assert other.not_run == "litert-app does not run this file, coreml-app does"


def test_what_no_file_has_is_refused(files: dict[str, Artifact]) -> None:
    with pytest.raises(
        InputError, match=r"delegate 'npu': nothing here has it. Known: xnnpack, gpu"
    ):
        plan(files, "tflite", "onnx", delegates=("gpu", "npu"))
    with pytest.raises(
        InputError, match=r"runtime 'coreml-app': it does not run a.tflite. Use litert-app"
    ):
        plan(files, "tflite", runtime="coreml-app")
