"""The files of the distribution `unplug-weights`: found by name, each checked before it is used.

``shipped.json`` says which version goes with this unplug, and the SHA-256 of each of its files
(`python -m benchmarks.shipped_table` writes it).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unplug.core import CheckpointError, InputError, install_weights, read_json, sha256_file

PACKAGE = "unplug_weights"
TABLE = Path(__file__).with_name("shipped.json")


@cache
def shipped_table() -> dict[str, str]:
    """SHA-256 of every file that ships, by its path in `PACKAGE`."""
    files: dict[str, str] = _table()["files"]
    return files


def shipped_plugins() -> list[str]:
    """Names of the plugins that ship.

    Example:
        >>> shipped_plugins()
        ['canny', 'depth', 'face_landmark']
    """
    return shipped_folders("config.json")


def shipped_folders(file: str) -> list[str]:
    """Names of the folders in `PACKAGE` that hold a file of this name."""
    paths = (path.split("/") for path in shipped_table())
    return sorted(parts[0] for parts in paths if parts[1:] == [file])


def shipped_place() -> Path | None:
    """The folder of the installed weights, whatever is in it, or None where they are not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def shipped_path(name: str, folder: str) -> Path:
    """A folder of the weights that ship, of which every file is as it shipped.

    Args:
        name: the name that it was asked for by.
        folder: path in `PACKAGE`, as in `shipped_table`.

    Raises:
        CheckpointError: the weights are not installed, are of another version, or were changed.
    """
    place, version = shipped_place(), _table()["version"]
    if place is None:
        why = "the weights that ship are not installed"
        raise CheckpointError(name, why, f"Run: {install_weights(version)}")
    there = getattr(import_module(PACKAGE), "__version__", "of no version")
    if there != version:
        why = f"unplug-weights {there} is installed, and this unplug needs {version}"
        raise CheckpointError(name, why, f"Run: {install_weights(version)}")
    _check(place, folder)
    return place / folder


@cache
def _check(place: Path, folder: str) -> None:
    """Raises unless the files in a folder are those of the table. One process reads them once."""
    wanted = {
        file: digest for file, digest in shipped_table().items() if file.startswith(f"{folder}/")
    }
    there = (item for item in (place / folder).rglob("*") if not item.is_dir())
    for file in sorted(wanted.keys() | {item.relative_to(place).as_posix() for item in there}):
        if (why := _changed(place / file, wanted.get(file))) is not None:
            again = install_weights(_table()["version"], again=True)
            raise CheckpointError(f"{file} of unplug-weights", why, f"Delete {place}. Run: {again}")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_json(TABLE)
    return table


def _changed(file: Path, digest: str | None) -> str | None:
    """What is wrong with a file, or None."""
    if digest is None:
        return "no such file shipped"
    if not file.is_file():
        return "it is missing"
    try:
        return None if sha256_file(file) == digest else "it is not the file that shipped"
    except InputError as error:
        return error.why
