"""The page with a generator beside it: served from here until somebody stops it, or written as a folder for any web server."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from unplug.core import InputError, atomic_dir

from .build import built_page
from .device import invite, parse_place
from .server import PageServer

FOLDER = "generator"
"""Beside the page: a ``pipeline.json`` there is opened by itself."""
POLL_S = 0.25


def serve_site(
    files: Mapping[str, Path], place: str | None, say: Callable[[str], None], *, seconds: float | None = None
) -> None:  # fmt: skip
    """Serves the page with a generator's files, and nothing else, below a secret address.

    Args:
        files: by their paths inside the generator's folder, ``pipeline.json`` among them.
        place: PORT or HOST:PORT; default: a free port, for this machine only.
        say: told where to open it.
        seconds: how long; default: until Ctrl-C.

    Raises:
        InputError: no such place.
        DeviceError: the page cannot be built, or nothing can listen there.
    """
    where = parse_place(place)
    if where.headless:
        raise InputError("headless", "nobody would see the page", "Give PORT or HOST:PORT")
    beside = {f"{FOLDER}/{path}": file for path, file in files.items()}
    with PageServer(built_page(), None, where.host, where.port, files=beside) as server:
        invite(server, where, say)
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            time.sleep(POLL_S)


def write_site(files: Mapping[str, Path], out: Path) -> int:
    """Writes the page and a generator's files as one folder of static files, whole or not at all.

    Args:
        files: see `serve_site`.
        out: the folder; one that this wrote before is replaced.

    Returns:
        Bytes of all that a browser can fetch there.

    Raises:
        DeviceError: the page cannot be built.
        OutputError: the place is taken by something else, or cannot be written.
    """
    page = built_page()
    with atomic_dir(out, owner=f"{FOLDER}/pipeline.json") as folder:
        shutil.copytree(page, folder, dirs_exist_ok=True)
        for path, file in files.items():
            place = folder / FOLDER / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
