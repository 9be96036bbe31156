"""Looks through data, cache and folders for one person. Folders are searched for the records that
unplug writes, or deeply.

Of bundles packed into one file the manifest is read, within the bounds of `unplug.trust.bundle`,
and nothing is unpacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unplug.core import (
    SUBJECT,
    CheckFailed,
    DataError,
    InputError,
    name_form,
    parse_json,
    read_regular,
    text_encoding,
)
from unplug.sdk.learning.data import Held, Listing, held_in_cache, parse_spec, picked
from unplug.trust.bundle import read_manifest
from unplug.trust.certificates import TracedPlace

from .archives import MAX_BYTES
from .deep import Search, her_pixels
from .person import Person, unknown
from .records import Found
from .walk import walk

TEXTS = (".txt", ".csv", ".jsonl", ".tsv")
ARCHIVES = (".zip", ".unplug")
"""Files that may be bundles; an archive of something else is reported as not looked into."""


def person_in(spec: str, name: str) -> Person:
    """A person by a name that requests may have.

    Args:
        spec: the spec of the data that hold, or held, her pictures.
        name: a sample id, or somebody's name with or without ``subject:``.

    Raises:
        DataError: these data do not know her.
    """
    listing: Listing = parse_spec(spec).listing()
    known: dict[str, set[str]] = {}
    for sample in listing.samples:
        for called in (sample.id, f"{SUBJECT}{sample.subject}"):
            known.setdefault(called, set()).add(sample.id)
    for asked in (name, f"{SUBJECT}{name}"):
        alike = [called for called in known if name_form(called) == name_form(asked)]
        ids = known.get(asked) or (known[alike[0]] if len(alike) == 1 else set())
        if ids:
            return Person(name=asked, ids=frozenset(ids))
    fix = "`unplug data inspect SPEC --ids` lists the ids; subject:NAME names a person"
    raise DataError(name[:80], f"{spec} does not know that name", fix)


def trace(
    spec: str,
    person: Person,
    folders: Sequence[Path],
    *,
    deep: Sequence[Path] = (),
    show: bool = False,
) -> tuple[tuple[TracedPlace, ...], tuple[Held, ...]]:
    """Every place where a person was found, or could not be looked for.

    Args:
        spec: the spec of the data.
        person: see `person_in`.
        folders: searched with all that is below them for the records that unplug writes, links not
            followed.
        deep: searched file by file, by contents; see `unplug.sdk.tracing.deep`.
        show: a progress bar.

    Returns:
        The places: the data, the cache, then files by their paths; and the entries of the cache
        among them, for `purge`.

    Raises:
        InputError: a folder is not there, or holds more than `MAX_FILES` files.
    """
    cached = picked(held_in_cache(), people=[person.name, *sorted(person.ids)])
    why = "delete the pictures, after the models forgot"
    samples = len(person.ids)
    data = TracedPlace(path=spec, kind="data", standing="holds", samples=samples, goes_by=why)
    cache = [_in_cache(entry.kind, path) for entry in cached for path in entry.paths]
    records = Found(person)
    _in_records(folders, records)
    if deep:
        pixels, closed = her_pixels(spec, person)
        search = Search(person, pixels, records)
        search.folders(deep, show)
        search.finish(deep)
        records.places += closed
    listed = {place.path for place in cache}
    files = dict.fromkeys(place for place in records.all() if place.path not in listed)
    return (data, *cache, *files), cached


def _in_cache(kind: str, path: Path) -> TracedPlace:
    by = "`unplug trace` deletes it with --purge and --request ID"
    return TracedPlace(path=str(path), kind=f"cache: {kind}", standing="holds", goes_by=by)


def _in_records(folders: Sequence[Path], found: Found) -> None:
    """Files that can name somebody; pictures, weights and exported models are known by the JSON
    next to them.
    """
    for path in walk(folders):
        if isinstance(path, TracedPlace):
            found.places.append(path)
        elif path.suffix in (".json", *TEXTS, *ARCHIVES):
            try:
                value, text = _read(path)
                named = len(found.person.names.among(value) | found.person.names.within(text))
                found.places += found.record(path, value, named)
            except (InputError, CheckFailed) as error:
                found.places.append(
                    unknown(path, "archive" if path.suffix in ARCHIVES else "file", error)
                )


def _read(path: Path) -> tuple[Any, str]:
    """JSON, else text; of an archive, the manifest of the bundle in it."""
    if path.suffix in ARCHIVES:
        return asdict(read_manifest(path)), ""
    raw = read_regular(path, max_bytes=MAX_BYTES, too_large="Look into it yourself")
    if path.suffix in TEXTS:
        return None, raw.decode(text_encoding(raw), "replace")
    try:
        return parse_json(raw), ""
    except ValueError as error:
        raise InputError(str(path), f"not valid JSON ({error})", "Look into it yourself") from error
