"""The people whose pictures the cache holds: a note next to each entry, what is there for ``unplug
cache info``, and purging it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unplug.core import (
    SUBJECT,
    InputError,
    OutputError,
    cache_alone,
    cache_dir,
    cache_entries,
    name_form,
    read_json,
    write_json,
)

from .source import Sample, spec_parts

SCHEMA = "unplug-cache/1"
SUFFIX = ".people"
KINDS = {
    "latents": "latents",
    "condition": "conditions",
    "text": "embedded words",
    "judge": "a judge of faces",
}
"""What files of the folder ``diffusion`` hold, by how their names begin."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """One entry of the cache: the files that come from the same data, by the same steps.

    Args:
        kind: the kind of contents, in words.
        data: the data spec that it was made from, with the whole path; None where that is not
            known.
        names: ids of its pictures, and ``subject:NAME`` of the people in them.
        samples: number of pictures; None where that is not known.
        bytes: the size of all its files.
        since: when the oldest of them was written, in seconds since 1970.
        modes: their permissions, as ``0600``.
        paths: files and folders.
    """

    kind: str
    data: str | None
    names: frozenset[str]
    samples: int | None
    bytes: int
    since: float
    modes: tuple[str, ...]
    paths: tuple[Path, ...]


def note_people(entry: Path, spec: str, samples: Sequence[Sample]) -> None:
    """Writes down, next to a file in the cache, whose pictures it was made from, so that it can be
    purged by their names.

    Args:
        entry: the file; nothing is done where the note is there already.
        spec: the spec of the data.
        samples: all that went into the file.
    """
    note = entry.with_suffix(SUFFIX)
    if not note.exists():
        subjects = sorted({sample.subject for sample in samples if sample.subject is not None})
        ids = [sample.id for sample in samples]
        write_json(
            note, {"schema": SCHEMA, "data": whole_spec(spec), "ids": ids, "subjects": subjects}
        )


def whole_spec(spec: str) -> str:
    """A data spec that means the same in every folder."""
    return _resolved(spec) if ":" in spec and spec_parts(spec)[1].exists() else spec


def _resolved(spec: str) -> str:
    kind, path, settings = spec_parts(spec)
    return f"{kind}:{path.resolve()}{settings}"


def held_in_cache() -> tuple[Held, ...]:
    """What the cache holds, and since when; by name of the data."""
    groups: dict[Path, list[Path]] = {}
    for path in cache_entries(cache_dir())[0]:
        stem = (
            path.name.removeprefix(".").removesuffix(".partial")
            if path.name.endswith(".partial")
            else path.name
        )
        groups.setdefault(path.with_name(stem.partition(".")[0] or stem), []).append(path)
    return tuple(
        sorted(
            (_held(stem, paths) for stem, paths in groups.items()),
            key=lambda entry: (entry.data or "", entry.kind),
        )
    )


def _held(stem: Path, paths: list[Path]) -> Held:
    files = [
        file
        for path in paths
        for file in ([path] if path.is_file() else path.rglob("*"))
        if file.is_file()
    ]
    status = [file.lstat() for file in files] or [stem.parent.lstat()]
    note = _note(stem.with_suffix(SUFFIX))
    modes = sorted({f"{item.st_mode & 0o777:04o}" for item in status})
    if note is None:
        names, data, samples = frozenset[str](), None, None
    else:
        data, ids, subjects = note
        names, samples = frozenset([*ids, *(f"{SUBJECT}{name}" for name in subjects)]), len(ids)
    return Held(
        kind=_kind(stem),
        data=data,
        names=names,
        samples=samples,
        bytes=sum(item.st_size for item in status) if files else 0,
        since=min(item.st_mtime for item in status),
        modes=tuple(modes),
        paths=tuple(paths),
    )


def _note(path: Path) -> tuple[str, list[str], list[str]] | None:
    try:
        raw = read_json(path)
        ids, subjects = ([str(name) for name in raw[part]] for part in ("ids", "subjects"))
        return (str(raw["data"]), ids, subjects) if raw["schema"] == SCHEMA else None
    except (InputError, KeyError, TypeError):
        return None


def _kind(stem: Path) -> str:
    if stem.parent.name == "web-page":
        return "the built page of browser benchmarks"
    if stem.parent.name != "diffusion" and stem.name.endswith("px"):
        return f"pictures, {stem.name.rpartition('-')[2].removesuffix('px')} px"
    return KINDS.get(stem.name.partition("-")[0], "unfinished")


def picked(
    held: Sequence[Held], *, data: str | None = None, people: Sequence[str] = ()
) -> tuple[Held, ...]:
    """Those entries of the cache that were made from some data, or from pictures of some people.

    Args:
        held: see `held_in_cache`.
        data: a data spec, or None.
        people: sample ids and ``subject:NAME``.
    """
    wanted, specs = set(map(name_form, people)), set[str]()
    if data is not None:
        specs = {data, whole_spec(data), _resolved(data)}  # also of data that are deleted
    return tuple(
        item for item in held if item.data in specs or wanted & set(map(name_form, item.names))
    )


def purge(held: Sequence[Held]) -> int:
    """Deletes entries of the cache, which others must not use meanwhile; what is not ours and what
    links name stays.

    Returns:
        How many bytes they had.

    Raises:
        OutputError: another process uses the cache, or something cannot be deleted.
    """
    with cache_alone() as root:
        ours = set(cache_entries(root)[0])
        for entry in held:
            for path in sorted(
                entry.paths, key=lambda path: path.suffix == SUFFIX
            ):  # who it is of goes last
                if path not in ours:
                    continue
                try:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                except OSError as error:
                    raise OutputError(
                        str(path), error.strerror or str(error), "Delete it yourself"
                    ) from error
    return sum(entry.bytes for entry in held)
