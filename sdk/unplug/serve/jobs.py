"""The job queue: releases that are asked for, taken by one worker at a time, and never finished by
two.

Each job is of one recipe, and only servers of that one take it. A job whose release ended may have
certificates due, which is work of its own, taken and left like the release.

A worker takes a job with a lease and a *fence*, a number that grows with every taking. It renews
the lease while it works. Where it dies, the lease ends and another worker takes the job with the
next fence; every later word of the first one carries the old fence and is refused. So a worker that
only slept, and believes that it still has the job, changes nothing.

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

from unplug.core import InputError

from .tables import ServiceTables, events, jobs, models, recipes, time_now

State = Literal["queued", "running", "done", "failed"]
MOST_ATTEMPTS = 5
"""So often a job may take its worker with it before it is given up; one that has a result never is.
"""
Certificates = Literal["due", "done", "failed"]


@dataclass(frozen=True, kw_only=True)
class RecipeKey:
    """Which recipe a job is of.

    Args:
        name: the name of the model; at any moment it stands for one recipe.
        sha256: the SHA-256 of all that the recipe and its server's folder say.
    """

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ReleaseJob:
    """A release that was asked for.

    Args:
        id: opaque.
        state: queued, running, done or failed.
        fence: grows with every taking.
        attempts: how often it was taken, for its release or, once that ended, for its certificates.
        created, started, finished: UTC times, or None.
        requests: ids of the requests that it covers; empty until it begins.
        result: the runner's result, or None.
        error: the error, in words that name nobody, or None.
        model: the name in its recipe, or None before a server took it.
        certificates: how far those are, or None where the release leaves none.
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
    model: str | None = None
    certificates: Certificates | None = None


