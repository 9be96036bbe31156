"""Reports that came from outside, of a page or of an app: checked strictly, and every derived
number worked out anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from unplug.core import ReportError, parse_json
from unplug.export import PRECISIONS

from .bench_report import SCHEMA, BenchReport, BenchRow, Repeat, Where
from .devices.bench_device import BenchJob, DeviceInfo, Plan, State
from .rows import Taken, derived, measured_row, stopped_row
from .validity import peak_flops

MAX_BYTES = 64 * 2**20
MAX_MS = 1e9
MIN_MS = 1e-9  # a thousandth of a femtosecond; 0 is what a coarse clock says
MAX_DB = 1e4
MAX_WINDOWS = 1000
MAX_TEXT, MAX_TEXTS = 500, 64
REPORT, ROW = "the report", "a row"
UPDATE = "Reload the page, or update the app, so that both are of one version of unplug"
NOT_ASKED = ("model_type", "bytes", "flops")
"""What a row repeats from the plan and nothing is worked out from; it is taken from the job."""
AGAIN = "Run the benchmark again; what was measured before is kept"


def check_received(
    raw: bytes,
    jobs: Sequence[BenchJob],
    plan: Plan,
    where: Where | None = None,
) -> tuple[BenchRow, ...]:
    """The rows of a report that something else wrote, in the order of the jobs.

    Args:
        raw: ``unplug-bench/1`` as JSON.
        jobs: the jobs to measure; each row must belong to one of them, and no two rows to the same.
        plan: how.
        where: the place where the rows were taken, if it is known better here than there.

    Raises:
        ReportError: another schema version, unknown fields, numbers that cannot be, or a row of
            something else.
    """
    report = _read(raw, REPORT)
    rows: dict[int, BenchRow] = {}
    for row in report.rows:
        number = _job_of(row, jobs)
        if number in rows:
            raise ReportError(
                REPORT, f"it has two rows of {row.file} on {row.delegate_asked}", AGAIN
            )
        rows[number] = check_row(row, jobs[number], plan, where, REPORT)
    return tuple(rows[number] for number in sorted(rows))


def read_row(raw: bytes) -> BenchRow:
    """One row as JSON, its fields and their types checked and nothing else.

    Raises:
        ReportError: it is not a row.
    """
    head = {"schema": SCHEMA, "seed": 0, "versions": {}, "git_revision": None}
    return _read(json.dumps({**head, "rows": [_json(raw, ROW)]}).encode(), ROW).rows[0]


def check_row(
    row: BenchRow, job: BenchJob, plan: Plan, where: Where | None = None, what: str = ROW
) -> BenchRow:
    """A row of one job as this side would have written it.

    Args:
        row: a row from outside; only its measurements and the names of the device are taken.
        job, plan, where: see `check_received`.
        what: its name in errors.

    Raises:
        ReportError: it is not of this job, or its numbers cannot be.
    """
    for problem in (*_stranger(row, job, plan), *_impossible(row, plan)):
        raise ReportError(what, f"{row.file[:100]} on {row.delegate_asked[:40]}: {problem}", AGAIN)
    info = DeviceInfo(
        where=where or row.where,
        device=row.device,
        os=row.os,
        soc=row.soc,
        gpu_driver=row.gpu_driver,
        battery_percent=row.battery_percent,
        charging=row.charging,
        clock_mode=row.clock_mode,
    )
    told = replace(job, runtime_version=row.runtime_version)
    stopped = _stopped(row, job, plan)
    if not row.repeats:
        return stopped_row(info, told, plan, stopped or "nothing was measured", row.interruptions)
    taken = Taken(
        repeats=tuple(_judged(repeat, row.precision) for repeat in row.repeats),
        curve=row.curve,
        gate=row.thermal_gate,
        placement={
            name: getattr(row, name)
            for name in ("nodes_delegated", "nodes_total", "partitions", "timed_until")
        },
        interruptions=row.interruptions,
        after=State(thermal=row.thermal_after, battery_percent=row.battery_after_percent),
        peak_flops=peak_flops(row.precision, row.delegate_asked, row.threads),
    )
    made = measured_row(info, told, plan, taken)
    kept = ("peak_memory_bytes", "base_memory_bytes", "init_ms_cached", "threads")
    made = replace(made, **{name: getattr(row, name) for name in kept})
    reasons = (*((stopped,) if stopped else ()), *_strange_weights(job), *made.reasons)
    return replace(made, status="failed" if stopped else "ok", valid=not reasons, reasons=reasons)


def rechecked(report: BenchReport) -> BenchReport:
    """A report that a page wrote with nobody asking for it: bounded, its derived numbers and
    verdicts worked out anew.

    Whether its rows are of the files that they name cannot be known.

    Raises:
        ReportError: its numbers cannot be.
    """
    return replace(report, rows=tuple(map(_rechecked, report.rows)))


def _rechecked(row: BenchRow) -> BenchRow:
    sustain_s = 1.0 if row.mode == "sustained" else None
    plan = Plan(
        threads=row.threads, warmup=row.warmup, iterations=row.iterations, sustain_s=sustain_s
    )
    for problem in _impossible(row, plan):
        raise ReportError(
            REPORT, f"{row.file[:100]} on {row.delegate_asked[:40]}: {problem}", AGAIN
        )
    if not row.repeats:
        return replace(row, status="failed" if row.status == "ok" else row.status, valid=False)
    stopped = row.reasons[:1] if row.status != "ok" else ()
    peak = peak_flops(row.precision, row.delegate_asked, row.threads)
    bound = None if peak is None or row.flops is None else 1e3 * row.flops / peak
    repeats = tuple(_judged(repeat, row.precision) for repeat in row.repeats)
    return derived(replace(row, repeats=repeats, flop_bound_ms=bound), reasons=stopped)


def _read(raw: bytes, what: str) -> BenchReport:
    if len(raw) > MAX_BYTES:
        raise ReportError(what, f"larger than {MAX_BYTES} bytes", AGAIN)
    value = _json(raw, what)
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        raise ReportError(
            what, f"its schema is {str(schema)[:60]!r}, and this is {SCHEMA!r}", UPDATE
        )
    try:
        return TypeAdapter(BenchReport).validate_json(raw)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:60] for part in first["loc"])
        raise ReportError(
            what, f"it does not follow its schema ({place}: {first['msg']})", UPDATE
        ) from problem


def _json(raw: bytes, what: str) -> Any:
    try:
        return parse_json(raw)
    except ValueError as error:
        raise ReportError(what, "it is not valid JSON", AGAIN) from error


def _job_of(row: BenchRow, jobs: Sequence[BenchJob]) -> int:
    wanted = (row.artifact_sha256, row.file, row.runtime, row.delegate_asked)
    for number, job in enumerate(jobs):
        if wanted == (job.artifact.card.sha256, job.artifact.card.file, job.runtime, job.delegate):
            return number
    why = (
        f"it has a row of {row.file[:100]!r} on {row.runtime[:40]!r} {row.delegate_asked[:40]!r}, "
        "which nobody asked for"
    )
    raise ReportError(REPORT, why, AGAIN)


def _stranger(row: BenchRow, job: BenchJob, plan: Plan) -> Iterator[str]:
    """What is not as it was asked for."""
    wanted = {**job.row_facts(), **plan.row_facts(), "delegate_asked": job.delegate}
    for name, value in wanted.items():
        if name in NOT_ASKED:
            continue
        if (told := getattr(row, name)) != value:
            yield f"its {name} is {str(told)[:80]!r}, and {str(value)[:80]!r} was asked for"
    if not 1 <= row.threads <= max(plan.threads, 1):
        yield f"{row.threads} threads, and {plan.threads} were asked for"
    if len(row.repeats) > plan.starts:
        yield f"{len(row.repeats)} cold starts, and {plan.starts} were asked for"


def _impossible(row: BenchRow, plan: Plan) -> Iterator[str]:
    """Numbers and texts that no device gives."""
    yield from _bad_texts(row)
    for name, least in (("threads", 1), ("warmup", 0), ("iterations", 0), ("flops", 0)):
        if (value := getattr(row, name)) is not None and not least <= value <= 2**50:
            yield f"its {name} cannot be {value}"
    if len(row.curve) > MAX_WINDOWS or (row.curve and not plan.sustain_s):
        yield f"a curve of {len(row.curve)} windows"
    for window in row.curve:
        if (
            window.count < 1
            or not 0 <= window.start_s <= window.end_s <= MAX_MS
            or not 0 <= window.p50 <= window.p95 <= MAX_MS
        ):
            yield "a window with impossible numbers"
    for repeat in row.repeats:
        yield from _bad_repeat(repeat, plan)
    for name in (
        "peak_memory_bytes",
        "base_memory_bytes",
        "nodes_delegated",
        "nodes_total",
        "partitions",
        "init_ms_cached",
    ):
        if (value := getattr(row, name)) is not None and not 0 <= value <= 2**50:
            yield f"its {name} cannot be {value}"
    charges = (
        row.battery_percent,
        row.battery_after_percent,
        *(repeat.battery_percent for repeat in row.repeats),
    )
    if not all(0 <= charge <= 100 for charge in charges if charge is not None):
        yield "a battery that cannot be so full"


def _bad_repeat(repeat: Repeat, plan: Plan) -> Iterator[str]:
    expected = 0 if plan.sustain_s else plan.iterations
    if len(repeat.latencies_ms) != expected:
        yield f"a cold start of {len(repeat.latencies_ms)} timed runs, and {expected} were asked for"
    summary = repeat.summary
    if (
        summary.count < 1
        or not 0 <= summary.min <= summary.p50 <= summary.max <= MAX_MS
        or 0 < summary.p50 < MIN_MS
    ):
        yield "a summary with impossible numbers"
    times = (
        repeat.init_ms,
        repeat.first_inference_ms,
        repeat.enqueue_ms,
        repeat.read_back_ms,
        repeat.started_s,
        repeat.energy_mj,
    )
    for value in (*(value for value in times if value is not None), *repeat.latencies_ms):
        if not 0 <= value <= MAX_MS or 0 < value < MIN_MS:
            yield f"a time of {value:g}"
    if repeat.parity_db is not None and abs(repeat.parity_db) > MAX_DB:
        yield f"a parity of {repeat.parity_db:g} dB"


def _bad_texts(row: BenchRow) -> Iterator[str]:
    names = (
        "device",
        "soc",
        "os",
        "gpu_driver",
        "runtime_version",
        "thermal_after",
        "thermal_gate",
        "clock_mode",
    )
    texts = [value for name in names if (value := getattr(row, name)) is not None]
    texts += [*row.reasons, *row.interruptions]
    texts += [
        text
        for repeat in row.repeats
        for text in (repeat.parity_reason, repeat.delegate_got, repeat.thermal)
        if text is not None
    ]
    if max(len(row.reasons), len(row.interruptions)) > MAX_TEXTS:
        yield f"more than {MAX_TEXTS} reasons or interruptions"
    # They are printed on a terminal: no control characters, no endless lines.
    if any(len(text) > MAX_TEXT or not text.isprintable() for text in texts):
        yield f"a text longer than {MAX_TEXT} characters, or one that cannot be printed"


def _stopped(row: BenchRow, job: BenchJob, plan: Plan) -> str | None:
    if job.not_run is not None:
        return job.not_run
    missing = len(row.repeats) < plan.starts
    if row.status == "ok" and not missing:
        return None
    reason = row.reasons[0] if row.reasons else "it was not told why"
    early = f"{len(row.repeats)} of {plan.starts} cold starts were timed"
    return reason if not row.repeats or reason.startswith(early) else f"{early}: {reason}"


def _judged(repeat: Repeat, precision: str) -> Repeat:
    """The threshold applied here: what the other side calls near enough is not believed."""
    threshold = PRECISIONS.get(precision).min_psnr_db
    if repeat.parity_db is None or repeat.parity_db >= threshold:
        return repeat
    return replace(
        repeat,
        parity_reason=repeat.parity_reason
        or f"{repeat.parity_db:.1f} dB is below {threshold:g} dB",
    )


def _strange_weights(job: BenchJob) -> tuple[str, ...]:
    if (
        job.reference is None
        or job.reference.checkpoint_sha256 == job.artifact.card.checkpoint_sha256
    ):
        return ()
    return (
        "parity: the artifact was exported from other weights "
        f"({job.artifact.card.checkpoint_sha256[:12]})",
    )
