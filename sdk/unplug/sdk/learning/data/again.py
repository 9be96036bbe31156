"""Data that are opened again after a training: rows may have gone, and none may have changed.

A split knows every row that it was made from by a mark, which covers what the row says and its
picture. Data whose rows are some of these are still the training's: they go by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unplug.core import DataError, counted, tell

from .dataset import Dataset, OnBad, load_dataset
from .digests import opened, stored_marks
from .split import Split

SAME = "Give the data spec of its training; rows may go, but none may change"


@dataclass(frozen=True, kw_only=True)
class RowChanges:
    """What became of the rows of a training.

    Args:
        same: how many are there as they were.
        gone: how many are not there any more.
        new: how many others are there, which no set of the split names.
        changed: ids of the split whose picture, age, label or person is another now.
    """

    same: int
    gone: int
    new: int
    changed: tuple[str, ...]

    @property
    def told(self) -> str:
        """What to know of the same data."""
        new = f", and {self.new} new, which the model has not seen" if self.new else ""
        return f"{counted(self.gone, 'row')} gone since the training{new}"


def compared(split: Split, dataset: Dataset) -> RowChanges:
    """Compares data with the rows that a split was made from, as it is or as it is stored.

    Raises:
        InputError: its names are digests under a key that is not here.
    """
    known = set(split.rows)
    stored = {} if split.key is None else stored_marks(split, dataset.marks)
    same = [mark in known or stored.get(mark) in known for mark in dataset.marks]
    here = opened(split, dataset)
    named = {*here.train, *here.held_out}
    others = [name for name, kept in zip(dataset.ids, same, strict=False) if not kept]
    changed = tuple(name for name in others if name in named)
    return RowChanges(
        same=sum(same),
        gone=len(known) - sum(same),
        new=len(others) - len(changed),
        changed=changed,
    )


def as_trained(
    dataset: Dataset, split: Split | Mapping[str, Any], *, show: bool = False
) -> Dataset:
    """The same data under the digest of a training, where they are what is left of its data; else as
    they are, for other data may be meant.

    Args:
        dataset: the data as loaded.
        split: the split of the training, or a model's record with it.
        show: say on standard error what is gone.
    """
    if not isinstance(split, Split):
        raw = split.get("split")
        if not isinstance(raw, dict):
            return dataset
        split = Split.from_dict(raw)
    if dataset.digest == split.data_digest or not split.rows:
        return dataset
    found = compared(split, dataset)
    if found.changed or not found.same:
        return dataset
    lines = (found.told,) if found.gone or found.new else ()  # else in another order
    for line in lines if show else ():
        tell(f"{dataset.spec}: {line}")
    told = (*dataset.told, *lines)
    return replace(dataset, digest=split.data_digest, content=dataset.content, told=told)


def load_again(
    spec: str, size: int, record: Mapping[str, Any], *, on_bad: OnBad = "error", show: bool = True
) -> Dataset:
    """`load_dataset` for a model: what its training went on without is not an error now, labels
    have its numbers, and what is left of its data goes by their digest.

    Args:
        spec, size, on_bad, show: the arguments of `load_dataset`.
        record: the model's record.
    """
    left = on_bad == "error" and bool((record.get("data") or {}).get("unusable"))
    labels = tuple(str(label) for label in record.get("labels", ()))
    dataset = load_dataset(spec, size, on_bad="skip" if left else on_bad, show=show, classes=labels)
    if left and show and (problems := dataset.problems):
        first = f"{problems[0].id}: {problems[0].reason}"
        number = counted(len(problems), "sample")
        tell(f"{spec}: goes on without {number} as training did (first: {first})")
    return as_trained(dataset, record, show=show)


def fitting(split: Split, dataset: Dataset, *, show: bool = False) -> Split:
    """A split as one of these data, of which rows may have gone since it was made: what a training
    goes by.

    Raises:
        DataError: it was made from other data, or rows changed.
    """
    if split.data_digest == dataset.digest:
        return split
    if as_trained(dataset, split, show=show) is dataset:
        why = f"the split was made from other data ({_why(split, dataset)})"
        fix = "Give the data that it was made from; rows may go, but none may change"
        raise DataError(f"data {dataset.spec}", why, fix)
    rows = tuple(sorted(dataset.marks))
    return replace(split.there(dataset), data_digest=dataset.digest, rows=rows)


def _why(split: Split, dataset: Dataset) -> str:
    """Why these are other data than the split's."""
    found = compared(split, dataset) if split.rows else None
    if found is None or not found.changed:
        return "digest differs"
    rows, first = counted(len(found.changed), "row"), found.changed[0]
    return f"digest differs: {rows} changed since, in picture, age, label or person; first: {first}"


def opened_again(split: Split, dataset: Dataset, place: Path) -> Split:
    """A split as the record at `place` stores it, with ids; names whose rows are gone stay.

    Raises:
        DataError: other data than those of its training, or rows that changed.
        InputError: its names are digests under a key that is not here.
    """
    # names are looked at once it is known that the data are the right ones
    if as_trained(dataset, split).digest != split.data_digest:
        why = f"it is not the data that {place} was trained on ({_why(split, dataset)})"
        raise DataError(f"data {dataset.spec}", why, SAME)
    return opened(split, dataset)
