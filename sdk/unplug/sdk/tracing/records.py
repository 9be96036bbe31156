"""What files of unplug's own say of a person: one function a kind of file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from unplug.core import InputError, operator_key
from unplug.sdk.data import Split

from .place import Person, Place, unknown

FORGET = "unplug forget it, then delete this folder"
DELETE = "delete it once nothing needs it, or take them out"


def checkpoint(path: Path, raw: dict[str, Any], person: Person) -> Place | None:
    """A model's record: what it was trained on and has not forgotten."""
    folder = str(path.parent)
    try:
        split = Split.from_dict(raw["split"], str(path))
        held, forgot = person.among(split, split.retain), person.among(split, split.forget)
        others = person.among(split, (*split.validation, *split.test))
    except InputError as error:
        return unknown(folder, "checkpoint", error)
    if held:
        return Place(path=folder, kind="checkpoint", standing="remembers", samples=held, goes_by=FORGET)
    if forgot:
        return Place(path=folder, kind="checkpoint", standing="forgot", samples=forgot)
    if others:
        why = "they are in its validation or test set, which no weights come from"
        return Place(path=folder, kind="checkpoint", standing="names", samples=others, goes_by=why)
    return None


def split_file(path: Path, raw: dict[str, Any], person: Person) -> Place | None:
    """A split that somebody made, with ids in it."""
    try:
        split = Split.from_dict(raw, str(path))
        found = person.among(split, (*split.train, *split.validation, *split.test))
    except InputError as error:
        return unknown(str(path), "split", error)
    return Place(path=str(path), kind="split", standing="names", samples=found, goes_by=DELETE) if found else None


def references(path: Path, raw: dict[str, Any], person: Person) -> Place | None:
    """Models of person folds: what those that were trained on her say of her pictures."""
    folder = str(path.parent)
    try:
        key, digest, rows = operator_key(str(raw["key"])), str(raw["data"]["digest"]), set(raw["rows"])
        found = sum(key.digest(name, digest) in rows for name in person.ids)
    except InputError as error:
        return unknown(folder, "references", error)
    except (KeyError, TypeError) as error:
        return unknown(folder, "references", InputError(str(path), f"it does not follow its schema ({error})"))
    why = "delete the folder, and train references again on the data without them"
    return Place(path=folder, kind="references", standing="remembers", samples=found, goes_by=why) if found else None


def naming(path: Path, raw: Any, person: Person) -> Place | None:
    """Any other file: whether a text or a key in it is her name or the id of one of her samples."""
    found, level = 0, [raw]
    while level:
        found += sum(isinstance(item, str) and item in person.words for item in level)
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in ((*item.keys(), *item.values()) if isinstance(item, dict) else item)
        ]
    return Place(path=str(path), kind="file", standing="names", samples=found, goes_by=DELETE) if found else None


def derived(path: Path, raw: dict[str, Any], remembering: frozenset[str], known: frozenset[str]) -> Place | None:
    """An exported file or a bundle, by the hash of the weights that it was made from.

    Args:
        path: its card or manifest.
        raw: what that says.
        remembering: hashes of the weights, found in this search, that remember her.
        known: hashes of all weights that it found.
    """
    is_card = raw.get("schema") == "unplug-artifact/1"
    packed = path.name != "manifest.json"
    kind, place = ("exported file", path.with_suffix("")) if is_card else ("bundle", path if packed else path.parent)
    lineage = raw if is_card else raw.get("lineage")
    sha256 = lineage.get("checkpoint_sha256") if isinstance(lineage, dict) else None
    if sha256 in remembering:
        why = "release a model that forgot her, and revoke this; copies and phones that have it are out of reach"
        return Place(path=str(place), kind=kind, standing="derived", goes_by=why)
    if sha256 in known:
        return None
    why = f"made from weights {str(sha256)[:12]}, which are not where was searched"
    return Place(path=str(place), kind=kind, standing="unknown", goes_by=why)


BY_SCHEMA: dict[str, Callable[[Path, dict[str, Any], Person], Place | None]] = {
    "unplug-split/1": split_file,
    "unplug-split/2": split_file,
    "unplug-references/1": references,
}
DERIVED = ("unplug-artifact/1", "unplug-bundle/1", "unplug-bundle/2")
