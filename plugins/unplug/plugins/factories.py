"""The code that a file may name: factories that the operator said may run here, each with what it
is called with.

They are listed in ``$UNPLUG_FACTORIES`` (commas between), and in one file of the operator's own, to
which `unplug adopt` adds what passed its check. A file that others could have written says nothing
about the operator, and is refused.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from unplug.core import InputError, OutputError, atomic_path, hold, lasting_place, make_folder

VARIABLE = "UNPLUG_FACTORIES"
MAX_BYTES = 65536
_tried: ContextVar[str] = ContextVar("tried", default="")


def call_of(factory: str, arguments: Mapping[str, Any]) -> str:
    """A factory and its arguments as one word, as lists name it.

    Example:
        >>> call_of("nets:small", {"width": 8, "kind": "a, b"}), call_of("nets:small", {})
        ('nets:small?kind=%22a%2C+b%22&width=8', 'nets:small')
    """
    words = urlencode([(name, json.dumps(value)) for name, value in sorted(arguments.items())])
    return f"{factory}?{words}" if words else factory


def factories_file() -> Path:
    """The list: ``$XDG_CONFIG_HOME/unplug/factories``, or ``~/.config/unplug/factories``."""
    return (
        lasting_place("the list of trusted factories", VARIABLE, "XDG_CONFIG_HOME", ".config")
        / "factories"
    )


@contextmanager
def tried(call: str) -> Iterator[None]:
    """While somebody checks a factory that he named himself, it may run, and no other."""
    token = _tried.set(call)
    try:
        yield
    finally:
        _tried.reset(token)


def is_trusted(call: str) -> bool:
    """Whether the operator said that a factory may run here with these arguments; `InputError` as
    of `check_trusted`.
    """
    return call == _tried.get() or call in _named() or call in _listed()


def check_trusted(call: str) -> None:
    """Refuses code that nobody said may run here.

    Args:
        call: see `call_of`.

    Raises:
        InputError: it is not listed, or listed with other arguments; or others can write the list.
    """
    if is_trusted(call):
        return
    factory, known = call.partition("?")[0], [*_named(), *_listed()]
    why = "it is code, and nobody said here that it may run"
    if any(item.partition("?")[0] == factory for item in known):
        why = "it may run here with other arguments than these alone"
    fix = f"If you know it, set {VARIABLE}='{call}', or adopt it here with `unplug adopt {factory}`"
    raise InputError(f"factory {call}", why, fix)


def trust(call: str) -> None:
    """Lists a factory with its arguments, in a file that its owner alone can read and write.

    Raises:
        InputError: others can write the list, or a folder above it.
        OutputError: the file cannot be written.
    """
    path = factories_file()
    if call in _listed():
        return
    try:
        make_folder(path.parent, 0o700)
    except OSError as error:
        raise OutputError(
            str(path.parent), error.strerror or str(error), f"Use {VARIABLE}"
        ) from error
    _check_folders(path)
    with (
        hold(path),
        atomic_path(path, private=True) as new,
    ):  # who had it before us may have added another
        new.write_text("".join(f"{line}\n" for line in [*_listed(), call]), encoding="utf-8")


def _named() -> list[str]:
    return [item.strip() for item in os.environ.get(VARIABLE, "").split(",")]


def _listed() -> list[str]:
    try:
        path = factories_file()
        # A link in its place is not followed, and a pipe is not waited for; Windows has neither flag.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
    except (FileNotFoundError, OutputError):  # no such list, or no home that it could lie in
        return []
    except OSError as error:
        raise InputError(
            str(path),
            error.strerror or str(error),
            f"Make it a file of your own, or use {VARIABLE}",
        ) from error
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise InputError(
                str(path), "it is not a list of factories", f"Remove it, or use {VARIABLE}"
            )
        if os.name != "nt":
            _check_folders(path)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                why = (
                    f"others can read or write it (mode {status.st_mode & 0o777:o}, owner "
                    f"{status.st_uid})"
                )
                raise InputError(str(path), why, "See that all of it is yours; then chmod 600 it")
        return file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()


def _check_folders(path: Path) -> None:
    """Refuses a list that others could put another in the place of; a sticky folder (``/tmp``) lets
    nobody do that.
    """
    if os.name == "nt":
        return
    # Both ways to it: the folders as they are named, and those that links in between lead to.
    for folder in dict.fromkeys((*path.absolute().parents, *path.resolve().parents)):
        status = folder.stat()
        open_to_others = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if open_to_others or status.st_uid not in (0, os.geteuid()):
            why = (
                f"others can write in {folder} (mode {status.st_mode & 0o777:o}, owner "
                f"{status.st_uid}), and so change it"
            )
            raise InputError(str(path), why, f"chmod go-w that folder, or use {VARIABLE}")


@contextmanager
def away_from_here() -> Iterator[None]:
    """Modules are searched for where packages are installed and where PYTHONPATH says, never in the
    working folder.
    """
    before = sys.path[:]
    sys.path[:] = search_path()
    try:
        yield
    finally:
        sys.path[:] = before


def search_path() -> list[str]:
    """``sys.path`` without the working folder where nobody named it: `python -m` and notebooks put
    it in front.
    """
    here, standard = Path.cwd(), str(Path(os.__file__).parent)
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    installed = sys.path[sys.path.index(standard) :] if standard in sys.path else []
    return [
        place
        for place in sys.path
        if Path(place).is_absolute()
        and (Path(place).resolve() != here or place in named or place in installed)
    ]