@dataclass(frozen=True, kw_only=True)
class JobEvent:
    """Something that happened to a job.

    Args:
        number: orders all events of a service.
        job: its id.
        at: UTC time.
        kind: queued, taken, begun, progress, done, failed or certified.
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
        tables: the tables with the queue.
        clock: seconds, of the leases; the workers of one queue share one.
        recipe: the recipe whose jobs are asked for and taken; None is those of nobody yet.
    """

    def __init__(
        self, tables: ServiceTables, clock: Any = time.time, recipe: RecipeKey | None = None
    ) -> None:
        self._tables, self._clock, self._recipe = tables, clock, recipe
        self._labels = {
            "recipe": recipe.name if recipe else None,
            "recipe_sha256": recipe.sha256 if recipe else None,
        }
        self._ours = sa.and_(
            *(
                jobs.c[name].is_(value) if value is None else jobs.c[name] == value
                for name, value in self._labels.items()
            )
        )

    def hold_name(self, lease_seconds: float) -> None:
        """Says that the recipe's name stands for it, and takes over jobs of that name whose server
        is gone.

        Args:
            lease_seconds: the seconds for which it holds, unless it is said again.

        Raises:
            InputError: a server of another recipe has the name.
        """
        if self._recipe is None:
            return
        name, now = self._recipe.name, self._clock()
        query = sa.select(recipes).where(recipes.c.name == name)
        with self._tables.reading() as connection:
            row = connection.execute(query).first()
        ours = row is not None and row.sha256 == self._recipe.sha256
        if row is not None and ours and row.lease > now + lease_seconds / 2:
            return
        with self._tables.writing() as connection:
            row = connection.execute(query).first()
            if row is not None and row.sha256 != self._recipe.sha256 and row.lease > now:
                why = "a server with another recipe or `folder` has that name on this ledger"
                fix = (
                    f"End it, wait {lease_seconds:g} s where it was killed, or give this recipe "
                    "another name"
                )
                raise InputError(f"model {name}", why, fix)
            if row is None or row.sha256 != self._recipe.sha256:
                named = sa.or_(jobs.c.recipe == name, jobs.c.recipe.is_(None))
                connection.execute(sa.update(jobs).where(named).values(**self._labels))
            connection.execute(sa.delete(recipes).where(recipes.c.name == name))
            values = {"name": name, "sha256": self._recipe.sha256, "lease": now + lease_seconds}
            connection.execute(sa.insert(recipes).values(**values))

    def leave_name(self) -> None:
        """Lets another recipe have the name at once."""
        if self._recipe is not None:
            with self._tables.writing() as connection:
                ours = sa.and_(
                    recipes.c.name == self._recipe.name, recipes.c.sha256 == self._recipe.sha256
                )
                connection.execute(sa.update(recipes).where(ours).values(lease=0.0))

    def ask(self) -> tuple[ReleaseJob, bool]:
        """A job that has not begun: the one that waits already, or a new one; and whether it is
        new.
        """
        with self._tables.writing() as connection:
            query = sa.select(jobs).where(jobs.c.state == "queued", self._ours).limit(1)
            waiting = connection.execute(query).first()
            if waiting is not None:
                return _job(waiting), False
            id = f"J-{secrets.token_hex(8)}"
            last = connection.execute(sa.select(sa.func.max(jobs.c.number))).scalar() or 0
            values = {
                "id": id,
                "number": last + 1,
                "state": "queued",
                "fence": 0,
                "attempts": 0,
                "requests": "[]",
            }
            connection.execute(sa.insert(jobs).values(created=time_now(), **values, **self._labels))
            _tell(connection, id, "queued", {})
            return _job(connection.execute(sa.select(jobs).where(jobs.c.id == id)).one()), True

    def claim(self, worker: str, lease_seconds: float) -> ReleaseJob | None:
        """Takes a job: one whose worker is gone, else one with certificates due, else the oldest
        that waits.

        While another worker has a release, nothing is taken.

        Args:
            worker: the worker that takes it.
            lease_seconds: the seconds for which it holds, unless it is renewed.
        """
        # most of the time nothing is to be had, and writers need not wait for that
        with self._tables.reading() as connection:
            if self._free(connection) is None:
                return None
        with self._tables.writing() as connection:
            if (free := self._free(connection)) is None:
                return None
            if free.attempts >= MOST_ATTEMPTS and (free.state == "done" or free.result is None):
                self._give_up(connection, free)
                return None
            taken = {
                "state": "done" if free.state == "done" else "running",
                "fence": free.fence + 1,
                "attempts": free.attempts + 1,
                "worker": worker,
                "lease": self._clock() + lease_seconds,
                "started": free.started or time_now(),
            }
            connection.execute(sa.update(jobs).where(jobs.c.id == free.id).values(**taken))
            if free.state != "done":
                _tell(connection, free.id, "taken", {"attempt": taken["attempts"]})
            return _job(connection.execute(sa.select(jobs).where(jobs.c.id == free.id)).one())

    def _give_up(self, connection: sa.Connection, row: Any) -> None:
        """Ends what took its worker with it too often."""
        why = f"its worker ended {row.attempts} times without a word"
        if row.state == "done":
            values: dict[str, Any] = {"certificates": "failed"}
            _tell(connection, row.id, "certified", {"error": why})
        else:
            values = {"state": "failed", "error": why, "finished": time_now()}
            _tell(connection, row.id, "failed", {"attempt": row.attempts, "error": why})
        connection.execute(
            sa.update(jobs).where(jobs.c.id == row.id).values(lease=None, worker=None, **values)
        )

    def _free(self, connection: sa.Connection) -> Any:
        """The row of the job to take, or None."""
        now = self._clock()

        def first(*wanted: sa.ColumnElement[bool]) -> Any:
            return connection.execute(
                sa.select(jobs).where(self._ours, *wanted).order_by(jobs.c.number).limit(1)
            ).first()

        # one release at a time: the next one goes on from what this one leaves
        running = first(jobs.c.state == "running")
        if running is not None:
            return running if (running.lease or 0) <= now else None
        due = first(jobs.c.certificates == "due", sa.func.coalesce(jobs.c.lease, 0.0) <= now)
        return due or first(jobs.c.state == "queued")

    def renew(self, job: ReleaseJob, lease_seconds: float) -> bool:
        """Keeps a job; False where it is another's by now."""
        return self._change(job, {"lease": self._clock() + lease_seconds})

    def give_back(self, job: ReleaseJob) -> bool:
        """Lets another worker go on with a job at once; the taking does not count."""
        return self._change(job, {"lease": None, "attempts": jobs.c.attempts - 1})

    def pin(self, job: ReleaseJob, requests: Sequence[str]) -> bool:
        """Says which requests a job covers, and tells that it begins."""
        values = {"requests": json.dumps(list(requests))}
        return self._change(job, values, begun={"requests": len(requests)})

    def keep_result(self, job: ReleaseJob, result: Mapping[str, Any]) -> bool:
        """Keeps what the runner returned, before anything is made of it."""
        return self._change(job, {"result": json.dumps(result)})

    def report(self, job: ReleaseJob, data: Mapping[str, Any]) -> bool:
        """Tells how far a job is."""
        return self._change(job, {}, progress=data)

    def fail(self, job: ReleaseJob, error: str) -> bool:
        """Ends a job that has no result; False where it is another's by now."""
        with self._tables.writing() as connection:
            return _end(connection, job, "failed", {"error": error})

    def drop(self, job: ReleaseJob) -> bool:
        """Ends a job for which nothing is left to do: the one before it answered all that is open."""
        with self._tables.writing() as connection:
            return _end(connection, job, "done", {})

    def complete(
        self,
        connection: sa.Connection,
        job: ReleaseJob,
        *,
        model: Mapping[str, str] | None = None,
        certify: bool = False,
    ) -> bool:
        """Ends a job whose release the same transaction records.

        Args:
            connection: the connection of a transaction that has the tables to itself.
            job: the job as it was taken.
            model: the model to serve from now on: ``name``, ``artifact`` and ``sha256``; None
                leaves that.
            certify: whether certificates are due.

        Returns:
            False, with nothing changed, where it is another's by now.
        """
        due = {"certificates": "due", "attempts": 0} if certify else {}
        if not _end(connection, job, "done", {}, **due):
            return False
        if model is not None:
            put_model(connection, job=job.id, **model)
        return True

    def finish(self, job: ReleaseJob, *, model: Mapping[str, str] | None) -> bool:
        """Ends a job whose release is on record, as `complete` does."""
        with self._tables.writing() as connection:
            return self.complete(connection, job, model=model)

    def certified(
        self, job: ReleaseJob, files: Mapping[str, str], error: str | None = None
    ) -> bool:
        """Adds the certificates to the files of a job that is done, or says why there are none."""
        result = {**(job.result or {}), "files": {**(job.result or {}).get("files", {}), **files}}
        values = {
            "result": json.dumps(result),
            "certificates": "failed" if error else "done",
            "lease": None,
        }
        told = {"files": len(files)} | ({"error": error} if error else {})
        return self._change(job, values, certified=told)

    def get(self, id: str) -> ReleaseJob | None:
        """The job of an id, or None."""
        with self._tables.reading() as connection:
            row = connection.execute(sa.select(jobs).where(jobs.c.id == id)).first()
            return None if row is None else _job(row)

    def superseded(self, job: ReleaseJob) -> bool:
        """Whether a later release of its model is done."""
        number = sa.select(jobs.c.number).where(jobs.c.id == job.id).scalar_subquery()
        same = jobs.c.recipe.is_(None) if job.model is None else jobs.c.recipe == job.model
        later = sa.select(jobs.c.id).where(
            same, jobs.c.number > number, jobs.c.state == "done", jobs.c.result.is_not(None)
        )
        with self._tables.reading() as connection:
            return connection.execute(later.limit(1)).first() is not None

    def newest(self, limit: int) -> tuple[ReleaseJob, ...]:
        """The last jobs, the newest first."""
        query = sa.select(jobs).order_by(jobs.c.number.desc()).limit(limit)
        with self._tables.reading() as connection:
            return tuple(map(_job, connection.execute(query)))

    def counts(self) -> dict[str, int]:
        """State to the number of jobs in it."""
        with self._tables.reading() as connection:
            rows = connection.execute(
                sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
            )
            return {row[0]: int(row[1]) for row in rows}

    def last_event(self) -> int:
        """The number of the newest event; 0 where nothing happened yet."""
        with self._tables.reading() as connection:
            return int(connection.execute(sa.select(sa.func.max(events.c.number))).scalar() or 0)

    def events(
        self, after: int, *, job: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """What happened after an event, of one job or of all, in order."""
        query = (
            sa.select(events).where(events.c.number > after).order_by(events.c.number).limit(limit)
        )
        with self._tables.reading() as connection:
            rows = connection.execute(query if job is None else query.where(events.c.job == job))
            return tuple(JobEvent(**row._asdict() | {"data": json.loads(row.data)}) for row in rows)

    def _change(
        self, job: ReleaseJob, values: Mapping[str, Any], **told: Mapping[str, Any]
    ) -> bool:
        """Changes a job and tells events, by their kind; False where it is another's by now."""
        with self._tables.writing() as connection:
            if not _holds(connection, job):
                return False
            if values:
                connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**values))
            for kind, data in told.items():
                _tell(connection, job.id, kind, data)
            return True


