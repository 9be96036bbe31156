"""Labels that a classifier can learn, told before any picture is decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unplug.core import DataError
from unplug.plugins import check_classes

from .source import Sample


def check_labels(
    where: str, samples: Sequence[Sample], classes: Sequence[str], known: Sequence[str] = ()
) -> tuple[str, ...]:
    """The classes that some samples are of; refuses what no classifier can learn.

    Args:
        where: the data, for the message.
        samples: the samples.
        classes: the names that their labels are numbers of.
        known: the labels of a model that can learn no others; without, there are 2 to 1,000, each
            of two pictures or more.

    Raises:
        DataError: no labels, one that the model never had, or a class of one picture.
        InputError: too few classes, too many, or names that cannot be used.
    """
    counts = Counter(sample.label for sample in samples if sample.label is not None)
    names = {number: name for number, name in enumerate(classes) if counts[number]}
    if samples and not names:
        fix = "Give imagefolder:, cifar10:, or csv: with a column label"
        raise DataError(where, "its pictures have no labels", fix)
    if known:
        theirs = set(known)
        had = {None, *(number for number, name in names.items() if name in theirs)}
        for sample in samples:
            if sample.label not in had:
                name = classes[sample.label or 0][:60]
                why = f"sample {sample.id} has the label {name!r}, which the model never had"
                raise DataError(where, why, "Take it out, or train a model on it")
        return tuple(names.values())
    check_classes(tuple(names.values()), where)
    for number, name in names.items():
        if counts[number] == 1:
            why = f"class {name!r} has one picture, which cannot be learned and tested"
            raise DataError(where, why, "Add pictures of it, or take it out")
    return tuple(names.values())
