"""Releases over HTTP: start one, follow it, fetch what it made."""

from __future__ import annotations

import asyncio
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Response
from fastapi.responses import FileResponse

from .jobs import ReleaseJob
from .shapes import JobList, JobShape
from .state import HERE, MayRead, MayRelease, Parts, problems
from .stream import FOLLOWED, LAST, follow
from .views import FILE_NAME, files_of, job_shape, lasting

router = APIRouter(tags=["releases"])
JOB = Annotated[str, Path(pattern=r"^J-[0-9a-f]{16}$", description="The release's id.")]
FILE = Annotated[str, Path(pattern=f"^{FILE_NAME.pattern}$", description="One of its `files`.")]
BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("/releases", status_code=202, responses=problems(409))
async def start_release(here: HERE, _: MayRelease) -> JobShape:
    """Asks for a release of all open requests; where one waits to begin already, that one covers
    them.
    """
    if here.settings.recipe is None:
        raise HTTPException(409, "this server was started without a recipe")
    contents = await asyncio.to_thread(here.ledger.contents)
    if not any(item.state == "open" for item in contents.requests.values()):
        raise HTTPException(409, "no request is open")
    job, _new = await asyncio.to_thread(here.jobs.ask)
    return job_shape(job)


@router.get("/releases", responses=problems())
async def list_releases(
    here: HERE, _: MayRead, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> JobList:
    """The newest releases first."""
    jobs = await asyncio.to_thread(here.jobs.newest, limit)
    current = {
        job.model: job.id
        for job in reversed(jobs)
        if job.state == "done" and job.result is not None
    }
    return JobList(jobs=[job_shape(job, current=job.id == current.get(job.model)) for job in jobs])


@router.get("/releases/{job}", responses=problems(404))
async def read_release(job: JOB, here: HERE, _: MayRead) -> JobShape:
    """One release."""
    release = await _find(job, here)
    return job_shape(release, current=not await asyncio.to_thread(here.jobs.superseded, release))


@router.get("/releases/{job}/events", response_class=Response, responses=problems(404) | FOLLOWED)
async def follow_release(job: JOB, here: HERE, _: MayRead, last: LAST = "0-0") -> Response:
    """The progress of one release, as server-sent events; `Last-Event-ID` resumes."""
    await _find(job, here)
    return follow(here, last, job=job)


@router.get("/events", response_class=Response, responses=problems() | FOLLOWED)
async def follow_all(here: HERE, _: MayRead, last: LAST = "0-0") -> Response:
    """The progress of all releases, as server-sent events; `Last-Event-ID` resumes."""
    return follow(here, last)


@router.get(
    "/releases/{job}/files/{name}",
    response_class=FileResponse,
    responses=problems(404, 410) | BYTES,
)
async def fetch(job: JOB, name: FILE, here: HERE, _: MayRelease) -> FileResponse:
    """A file of a release: its bundle as a zip file until the next is done, or a certificate."""
    release = await _find(job, here)
    recorded = files_of(release, current=True)
    if name not in recorded:
        raise HTTPException(404, "there is no such file of this release")
    if not lasting(name) and await asyncio.to_thread(here.jobs.superseded, release):
        raise HTTPException(410, "a later release has superseded this one")
    path = FilePath(recorded[name]).resolve()
    folder = (FilePath(here.settings.folder) / "jobs" / release.id).resolve()
    if (
        not path.is_relative_to(folder) or not path.is_file()
    ):  # what a runner recorded must lie in the folder of its job
        raise HTTPException(404, "the file is gone")
    return FileResponse(path, media_type="application/octet-stream", filename=name)


async def _find(id: str, here: Parts) -> ReleaseJob:
    job = await asyncio.to_thread(here.jobs.get, id)
    if job is None:
        raise HTTPException(404, "there is no such release")
    return job
