"""How a server is, its numbers, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import FileResponse

from unplug.core import VERSION, UnplugError
from unplug.trust.ledger import Ledger

from .logs import log_error
from .shapes import Alive, Ready
from .state import HERE, MayMeasure, Parts, problems

PAGE = Path(__file__).with_name("page")
ASSETS = {"page.js": "text/javascript", "page.css": "text/css"}
router = APIRouter(tags=["server"])
TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus text",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@router.get("/health")
async def health() -> Alive:
    """Whether this process answers."""
    return Alive(version=VERSION)


@router.get("/ready", responses={503: {"model": Ready, "description": "Not ready"}})
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
    return Ready(status="ready" if good else "not ready", database=database, model=model, down=down)


@router.get("/metrics", response_class=Response, responses=problems() | TEXT)
async def metrics(here: HERE, _: MayMeasure) -> Response:
    """Metrics of all worker processes."""
    return Response(
        await asyncio.to_thread(here.metrics.text, lambda: _gauges(here)),
        media_type="text/plain; version=0.0.4",
    )


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(PAGE / "index.html", media_type="text/html")


@router.get("/assets/{name}", include_in_schema=False)
async def asset(name: str) -> FileResponse:
    if name not in ASSETS:
        raise HTTPException(404, "there is no such file")
    return FileResponse(PAGE / name, media_type=ASSETS[name])


def _can_write(ledger: Ledger) -> bool:
    """Whether a request could be added now."""
    try:
        ledger.check_open()
    except UnplugError as error:
        log_error("nothing can be added to the ledger", error)
        return False
    return True


def _gauges(here: Parts) -> Mapping[str, Mapping[str, float]]:
    """What the database says, for metrics."""
    contents = here.ledger.contents()
    states: dict[str, float] = {}
    for request in contents.requests.values():
        states[request.state] = states.get(request.state, 0) + 1
    late = sum(
        request.waiting and request.days_left(contents.today) < 0
        for request in contents.requests.values()
    )
    return {
        "requests": states,
        "requests_late": {"waiting": late},
        "releases": dict(here.jobs.counts()),
    }
