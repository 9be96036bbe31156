"""Who is trained on, who is held out, who is forgotten: a file with a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import DataError, json_sha256, one_line, read_json, write_json

from .dataset import Dataset
from .source import Sample

SCHEMA, KEYED = "unplug-split/1", "unplug-split/2"
"""With names in clear, and with digests under the operator's key for names; see
`unplug.sdk.learning.data.digests`.
"""
PARTS = ("train", "validation", "test")
NEVER_TRAINED_ON = (
    "No weights hold them: record that by `unplug ledger touch`, delete their pictures, and "
    "answer; see docs/ledger.md"
)
"""What to do about a request that names nobody who was trained on."""
RESTORE = "It was edited, or is none: restore it, for it says who trained a model"
SHAPE: dict[str, type] = {
    "data_digest": str,
    "seed": int,
    "subject_disjoint": bool,
    "sha256": str,
    **dict.fromkeys((*PARTS, "forget"), list),
}
"""The fields of a split file, besides its schema."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Sample ids of each set. ``retain`` is ``train`` without ``forget``.

    Args:
        data_digest: `Dataset.digest` of the data that it was made from.
        seed: the seed of the shuffle.
        subject_disjoint: True where no subject is in two of train, validation and test.
        train, validation, test: disjoint ids.
        forget: ids of `train` that a request names; empty before one.
        key: the id of the operator's key that made the digests, if names are digests; else None.
        rows: marks of all rows of the data that it was made from, sorted; older splits have none.
    """

    data_digest: str
    seed: int
    subject_disjoint: bool
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    forget: tuple[str, ...] = ()
    key: str | None = None
    rows: tuple[str, ...] = ()

    __repr__ = one_line

    @property
    def retain(self) -> tuple[str, ...]:
        """Train without forget, in train's order."""
        gone = set(self.forget)
        return tuple(name for name in self.train if name not in gone)

    @property
    def sha256(self) -> str:
        """Hash of the content, in canonical JSON."""
        return json_sha256(self._content())

    @property
    def forget_sha256(self) -> str:
        """Hash of the forgotten names, in any order; of names in clear (see `keyed`) it can be
        found out by trying them.
        """
        return hashlib.sha256("\n".join(sorted(self.forget)).encode()).hexdigest()

    @property
    def held_out(self) -> frozenset[str]:
        """Validation and test: nothing was trained on them."""
        return frozenset((*self.validation, *self.test))

    def with_forget(self, ids: Sequence[str]) -> Split:
        """The same split with a forget set; what of it was held out leaves validation and test. See
        `check_forget`.
        """
        check_forget(self, ids)
        wanted = set(ids)
        validation, test = (
            tuple(name for name in part if name not in wanted)
            for part in (self.validation, self.test)
        )
        forget = tuple(name for name in self.train if name in wanted)
        return replace(self, validation=validation, test=test, forget=forget)

    def there(self, dataset: Dataset) -> Split:
        """The same split of what the data still hold.

        Raises:
            DataError: a set of which nothing is left, but for the forgotten.
        """
        held = set(dataset.ids)
        left = self.renamed(lambda part: tuple(name for name in part if name in held), self.key)
        for part in ("retain", "validation", "test"):
            if getattr(self, part) and not getattr(left, part):
                why = f"all rows of the {part} set are gone"
                raise DataError(f"data {dataset.spec}", why, "Give the data of the training")
        return left

    def renamed(
        self, change: Callable[[tuple[str, ...]], tuple[str, ...]], key: str | None
    ) -> Split:
        """The same split with every set of names changed by a function, under another key."""
        return replace(
            self,
            train=change(self.train),
            validation=change(self.validation),
            test=change(self.test),
            forget=change(self.forget),
            key=key,
        )

    def to_dict(self) -> dict[str, Any]:
        """The split ready for JSON, with the hash of its content."""
        return {
            "schema": SCHEMA if self.key is None else KEYED,
            "sha256": self.sha256,
            **self._content(),
        }

    @classmethod
    def from_dict(cls, raw: Any, where: str = "split") -> Split:
        """The inverse of `to_dict`; `DataError` where the hash or the shape is wrong."""
        why = _not_of_shape(raw)
        if why is not None:
            raise DataError(where, why, RESTORE)
        facts: dict[str, Any] = {
            name: tuple(raw[name]) if kind is list else raw[name]
            for name, kind in SHAPE.items()
            if name != "sha256"
        }
        key = raw["key"] if raw["schema"] == KEYED else None
        split = cls(**facts, key=key, rows=tuple(raw.get("rows", ())))
        parts = [name for part in PARTS for name in getattr(split, part)]
        if len(set(parts)) != len(parts) or not set(split.forget) <= set(split.train):
            raise DataError(
                where,
                "its sets overlap, or it forgets what is not in train",
                RESTORE,
            )
        if split.sha256 != raw["sha256"]:
            raise DataError(
                where,
                "its hash does not match its content",
                RESTORE,
            )
        return split

    def _content(self) -> dict[str, Any]:
        return {
            "data_digest": self.data_digest,
            "seed": self.seed,
            "subject_disjoint": self.subject_disjoint,
            **{part: list(getattr(self, part)) for part in (*PARTS, "forget")},
            **({} if self.key is None else {"key": self.key}),
            **({"rows": list(self.rows)} if self.rows else {}),
        }


