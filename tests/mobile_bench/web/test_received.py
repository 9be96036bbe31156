"""Reports from outside: what is taken, what is worked out anew, and every lie that is refused in
one line.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from unplug.core import IOSpec, ReportError, TensorSpec
from unplug.export import Artifact, Reference
from unplug.mobile_bench import BenchRow, Plan, Repeat, Window, rechecked, summarize
from unplug.mobile_bench.devices.bench_device import BenchJob, DeviceInfo
from unplug.mobile_bench.received import check_received
from unplug.mobile_bench.rows import Taken, measured_row

from ..fakes import repeat_of, report_of

PLAN = Plan(threads=1, warmup=1, iterations=3, repeats=2)
IMAGE = TensorSpec(name="image", shape=(1, 3, 2, 2), layout="NCHW")
AGE = TensorSpec(name="age", shape=(1, 1), layout="NC")
Json = dict[str, Any]


@pytest.fixture
def job(litert: Artifact) -> BenchJob:
    card = replace(
        litert.card,
        sha256="a" * 64,
        iospec=IOSpec(inputs=(IMAGE,), outputs=(AGE,)),
        checkpoint_sha256="b" * 64,
        flops=1000,
    )
    age = {"age": np.zeros((1, 1), np.float32)}
    return BenchJob(
        artifact=replace(litert, card=card),
        runtime="litert-web",
        runtime_version="2.5.3",
        delegate="wasm",
        inputs={"image": np.zeros((1, 3, 2, 2), np.float32)},
        reference=Reference(checkpoint_sha256="b" * 64, model_type="age", outputs=age),
    )


def repeat(*latencies: float, **changes: Any) -> Repeat:
    return repeat_of(
        latencies or (1.0,),
        **{
            "latencies_ms": latencies,
            "parity_db": 120.0,
            "delegate_got": "wasm",
            "compared": 5,
            **changes,
        },
    )


def row_of(job: BenchJob, *repeats: Repeat, **changes: Any) -> Json:
    """A row as a page sends it."""
    info = DeviceInfo(where="device", device="Pixel 8", os="Android 15, Chrome 141")
    taken = Taken(
        repeats=repeats or (repeat(1.0, 2.0, 3.0), repeat(2.0, 3.0, 4.0)),
        placement={"timed_until": "read_back"},
    )
    return {**asdict(measured_row(info, job, PLAN, taken)), **changes}


def raw(*rows: Json, **changes: Any) -> bytes:
    head = {"schema": "unplug-bench/1", "seed": 0, "versions": {}, "git_revision": None}
    return json.dumps({**head, "rows": rows, **changes}).encode()


def taken(job: BenchJob, row: Json, plan: Plan = PLAN) -> BenchRow:
    return check_received(raw(row), [job], plan)[0]


def test_an_honest_row_comes_back_as_it_was(job: BenchJob) -> None:
    row = taken(job, row_of(job))
    assert asdict(row) == asdict(taken(job, json.loads(json.dumps(asdict(row)))))
    assert (row.status, row.valid, row.where) == ("ok", True, "device")
    assert (row.timed_until, row.runtime_version) == ("read_back", "2.5.3")
    assert row.summary is not None and row.summary.p50 == 2.5


def test_derived_numbers_are_not_believed(job: BenchJob) -> None:
    lies = {"median_ms": 0.001, "median_ci95_ms": [0.001, 0.002], "spread": 0.0, "warnings": []}
    row = taken(job, row_of(job, **lies, flop_bound_ms=0.0))
    assert row.median_ms == pytest.approx((2.0 * 3.0) ** 0.5) and row.spread == 0.5
    lying = asdict(repeat(1.0, 2.0, 3.0)) | {"summary": asdict(summarize((0.1, 0.1, 0.1)))}
    assert taken(job, row_of(job, repeats=[lying, lying])).repeats[0].summary.p50 == 2.0


@pytest.mark.parametrize(
    ("change", "weights", "reason"),
    [
        ({"parity_db": 40.0}, "b", "parity: 40.0 dB is below 100 dB"),
        ({}, "c", "parity: the artifact was exported from other weights (bbbbbbbbbbbb)"),
        ({"delegate_got": "cpu"}, "b", "wasm was asked for and cpu ran"),
    ],
)
def test_validity_is_judged_here(job: BenchJob, change: Json, weights: str, reason: str) -> None:
    honest = row_of(job, *[repeat(1.0, 1.0, 1.0, **change)] * 2, valid=True, reasons=[])
    reference = replace(job.reference, checkpoint_sha256=weights * 64)  # type: ignore[type-var]
    row = taken(replace(job, reference=reference), honest)
    assert not row.valid and row.reasons == (reason,)


@pytest.mark.parametrize(
    ("repeats", "told", "reason"),
    [
        (
            1,
            {"reasons": ["the tab was closed"]},
            "1 of 2 cold starts were timed: the tab was closed",
        ),
        (1, {"status": "ok", "reasons": []}, "1 of 2 cold starts were timed: it was not told why"),
        (0, {"reasons": ["no memory"]}, "no memory"),
    ],
)
def test_rows_that_ended_early_say_so(job: BenchJob, repeats: int, told: Json, reason: str) -> None:
    claims = row_of(job, **{"status": "failed", "valid": False, **told})
    row = taken(job, {**claims, "repeats": claims["repeats"][:repeats]})
    assert (row.status, row.valid, row.device) == ("failed", False, "Pixel 8")
    assert row.reasons[0] == reason


WINDOW = asdict(Window(start_s=0.0, end_s=2.0, count=9, p50=1.0, p95=2.0))


def test_a_sustained_row(job: BenchJob) -> None:
    plan = replace(PLAN, sustain_s=2.0)
    row = row_of(job, repeat(summary=summarize((1.0, 2.0))), mode="sustained", curve=[WINDOW])
    assert taken(job, row, plan).curve[0].count == 9
    with pytest.raises(ReportError, match="a window with impossible numbers"):
        taken(job, {**row, "curve": [{**WINDOW, "p50": 9.0}]}, plan)


LIES: list[tuple[str, Json]] = [
    ("which nobody asked for", {"artifact_sha256": "c" * 64}),
    ("which nobody asked for", {"delegate_asked": "webgpu"}),
    ("its model_sha256 is", {"model_sha256": "c" * 64}),
    ("its precision is", {"precision": "palette6"}),
    ("its inputs_sha256 is", {"inputs_sha256": "c" * 64}),
    ("its parity_reference is", {"parity_reference": "first_run"}),
    ("its iterations is", {"iterations": 1}),
    ("its mode is", {"mode": "sustained"}),
    ("8 threads", {"threads": 8}),
    ("3 cold starts", {"repeats": [asdict(repeat(1.0, 2.0, 3.0))] * 3}),
    ("a curve of 1 windows", {"curve": [WINDOW]}),
    ("a battery", {"battery_percent": 400.0}),
    ("its peak_memory_bytes", {"peak_memory_bytes": -5}),
    ("cannot be printed", {"device": "Pixel\x1b[2J"}),
    ("a text longer", {"os": "x" * 5000}),
    ("more than 64 reasons", {"reasons": ["x"] * 1000}),
    ("Unexpected keyword argument", {"bonus": 1}),
    ("rows.0.where", {"where": "moon"}),
]
LIES_OF_REPEATS: list[tuple[str, Json]] = [
    ("a cold start of 2 timed runs", {"latencies_ms": [1.0, 2.0]}),
    ("a time of -1", {"latencies_ms": [-1.0, 2.0, 3.0]}),
    ("a time of 1e\\+300", {"init_ms": 1e300}),
    ("a parity of", {"parity_db": 1e9}),
    ("a summary with", {"summary": {**asdict(summarize((1.0,))), "p50": -1.0}}),
    ("latencies_ms.0: Input should be a valid number", {"latencies_ms": ["1", 2.0, 3.0]}),
    ("init_ms", {"init_ms": float("inf")}),
]


@pytest.mark.parametrize(("message", "lie"), LIES + LIES_OF_REPEATS)
def test_lies_are_one_clear_line(job: BenchJob, message: str, lie: Json) -> None:
    row = json.loads(json.dumps(row_of(job)))
    (row["repeats"][0] if (message, lie) in LIES_OF_REPEATS else row).update(lie)
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
        (raw(schema="unplug-bench/2"), "its schema is 'unplug-bench/2', and this is 'unplug-ben"),
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
    gpu = row_of(other, *[repeat(1.0, 2.0, 3.0, delegate_got="webgpu")] * 2)
    rows = check_received(raw(gpu, row_of(job)), [job, other], PLAN, "emulated")
    assert [row.delegate_asked for row in rows] == ["wasm", "webgpu"]
    assert {row.where for row in rows} == {"emulated"}
    assert check_received(raw(), [job], PLAN) == ()


def test_a_report_that_nobody_asked_for_is_worked_out_anew(job: BenchJob) -> None:
    honest = taken(job, row_of(job))
    wrong = tuple(replace(repeat, parity_db=40.0) for repeat in honest.repeats)
    lies = replace(honest, median_ms=0.001, warnings=("none",), repeats=wrong)
    early = ("1 of 2 cold starts were timed: closed",)
    stopped = replace(honest, status="failed", reasons=early, repeats=honest.repeats[:1])
    same, judged, ended, empty = rechecked(
        report_of(honest, lies, stopped, replace(honest, repeats=()))
    ).rows
    assert same == honest
    assert judged.median_ms == honest.median_ms
    assert judged.reasons == ("parity: 40.0 dB is below 100 dB",)
    assert (ended.status, ended.valid, ended.reasons) == ("failed", False, early)
    assert (empty.status, empty.valid) == ("failed", False)
    for change, words in (
        ({"threads": 0}, "its threads cannot be"),
        ({"threads": 10**39}, "its threads cannot be"),
        ({"flops": -1}, "its flops cannot be"),
        ({"battery_percent": -1.0}, "a battery"),
    ):
        with pytest.raises(ReportError, match=words):
            rechecked(report_of(replace(honest, **change)))  # type: ignore[arg-type]
