"""Looks through data, cache and folders for one person. Pictures are not opened: who is in them is what the data say.

Of bundles packed into one file the manifest is read, within the bounds of `unplug.sdk.bundle`, and nothing is unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import CheckFailed, DataError, InputError, parse_json, read_regular
from unplug.sdk.bundle import read_manifest
from unplug.sdk.data import Held, Listing, held_in_cache, parse_spec, picked

from . import records
from .place import Person, Place, unknown

MAX_FILES = 1_000_000
MAX_BYTES = 64 * 2**20
RECORD, SUBJECT = "unplug.json", "subject:"
TEXTS = (".txt", ".csv", ".jsonl", ".tsv")
ARCHIVES = (".zip", ".unplug")
"""Files that may be bundles; an archive of something else is reported as not looked into."""


def person_in(spec: str, name: str) -> Person:
    """A person by a name that requests may have.

    Args:
        spec: of the data that hold, or held, her pictures.
        name: a sample id or ``subject:NAME``.

    Raises:
        DataError: these data do not know her.
    """
    listing: Listing = parse_spec(spec).listing()
    ids = {item.id for item in listing.samples if name == item.id or name == f"{SUBJECT}{item.subject}"}
    if not ids:
        fix = "`unplug data inspect SPEC --ids` lists the ids; subject:NAME names a person"
        raise DataError(name[:80], f"{spec} does not know that name", fix)
    return Person(name=name, ids=frozenset(ids))


def trace(spec: str, person: Person, folders: Sequence[Path]) -> tuple[tuple[Place, ...], tuple[Held, ...]]:
    """Every place where a person was found, or could not be looked for.

    Args:
        spec: of the data.
        person: see `person_in`.
        folders: searched with all that is below them, links not followed.

    Returns:
        The places: the data, the cache, then files by their paths; and the entries of the cache among them, for `purge`.

    Raises:
        InputError: a folder is not there, or holds more than `MAX_FILES` files.
    """
    cached = picked(held_in_cache(), people=[person.name, *sorted(person.ids)])
    why = "delete the pictures, after the models forgot"
    data = Place(path=spec, kind="data", standing="holds", samples=len(person.ids), goes_by=why)
    cache = [
        Place(path=str(path), kind=f"cache: {item.kind}", standing="holds", goes_by="unplug trace --purge")
        for item in cached
        for path in item.paths
    ]
    return (data, *cache, *_in_folders(person, folders)), cached


def _in_folders(person: Person, folders: Sequence[Path]) -> list[Place]:
    found: list[Place] = []
    later: list[tuple[Path, dict[str, Any]]] = []
    remembering, known = set[str](), set[str]()
    closed: list[OSError] = []
    for path in _files(folders, closed):
        try:
            raw = _read(path)
        except (InputError, CheckFailed) as error:
            found.append(unknown(str(path), "archive" if path.suffix in ARCHIVES else "file", error))
            continue
        schema = raw.get("schema") if isinstance(raw, dict) else None
        place: Place | None
        if path.name == RECORD and isinstance(raw, dict) and isinstance(raw.get("split"), dict):
            place, sha256 = records.checkpoint(path, raw, person), str(raw.get("weights_sha256"))
            known |= {sha256} if place is None or place.standing != "unknown" else set()
            remembering |= {sha256} if place is not None and place.standing == "remembers" else set()
        elif isinstance(schema, str) and schema in records.DERIVED:
            later.append((path, raw))
            continue
        else:
            look = records.BY_SCHEMA.get(schema, records.naming) if isinstance(schema, str) else records.naming
            place = look(path, raw, person)
        found += [place] if place is not None else []
    found += [unknown(str(error.filename), "folder", InputError("it", error.strerror or str(error))) for error in closed]
    made = (records.derived(path, raw, frozenset(remembering), frozenset(known)) for path, raw in later)
    return sorted([*found, *(place for place in made if place is not None)], key=lambda place: place.path)


def _files(folders: Sequence[Path], closed: list[OSError]) -> Iterator[Path]:
    """Files that can name somebody, each once; pictures, weights and exported models are known by the JSON beside them.

    Args:
        folders: to search.
        closed: gets why a folder below them cannot be listed.
    """
    seen = set[str]()
    for folder in folders:
        if not folder.is_dir():
            raise InputError(str(folder), "there is no such folder", "Check the path")
        for parent, _, names in os.walk(os.path.realpath(folder), onerror=closed.append):
            for name in names:
                path = Path(parent, name)
                if path.suffix not in (".json", *TEXTS, *ARCHIVES) or path.is_symlink() or str(path) in seen:
                    continue
                seen.add(str(path))
                if len(seen) > MAX_FILES:
                    raise InputError(str(folder), f"it holds more than {MAX_FILES} files", "Name the folders one by one")
                yield path


def _read(path: Path) -> Any:
    """JSON as it is; of a text, its lines and the cells of them; of an archive, the manifest of the bundle in it."""
    if path.suffix in ARCHIVES:
        return asdict(read_manifest(path))
    raw = read_regular(path, max_bytes=MAX_BYTES, too_large="Look into it yourself")
    if path.suffix not in TEXTS:
        try:
            return parse_json(raw)
        except ValueError as error:
            raise InputError(str(path), f"not valid JSON ({error})", "Look into it yourself") from error
    lines = raw.decode("utf-8", "replace").splitlines()
    if path.suffix == ".jsonl":
        return [_line(line) for line in lines]
    cells = {cell.strip().strip('"') for line in lines for cell in (line, *line.replace("\t", ",").split(","))}
    return sorted(cells)


def _line(line: str) -> Any:
    try:
        return parse_json(line.encode())
    except ValueError:
        return line
