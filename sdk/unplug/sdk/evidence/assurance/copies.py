"""Pictures of a training that lie among others under another name: pixels are compared, for names
show only who kept hers.

Shapes: N pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.core import ConversionError, InputError, MissingExtraError
from unplug.sdk.learning.data import Dataset, Split, load_dataset, opened, parse_spec

CHUNK = 256  # pictures at once
MOST_MORE = 4
"""Times the names of a split: data with more pictures than that are not what it was made from, and
are not decoded.
"""
OTHER, NOWHERE = "where its pictures lay is other data", "nothing says where its pictures lie"
Training = Mapping[str, Dataset | str]
"""Digest of data that a split was made from, to the data at the size that is compared, or why they
are not here.
"""


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Whether pictures were compared with those of the training by their pixels, and not by their
    names alone.

    A copy that was encoded or cut anew has other pixels, and is not noticed.

    Args:
        left_out: pictures left out because one of the training has the very same pixels at the
            model's size, with the other pictures of the people in them.
        compared: pictures of the training that they were compared with.
        trained: how many the models learned from.
        why: why not with all of them, or null.
    """

    left_out: int
    compared: int
    trained: int
    why: str | None


def copies_left_out(copies: Copies) -> str:
    """What was found of the training under other names, as a clause.

    Example:
        >>> copies_left_out(Copies(left_out=16, compared=3500, trained=3500, why=None))
        '16 pictures left out whose very pixels the training holds under another name (3500 of its 3500 pictures compared)'
    """
    many = "1 picture" if copies.left_out == 1 else f"{copies.left_out} pictures"
    with_them = f"{copies.compared} of its {copies.trained} pictures compared"
    return f"{many} left out whose very pixels the training holds under another name ({with_them})"


def names_alone(copies: Copies) -> str:
    """Where not all was compared: how many were, why, and what to do, as a clause.

    Example:
        >>> names_alone(Copies(left_out=0, compared=0, trained=70, why="its pictures are gone"))
        '0 of 70 were compared by their pixels, the others by their names (its pictures are gone): give `training_data`'
    """
    how = (
        f"{copies.compared} of {copies.trained} were compared by their pixels, the others by their "
        "names"
    )
    return f"{how} ({copies.why}): give `training_data`"


def pixel_digests(dataset: Dataset, index_N: Sequence[int] | NDArray[np.int64]) -> Iterator[bytes]:
    """SHA-256 of the decoded pixels of some samples, 32 bytes each."""
    for start in range(0, len(index_N), CHUNK):
        for image_HW3 in dataset.pixels(index_N[start : start + CHUNK]):
            yield hashlib.sha256(image_HW3.tobytes()).digest()


def trained_pixels(
    dataset: Dataset, splits: Sequence[Split], training: Training
) -> tuple[set[bytes], Copies]:
    """Digests of the pixels that some models learned from, as far as their data are here, and how
    far that is.

    Args:
        dataset: the data that is judged on; a split of it needs no other data.
        splits: the splits of the trainings.
        training: the data of the other splits, at the size of `dataset`.

    Returns:
        The digests, and `Copies` without anything left out.
    """
    seen: set[bytes] = set()
    compared, trained, reasons = 0, 0, []
    for digest in dict.fromkeys(split.data_digest for split in splits):
        judged = digest == dataset.digest
        parts = [split for split in splits if split.data_digest == digest]
        data = dataset if judged else training.get(digest, NOWHERE)
        if isinstance(data, str):
            trained += max(len(split.train) for split in parts)
            reasons.append(data)
            continue
        named = [opened(split, data) for split in parts]
        there = set(data.ids)
        learned = {
            name
            for split in named
            for name in (*split.train, *(() if judged else split.validation))
        }
        taught = {name for split in named for name in split.train}
        seen |= set(pixel_digests(data, data.indices(sorted(learned & there))))
        compared, trained = compared + len(taught & there), trained + len(taught)
        if data.digest != digest:
            reasons.append("the data changed since the training")
    return seen, Copies(
        left_out=0,
        compared=compared,
        trained=trained,
        why="; ".join(dict.fromkeys(reasons)) or None,
    )


def training_data(
    split: Split, specs: Sequence[str], size: int, *, show: bool = True
) -> Dataset | str:
    """The data that a split was made from, or what is left of them.

    Args:
        split: the split of the training.
        specs: the data's possible places; a record that names one does not promise that it is
            there, or the same.
        size: side in pixels.
        show: progress bars.

    Returns:
        The data with the digest of the split, else the first that hold a name of it, else why there
        are none.
    """
    names = {name for part in (split.train, split.validation, split.test) for name in part}
    partly, reasons = None, []
    for spec in specs:
        try:
            if len(parse_spec(spec).listing().samples) > MOST_MORE * len(names):
                reasons.append(OTHER)
                continue
            data = load_dataset(spec, size, on_bad="skip", show=show)
            if data.digest == split.data_digest:
                return data
            here = opened(split, data)
        except (
            InputError,
            MissingExtraError,
            ConversionError,
        ):  # what they say names files and people, and a card may ship
            reasons.append("its pictures cannot be read from here")
            continue
        if partly is None and not set(data.ids).isdisjoint((*here.train, *here.validation)):
            partly = data
        reasons.append(OTHER)
    return partly or (reasons[0] if reasons else NOWHERE)
