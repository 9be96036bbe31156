"""The thread in each worker process that takes jobs: a lease that is renewed, a child process, and an end that happens once."""

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

from unplug.core import (
    CheckFailed,
    ConversionError,
    GateFailed,
    StillHeld,
    UnplugError,
    atomic_path,
    call_in_child,
    make_folder,
)
from unplug.sdk.ledger import Ledger
from unplug.sdk.releasing import answerable

from .certifying import certify_requests
from .data_names import DataNames
from .jobs import Jobs, ReleaseJob
from .recipe import ServeRecipe, ServeSettings

LOG = logging.getLogger("unplug.service")
STAGE = re.compile(r"[a-z][a-z ()0-9]{0,40}")
"""Of a line of progress that much is told: what stands before its first other sign names a stage, and nobody."""


class JobThread:
    """Takes jobs and works on them, one after the other.

    Args:
        settings: with a recipe.
        jobs: the queue.
        ledger: where releases are recorded.
    """

    def __init__(self, settings: ServeSettings, recipe: ServeRecipe, jobs: Jobs, ledger: Ledger) -> None:
        self._settings, self._recipe, self._jobs, self._ledger = settings, recipe, jobs, ledger
        self._name = f"{socket.gethostname()}-{os.getpid()}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begins to look for jobs."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the work: a job that is under way is left to others at once, as far as it came."""
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.wait(self._settings.poll_seconds):
            try:
                job = self._jobs.claim(self._name, self._settings.lease_seconds)
                if job is not None:
                    self._work(job)
            except (UnplugError, OSError) as error:  # database or disk are away: what we had, another worker takes
                LOG.error("jobs cannot be worked on", extra={"error": type(error).__name__})

    def _work(self, job: ReleaseJob) -> None:
        LOG.info("job taken", extra={"job": job.id, "fence": job.fence, "attempt": job.attempts})
        with self._kept(job) as lost:
            try:
                result = job.result or self._compute(job, lost)
            except UnplugError as error:
                if self._stop.is_set():
                    self._jobs.give_back(job)
                elif not lost.is_set():
                    self._fail(job, error)
                return
        if result is not None:
            self._complete(job, result)

    @contextlib.contextmanager
    def _kept(self, job: ReleaseJob) -> Iterator[threading.Event]:
        """Holds a job's lease meanwhile; the event is set once it is another's, or this process shall stop."""
        lost, ended = threading.Event(), threading.Event()
        heart = threading.Thread(target=self._keep, args=(job, lost, ended), name="lease", daemon=True)
        heart.start()
        try:
            yield lost
        finally:
            ended.set()
            heart.join()

    def _keep(self, job: ReleaseJob, lost: threading.Event, ended: threading.Event) -> None:
        """Renews the lease until the work ends; where it is another's, or this process shall stop, the work is ended."""
        while not ended.wait(min(self._settings.lease_seconds / 3, 0.5)):
            try:
                if self._stop.is_set() or not self._jobs.renew(job, self._settings.lease_seconds):
                    lost.set()
                    return
            except UnplugError as error:  # tried again, as long as the lease lasts
                LOG.error("a lease could not be renewed", extra={"job": job.id, "error": type(error).__name__})

    def _compute(self, job: ReleaseJob, lost: threading.Event) -> Mapping[str, Any] | None:
        """What the runner returns, kept in the job; None where the job is another's by now."""
        requests = job.requests or tuple(answerable(self._ledger, DataNames(self._recipe.data).now()))
        if not self._jobs.pin(job, requests):
            return None
        folder = Path(self._settings.folder) / "jobs" / job.id
        make_folder(folder, 0o700)
        values = {
            "recipe": asdict(self._recipe), "ledger": self._settings.ledger, "folder": str(folder), "job": job.id,
            "fence": job.fence, "requests": list(requests), "before": self._before(job),
        }  # fmt: skip

        def told(done: int, total: int, text: str) -> None:
            stage = STAGE.match(text)
            self._jobs.report(job, {"done": done, "total": total, "stage": stage[0].strip() if stage else "at work"})

        result = call_in_child(
            self._recipe.runner, values, what="the release", timeout=3600 * self._recipe.hours, progress=told, cancel=lost
        ).values
        if not isinstance(result.get("requests"), list):
            raise UnplugError("the release", "its runner returned no list of requests", "See `run_release` for what it returns")
        return result if self._jobs.keep_result(job, result) else None

    def _before(self, job: ReleaseJob) -> dict[str, Any] | None:
        """What the release before this one left, for this one to go on from."""
        done = [item for item in self._jobs.newest(1000) if item.state == "done" and item.result and item.id != job.id]
        if not done or done[0].result is None or "checkpoint" not in done[0].result:
            return None
        return {"checkpoint": done[0].result["checkpoint"], "bundle": done[0].result.get("bundle"), "number": len(done)}

    def _complete(self, job: ReleaseJob, result: Mapping[str, Any]) -> None:
        """Ledger first, and there once for each job; then the job and the model in one step, which the fence guards."""
        if not self._jobs.renew(job, self._settings.lease_seconds):
            return
        waiting = {item.id for item in self._ledger.requests().values() if item.waiting}
        facts = {"job": job.id, "bundle": str(result.get("bundle_id") or ""), "model": self._recipe.name}
        facts |= dict(zip(("original_sha256", "model_sha256"), map(str, result.get("weights") or ()), strict=False))
        answered = [id for id in result["requests"] if id in waiting]
        self._ledger.record("release", answered, facts=facts, once="job")
        if not self._certify(job, answered, result):
            if self._stop.is_set():
                self._jobs.give_back(job)
            return
        model = None
        if result.get("artifact"):
            model = {"name": self._recipe.name, "artifact": result["artifact"], "sha256": result["sha256"]}
        if self._jobs.finish(job, model=model):
            LOG.info("job done", extra={"job": job.id, "requests": len(answered)})

    def _certify(self, job: ReleaseJob, answered: Sequence[str], result: Mapping[str, Any]) -> bool:
        """Adds the certificates to the job's files. A release is none the worse without: what is wrong is logged, and kept.

        Returns:
            False where the job is another's by now, or this process shall stop.
        """
        folder = Path(self._settings.folder) / "jobs" / job.id
        with self._kept(job) as lost:
            try:
                files = certify_requests(self._recipe, self._ledger, answered, result, folder, lost)
            except UnplugError as error:
                LOG.error("no certificates", extra={"job": job.id, "error": type(error).__name__})
                self._keep_error(job, error)
                return True
            if lost.is_set():
                return False
        return not files or self._jobs.keep_result(job, {**result, "files": {**result.get("files", {}), **files}})

    def _fail(self, job: ReleaseJob, error: UnplugError) -> None:
        """Only what names no data says in public what was wrong: other messages stay in the job's folder."""
        told = f"{error.what}: {error.why}" if isinstance(error, GateFailed | StillHeld) else type(error).__name__
        self._keep_error(job, error)
        level = logging.WARNING if isinstance(error, CheckFailed) else logging.ERROR
        kind = "crash" if isinstance(error, ConversionError) else type(error).__name__
        LOG.log(level, "job failed", extra={"job": job.id, "error": kind})
        self._jobs.finish(job, error=told)

    def _keep_error(self, job: ReleaseJob, error: UnplugError) -> None:
        path = Path(self._settings.folder) / "jobs" / job.id / "error.txt"
        with atomic_path(path, private=True) as temporary:
            temporary.write_text(f"{error}\n", encoding="utf-8")
