"""The job queue: releases that are asked for, taken by one worker at a time, and never finished by two.

A worker takes a job with a lease and a *fence*, a number that grows with every taking. It renews the lease while it works.
Where it dies, the lease ends and another worker takes the job with the next fence; every later word of the first one carries
the old fence and is refused. So a worker that only slept, and believes that it still has the job, changes nothing.

Reference: M. Kleppmann, "How to do distributed locking" (2016), on fencing tokens.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import sqlalchemy as sa

from .tables import ServiceTables, events, jobs, models, time_now

State = Literal["queued", "running", "done", "failed"]
MOST_ATTEMPTS = 5
"""So often a job may take its worker with it before it is given up."""


@dataclass(frozen=True, kw_only=True)
class ReleaseJob:
    """A release that was asked for.

    Args:
        id: opaque.
        state: queued, running, done or failed.
        fence: grows with every taking.
        attempts: how often it was taken.
        created, started, finished: UTC times, or None.
        requests: ids of the requests that it covers; empty until it begins.
        result: what the runner returned, or None.
        error: what went wrong, in words that name nobody, or None.
    """

    id: str
    state: State
    fence: int
    attempts: int
    created: str
    started: str | None = None
    finished: str | None = None
    requests: tuple[str, ...] = ()
    result: Mapping[str, Any] | None = None
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """Something that happened to a job.

    Args:
        number: orders all events of a service.
        job: its id.
        at: UTC time.
        kind: queued, taken, begun, progress, done or failed.
        data: more, JSON-ready.
    """

    number: int
    job: str
    at: str
    kind: str
    data: Mapping[str, Any]


class Jobs:
    """The queue.

    Args:
        tables: where it lies.
        clock: seconds, of the leases; the workers of one queue share one.
    """

    def __init__(self, tables: ServiceTables, clock: Any = time.time) -> None:
        self._tables, self._clock = tables, clock

    def ask(self) -> tuple[ReleaseJob, bool]:
        """A job that has not begun: the one that waits already, or a new one; and whether it is new."""
        with self._tables.writing() as connection:
            waiting = connection.execute(sa.select(jobs).where(jobs.c.state == "queued").limit(1)).first()
            if waiting is not None:
                return _job(waiting), False
            id = f"J-{secrets.token_hex(8)}"
            last = connection.execute(sa.select(sa.func.max(jobs.c.number))).scalar() or 0
            values = {"id": id, "number": last + 1, "state": "queued", "fence": 0, "attempts": 0, "requests": "[]"}
            connection.execute(sa.insert(jobs).values(created=time_now(), **values))
            _tell(connection, id, "queued", {})
            return _job(connection.execute(sa.select(jobs).where(jobs.c.id == id)).one()), True

    def claim(self, worker: str, lease_seconds: float) -> ReleaseJob | None:
        """Takes a job: one whose worker is gone, else the oldest that waits, and none while another one is at work.

        Args:
            worker: who takes it.
            lease_seconds: for how long, unless it is renewed.
        """
        with self._tables.reading() as connection:  # most of the time nothing is to be had, and writers need not wait for that
            if _free(connection, self._clock()) is None:
                return None
        with self._tables.writing() as connection:
            now = self._clock()
            if (open_ := _free(connection, now)) is None:
                return None
            taken = {
                "state": "running", "fence": open_.fence + 1, "attempts": open_.attempts + 1, "worker": worker,
                "lease": now + lease_seconds, "started": open_.started or time_now(),
            }  # fmt: skip
            if open_.attempts >= MOST_ATTEMPTS:
                why = f"its worker ended {open_.attempts} times without a word"
                taken |= {"state": "failed", "error": why, "finished": time_now(), "lease": None}
            connection.execute(sa.update(jobs).where(jobs.c.id == open_.id).values(**taken))
            _tell(connection, open_.id, "failed" if "error" in taken else "taken", {"attempt": taken["attempts"]})
            if "error" in taken:
                return None
            return _job(connection.execute(sa.select(jobs).where(jobs.c.id == open_.id)).one())

    def renew(self, job: ReleaseJob, lease_seconds: float) -> bool:
        """Keeps a job; False where it is another's by now."""
        return self._change(job, {"lease": self._clock() + lease_seconds})

    def give_back(self, job: ReleaseJob) -> bool:
        """Lets another worker go on with a job at once; the taking does not count."""
        return self._change(job, {"lease": None, "attempts": jobs.c.attempts - 1})

    def pin(self, job: ReleaseJob, requests: Sequence[str]) -> bool:
        """Says which requests a job covers, and tells that it begins."""
        with self._tables.writing() as connection:
            if not _holds(connection, job):
                return False
            values = {"requests": json.dumps(list(requests))}
            connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**values))
            _tell(connection, job.id, "begun", {"requests": len(requests)})
            return True

    def keep_result(self, job: ReleaseJob, result: Mapping[str, Any]) -> bool:
        """Keeps what the runner returned, before anything is made of it."""
        return self._change(job, {"result": json.dumps(result)})

    def report(self, job: ReleaseJob, data: Mapping[str, Any]) -> bool:
        """Tells how far a job is."""
        with self._tables.writing() as connection:
            if not _holds(connection, job):
                return False
            _tell(connection, job.id, "progress", data)
            return True

    def finish(self, job: ReleaseJob, *, error: str | None = None, model: Mapping[str, str] | None = None) -> bool:
        """Ends a job.

        Args:
            job: as it was taken.
            error: why it failed; None says that it is done.
            model: of a job that is done, what is served from now on: ``name``, ``artifact`` and ``sha256``.

        Returns:
            False, with nothing changed, where it is another's by now.
        """
        state = "done" if error is None else "failed"
        with self._tables.writing() as connection:
            if not _holds(connection, job):
                return False
            ended = {"state": state, "error": error, "finished": time_now(), "lease": None, "worker": None}
            connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**ended))
            if model is not None:
                put_model(connection, job=job.id, **model)
            _tell(connection, job.id, state, {} if error is None else {"error": error})
            return True

    def get(self, id: str) -> ReleaseJob | None:
        """The job of an id, or None."""
        with self._tables.reading() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.id == id)).first()
            return None if row is None else _job(row)

    def superseded(self, job: ReleaseJob) -> bool:
        """Whether a later release is done."""
        own = sa.select(jobs.c.number).where(jobs.c.id == job.id).scalar_subquery()
        with self._tables.reading() as connection:
            later = sa.select(jobs.c.id).where(jobs.c.number > own, jobs.c.state == "done").limit(1)
            return connection.execute(later).first() is not None

    def newest(self, limit: int) -> tuple[ReleaseJob, ...]:
        """The last jobs, the newest first."""
        with self._tables.reading() as connection:
            return tuple(map(_job, connection.execute(sa.select(jobs).order_by(jobs.c.number.desc()).limit(limit))))

    def counts(self) -> dict[str, int]:
        """State to the number of jobs in it."""
        with self._tables.reading() as connection:
            rows = connection.execute(sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state))
            return {row[0]: int(row[1]) for row in rows}

    def last_event(self) -> int:
        """The number of the newest event; 0 where nothing happened yet."""
        with self._tables.reading() as connection:
            return int(connection.execute(sa.select(sa.func.max(events.c.number))).scalar() or 0)

    def events(self, after: int, *, job: str | None = None, limit: int = 500) -> tuple[JobEvent, ...]:
        """What happened after an event, of one job or of all, in order."""
        query = sa.select(events).where(events.c.number > after).order_by(events.c.number).limit(limit)
        with self._tables.reading() as connection:
            rows = connection.execute(query if job is None else query.where(events.c.job == job))
            return tuple(
                JobEvent(number=row.number, job=row.job, at=row.at, kind=row.kind, data=json.loads(row.data)) for row in rows
            )

    def _change(self, job: ReleaseJob, values: Mapping[str, Any]) -> bool:
        with self._tables.writing() as connection:
            if not _holds(connection, job):
                return False
            connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**values))
            return True


