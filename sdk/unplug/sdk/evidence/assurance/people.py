"""The people on whose pictures an age model is judged on: never those that it learned from, as far
as anybody can tell.

Shapes: N pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import Array, DataError
from unplug.sdk.learning.data import Dataset, SampleProblem, Split, opened, parse_spec

from .copies import Copies, Training, pixel_digests, trained_pixels

Part = Literal["test", "validation"]
Apart = Literal["held out", "other data", "unknown"]
UNKNOWN = "unknown"
"""Value of an attribute where nobody said one."""
NOWHERE_ELSE: Training = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class People:
    """N pictures with an age in years, and who is in them.

    Args:
        data: spec, digest and number of samples of the data that they are of.
        apart: "held out" where the split of the training names them so. "other data" where the
            split is of other data (and none of them is named in its training set). "unknown" where
            nothing says what the model saw.
        part: the set of the split that they are, where they are held out; else None.
        subjects_apart: whether all pictures of a person lie on one side of the split; None where
            nothing says so.
        ids: N sample ids.
        age_N: years, finite.
        person_N: a number for each person; a picture of nobody in particular has one of its own.
        attributes: name to N values, `UNKNOWN` where nobody said one.
        ranges: borders of the groups that ages are known by, or None where years are known.
        listed: all pictures of the data, of whatever set, those that could not be read among them.
        failures: pictures that could not be read, and so are in no set.
        left_out: pictures of the data that the model learned from, or that belong to another part.
        copies: those among them that only their pixels gave away, and how far that was looked at;
            None where nothing says what the model saw.
        faults: the faults that the quality check finds in each picture, see `face_faults`, or why
            nobody looked.
        without_age: pictures left out because nobody said an age, or a label where that is asked.
        labels: the label of each picture, where labels are asked about; ages are then NaN.
    """

    data: dict[str, Any]
    apart: Apart
    part: Part | None
    subjects_apart: bool | None
    ids: tuple[str, ...]
    age_N: Array
    person_N: NDArray[np.int64]
    attributes: Mapping[str, tuple[str, ...]]
    ranges: tuple[float, ...] | None
    listed: int
    failures: tuple[SampleProblem, ...]
    left_out: int
    without_age: int
    copies: Copies | None = None
    faults: tuple[str | None, ...] | str = "no face landmarker was given"
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def persons(self) -> int:
        """How many different people there are."""
        return len(np.unique(self.person_N))

    def persons_in(self, mask_N: NDArray[np.bool_]) -> int:
        """How many different people some of the pictures show."""
        return len(np.unique(self.person_N[mask_N]))


def people_of(
    dataset: Dataset,
    splits: Sequence[Split],
    part: Part = "test",
    training: Training = NOWHERE_ELSE,
    *,
    labelled: bool = False,
) -> tuple[People, NDArray[np.int64]]:
    """The pictures of some data that no model learned from, under whatever name, and where they
    stand in it.

    Args:
        dataset: loaded, at any size.
        splits: the splits of the trainings of all models that are judged; empty where nothing is
            known of them.
        part: the set of the split that is asked for.
        training: the pictures of the other splits, see `training_data`.
        labelled: their labels are asked about, and no ages.

    Returns:
        The people, and their N positions in the data set.

    Raises:
        DataError: nobody is left, or nobody has an age (a label).
        InputError: a split's names are digests under a key that is not here.
    """
    named = [opened(split, dataset) for split in splits]
    theirs = [split for split in named if split.data_digest == dataset.digest]
    wanted = (
        set.intersection(*(set(getattr(split, part)) for split in theirs))
        if theirs
        else set(dataset.ids)
    )
    learned: set[str] = set()
    for split in named:  # of other data, where the same id may be the same picture
        learned |= {*split.train, *(() if split in theirs else split.validation)}
    # A person who was learned from on one picture is not a stranger on the next.
    known = {sample.person for sample in dataset.samples if sample.id in learned}
    # no other picture of her is of a stranger
    wanted -= {sample.id for sample in dataset.samples if sample.person in known}
    wanted, copies = _without_copies(dataset, wanted, splits, training)
    index_N = np.array(
        [number for number, name in enumerate(dataset.ids) if name in wanted], dtype=np.int64
    )
    told_N = ~np.isnan(dataset.ages)
    if labelled:
        told_N = np.array([sample.label is not None for sample in dataset.samples])
    known_N = index_N[told_N[index_N]]
    what = ("a label", "labels") if labelled else ("an age", "ages in years")
    _check(dataset, len(index_N), len(known_N), part, what)
    samples = [dataset.samples[index] for index in known_N]
    _, person_N = np.unique([sample.person for sample in samples], return_inverse=True)
    names = sorted({name for sample in samples for name in sample.attributes})
    failures = tuple(_unread(dataset))
    return People(
        data=dataset.facts,
        apart="held out" if theirs else "other data" if splits else "unknown",
        part=part if theirs else None,
        subjects_apart=all(split.subject_disjoint for split in theirs) if theirs else None,
        ids=tuple(sample.id for sample in samples),
        age_N=dataset.ages[known_N].astype(np.float64),
        person_N=person_N.astype(np.int64),
        ranges=dataset.age_edges,
        listed=len(dataset) + len(failures),
        failures=failures,
        attributes={
            name: tuple(sample.attributes.get(name, UNKNOWN) for sample in samples)
            for name in names
        },
        left_out=len(dataset) - len(index_N),
        without_age=len(index_N) - len(known_N),
        copies=copies if splits else None,
        labels=tuple(dataset.classes[sample.label or 0] for sample in samples) if labelled else (),
    ), known_N


def _without_copies(
    dataset: Dataset, wanted: set[str], splits: Sequence[Split], training: Training
) -> tuple[set[str], Copies]:
    """Leaves out what has the pixels of a picture of the training, and who is in it."""
    seen, copies = trained_pixels(dataset, splits, training)
    index_N = np.array(
        [number for number, name in enumerate(dataset.ids) if name in wanted], dtype=np.int64
    )
    digests = pixel_digests(dataset, index_N) if seen else ()
    known = {
        dataset.samples[index].person
        for index, digest in zip(index_N, digests, strict=False)
        if digest in seen
    }
    fresh = {
        sample.id
        for sample in dataset.samples
        if sample.id in wanted and sample.person not in known
    }
    return fresh, replace(copies, left_out=len(wanted) - len(fresh))


def _check(dataset: Dataset, found: int, known: int, part: Part, what: tuple[str, str]) -> None:
    if not found:
        why = (
            f"no picture of it is in the {part} set, or all were learned from, under these names "
            "or others"
        )
        raise DataError(
            f"data {dataset.spec}",
            why,
            "Give the data of the training, or pictures of other people",
        )
    if not known:
        raise DataError(
            f"data {dataset.spec}",
            f"none of its {found} pictures has {what[0]}",
            f"Give data with {what[1]}",
        )


def _unread(dataset: Dataset) -> Iterator[SampleProblem]:
    """What the source lists and nobody could decode: a label that is wrong is a fault of the data,
    not of processing.
    """
    if dataset.problems:
        listed = {sample.id for sample in parse_spec(dataset.spec).listing().samples} - set(
            dataset.ids
        )
        yield from (problem for problem in dataset.problems if problem.id in listed)
