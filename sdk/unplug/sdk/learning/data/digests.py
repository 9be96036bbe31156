"""Splits as records keep them: once somebody was forgotten, every name is a digest under the
operator's key.

All names, not those of the forgotten alone: whose name is missing among names in clear would be as
plain. Digests are sorted, for the order of a data set would name them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unplug.core import operator_key

from .dataset import MARK, Dataset
from .split import PARTS, Split

DIGEST = "hmac:"
"""What a name begins with that is a digest; no id does (`load_dataset` refuses them)."""


def keyed(split: Split) -> Split:
    """The form of a split that is stored: itself where nobody was forgotten, else with digests for
    names.

    Names that are digests already stay: somebody who was forgotten, and whose pictures are gone.

    Raises:
        InputError, OutputError: see `unplug.core.operator_key`.
    """
    if not split.forget:
        return split
    names, marks = keyed_names(split), stored_marks(split, split.rows)
    stored = split.renamed(
        lambda part: tuple(sorted(names[name] for name in part)), operator_key(split.key).id
    )
    return replace(stored, rows=tuple(sorted(marks.values())))


def keyed_names(split: Split) -> Mapping[str, str]:
    """What stands for each name of a split in its stored form; see `keyed`."""
    names = [name for part in PARTS for name in getattr(split, part)]
    if not split.forget:
        return dict(zip(names, names, strict=True))
    key = operator_key(split.key)
    return {
        name: name if name.startswith(DIGEST) else f"{DIGEST}{key.digest(name, split.data_digest)}"
        for name in names
    }


def stored_marks(split: Split, marks: Sequence[str]) -> Mapping[str, str]:
    """What stands for marks of rows in a split's stored form; see `keyed`."""
    if split.key is None and not split.forget:
        return {mark: mark for mark in marks}
    key = operator_key(split.key)
    return {
        mark: mark
        if mark.startswith(DIGEST)
        else f"{DIGEST}{key.digest(mark, split.data_digest)[:MARK]}"
        for mark in marks
    }


def stored_name(split: Split, name: str) -> str:
    """What stands for one sample in a split as it was stored: the id itself, or its digest under
    the split's key.
    """
    if split.key is None or name.startswith(DIGEST):
        return name
    return f"{DIGEST}{operator_key(split.key).digest(name, split.data_digest)}"


def opened(split: Split, dataset: Dataset) -> Split:
    """The inverse of `keyed`, as far as the data hold the names; the others stay digests.

    Args:
        split: the split as stored.
        dataset: the training's data set or the rest of it, or other data that are searched for
            people with the same id.

    Returns:
        The split in the data's order, digests last.

    Raises:
        InputError: it was written under another key than the one that is here.
    """
    names = opened_names(split, dataset)
    if not names:
        return split
    place = {name: number for number, name in enumerate(dataset.ids)}

    def order(name: str) -> tuple[int, str]:
        return place.get(name, len(place)), name

    marks = {stored: mark for mark, stored in stored_marks(split, dataset.marks).items()}
    whole = all(name in names for part in PARTS for name in getattr(split, part))
    key = None if whole and marks.keys() >= {*split.rows} else split.key
    found = split.renamed(
        lambda part: tuple(sorted((names.get(name, name) for name in part), key=order)), key
    )
    return replace(found, rows=tuple(sorted(marks.get(row, row) for row in split.rows)))


def opened_names(split: Split, dataset: Dataset) -> Mapping[str, str]:
    """Digest to id, of all samples of some data, where a split was stored with digests; else empty."""
    if split.key is None:
        return {}
    key = operator_key(split.key)
    return {f"{DIGEST}{key.digest(name, split.data_digest)}": name for name in dataset.ids}
