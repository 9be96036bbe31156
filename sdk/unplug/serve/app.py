"""The application of one worker process: its parts, its routes, and how errors become answers."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as PlainHTTPException

from unplug.core import VERSION, DataError, InputError, OutputError, UnplugError
from unplug.trust.ledger import open_ledger

from .batching import Batcher, Busy
from .data_names import DataNames
from .hub import Hub
from .inbox import Inbox
from .jobs import JobEvent, Jobs
from .logs import log_error
from .metrics import Metrics
from .models import Served
from .owners import Desk, TooMany
from .recipe import ServeSettings
from .routes_jobs import router as job_routes
from .routes_models import router as model_routes
from .routes_requests import router as request_routes
from .routes_server import router as server_routes
from .shield import Shield
from .state import Parts, Rates
from .tables import ServiceTables
from .tokens import TokenGate
from .watching import StreamWatch
from .work import JobThread

DECODERS = 4
"""Pictures that are decoded at once in one process; one of the largest takes 200 MB meanwhile."""
END_SECONDS = 60.0
WAIT_SHARE = 0.8
"""A share of the time of a request, for another writer of the database."""
PROBE_SECONDS = 1.0
"""So long `/ready` waits for other writers, which need a few milliseconds each."""
THREADS = 40
"""For work that waits: those of a few requests that wait for a locked database must not be all
there are.
"""
ABOUT = "Requests to be forgotten, the releases that answer them, and the models that came of it."


def app_from_environment() -> FastAPI:
    """What each worker process of ``unplug serve`` runs."""
    return make_app(ServeSettings.from_environment())


def make_app(settings: ServeSettings) -> FastAPI:
    """The application.

    Args:
        settings: the settings of the server; its tables have been made.
    """
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        app.state.parts = await _parts(settings, metrics)
        async with _working(app.state.parts):
            yield

    app = FastAPI(
        title="unplug serve",
        version=VERSION,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    # A redirect would go to a host and a scheme that nobody vouches for, before anybody is known.
    app.router.redirect_slashes = False
    for router in (request_routes, job_routes, model_routes, server_routes):
        app.include_router(router)
    _add_errors(app)
    app.add_middleware(Shield, limits=settings.limits, metrics=metrics)
    return app


@contextlib.asynccontextmanager
async def _working(here: Parts) -> AsyncIterator[None]:
    """Runs what works in the background meanwhile; what has begun is ended before its parts are."""
    watch, threads = here.watch, [here.watch.thread("inbox", here.inbox.run)]
    work = None
    if here.settings.recipe is not None:
        work = JobThread(here.settings, here.settings.recipe, here.jobs, here.ledger)
        threads.append(watch.thread("jobs", work.run))
    watch.task("hub", here.hub.run)
    watch.task("batcher", here.batcher.run)
    watch.task("parent", lambda: _end_with_parent(multiprocessing.parent_process()))
    try:
        yield
    finally:
        watch.stop()
        if work is not None:
            work.stop()
        here.inbox.close()
        await here.batcher.drain()
        await watch.end_tasks()
        for thread in threads:
            await asyncio.to_thread(thread.join, END_SECONDS)
        here.batcher.close()
        here.tables.close()


async def _parts(settings: ServeSettings, metrics: Metrics) -> Parts:
    limits = settings.limits
    # a thread that waits for longer waits for a client that is gone
    wait = WAIT_SHARE * limits.total_seconds
    tables = ServiceTables(settings.ledger, wait_seconds=wait, pooled=True)
    ledger = open_ledger(settings.ledger, wait_seconds=wait, pooled=True)
    jobs, desk = Jobs(tables, recipe=settings.recipe_key), Desk(ledger, tables, limits)
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(THREADS, thread_name_prefix="answers")
    )
    batcher = Batcher(
        batch=limits.batch,
        wait_seconds=limits.batch_wait_ms / 1000,
        waiting=limits.waiting,
        ran=lambda model, count: metrics.batches.labels(model.model_type).observe(count),
    )
    served = Served(tables=tables, recipe=settings.recipe, batcher=batcher, metrics=metrics)

    async def on_event(event: JobEvent) -> None:
        if event.kind == "done":
            await served.refresh()

    hub = Hub(ledger, jobs, settings.poll_seconds, on_event)
    await hub.start()
    await served.refresh()
    return Parts(
        watch=StreamWatch(),
        probe=open_ledger(settings.ledger, wait_seconds=PROBE_SECONDS),
        settings=settings,
        tables=tables,
        ledger=ledger,
        jobs=jobs,
        gate=TokenGate(tables=tables),
        metrics=metrics,
        desk=desk,
        inbox=Inbox(desk),
        hub=hub,
        batcher=batcher,
        served=served,
        decoding=asyncio.Semaphore(DECODERS),
        rates=Rates(rate=limits.rate, burst=limits.burst),
        names=None if settings.recipe is None else DataNames(settings.recipe.data),
    )


async def _end_with_parent(server: BaseProcess | None) -> None:
    """A worker whose server was killed ends as well: it would hold the port, and nobody would mend
    it.

    The server is known by its pipe, not by its number: it may be dead before this worker has
    imported anything. A server that answers by itself has none, and outlives the shell that started
    it.
    """
    if server is None:
        return
    while server.is_alive():
        await asyncio.sleep(0.5)
    signal.raise_signal(signal.SIGTERM)


def _add_errors(app: FastAPI) -> None:
    def answer(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"status": status, "detail": detail}, status, dict(headers or {}))

    @app.exception_handler(PlainHTTPException)
    async def plain(_: Request, error: PlainHTTPException) -> JSONResponse:
        return answer(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
        """Says where and why, without what was sent: that may name somebody."""
        first: Mapping[str, Any] = error.errors()[0]
        place = ".".join(str(part)[:60] for part in first["loc"])
        return answer(422, f"{place}: {first['type'].replace('_', ' ')}")

    @app.exception_handler(UnplugError)
    async def ours(_: Request, error: UnplugError) -> JSONResponse:
        if isinstance(error, Busy):
            return answer(503, f"{error.what}: {error.why}", {"Retry-After": "1"})
        if isinstance(error, DataError):  # a picture, of which it says no more than what is wrong
            return answer(422, f"{error.what}: {error.why}")
        if isinstance(error, TooMany):
            return answer(429, f"{error.what}: {error.why}", {"Retry-After": "60"})
        # An input error with a path in it is about a file of this server: nobody's business.
        if isinstance(error, OutputError) or (isinstance(error, InputError) and "/" in error.what):
            log_error("the ledger cannot be used", error)
            return answer(503, "nothing can be added to the ledger now", {"Retry-After": "5"})
        if isinstance(error, InputError):
            return answer(409, f"{error.what}: {error.why}")
        raise error
