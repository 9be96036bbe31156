"""The thread in each worker process that takes jobs: a lease that is renewed, a child process, and
an end that happens once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from unplug.core import (
    CheckFailed,
    ConversionError,
    GateFailed,
    InputError,
    OutputError,
    StillHeld,
    UnplugError,
    atomic_path,
    call_in_child,
    make_folder,
    sha256_file,
)
from unplug.sdk.releasing import answerable
from unplug.trust.ledger import Ledger, answered_in, models_left, releases_of

from .data_names import DataNames
from .issuing import issue_certificates
from .jobs import Jobs, ReleaseJob
from .logs import LOG, log_error
from .recipe import ServeRecipe, ServeSettings

STAGE = re.compile(r"[a-z][a-z ()0-9]{0,40}")
"""The part of a line of progress that is told: what stands before its first other sign names a
stage, and nobody.
"""


class _Lost(Exception):
    """The job is another's by now."""


class _RunnerFailed(Exception):
    """What the runner raised, to be told from the same kind of error of our own."""

    def __init__(self, error: UnplugError) -> None:
        super().__init__(str(error))
        self.error = error


class Made(BaseModel):
    """What a runner returns, of which `run_release` says more; what else it returns is kept and not
    read.
    """

    model_config = ConfigDict(strict=True)

    requests: list[str]
    checkpoint: str | None = None
    bundle: str | None = None
    bundle_id: str | None = None
    weights: list[str] | None = None
    artifact: str | None = None
    sha256: str | None = None
    files: dict[str, str] | None = None
    recorded: bool = False


def check_result(result: Mapping[str, Any], asked: Sequence[str]) -> None:
    """Refuses what no runner may return; see `run_release`.

    Raises:
        UnplugError: it is not of the form, answers requests that it was not asked about, or names
            what is not there.
    """
    try:
        made = Made.model_validate(dict(result))
    except ValidationError as error:
        raise _wrong("returned something of another form") from error
    if strange := {*made.requests} - {*asked}:
        raise _wrong(f"answered {len(strange)} requests that it was not asked about")
    for name, path in (
        ("checkpoint", made.checkpoint),
        ("bundle", made.bundle),
        ("artifact", made.artifact),
    ):
        if path and not _exists(path):
            raise _wrong(f"named a {name} that is not there")
    if made.artifact and sha256_file(Path(made.artifact)) != made.sha256:
        raise _wrong("gave its artifact another hash")


def _wrong(what: str) -> UnplugError:
    return UnplugError("the release", f"its runner {what}", "See `run_release` for what it returns")


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # no path at all
        return False


