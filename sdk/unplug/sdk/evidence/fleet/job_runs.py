"""Runs the jobs of a fleet that have no result yet, and writes each result as it comes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, OutputError, TrainingError, progress

from .backend import BACKENDS, JobSetup
from .job import Context, FleetJob, job_fingerprint
from .result import Order, read_record, result_path, write_result

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class FleetSummary:
    """What a run did.

    Args:
        done: results written now, refusals included.
        skipped: results that were there already.
        failed: job name to the end of its traceback, or why its worker died; these run again next
            time.
        seconds: the wall time in seconds.
    """

    done: int
    skipped: int
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def check(self, what: str, count: int) -> None:
        """Raises `TrainingError` with the first failure of `count` jobs, where there was one."""
        for name, note in self.failed.items():
            raise TrainingError(
                f"{len(self.failed)} of {count} {what}", f"{name} failed:\n{note}\n", "Run it again"
            )


def backend_for(device: torch.device) -> str:
    """Processes on a CPU; on CUDA one model after the other, for they would share it."""
    return "processes" if device.type == "cpu" else "loop"


def run_jobs(
    jobs: Sequence[FleetJob],
    context: Context | None,
    out: Path,
    *,
    backend: str = "processes",
    workers: int | None = None,
    show: bool = True,
    pictures: int | None = None,
    fingerprint: str = "",
    cluster: str | None = None,
) -> FleetSummary:
    """Runs jobs side by side; a run that was killed goes on where it stood and loses the jobs in
    flight alone.

    A typed error of a job is a *refusal*, which is a result: facts ``{"refused": {"kind", "what",
    "why", "fix"}}`` and no tensors. Anything else that it raises is a failure; the others go on,
    and a later call tries it again.

    Args:
        jobs: jobs with unique names.
        context: the object that they share, or None.
        out: folder of the results; those of the same fingerprint are skipped, older ones replaced.
        backend: a backend of `BACKENDS`: "loop", "processes" or "ray".
        workers: how many at once; None is one per core.
        show: progress bar.
        pictures: how many a job runs through, for the bar; None counts jobs.
        fingerprint: the fingerprint of all that decides a result and is in neither the job nor the
            context (a data digest, a version).
        cluster: address of a Ray cluster; None is a local one.

    Raises:
        InputError: a duplicate name, no such backend, no worker at all, or a context that cannot be
            built.
        OutputError: a result cannot be written, or a file that no fleet wrote is in its place.
    """
    start = time.monotonic()
    _check(jobs, workers)
    runner = BACKENDS.get(backend)
    orders = [
        Order(job=job, fingerprint=job_fingerprint(job, context, fingerprint), given=fingerprint)
        for job in jobs
    ]
    orders = [order for order in orders if not _finished(out, order)]
    skipped, failed = len(jobs) - len(orders), dict[str, str]()
    each, unit = (1, "job") if pictures is None else (pictures, "img")
    total, done = len(jobs) * each, skipped * each
    bar = progress(total=total, done=done, label="fleet", unit=unit, show=show)
    if not orders:
        bar.close()
        return FleetSummary(done=0, skipped=skipped, seconds=time.monotonic() - start)
    outcomes: Any = runner(orders, JobSetup(context=context, workers=workers, cluster=cluster))
    ended = 0
    with bar, closing(outcomes):
        for outcome in outcomes:
            if outcome.status == "done":
                write_result(out, outcome.name, outcome.packed)
            else:
                failed[outcome.name] = outcome.note
            ended += 1
            rate = f"{60 * ended / max(time.monotonic() - start, 1e-9):.1f} models/min"
            rate += f", {len(failed)} failed" * bool(failed)
            bar.set_postfix_str(f"{skipped + ended} of {len(jobs)} models, {rate}", refresh=False)
            bar.update(each)
    done = len(orders) - len(failed)
    return FleetSummary(done=done, skipped=skipped, failed=failed, seconds=time.monotonic() - start)


def _check(jobs: Sequence[FleetJob], workers: int | None) -> None:
    twice = [name for name, count in Counter(job.name for job in jobs).items() if count > 1]
    if twice:
        raise InputError(
            f"job name {twice[0]!r}", "two jobs have it", "Give every job a name of its own"
        )
    if workers is not None and workers < 1:
        raise InputError(f"workers {workers}", "out of range", "Use 1 or more")


def _finished(out: Path, order: Order) -> bool:
    path = result_path(out, order.job.name)
    if not path.exists():
        return False
    try:
        record = read_record(path)
    except InputError as error:  # results are written whole, so this is somebody else's file
        raise OutputError(str(path), error.why, "Move it away, or choose another `out`") from error
    return bool(record["name"] == order.job.name and record["fingerprint"] == order.fingerprint)