def put_model(connection: sa.Connection, *, name: str, artifact: str, sha256: str, job: str | None) -> None:
    """Says which file a model is served from, from now on."""
    connection.execute(sa.delete(models).where(models.c.name == name))
    values = {"name": name, "artifact": artifact, "sha256": sha256, "job": job, "since": time_now()}
    connection.execute(sa.insert(models).values(**values))


def _free(connection: sa.Connection, now: float) -> Any:
    """The row of the job to take: that of a worker whose lease ended, else the oldest that waits while none is at work."""
    running = connection.execute(sa.select(jobs).where(jobs.c.state == "running").limit(1)).first()
    if running is not None:
        return running if (running.lease or 0) <= now else None
    return connection.execute(sa.select(jobs).where(jobs.c.state == "queued").order_by(jobs.c.number)).first()


def _holds(connection: sa.Connection, job: ReleaseJob) -> bool:
    row = connection.execute(sa.select(jobs.c.fence, jobs.c.state).where(jobs.c.id == job.id)).first()
    return row is not None and row.fence == job.fence and row.state == "running"


def _tell(connection: sa.Connection, job: str, kind: str, data: Mapping[str, Any]) -> None:
    """Adds an event. Writers have the tables to themselves, so that numbers are in the order in which readers see them."""
    last = connection.execute(sa.select(sa.func.max(events.c.number))).scalar() or 0
    values = {"number": last + 1, "job": job, "at": time_now(), "kind": kind, "data": json.dumps(data)}
    connection.execute(sa.insert(events).values(**values))


def _job(row: sa.Row[Any]) -> ReleaseJob:
    return ReleaseJob(
        id=row.id, state=cast(State, row.state), fence=row.fence, attempts=row.attempts, created=row.created,
        started=row.started, finished=row.finished, requests=tuple(json.loads(row.requests)),
        result=None if row.result is None else json.loads(row.result), error=row.error,
    )  # fmt: skip
