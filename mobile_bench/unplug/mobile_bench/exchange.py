"""A benchmark that a page or an app runs by itself: the plan goes out, rows come in and are kept at
once.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from unplug.core import Array, JsonLines, ReportError, json_sha256, parse_json
from unplug.export import PRECISIONS, vector_bytes, vectors_index

from .bench_report import BenchRow, Where
from .devices.bench_device import BenchJob, DeviceInfo, Plan
from .received import check_received, check_row, read_row
from .rows import stopped_row

PLAN_SCHEMA = "unplug-bench-plan/1"
PARTIAL = "the rest is to come"
"""How the first reason of a row ends that the page has not finished."""
JOURNAL_SCHEMA = "unplug-rows-journal/1"


@dataclass(frozen=True, kw_only=True)
class PageProgress:
    """How far the page says it is."""

    share: float = 0.0
    text: str = ""


def rows_head(jobs: Sequence[BenchJob], plan: Plan, where: Where | None) -> dict[str, str]:
    """What makes a benchmark in a browser the same."""
    facts = {"plan": asdict(plan), "jobs": [job.facts() for job in jobs], "where": where}
    return {"schema": JOURNAL_SCHEMA, "digest": json_sha256(facts)}


class Exchange:
    """The state of one benchmark in a browser.

    Args:
        jobs: the jobs to run.
        expected: the expected outputs of each job, N samples; None where it is not run.
        plan: how it is timed.
        where: the place where rows are taken, if it is known here.
        journal: keeps rows, under `rows_head`; None keeps none.
        auto: whether the page starts without a press.
    """

    def __init__(
        self,
        jobs: Sequence[BenchJob],
        expected: Sequence[Mapping[str, Array] | None],
        plan: Plan,
        *,
        where: Where | None = None,
        journal: JsonLines | None = None,
        auto: bool = False,
    ) -> None:
        self.jobs, self.expected, self.plan = tuple(jobs), tuple(expected), plan
        self.where, self.auto = where, auto
        self.rows: dict[int, BenchRow] = {}
        self.progress = PageProgress()
        self.begun = False
        self.reported = threading.Event()
        self._last_sign = time.monotonic()
        self._lock = threading.Lock()
        self._journal = JsonLines(None, {}, print) if journal is None else journal
        self._read_journal()

    def sign(self) -> None:
        """Notes that the browser has shown a sign of life."""
        self._last_sign, self.begun = time.monotonic(), True

    @property
    def silent_s(self) -> float:
        """Seconds since its last sign."""
        return time.monotonic() - self._last_sign

    def missing(self) -> list[int]:
        """Jobs that nobody has finished or given up."""
        return [
            number
            for number, job in enumerate(self.jobs)
            if job.not_run is None and not self._whole(number)
        ]

    def _whole(self, number: int) -> bool:
        row = self.rows.get(number)
        return row is not None and (row.status == "ok" or not row.reasons[0].endswith(PARTIAL))

    def take_row(self, number: int, raw: bytes) -> None:
        """Keeps what has been measured of one job so far; a later row of it takes its place.

        Raises:
            ReportError: it is not a row of this job.
        """
        row = self._checked(number, raw)
        with self._lock:
            self.rows[number] = row
            if row.status == "ok":  # the page sends a row anew with each cold start
                self._journal.add({"job": number, "row": asdict(row)})

    def _checked(self, number: int, raw: bytes) -> BenchRow:
        return check_row(read_row(raw), self.jobs[number], self.plan, self.where)

    def take_report(self, raw: bytes) -> None:
        """Takes the report; what came before stays where it says nothing.

        Raises:
            ReportError: see `check_received`; nothing is lost then.
        """
        rows = check_received(raw, self.jobs, self.plan, self.where)
        numbers = {
            (job.artifact.card.sha256, job.artifact.card.file, job.delegate): n
            for n, job in enumerate(self.jobs)
        }
        with self._lock:
            for row in rows:
                number = numbers[row.artifact_sha256, row.file, row.delegate_asked]
                known = self.rows.get(number)
                if known is None or len(row.repeats) >= len(known.repeats):
                    self.rows[number] = row

    def take_progress(self, raw: bytes) -> None:
        """How far the page is.

        Raises:
            ReportError: the message is not progress in this form.
        """
        try:
            value = parse_json(raw)
            share, text = float(value["share"]), str(value["text"])
        except (ValueError, TypeError, KeyError) as error:
            raise ReportError(
                "the progress", "it has no share and text", "Reload the page"
            ) from error
        if not 0.0 <= share <= 1.0 or not text.isprintable():
            raise ReportError(
                "the progress",
                "its share is not within 0 and 1, or its text not plain",
                "Reload the page",
            )
        self.progress = PageProgress(share=share, text=text[:200])

    def plan_json(self) -> bytes:
        """What the page is asked for."""
        plan = {
            name: getattr(self.plan, name)
            for name in ("threads", "warmup", "iterations", "starts", "sustain_s", "seed")
        }
        jobs = [self._job_json(number, job) for number, job in enumerate(self.jobs)]
        value = {"schema": PLAN_SCHEMA, "plan": plan, "jobs": jobs, "auto": self.auto}
        return json.dumps(value, allow_nan=False).encode()

    def _job_json(self, number: int, job: BenchJob) -> dict[str, Any]:
        card = job.artifact.card
        row = self.rows.get(number)
        return {
            **job.row_facts(),
            "number": number,
            "delegate": job.delegate,
            "iospec": card.iospec.to_dict(),
            "config": card.config,
            "min_psnr_db": PRECISIONS.get(card.precision).min_psnr_db,
            "not_run": job.not_run,
            "row": None if row is None else asdict(row),
            "model_url": f"files/{self._first(number, 'file')}",
            "vectors_url": f"vectors/{self._first(number, 'inputs')}",
        }

    def _first(self, number: int, kind: str) -> int:
        """The first job with the same file or the same vectors: the page fetches each once."""

        def what(n: int) -> tuple[object, ...]:
            job = self.jobs[n]
            return (
                (job.artifact.path,) if kind == "file" else (id(self.expected[n]), id(job.inputs))
            )

        return next(n for n in range(len(self.jobs)) if what(n) == what(number))

    def vectors_json(self, number: int) -> bytes:
        """A job's test vectors in the form that a bundle has."""
        return json.dumps(
            vectors_index(self.jobs[number].artifact.card.iospec, self._samples(number))
        ).encode()

    def vector(self, number: int, name: str) -> bytes | None:
        """One tensor of one sample as raw bytes, or None where there is none of this name."""
        sample, _, tensor = name.removesuffix(".f32").partition("-")
        outputs = self.expected[number]
        arrays = {**self.jobs[number].inputs, **(outputs or {})}
        if not sample.isascii() or not sample.isdigit() or len(sample) > 9 or tensor not in arrays:
            return None
        if int(sample) >= self._samples(number):
            return None
        return vector_bytes(arrays[tensor][int(sample)])

    def _samples(self, number: int) -> int:
        return len(next(iter(self.jobs[number].inputs.values())))

    def _read_journal(self) -> None:
        """Rows of an earlier run of the same benchmark, whole ones only."""
        for value in self._journal.found:
            with contextlib.suppress(ValueError, TypeError, LookupError, ReportError):
                number = range(len(self.jobs)).index(value["job"])
                row = self._checked(number, json.dumps(value["row"]).encode())
                if row.status == "ok":
                    self.rows[number] = row

    def finals(self, info: DeviceInfo, why: str) -> tuple[BenchRow, ...]:
        """The rows of all jobs; those that never came say why."""
        return tuple(
            self.final(number, why) or stopped_row(info, job, self.plan, job.not_run or why)
            for number, job in enumerate(self.jobs)
        )

    def final(self, job: int, why: str) -> BenchRow | None:
        """A job's row at the end: whole, or marked with why it is not; None where nothing came."""
        row = self.rows.get(job)
        if row is None or self._whole(job):
            return row
        first = f"{len(row.repeats)} of {self.plan.starts} cold starts were timed: {why}"
        return replace(row, status="failed", valid=False, reasons=(first, *row.reasons[1:]))
