"""What files of unplug's own say of a person: one function a kind of file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any, Literal

from unplug.core import InputError, operator_key
from unplug.sdk.drawing.diffusion import LORA_SCHEMA, PACK_SCHEMA
from unplug.sdk.learning.data import Split
from unplug.trust.certificates import TracedPlace

from .packs import exported_packs
from .person import Person, unknown

RECORD = "unplug.json"
REVOKE = (
    "release a model that forgot this person, and revoke this one; copies and phones that have it "
    "are out of reach"
)
FORGET = "run `unplug forget` on it, then delete this folder"
AGAIN = "train it again without this person, then delete this folder"
UNPACK = "run `unplug forget` on it, which deletes it or trains it again without this person"
DELETE = "delete it, or take this person out of it"
CALLED = "its file name is this person's name: look at it"
HOW = {
    PACK_SCHEMA: ("pack", UNPACK),
    "unplug-base/1": ("base", AGAIN),
    "unplug-decoder/1": ("decoder", AGAIN),
    LORA_SCHEMA: ("LoRA", AGAIN),
}
"""What weights of a schema are called, and how a person leaves them; others are checkpoints."""
CACHE = "`unplug cache purge`, with $UNPLUG_CACHE set to that folder"


def checkpoint(path: Path, raw: dict[str, Any], person: Person) -> TracedPlace | None:
    """The record of a model or a pack: what it was trained on and has not forgotten."""
    folder = str(path.parent)
    kind, by = HOW.get(str(raw.get("schema")), ("checkpoint", FORGET))
    try:
        splits = _trainings(path, raw)
        held, forgot, others = (
            max((person.among(split, names(split)) for split in splits), default=0)
            for names in (
                lambda split: split.retain,
                lambda split: split.forget,
                lambda split: (*split.validation, *split.test),
            )
        )
    except InputError as error:
        return unknown(folder, kind, error)
    if held:
        return TracedPlace(path=folder, kind=kind, standing="remembers", samples=held, goes_by=by)
    if forgot:
        return TracedPlace(path=folder, kind=kind, standing="forgot", samples=forgot)
    if others:
        why = "they are in its validation or test set, which no weights come from"
        return TracedPlace(path=folder, kind=kind, standing="names", samples=others, goes_by=why)
    return None


def _trainings(path: Path, raw: dict[str, Any]) -> list[Split]:
    """The splits of all trainings that made some weights: its own, and those of what it started from.

    Raises:
        InputError: one lists no people, and its data are not procedural.
    """
    own, earlier = raw["split"], raw.get("earlier", [])
    entries = [own if "schema" in own else raw, *(earlier if isinstance(earlier, list) else [None])]
    splits = []
    for entry in entries:
        if isinstance(entry, dict) and "schema" in entry and entry is not raw:
            splits.append(Split.from_dict(entry, str(path)))
            continue
        data = entry.get("data") if isinstance(entry, dict) else None
        if not (isinstance(data, dict) and str(data.get("spec")).startswith("synth:")):
            why = "a training that it comes from lists no people"
            raise InputError(str(path), why, "Train it again with data that you know")
    return splits


def chain(raw: dict[str, Any], person: Person) -> tuple[set[str], set[str]]:
    """What a model's record says of the models that it was made from, which may be gone.

    A forget step takes away and never adds. So those who are still held were held by all of them,
    and those who are not of the training were held by none.

    Returns:
        Hashes of the weights that remember the person, and of those whose standing is known.
    """
    lineage = raw.get("lineage")
    if not isinstance(lineage, dict) or "original_sha256" not in lineage:
        return set(), set()
    split = Split.from_dict(raw["split"], RECORD)
    ancestors, held = lineage.get("ancestors"), lineage.get("held")
    before = [lineage["original_sha256"], *(ancestors if isinstance(ancestors, list) else ())]
    remembers = person.among(split, split.retain) > 0
    forgot = person.among(split, split.forget) > 0
    remembering, known, sure = set[str](), set[str](), True
    for sha256 in map(str, before):  # the newest first
        names = held.get(sha256) if isinstance(held, dict) else None
        if isinstance(names, list):
            remembers |= person.among(split, (name for name in names if isinstance(name, str))) > 0
        else:  # older records do not say at which step somebody was forgotten
            sure &= not forgot
        remembering |= {sha256} if remembers else set()
        known |= {sha256} if remembers or sure else set()
    return remembering, known


def split_file(path: Path, raw: dict[str, Any], person: Person) -> TracedPlace | None:
    """A split that somebody made, with ids in it."""
    try:
        split = Split.from_dict(raw, str(path))
        named = person.among(split, (*split.train, *split.validation, *split.test))
    except InputError as error:
        return unknown(path, "split", error)
    return (
        TracedPlace(path=str(path), kind="split", standing="names", samples=named, goes_by=DELETE)
        if named
        else None
    )


def references(path: Path, raw: dict[str, Any], person: Person) -> TracedPlace | None:
    """Models of person folds: what those that were trained on her say of her pictures."""
    folder = str(path.parent)
    try:
        key, digest, rows = (
            operator_key(str(raw["key"])),
            str(raw["data"]["digest"]),
            set(raw["rows"]),
        )
        seen = sum(key.digest(name, digest) in rows for name in person.ids)
    except InputError as error:
        return unknown(folder, "references", error)
    except (KeyError, TypeError) as error:
        return unknown(folder, "references", f"it does not follow its schema ({error})")
    why = "delete the folder, and train references again on the data without them"
    return (
        TracedPlace(path=folder, kind="references", standing="remembers", samples=seen, goes_by=why)
        if seen
        else None
    )


def derived(
    path: Path, raw: dict[str, Any], remembering: frozenset[str], known: frozenset[str]
) -> TracedPlace | None:
    """An exported file or a bundle, by the hash of the weights that it was made from.

    Args:
        path: its card or manifest.
        raw: the contents of that card or manifest.
        remembering: hashes of the weights, found in this search, that remember her.
        known: hashes of all weights that it found.
    """
    is_card = raw.get("schema") == "unplug-artifact/1"
    packed = path.name != "manifest.json"
    kind, place = (
        ("exported file", path.with_suffix(""))
        if is_card
        else ("bundle", path if packed else path.parent)
    )
    sha256 = _lineage(raw)
    if sha256 in remembering:
        return TracedPlace(path=str(place), kind=kind, standing="derived", goes_by=REVOKE)
    if sha256 in known:
        return None
    why = f"made from weights {str(sha256)[:12]}, which are not where was searched"
    return TracedPlace(path=str(place), kind=kind, standing="unknown", goes_by=why)


def _lineage(raw: dict[str, Any]) -> object:
    """The weights that a card or a manifest says its files were made from."""
    lineage = raw if raw.get("schema") == DERIVED[0] else raw.get("lineage")
    return lineage.get("checkpoint_sha256") if isinstance(lineage, dict) else None


def _hashes(raw: dict[str, Any]) -> set[str]:
    """The hashes of the files that a card or a manifest describes."""
    files = raw.get("files")
    entries = [raw, *(files.values() if isinstance(files, dict) else ())]
    return {str(entry.get("sha256")) for entry in entries if isinstance(entry, dict)}


BINDINGS = ("weights_sha256", "state_sha256")
BY_SCHEMA: dict[str, Callable[[Path, dict[str, Any], Person], TracedPlace | None]] = {
    "unplug-split/1": split_file,
    "unplug-split/2": split_file,
    "unplug-references/1": references,
}
CACHED = "unplug-cache/1"
GENERATOR = "unplug-pipeline/1"
LISTING = ("unplug-references/1", "unplug-base/1", GENERATOR)
"""Records that list files next to and below them, by hash."""
DERIVED = ("unplug-artifact/1", "unplug-bundle/1", "unplug-bundle/2")


_SHA256 = re.compile("[0-9a-f]{64}")
FOUND = ("holds", "remembers", "names")


def _schema(raw: Any) -> str:
    schema = raw.get("schema") if isinstance(raw, dict) else None
    return schema if isinstance(schema, str) else ""


def _within(raw: Any) -> Iterator[dict[str, Any]]:
    """Splits and references that stand anywhere in a JSON value."""
    level = [raw]
    while level:
        yield from (item for item in level if item is not raw and _schema(item) in BY_SCHEMA)
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]


class Found:
    """What a search found so far; what was made from weights is judged last, when all weights that
    are there are known.
    """

    def __init__(self, person: Person) -> None:
        self.person = person
        self.places: list[TracedPlace] = []
        self.remembering, self.known = set[str](), set[str]()
        self._made: list[tuple[Path, dict[str, Any]]] = []
        self._packs: dict[Path, bool] = {}
        self._generators: list[Path] = []
        self._listed, self._beside = set[tuple[PurePath, str]](), set[tuple[PurePath, str]]()

    def record(self, path: Path, raw: Any, named: int) -> Iterator[TracedPlace]:
        """A file that was read: what it says of her.

        Args:
            path: the path of the file.
            raw: JSON of it, or None; a record counts wherever in it it stands.
            named: how many texts in it name her.
        """
        whole = self._record(path, raw) if isinstance(raw, dict) else None
        looked = (
            [BY_SCHEMA[_schema(item)](path, item, self.person) for item in _within(raw)]
            if whole is None
            else [whole]
        )
        places = [place for place in looked if place is not None]
        if named and not any(place.standing in FOUND for place in places):
            if _schema(raw) == CACHED:
                places.append(
                    TracedPlace(
                        path=str(path), kind="cache", standing="holds", samples=named, goes_by=CACHE
                    )
                )
            else:
                places.append(
                    TracedPlace(
                        path=str(path), kind="file", standing="names", samples=named, goes_by=DELETE
                    )
                )
        yield from places

    def _record(self, path: Path, raw: dict[str, Any]) -> TracedPlace | None:
        schema, hashes = _schema(raw), {str(raw.get(key)) for key in BINDINGS}
        if schema in (DERIVED[0], *LISTING):
            folder = path.with_suffix("") if schema == DERIVED[0] else path.parent
            self._listed |= {(folder, sha256) for sha256 in _SHA256.findall(json.dumps(raw))}
        if schema == GENERATOR and raw.get("variants"):
            self._generators.append(path)
        if path.name == RECORD and isinstance(raw.get("split"), dict):
            place = checkpoint(path, raw, self.person)
            if schema == PACK_SCHEMA and (place is None or place.standing != "unknown"):
                remembers = place is not None and place.standing == "remembers"
                self._packs[path.parent] = remembers
            self._beside |= {(path.parent, sha256) for sha256 in hashes}
            if place is None or place.standing != "unknown":
                remembering, known = chain(raw, self.person)
                remembers = place is not None and place.standing == "remembers"
                self.remembering |= remembering | (hashes if remembers else set())
                self.known |= known | hashes
            return place
        if schema in DERIVED:
            self._made.append((path, raw))
        look = BY_SCHEMA.get(schema)
        return None if look is None else look(path, raw, self.person)

    def weights(self, path: Path, sha256: str) -> TracedPlace | Literal["known"] | None:
        """What weights or an exported file are, under any name: a copy of some that remember her,
        or known not to, or None.
        """
        if sha256 in self.remembering:
            if (path.parent, sha256) in self._beside:
                return "known"
            why = "delete this copy, which has no record next to it"
            return TracedPlace(path=str(path), kind="weights", standing="remembers", goes_by=why)
        if any((parent, sha256) in self._listed for parent in (path, *path.parents)):
            return "known"
        made = [raw for _, raw in self._made if sha256 in _hashes(raw)]
        if any(_lineage(raw) in self.remembering for raw in made):
            return TracedPlace(
                path=str(path), kind="exported file", standing="derived", goes_by=REVOKE
            )
        return "known" if made or sha256 in self.known else None

    def all(self) -> list[TracedPlace]:
        """Every place, by its path."""
        remembering, known = frozenset(self.remembering), frozenset(self.known)
        made = (derived(path, raw, remembering, known) for path, raw in self._made)
        places = [*self.places, *(place for place in made if place is not None)]
        for generator in self._generators:
            places += exported_packs(generator, self._packs)
        return sorted(places, key=lambda place: place.path)