class JobThread:
    """Takes jobs and works on them, one after the other.

    Args:
        settings: settings with a recipe.
        jobs: the queue, of that recipe.
        ledger: the ledger that records releases.
    """

    def __init__(
        self, settings: ServeSettings, recipe: ServeRecipe, jobs: Jobs, ledger: Ledger
    ) -> None:
        self._settings, self._recipe, self._jobs, self._ledger = settings, recipe, jobs, ledger
        self._name = f"{socket.gethostname()}-{os.getpid()}"
        self._stop = threading.Event()

    def stop(self) -> None:
        """Has `run` return: a job that is under way is left to others at once, as far as it came."""
        self._stop.set()

    def run(self) -> None:
        """Looks for jobs, until it is stopped.

        Raises:
            InputError: a server of another recipe has the name of this one.
        """
        while not self._stop.wait(self._settings.poll_seconds):
            try:
                self._jobs.hold_name(self._settings.lease_seconds)
                job = self._jobs.claim(self._name, self._settings.lease_seconds)
                if job is not None and job.state == "done":
                    self._certify(job)
                elif job is not None:
                    self._work(job)
            except (
                OutputError,
                OSError,
            ) as error:  # database or disk are away: what we had, another worker takes
                log_error("jobs cannot be worked on", error)
        self._jobs.leave_name()

    def _work(self, job: ReleaseJob) -> None:
        LOG.info("job taken", extra={"job": job.id, "fence": job.fence, "attempt": job.attempts})
        with self._kept(job) as lost:
            try:
                result = job.result or self._compute(job, lost)
            except OutputError:  # the database is away
                raise
            except Exception as error:  # noqa: BLE001 (a runner may raise anything, and the job must end)
                if self._stop.is_set():
                    self._jobs.give_back(job)
                elif not lost.is_set():
                    self._fail(job, error.error if isinstance(error, _RunnerFailed) else error)
                return
            if result is not None:
                self._complete(job, result)

    @contextlib.contextmanager
    def _kept(self, job: ReleaseJob) -> Iterator[threading.Event]:
        """Holds a job's lease meanwhile; the event is set once it is another's, or this process
        shall stop.
        """
        lost, ended = threading.Event(), threading.Event()
        heart = threading.Thread(
            target=self._keep, args=(job, lost, ended), name="lease", daemon=True
        )
        heart.start()
        try:
            yield lost
        finally:
            ended.set()
            heart.join()

    def _keep(self, job: ReleaseJob, lost: threading.Event, ended: threading.Event) -> None:
        """Renews the lease until the work ends; where it is another's, or this process shall stop,
        the work is ended.
        """
        while not ended.wait(min(self._settings.lease_seconds / 3, 0.5)):
            try:
                if self._stop.is_set() or not self._jobs.renew(job, self._settings.lease_seconds):
                    lost.set()
                    return
            except Exception as error:  # noqa: BLE001 (tried again, as long as the lease lasts)
                log_error("a lease could not be renewed", error, job=job.id)

    def _compute(self, job: ReleaseJob, lost: threading.Event) -> Mapping[str, Any] | None:
        """What the runner returns, kept in the job; None where the job is another's by now, or
        there is nothing to do.
        """
        before = self._before()
        left = before["weights"][-1] if before and before["weights"] else None
        waiting = {item.id for item in self._ledger.requests().values() if item.state == "open"}
        if not job.requests and not waiting - answered_in(
            str(left), releases_of(self._ledger.entries())
        ):
            self._jobs.drop(job)
            return None
        requests = job.requests or tuple(
            answerable(self._ledger, DataNames(self._recipe.data).now(), left)
        )
        if not self._jobs.pin(job, requests):
            return None
        result = self._run(job, requests, before, lost)
        check_result(result, requests)
        return result if self._jobs.keep_result(job, result) else None

    def _run(
        self,
        job: ReleaseJob,
        requests: Sequence[str],
        before: Mapping[str, Any] | None,
        lost: threading.Event,
    ) -> Mapping[str, Any]:
        """What the runner returns, in a child process that ends where the job is lost."""
        folder = self._folder(job)
        make_folder(folder, 0o700)
        values = {
            "recipe": asdict(self._recipe),
            "ledger": self._settings.ledger,
            "folder": str(folder),
            "job": job.id,
            "fence": job.fence,
            "requests": list(requests),
            "before": before,
        }

        def told(done: int, total: int, text: str) -> None:
            match = STAGE.match(text)
            stage = match[0].strip() if match else "at work"
            self._jobs.report(job, {"done": done, "total": total, "stage": stage})

        try:
            return call_in_child(
                self._recipe.runner,
                values,
                what="the release",
                timeout=3600 * self._recipe.hours,
                progress=told,
                cancel=lost,
            ).values
        except UnplugError as error:
            raise _RunnerFailed(error) from error

    def _before(self) -> dict[str, Any] | None:
        """What the release before this one left, for this one to go on from: the ledger says which
        that was.

        Raises:
            InputError: nothing is known of the job that made it.
        """
        releases = releases_of(self._ledger.entries())
        mine = [
            item
            for item in releases
            if item.name == self._recipe.name and item.job and not item.in_part
        ]
        if not mine:
            return None
        last = self._jobs.get(str(mine[-1].job))
        if last is None or last.result is None:
            what = f"release {mine[-1].entry} of the ledger"
            raise InputError(
                what,
                "this service has no job of it",
                "Restore the service's tables with the ledger",
            )
        if "checkpoint" not in last.result:
            return None
        weights = [sha256 for item in mine for sha256 in (item.began, item.shipped) if sha256]
        left = {name: last.result.get(name) for name in ("checkpoint", "bundle")}
        return {**left, "number": len(mine), "weights": weights}

    def _complete(self, job: ReleaseJob, result: Mapping[str, Any]) -> None:
        """The ledger's entry, the end of the job and the model that is served from now on: all of
        them, or none. The release of a project is on record before.
        """
        model = None
        if result.get("artifact"):
            served = {"artifact": result["artifact"], "sha256": result["sha256"]}
            model = {"name": self._recipe.name, **served}
        if result.get("recorded"):
            if self._jobs.finish(job, model=model):
                LOG.info("job done", extra={"job": job.id, "requests": len(result["requests"])})
            return
        answered = self._answered_by(result)
        weights = zip(
            ("original_sha256", "model_sha256"), result.get("weights") or (), strict=False
        )
        facts = {
            "job": job.id,
            "bundle": str(result.get("bundle_id") or ""),
            "model": self._recipe.name,
            **dict(weights),
        }
        certify = self._recipe.sign is not None and bool(result.get("bundle"))

        def end(connection: Any) -> None:
            if not self._jobs.complete(connection, job, model=model, certify=certify):
                raise _Lost

        with contextlib.suppress(_Lost):
            try:
                self._ledger.record("release", answered, facts=facts, once="job", along=end)
            except InputError as error:  # a key, the clock: what was computed waits until then
                extra = {"job": job.id, "error": type(error).__name__}
                LOG.error("a release cannot be recorded", extra=extra)
                self._keep_error(job, error)
            else:
                LOG.info("job done", extra={"job": job.id, "requests": len(answered)})

    def _answered_by(self, result: Mapping[str, Any]) -> list[str]:
        """Requests of a result that still wait; who is in several models waits on where it does not
        say of which model it is.
        """
        requests = self._ledger.requests()
        waiting = [id for id in result["requests"] if id in requests and requests[id].waiting]
        if result.get("weights"):
            return waiting
        known = tuple(releases_of(self._ledger.entries()))
        return [id for id in waiting if len(models_left(id, requests[id].history, known)) < 2]

    def _certify(self, job: ReleaseJob) -> None:
        """Adds the certificates to the files of a release. It is none the worse without: what is
        wrong is logged, and kept.
        """
        entries = [
            entry
            for entry in self._ledger.entries()
            if entry.kind == "release" and entry.facts.get("job") == job.id
        ]
        answered = [id for entry in entries for id in entry.requests]
        with self._kept(job) as lost:
            try:
                files = issue_certificates(
                    self._recipe, self._ledger, answered, job.result or {}, self._folder(job), lost
                )
            except OutputError:
                raise
            except Exception as error:  # noqa: BLE001 (certificates may be issued by hand)
                log_error("no certificates", error, job=job.id)
                self._keep_error(job, error)
                self._jobs.certified(job, {}, type(error).__name__)
            else:
                if self._stop.is_set():
                    self._jobs.give_back(job)
                elif not lost.is_set():
                    self._jobs.certified(job, files)

    def _fail(self, job: ReleaseJob, error: Exception) -> None:
        """Only what names no data says in public what was wrong: other messages stay in the job's
        folder.
        """
        told = (
            f"{error.what}: {error.why}"
            if isinstance(error, GateFailed | StillHeld)
            else type(error).__name__
        )
        self._keep_error(job, error)
        level = logging.WARNING if isinstance(error, CheckFailed) else logging.ERROR
        kind = "crash" if isinstance(error, ConversionError) else type(error).__name__
        LOG.log(level, "job failed", extra={"job": job.id, "error": kind})
        self._jobs.fail(job, told)

    def _folder(self, job: ReleaseJob) -> Path:
        return Path(self._settings.folder) / "jobs" / job.id

    def _keep_error(self, job: ReleaseJob, error: Exception) -> None:
        try:
            with atomic_path(self._folder(job) / "error.txt", private=True) as temporary:
                temporary.write_text(f"{error}\n", encoding="utf-8")
        except OutputError as problem:  # the end of the job counts more
            log_error("why it failed could not be kept", problem, job=job.id)
