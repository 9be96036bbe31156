"""The benchmark on this machine, what runs where, and every rule that refuses a row."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import InputError
from unplug.export import Artifact
from unplug.mobile_bench import DEVICES, BenchReport, Plan, bench_artifacts
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceOrder
from unplug.mobile_bench.jobs import RunsFiles, plan_jobs
from unplug.sdk.cli import main

from .conftest import OnFake, resigned
from .fakes import FakeDevice

ONCE = Plan(warmup=0, iterations=1, repeats=1)
THERMAL = ("thermal_before", "thermal_during", "thermal_after", "thermal_gate")


@pytest.fixture(scope="session")
def report(onnx: Artifact, coreml: Artifact, checkpoint: Path) -> BenchReport:
    plan = Plan(threads=1, warmup=2, iterations=7, repeats=2)
    return bench_artifacts([onnx, coreml], checkpoint=checkpoint, plan=plan)


@pytest.mark.long
def test_a_host_row_is_complete(report: BenchReport, onnx: Artifact) -> None:
    row, card = report.rows[0], onnx.card
    assert (row.status, row.valid, row.reasons, row.where) == ("ok", True, (), "host")
    assert (row.artifact_sha256, row.model_sha256) == (card.sha256, card.checkpoint_sha256)
    assert row.device and row.os and row.runtime_version and row.inputs_sha256
    assert (row.threads, row.warmup, row.iterations) == (1, 2, 7)
    assert row.parity_reference == "checkpoint"
    assert [len(repeat.latencies_ms) for repeat in row.repeats] == [7, 7]
    assert all(latency > 0 for repeat in row.repeats for latency in repeat.latencies_ms)
    assert all(repeat.parity_db is not None and repeat.parity_db > 100 for repeat in row.repeats)
    told = row.summary
    assert told is not None and told.count == 14 and told.p99 is None
    assert told.min <= told.p50 <= told.p90 <= told.p95 <= told.max
    assert row.median_ms is not None and row.median_ci95_ms is not None
    assert row.median_ci95_ms[0] <= row.median_ms <= row.median_ci95_ms[1]
    assert row.init_ms_cold is not None and row.init_ms_cold > 0 and row.spread is not None
    assert row.flop_bound_ms is not None and 0 < row.flop_bound_ms < told.min
    never_here = ("soc", "gpu_driver", "init_ms_cached", *THERMAL)
    assert all(getattr(row, name) is None for name in never_here)


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
    path, steps = tmp_path / "broken.onnx", list[tuple[int, int]]()
    path.write_bytes(onnx.path.read_bytes()[:1000])
    files = [resigned(onnx, path), onnx]
    broken, good = bench_artifacts(
        files, plan=ONCE, progress=lambda done, total, _: steps.append((done, total))
    ).rows
    assert [(row.status, row.valid) for row in (broken, good)] == [("failed", False), ("ok", True)]
    assert "cannot load it" in broken.reasons[0]
    assert (good.parity_reference, good.repeats[0].parity_db) == ("first_run", None), (
        "a run must equal its own repeat"
    )
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("got", ["cpu", None])
def test_a_good_row_of_the_fake_device_is_valid(on_fake: OnFake, got: str | None) -> None:
    """Also where the runtime does not tell what ran it."""
    row = on_fake(FakeDevice(got=got))
    assert row.valid and row.reasons == () and row.warnings == ()
    assert (row.spread, row.median_ci95_ms, row.delegate_got) == (0.0, (1.0, 1.0), got)


@pytest.mark.long
def test_artifact_of_other_weights_is_refused(onnx: Artifact, checkpoint: Path) -> None:
    stranger = replace(onnx, card=replace(onnx.card, checkpoint_sha256="0" * 64))
    (row,) = bench_artifacts([stranger], checkpoint=checkpoint, plan=ONCE).rows
    assert not row.valid and "exported from other weights" in row.reasons[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
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
        ({"times": 0}, "no artifact is given"),
        ({"times": 2}, r"age.fp32.onnx: it is given twice"),
    ],
)
def test_bad_requests(onnx: Artifact, change: dict[str, Any], message: str) -> None:
    times = change.pop("times", 1)
    with pytest.raises(InputError, match=message):
        bench_artifacts([onnx] * times, **change)


@pytest.mark.parametrize("name", list(DEVICES))
def test_device_contract(name: str) -> None:
    assert callable(DEVICES.get(name).bench)


@pytest.mark.long
def test_the_command_fails_where_nothing_was_timed(onnx: Artifact, coreml: Artifact) -> None:
    run = [
        *["bench", "--iterations", "1", "--repeats", "1", "--threads", "1", "--json"],
        str(coreml.path),
    ]
    assert CliRunner().invoke(main, run).exit_code == 1
    assert CliRunner().invoke(main, [*run, str(onnx.path)]).exit_code == 0


APP = RunsFiles(
    name="the app",
    by_suffix={".mlpackage": "coreml-app", ".tflite": "litert-app"},
    by_runtime={"coreml-app": ("all", "ane"), "litert-app": ("xnnpack", "gpu")},
)
TARGETS = {"tflite": "litert", "onnx": "onnx", "mlpackage": "coreml"}
NO_ONNX = "the app does not run onnx files"
LITERT, COREML = ("litert-app", "xnnpack", None), ("coreml-app", "all", None)


def plan(onnx: Artifact, ends: str, every: bool = False, **asked: Any) -> list[BenchJob]:
    """Jobs of files that end so."""
    files = [
        replace(onnx, path=Path(f"a.{end}"), card=replace(onnx.card, target=TARGETS[end]))
        for end in ends.split()
    ]
    order = DeviceOrder(
        artifacts=tuple(files),
        plan=Plan(),
        inputs_of=lambda _: {"x": np.zeros(1, np.float32)},
        reference_of=lambda _: None,
        runtime=asked.get("runtime"),
        delegates=asked.get("delegates", ()),
    )
    return plan_jobs(APP, order, every=every)


@pytest.mark.parametrize(
    ("ends", "asked", "wanted"),
    [
        ("mlpackage", {}, [COREML]),
        ("mlpackage", {"every": True}, [COREML, ("coreml-app", "ane", None)]),
        # files that nothing runs say so whatever was asked
        ("tflite onnx", {}, [LITERT, ("none", "default", NO_ONNX)]),
        ("tflite onnx", {"delegates": ("xnnpack",)}, [LITERT, ("none", "xnnpack", NO_ONNX)]),
        ("tflite onnx", {"runtime": "litert-app"}, [LITERT, ("none", "default", NO_ONNX)]),
        ("onnx", {"runtime": "x", "delegates": ("y",)}, [("none", "y", NO_ONNX)]),
        # what only some files have
        (
            "tflite mlpackage",
            {"delegates": ("gpu", "ane")},
            [("litert-app", "gpu", None), ("coreml-app", "ane", None)],
        ),
        (
            "tflite mlpackage",
            {"delegates": ("gpu",)},
            [
                ("litert-app", "gpu", None),
                ("coreml-app", "gpu", "coreml-app has no delegate gpu (all, ane)"),
            ],
        ),
        (
            "tflite mlpackage",
            {"runtime": "litert-app"},
            [LITERT, (*COREML[:2], "litert-app does not run this file, coreml-app does")],
        ),
    ],
)
def test_what_runs_where(onnx: Artifact, ends: str, asked: dict[str, Any], wanted: Any) -> None:
    jobs = plan(onnx, ends, **asked)
    assert [(job.runtime, job.delegate, job.not_run) for job in jobs] == wanted


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"delegates": ("gpu", "npu")},
            r"delegate 'npu': nothing here has it. Known: xnnpack, gpu",
        ),
        (
            {"runtime": "coreml-app"},
            r"runtime 'coreml-app': it does not run a.tflite. Use litert-app",
        ),
    ],
)
def test_what_no_file_has_is_refused(onnx: Artifact, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(onnx, "tflite", **asked)