def _not_of_shape(raw: Any) -> str | None:
    """Why some JSON is not a split file, or None."""
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema not in (SCHEMA, KEYED):
        return f"schema {str(schema)[:60]!r} is not {SCHEMA} or {KEYED}"
    more: dict[str, type] = {} if schema == SCHEMA else {"key": str}
    for name, kind in (SHAPE | more | ({"rows": list} if "rows" in raw else {})).items():
        value: Any = raw.get(name)
        # A text is iterable as a list is, and would name people of one letter each.
        if type(value) is not kind or (isinstance(value, list) and not all(map(_is_name, value))):
            wanted = "list of names" if kind is list else kind.__name__
            return f"not a split file ({name} is not a {wanted})"
    return None


def _is_name(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold and no digest takes
        return False
    return True


def save_split(split: Split, path: Path) -> None:
    """Writes a split file, atomically; its owner's alone, for it names people."""
    write_json(path, split.to_dict(), private=True)


def load_split(path: Path) -> Split:
    """Reads a split file; `InputError` or `DataError` where it is broken or edited."""
    return Split.from_dict(read_json(path), str(path))


def make_split(
    dataset: Dataset,
    *,
    seed: int = 0,
    validation: float = 0.1,
    test: float = 0.2,
    subject_disjoint: bool = True,
) -> Split:
    """Splits a data set, by subject where subjects are known, by its official partition where it
    has one.

    Args:
        dataset: N samples.
        seed: the seed of the shuffle.
        validation, test: fractions of the samples, each in (0, 1), together below 1.
        subject_disjoint: keep all pictures of a subject on one side; samples without a subject
            stand alone.

    Raises:
        DataError: fractions out of range, or a set would be empty.

    Example:
        >>> from .dataset import load_dataset
        >>> split = make_split(load_dataset("synth:n=20,subjects=10", 32, show=False))
        >>> len(split.train), len(split.validation), len(split.test), split.subject_disjoint
        (14, 2, 4, True)
    """
    if not (0 < validation < 1 and 0 < test < 1 and validation + test < 1):
        raise DataError(
            "split",
            f"fractions {validation} and {test} leave nothing to train on",
            "Use for example 0.1 and 0.2",
        )
    official = {sample.partition for sample in dataset.samples}
    if None not in official and {"train", "test"} <= official:
        parts = _official(dataset.samples, seed, validation, subject_disjoint)
    else:
        targets = {
            "test": round(test * len(dataset)),
            "validation": round(validation * len(dataset)),
        }
        parts = _fill(dataset.samples, targets, seed, subject_disjoint)
    for name in PARTS:
        if not parts[name]:
            raise DataError(
                f"data {dataset.spec}",
                f"{len(dataset)} samples leave the {name} set empty",
                "Use more samples or subjects",
            )
    return Split(
        data_digest=dataset.digest,
        seed=seed,
        subject_disjoint=_is_disjoint(dataset, parts),
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        rows=tuple(sorted(dataset.marks)),
    )


def _groups(samples: Sequence[Sample], seed: int, by_subject: bool) -> list[list[str]]:
    groups: dict[str, list[str]] = {}
    for sample in samples:
        key = sample.person if by_subject else f"sample {sample.id}"
        groups.setdefault(key, []).append(sample.id)
    order = np.random.default_rng(seed).permutation(len(groups))
    names = sorted(groups)
    return [groups[names[index]] for index in order]


def _fill(
    samples: Sequence[Sample], targets: dict[str, int], seed: int, by_subject: bool
) -> dict[str, tuple[str, ...]]:
    """Whole groups go to each target in turn until it is full; the rest is train. Order within a
    set is the data's.
    """
    place: dict[str, str] = {}
    filled = dict.fromkeys(targets, 0)
    for group in _groups(samples, seed, by_subject):
        part = next((name for name, wanted in targets.items() if filled[name] < wanted), "train")
        if part in filled:
            filled[part] += len(group)
        place.update(dict.fromkeys(group, part))
    return {
        part: tuple(sample.id for sample in samples if place[sample.id] == part) for part in PARTS
    }


def _official(
    samples: Sequence[Sample], seed: int, validation: float, by_subject: bool
) -> dict[str, tuple[str, ...]]:
    parts = {
        part: tuple(sample.id for sample in samples if sample.partition == part) for part in PARTS
    }
    if not parts["validation"]:
        pool = [sample for sample in samples if sample.partition == "train"]
        carved = _fill(pool, {"validation": round(validation * len(pool))}, seed, by_subject)
        parts = {**parts, "train": carved["train"], "validation": carved["validation"]}
    return parts


def _is_disjoint(dataset: Dataset, parts: dict[str, tuple[str, ...]]) -> bool:
    place = {name: part for part, names in parts.items() for name in names}
    seen: dict[str, str] = {}
    for sample in dataset.samples:
        if sample.subject is None:
            return False
        if seen.setdefault(sample.subject, place[sample.id]) != place[sample.id]:
            return False
    return True


def check_forget(split: Split, ids: Sequence[str]) -> None:
    """Refuses a forget set that cannot be forgotten: empty, never trained on, or all of a set.

    Samples that were held out may be in it, besides at least one that was trained on.

    Raises:
        DataError: one of these; where nothing was trained on any of them the message says how the
            request is answered.
    """
    if not ids:
        raise DataError("forget set", "it is empty", "Name at least one sample or subject")
    wanted, train, held_out = set(ids), set(split.train), split.held_out
    outside = [name for name in ids if name not in train]
    held = sum(name in held_out for name in outside)
    why = f"{len(outside)} of {len(ids)} samples were not trained on" + (
        f" (first: {outside[0]}; {held} are held out)" if outside else ""
    )
    if held < len(outside):
        raise DataError(
            "forget set", why, "Only what is in the model's split can be forgotten: check the ids"
        )
    if not wanted & train:
        raise DataError("forget set", why, NEVER_TRAINED_ON)
    if train <= wanted:
        raise DataError(
            "forget set",
            "it is the whole train set, nothing would be retained",
            "Delete the model instead",
        )
    for part in ("validation", "test"):
        if set() < set(getattr(split, part)) <= wanted:
            why = f"without whom it names the {part} set would be empty"
            raise DataError(
                "forget set",
                why,
                "Train on a split that holds out more people: `unplug data split --test 0.3`",
            )
