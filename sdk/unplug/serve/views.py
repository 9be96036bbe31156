"""Requests, entries and jobs as they go over the wire."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from unplug.trust.ledger import LedgerEntry
from unplug.trust.ledger import Request as LedgerRequest

from .jobs import ReleaseJob
from .shapes import JobShape, RequestDetail, RequestShape, Step

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._\-]{0,199}")


def _facts(request: LedgerRequest, today: date) -> dict[str, Any]:
    released = [
        entry for entry in request.history if entry.kind == "release" and "job" in entry.facts
    ]
    return {
        "id": request.id,
        "state": request.state,
        "received": request.received,
        "due": request.due,
        "days_left": request.days_left(today) if request.waiting else None,
        "extended": request.extended is not None,
        "names": len(request.subjects),
        "job": released[-1].facts["job"] if released else None,
    }


def step(entry: LedgerEntry) -> Step:
    """An entry of the ledger."""
    return Step(
        entry=entry.sequence, at=entry.at, kind=entry.kind, note=entry.note, facts=dict(entry.facts)
    )


def shape(request: LedgerRequest, today: date) -> RequestShape:
    """A request in a list."""
    return RequestShape(**_facts(request, today))


def detail(request: LedgerRequest, today: date, *, new: bool = False) -> RequestDetail:
    """A request alone, with its entries."""
    return RequestDetail(
        **_facts(request, today), new=new, steps=[step(entry) for entry in request.history]
    )


def files_of(job: ReleaseJob, *, current: bool) -> dict[str, str]:
    """Name to path of what may be fetched of a release, where its runner told names and paths.

    Args:
        job: the release.
        current: whether no later one is done; else its certificates alone may be fetched.
    """
    recorded = (job.result or {}).get("files") if job.state == "done" else None
    if not isinstance(recorded, dict):
        return {}
    return {
        name: path
        for name, path in recorded.items()
        if FILE_NAME.fullmatch(name)
        and isinstance(path, str)
        and "\0" not in path
        and (current or lasting(name))
    }


def lasting(name: str) -> bool:
    """Whether a file of a release is still right when a later one is done: a certificate is."""
    return name.startswith("certificate")


def job_shape(job: ReleaseJob, *, current: bool = True) -> JobShape:
    """A release; see `files_of`."""
    files = sorted(files_of(job, current=current))
    return JobShape(
        id=job.id,
        state=job.state,
        created=job.created,
        started=job.started,
        finished=job.finished,
        attempts=job.attempts,
        requests=list(job.requests),
        files=files,
        error=job.error,
        model=job.model,
        certificates=job.certificates,
    )