def put_model(
    connection: sa.Connection, *, name: str, artifact: str, sha256: str, job: str | None
) -> None:
    """Says which file a model is served from, from now on."""
    connection.execute(sa.delete(models).where(models.c.name == name))
    values = {"name": name, "artifact": artifact, "sha256": sha256, "job": job, "since": time_now()}
    connection.execute(sa.insert(models).values(**values))


def _end(
    connection: sa.Connection, job: ReleaseJob, state: State, told: Mapping[str, Any], **values: Any
) -> bool:
    if job.state != "running" or not _holds(connection, job):
        return False
    ended = {
        "state": state,
        "finished": time_now(),
        "lease": None,
        "worker": None,
        **told,
        **values,
    }
    connection.execute(sa.update(jobs).where(jobs.c.id == job.id).values(**ended))
    _tell(connection, job.id, state, told)
    return True


def _holds(connection: sa.Connection, job: ReleaseJob) -> bool:
    row = connection.execute(sa.select(jobs).where(jobs.c.id == job.id)).first()
    if row is None or row.fence != job.fence or row.state != job.state:
        return False
    return bool(row.state == "running" or row.certificates == "due")


def _tell(connection: sa.Connection, job: str, kind: str, data: Mapping[str, Any]) -> None:
    """Adds an event. Writers have the tables to themselves, so that numbers are in the order in
    which readers see them.
    """
    last = connection.execute(sa.select(sa.func.max(events.c.number))).scalar() or 0
    values = {"number": last + 1, "job": job, "at": time_now(), "kind": kind}
    connection.execute(sa.insert(events).values(**values, data=json.dumps(data)))


def _job(row: sa.Row[Any]) -> ReleaseJob:
    return ReleaseJob(
        id=row.id,
        state=cast(State, row.state),
        fence=row.fence,
        attempts=row.attempts,
        created=row.created,
        started=row.started,
        finished=row.finished,
        requests=tuple(json.loads(row.requests)),
        result=None if row.result is None else json.loads(row.result),
        error=row.error,
        model=row.recipe,
        certificates=cast(Certificates | None, row.certificates),
    )
