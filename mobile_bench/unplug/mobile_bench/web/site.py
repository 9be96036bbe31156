"""The page with a generator or a signed bundle next to it: served from here, or written as a folder
for any web server.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from unplug.core import InputError, atomic_dir, temporary_folder

from .build import built_page
from .device import invite, parse_place
from .server import PageServer
from .trusted import BUNDLE, TRUST, Guard

FOLDER = "generator"
"""Next to the page: a ``pipeline.json`` there is opened by itself."""
POLL_S = 0.25


def serve_site(
    files: Mapping[str, Path],
    place: str | None,
    say: Callable[[str], None],
    *,
    seconds: float | None = None,
    guard: Guard | None = None,
) -> None:
    """Serves the page with a generator's files, or with a guard, and nothing else, below a secret
    address.

    Args:
        files: the files by their paths inside the generator's folder, ``pipeline.json`` among them;
            none with a guard.
        place: PORT or HOST:PORT; default: a free port, for this machine only.
        say: told where to open it.
        seconds: how long; default: until Ctrl-C.
        guard: makes it a page that runs signed bundles only.

    Raises:
        InputError: no such place.
        DeviceError: the page cannot be built, or nothing can listen there.
    """
    where = parse_place(place)
    if where.headless:
        raise InputError("headless", "nobody would see the page", "Give PORT or HOST:PORT")
    page = built_page()
    with temporary_folder(".page.", None) as folder:
        beside = {f"{FOLDER}/{path}": file for path, file in files.items()}
        if guard is not None:
            beside = _guarded(page, guard, folder)
            beside[""] = beside["index.html"]
        with PageServer(page, None, where.host, where.port, files=beside) as server:
            invite(server, where, say)
            end = None if seconds is None else time.monotonic() + seconds
            while end is None or time.monotonic() < end:
                time.sleep(POLL_S)


def _guarded(page: Path, guard: Guard, folder: Path) -> dict[str, Path]:
    """The files of a guard by their addresses, the made ones in a folder."""
    files = {}
    for name, raw in guard.pages(page).items():
        (folder / name).write_bytes(raw)
        files[name] = folder / name
    return files if guard.bundle is None else {**files, BUNDLE: guard.bundle}


def write_site(files: Mapping[str, Path], out: Path, guard: Guard | None = None) -> int:
    """Writes the page and what lies next to it as one folder of static files, whole or not at all.

    Args:
        files, guard: see `serve_site`.
        out: the folder; one that this wrote before is replaced.

    Returns:
        Bytes of all that a browser can fetch there.

    Raises:
        DeviceError: the page cannot be built.
        OutputError: the place is taken by something else, or cannot be written.
    """
    page = built_page()
    with atomic_dir(out, owner=f"{FOLDER}/pipeline.json" if guard is None else TRUST) as folder:
        shutil.copytree(page, folder, dirs_exist_ok=True)
        beside = {f"{FOLDER}/{path}": file for path, file in files.items()}
        if guard is not None:
            beside |= {
                name: file for name, file in _guarded(page, guard, folder).items() if name == BUNDLE
            }
        for path, file in beside.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
