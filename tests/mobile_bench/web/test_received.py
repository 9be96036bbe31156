"""Reports from outside: what is taken, what is worked out anew, and every lie that is refused in
one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from unplug.core import IOSpec, ReportError, TensorSpec
from unplug.export import Artifact, Card, Reference
from unplug.mobile_bench import BenchReport, BenchRow, Plan, Repeat, Window, rechecked, summarize
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceInfo
from unplug.mobile_bench.received import check_received
from unplug.mobile_bench.rows import Taken, measured_row

PLAN = Plan(threads=1, warmup=1, iterations=3, repeats=2)
INFO = DeviceInfo(where="device", device="Pixel 8", os="Android 15, Chrome 141")
SPEC = IOSpec(
    inputs=(TensorSpec(name="image", shape=(1, 3, 2, 2), layout="NCHW"),),
    outputs=(TensorSpec(name="age", shape=(1, 1), layout="NC"),),
)


@pytest.fixture
def job(tmp_path: Any) -> BenchJob:
    card = Card(
        target="litert",
        precision="fp32",
        file="age.fp32.tflite",
        sha256="a" * 64,
        bytes=10,
        model_type="age",
        iospec=SPEC,
        config={},
        checkpoint_sha256="b" * 64,
        flops=1000,
        versions={},
        seconds=0.0,
        prepare_seconds=0.0,
    )
    reference = Reference(
        checkpoint_sha256="b" * 64, model_type="age", outputs={"age": np.zeros((1, 1), np.float32)}
    )
    return BenchJob(
        artifact=Artifact(path=tmp_path / card.file, card=card),
        runtime="litert-web",
        runtime_version="2.5.3",
        delegate="wasm",
        inputs={"image": np.zeros((1, 3, 2, 2), np.float32)},
        reference=reference,
    )


def repeat(*latencies: float, **changes: Any) -> Repeat:
    values: dict[str, Any] = {
        "init_ms": 5.0,
        "first_inference_ms": 2.0,
        "latencies_ms": latencies,
        "summary": summarize(latencies or (1.0,)),
        "compared": 5,
        "parity_db": 120.0,
        "parity_reason": None,
        "delegate_got": "wasm",
    }
    return Repeat(**{**values, **changes})


def row_of(job: BenchJob, *repeats: Repeat, **changes: Any) -> dict[str, Any]:
    own = repeats or (repeat(1.0, 2.0, 3.0), repeat(2.0, 3.0, 4.0))
    placement = {
        "nodes_delegated": None,
        "nodes_total": None,
        "partitions": None,
        "timed_until": "read_back",
    }
    row = measured_row(INFO, job, PLAN, Taken(repeats=own, placement=placement))
    return {**asdict(row), **changes}


def raw(*rows: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(
        {
            "schema": "unplug-bench/1",
            "rows": rows,
            "seed": 0,
            "versions": {},
            "git_revision": None,
            **changes,
        }
    ).encode()


def taken(job: BenchJob, row: dict[str, Any], plan: Plan = PLAN) -> BenchRow:
    return check_received(raw(row), [job], plan)[0]


def test_an_honest_row_comes_back_as_it_was(job: BenchJob) -> None:
    row = taken(job, row_of(job))
    assert asdict(row) == asdict(taken(job, json.loads(json.dumps(asdict(row)))))
    assert (row.status, row.valid, row.where, row.timed_until) == (
        "ok",
        True,
        "device",
        "read_back",
    )
    assert row.summary is not None and row.summary.p50 == 2.5 and row.runtime_version == "2.5.3"


def test_derived_numbers_are_not_believed(job: BenchJob) -> None:
    lies = {
        "median_ms": 0.001,
        "median_ci95_ms": [0.001, 0.002],
        "spread": 0.0,
        "valid": True,
        "warnings": [],
        "flop_bound_ms": 0.0,
    }
    row = taken(job, row_of(job, **lies))
    assert (
        row.median_ms is not None
        and row.median_ms == pytest.approx((2.0 * 3.0) ** 0.5)
        and row.spread == 0.5
    )
    lying = asdict(repeat(1.0, 2.0, 3.0)) | {"summary": asdict(summarize((0.1, 0.1, 0.1)))}
    row = taken(job, row_of(job, repeats=[lying, lying]))
    assert row.repeats[0].summary.p50 == 2.0


def test_parity_is_judged_here(job: BenchJob) -> None:
    row = taken(
        job,
        row_of(
            job,
            repeat(1.0, 1.0, 1.0, parity_db=40.0),
            repeat(1.0, 1.0, 1.0),
            valid=True,
            reasons=[],
        ),
    )
    assert not row.valid and row.reasons == ("parity: 40.0 dB is below 100 dB",)
    strange = replace(job, reference=replace(job.reference, checkpoint_sha256="c" * 64))  # type: ignore[type-var]
    assert "other weights" in taken(strange, row_of(job)).reasons[0]


def test_a_silent_fallback_is_refused(job: BenchJob) -> None:
    row = taken(
        job,
        row_of(
            job,
            repeat(1.0, 1.0, 1.0, delegate_got="cpu"),
            repeat(1.0, 1.0, 1.0, delegate_got="cpu"),
        ),
    )
    assert row.reasons == ("wasm was asked for and cpu ran",)


def test_rows_that_ended_early_say_so(job: BenchJob) -> None:
    row = taken(
        job,
        row_of(
            job, repeat(1.0, 2.0, 3.0), status="failed", valid=False, reasons=["the tab was closed"]
        ),
    )
    assert (row.status, row.reasons[0]) == (
        "failed",
        "1 of 2 cold starts were timed: the tab was closed",
    )
    none = row_of(job, status="failed", valid=False, reasons=["no memory"], repeats=[])
    assert (taken(job, none).status, taken(job, none).reasons, taken(job, none).device) == (
        "failed",
        ("no memory",),
        "Pixel 8",
    )
    claims = row_of(job, repeat(1.0, 2.0, 3.0), status="ok", valid=True, reasons=[])
    assert taken(job, claims).status == "failed"


def test_a_sustained_row(job: BenchJob) -> None:
    plan = replace(PLAN, sustain_s=2.0)
    curve = [asdict(Window(start_s=0.0, end_s=2.0, count=9, p50=1.0, p95=2.0))]
    row = row_of(job, repeat(summary=summarize((1.0, 2.0))), mode="sustained", curve=curve)
    assert taken(job, row, plan).curve[0].count == 9
    with pytest.raises(ReportError, match="a window with impossible numbers"):
        taken(job, {**row, "curve": [{**curve[0], "p50": 9.0}]}, plan)


LIES: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("which nobody asked for", lambda row: row.update(artifact_sha256="c" * 64)),
    ("which nobody asked for", lambda row: row.update(delegate_asked="webgpu")),
    ("its model_sha256 is", lambda row: row.update(model_sha256="c" * 64)),
    ("its precision is", lambda row: row.update(precision="palette6")),
    ("its inputs_sha256 is", lambda row: row.update(inputs_sha256="c" * 64)),
    ("its parity_reference is", lambda row: row.update(parity_reference="first_run")),
    ("its iterations is", lambda row: row.update(iterations=1)),
    ("its mode is", lambda row: row.update(mode="sustained")),
    ("8 threads", lambda row: row.update(threads=8)),
    ("3 cold starts", lambda row: row.update(repeats=row["repeats"][:1] * 3)),
    ("a cold start of 2 timed runs", lambda row: row["repeats"][0].update(latencies_ms=[1.0, 2.0])),
    ("a time of -1", lambda row: row["repeats"][0].update(latencies_ms=[-1.0, 2.0, 3.0])),
    ("a time of 1e\\+300", lambda row: row["repeats"][0].update(init_ms=1e300)),
    ("a parity of", lambda row: row["repeats"][0].update(parity_db=1e9)),
    ("a summary with", lambda row: row["repeats"][0]["summary"].update(p50=-1.0)),
    (
        "a curve of 1 windows",
        lambda row: row.update(
            curve=[asdict(Window(start_s=0.0, end_s=1.0, count=1, p50=1.0, p95=1.0))]
        ),
    ),
    ("a battery", lambda row: row.update(battery_percent=400.0)),
    ("its peak_memory_bytes", lambda row: row.update(peak_memory_bytes=-5)),
    ("cannot be printed", lambda row: row.update(device="Pixel\x1b[2J")),
    ("a text longer", lambda row: row.update(os="x" * 5000)),
    ("more than 64 reasons", lambda row: row.update(reasons=["x"] * 1000)),
    (
        "latencies_ms.0: Input should be a valid number",
        lambda row: row["repeats"][0].update(latencies_ms=["1", 2.0, 3.0]),
    ),
    ("Unexpected keyword argument", lambda row: row.update(bonus=1)),
    ("rows.0.where", lambda row: row.update(where="moon")),
]


@pytest.mark.parametrize(("message", "lie"), LIES)
def test_lies_are_one_clear_line(
    job: BenchJob, message: str, lie: Callable[[dict[str, Any]], None]
) -> None:
    row = json.loads(json.dumps(row_of(job)))
    lie(row)
    with pytest.raises(ReportError, match=message) as caught:
        taken(job, row)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "its schema is 'None', and this is 'unplug-bench/1'. Reload the page"),
        (
            raw(schema="unplug-bench/2"),
            "its schema is 'unplug-bench/2', and this is 'unplug-bench/1'",
        ),
        (raw(extra=1), "extra: Unexpected keyword argument"),
        (raw().replace(b'"seed": 0', b'"seed": NaN'), "seed"),
    ],
)
def test_what_is_no_report(job: BenchJob, body: bytes, message: str) -> None:
    with pytest.raises(ReportError, match=message) as caught:
        check_received(body, [job], PLAN)
    assert "\n" not in str(caught.value)


def test_rows_twice_and_the_order_of_the_jobs(job: BenchJob) -> None:
    with pytest.raises(ReportError, match="two rows"):
        check_received(raw(row_of(job), row_of(job)), [job], PLAN)
    other = replace(job, delegate="webgpu")
    got = [repeat(1.0, 2.0, 3.0, delegate_got="webgpu")] * 2
    rows = check_received(raw(row_of(other, *got), row_of(job)), [job, other], PLAN, "emulated")
    assert [row.delegate_asked for row in rows] == ["wasm", "webgpu"] and {
        row.where for row in rows
    } == {"emulated"}
    assert check_received(raw(), [job], PLAN) == ()


def test_not_a_number_is_refused(job: BenchJob) -> None:
    body = raw(row_of(job)).replace(b'"init_ms": 5.0', b'"init_ms": Infinity')
    with pytest.raises(ReportError, match="init_ms"):
        check_received(body, [job], PLAN)


def test_a_report_that_nobody_asked_for_is_worked_out_anew(job: BenchJob) -> None:
    honest = taken(job, row_of(job))
    lies = replace(
        honest,
        median_ms=0.001,
        warnings=("none",),
        repeats=tuple(replace(own, parity_db=40.0) for own in honest.repeats),
    )
    stopped = replace(
        honest,
        status="failed",
        reasons=("1 of 2 cold starts were timed: closed",),
        repeats=honest.repeats[:1],
    )
    empty = replace(honest, repeats=())
    report = BenchReport(
        rows=(honest, lies, stopped, empty), seed=0, versions={}, git_revision=None
    )
    rows = rechecked(report).rows
    assert rows[0] == honest
    for wrong in ({"threads": 0}, {"threads": 10**39}, {"flops": -1}):
        with pytest.raises(ReportError, match=f"its {next(iter(wrong))} cannot be"):
            rechecked(replace(report, rows=(replace(honest, **wrong),)))
    assert rows[1].median_ms == honest.median_ms and rows[1].reasons == (
        "parity: 40.0 dB is below 100 dB",
    )
    assert (rows[2].status, rows[2].valid, rows[2].reasons) == ("failed", False, stopped.reasons)
    assert (rows[3].status, rows[3].valid) == ("failed", False)
    with pytest.raises(ReportError, match="a battery"):
        rechecked(replace(report, rows=(replace(honest, battery_percent=-1.0),)))
