"""The application of one worker process: its parts, its routes, and how errors become answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import signal
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException as PlainHTTPException

from unplug.core import VERSION, DataError, InputError, OutputError, UnplugError
from unplug.trust.ledger import Ledger, open_ledger

from .batching import Batcher, Busy
from .data_names import DataNames
from .hub import Hub
from .inbox import Inbox
from .jobs import JobEvent, Jobs
from .metrics import Metrics
from .models import Served
from .owners import Desk, TooMany
from .recipe import ServeSettings
from .routes_jobs import router as job_routes
from .routes_models import router as model_routes
from .routes_requests import router as request_routes
from .shapes import Alive, Ready
from .shield import Shield
from .state import HERE, MayMeasure, Parts, Rates, problems
from .tables import ServiceTables
from .tokens import TokenGate
from .watching import StreamWatch
from .work import JobThread

LOG = logging.getLogger("unplug.serve")
PAGE = Path(__file__).with_name("page")
ASSETS = {"page.js": "text/javascript", "page.css": "text/css"}
DECODERS = 4
"""Pictures that are decoded at once in one process; one of the largest takes 200 MB meanwhile."""
END_SECONDS = 60.0
WAIT_SHARE = 0.8
"""Of the time of a request, for another writer of the database."""
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
        settings: of the server; its tables have been made.
    """
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        here = await _parts(settings, metrics)
        app.state.parts = here
        watch, threads = here.watch, [here.watch.thread("inbox", here.inbox.run)]
        work = None
        if settings.recipe is not None:
            work = JobThread(settings, settings.recipe, here.jobs, here.ledger)
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
    for router in (request_routes, job_routes, model_routes):
        app.include_router(router)
    _add_own_routes(app)
    _add_errors(app)
    app.add_middleware(Shield, limits=settings.limits, metrics=metrics)
    return app


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


def _add_own_routes(app: FastAPI) -> None:
    @app.get("/health", tags=["server"])
    async def health() -> Alive:
        """Whether this process answers."""
        return Alive(version=VERSION)

    @app.get(
        "/ready", tags=["server"], responses={503: {"model": Ready, "description": "Not ready"}}
    )
    async def ready(here: HERE, response: Response) -> Ready:
        """Whether requests can be taken: the database answers and can be written, what works in the
        background does, and the model that is to be served is there.
        """
        database = await asyncio.to_thread(_can_write, here.probe)
        wanted = here.settings.recipe is not None and (
            here.settings.recipe.artifact is not None or here.served.row is not None
        )
        model = here.batcher.model is not None if wanted else None
        down = list(here.watch.down())
        good = database and model is not False and not down
        response.status_code = 200 if good else 503
        return Ready(
            status="ready" if good else "not ready", database=database, model=model, down=down
        )

    text: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "Prometheus text",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    }

    @app.get("/metrics", tags=["server"], response_class=Response, responses=problems() | text)
    async def metrics(here: HERE, _: MayMeasure) -> Response:
        """Metrics of all worker processes."""
        return Response(
            await asyncio.to_thread(here.metrics.text, lambda: _gauges(here)),
            media_type="text/plain; version=0.0.4",
        )

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    @app.get("/assets/{name}", include_in_schema=False)
    async def asset(name: str) -> FileResponse:
        if name not in ASSETS:
            raise HTTPException(404, "there is no such file")
        return FileResponse(PAGE / name, media_type=ASSETS[name])


def _can_write(ledger: Ledger) -> bool:
    """Whether a request could be added now."""
    try:
        ledger.check_open()
    except UnplugError as error:
        LOG.error("nothing can be added to the ledger", extra={"error": type(error).__name__})
        return False
    return True


def _gauges(here: Parts) -> Mapping[str, Mapping[str, float]]:
    """What the database says, for metrics."""
    contents = here.ledger.contents()
    states: dict[str, float] = {}
    for item in contents.requests.values():
        states[item.state] = states.get(item.state, 0) + 1
    late = sum(
        item.waiting and item.days_left(contents.today) < 0 for item in contents.requests.values()
    )
    return {
        "requests": states,
        "requests_late": {"waiting": late},
        "releases": dict(here.jobs.counts()),
    }


def _add_errors(app: FastAPI) -> None:
    def answer(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"status": status, "detail": detail}, status, dict(headers or {}))

    @app.exception_handler(PlainHTTPException)
    async def plain(_: Request, error: PlainHTTPException) -> JSONResponse:
        return answer(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
        """Where and why, without what was sent: that may name somebody."""
        first: Mapping[str, Any] = error.errors()[0]
        place = ".".join(str(part)[:60] for part in first["loc"])
        return answer(422, f"{place}: {first['type'].replace('_', ' ')}")

    @app.exception_handler(UnplugError)
    async def ours(_: Request, error: UnplugError) -> JSONResponse:
        if isinstance(error, Busy):
            return answer(503, f"{error.what}: {error.why}", {"Retry-After": "1"})
        if isinstance(
            error, DataError
        ):  # a picture, of which it says no more than what is wrong with it
            return answer(422, f"{error.what}: {error.why}")
        if isinstance(error, OutputError):
            LOG.error("the database cannot be written", extra={"error": type(error).__name__})
            return answer(503, "nothing can be added to the ledger now", {"Retry-After": "5"})
        if isinstance(error, TooMany):
            return answer(429, f"{error.what}: {error.why}", {"Retry-After": "60"})
        if (
            isinstance(error, InputError) and "/" in error.what
        ):  # about a file of this server, which is nobody's business
            LOG.error("the ledger cannot be used", extra={"error": type(error).__name__})
            return answer(503, "nothing can be added to the ledger now", {"Retry-After": "5"})
        if isinstance(error, InputError):
            return answer(409, f"{error.what}: {error.why}")
        raise error
