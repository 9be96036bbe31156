"""What attacks ask models besides the sets of a split: pictures moved by a pixel or two, and other
pictures of the same people.

Made once an audit, for every model the same. Shapes: F forget, U unseen, O other pictures, C
channels, H = W side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import Tensor

from unplug.core import DataError, InputError
from unplug.sdk.forgetting.tasks import StoredTask
from unplug.sdk.learning.data import Dataset, Sample, SynthSource, parse_spec
from unplug.sdk.learning.training import (
    ImageSet,
    Predictions,
    SampleSet,
    Sets,
    pictures,
    to_tensors,
)

from .attack import Others, Signals

SHIFTS = tuple(
    (dy * step, dx * step) for step in (1, 2) for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1))
)
"""Pixels down and to the right; the border is repeated."""
CROPS = (1, 2)
"""Pixels cut off on every side before the rest is drawn at the old size."""
PER_PERSON = 2
"""Other pictures that are drawn of each person of a procedural data set."""


@dataclass(frozen=True, kw_only=True)
class AuditEvidence:
    """Further sets that every model is asked about.

    Args:
        views: the forget and unseen samples of each view.
        others: other pictures of the people of the forget and of the unseen samples, with the same
            numbers of people; or None.
        missing: the reason for each absence, by the name that attacks read ("views", "others").
    """

    views: tuple[tuple[SampleSet, SampleSet], ...] = ()
    others: tuple[SampleSet, SampleSet] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> list[SampleSet]:
        """All sets, views first."""
        return [
            part
            for pair in (*self.views, *(() if self.others is None else (self.others,)))
            for part in pair
        ]

    def said(self, own: Signals, answers: Sequence[Predictions]) -> Signals:
        """What a model says of its sets, and what it answered to `parts`."""
        pairs = list(zip(answers[::2], answers[1::2], strict=True))
        if self.others is None:
            return replace(own, views=tuple(pairs))
        *views, (forget, unseen) = pairs
        people = [np.asarray(part.subject_N, np.int64) for part in self.others]
        others = Others(forget=forget, unseen=unseen, person_F=people[0], person_U=people[1])
        return replace(own, views=tuple(views), others=others)


def gather(
    sets: Sets, dataset: Dataset, task: StoredTask, *, others: Dataset | None = None
) -> AuditEvidence:
    """Evidence of a request.

    Args:
        sets: the request's sets, on the device.
        dataset: the data that they come from; procedural faces are drawn once more in other
            pictures.
        task: the task of the models.
        others: other pictures of the same people under the same subjects, which no model was
            trained on; None draws them.

    Raises:
        DataError: other pictures that are among those of the data.
    """
    try:
        views = tuple(zip(moved(pictures(sets.forget)), moved(pictures(sets.test)), strict=True))
    except InputError as error:
        return AuditEvidence(missing=dict.fromkeys(("views", "others"), error.why))
    pictures_of_them = _others(sets, dataset, task, others)
    if isinstance(pictures_of_them, str):
        return AuditEvidence(views=views, missing={"others": pictures_of_them})
    return AuditEvidence(views=views, others=pictures_of_them)


def moved(part: ImageSet) -> Iterator[ImageSet]:
    """Every view of a set: `SHIFTS`, then `CROPS`; what is remembered of a picture outlasts them, a
    table of pictures not.
    """
    image_NCHW = part.image_NCHW
    for down, right in SHIFTS:
        yield replace(part, image_NCHW=shift(image_NCHW, down, right))
    for border in CROPS:
        yield replace(part, image_NCHW=crop(image_NCHW, border))


def shift(image_NCHW: Tensor, down: int, right: int) -> Tensor:
    """Pictures moved by whole pixels, with their border repeated.

    Example:
        >>> shift(torch.arange(3, dtype=torch.uint8).view(1, 1, 1, 3), 0, 1).flatten().tolist()
        [0, 0, 1]
    """
    height, width = image_NCHW.shape[2:]
    row_H = (torch.arange(height, device=image_NCHW.device) - down).clamp(0, height - 1)
    column_W = (torch.arange(width, device=image_NCHW.device) - right).clamp(0, width - 1)
    return image_NCHW[:, :, row_H][:, :, :, column_W].contiguous(memory_format=torch.channels_last)


def crop(image_NCHW: Tensor, border: int) -> Tensor:
    """Pictures without some pixels of each side, drawn at the old size again, rounded to uint8."""
    size = (int(image_NCHW.shape[2]), int(image_NCHW.shape[3]))
    inner = image_NCHW[:, :, border:-border, border:-border].float()
    drawn = nnf.interpolate(inner, size=size, mode="bilinear", align_corners=False)
    return (
        drawn.round_().clamp_(0, 255).to(torch.uint8).contiguous(memory_format=torch.channels_last)
    )


def _others(
    sets: Sets, dataset: Dataset, task: StoredTask, given: Dataset | None
) -> tuple[SampleSet, SampleSet] | str:
    """Other pictures of the forget and of the test people, or why there are none."""
    people = [_people(part, dataset) for part in (sets.forget, sets.test)]
    source = (
        drawn_again(dataset, [name for side in people for name in side]) if given is None else given
    )
    if source is None:
        return (
            "it needs other pictures of the same people: give them as `others` (procedural faces "
            "are drawn)"
        )
    if given is not None:
        _refuse_known(dataset, given)
    mine: dict[str, list[str]] = {}
    for sample in source.samples:
        mine.setdefault(sample.person, []).append(sample.id)
    lacking = [sum(person not in mine for person in side) for side in people]
    if any(lacking):
        have = " and ".join(
            f"{len(side) - none} of {len(side)}" for side, none in zip(people, lacking, strict=True)
        )
        return (
            f"it needs another picture of every forgotten and every unseen person, and has {have}"
        )
    sets_of_them = []
    for side in people:
        ids = [name for person in side for name in mine[person]]
        number_O = np.array(
            [number for person, number in side.items() for _ in mine[person]], np.int64
        )
        part = to_tensors(source, ids, task.edges, sets.forget.device)
        sets_of_them.append(replace(part, subject_N=number_O))
    return sets_of_them[0], sets_of_them[1]


def _people(part: SampleSet, dataset: Dataset) -> dict[str, int]:
    """The number that the set gives each person in the samples."""
    owners = [dataset.samples[int(index)].person for index in dataset.indices(part.ids)]
    return dict(zip(owners, np.asarray(part.subject_N).tolist(), strict=True))


def drawn_again(
    dataset: Dataset, people: Sequence[str], *, per_person: int = PER_PERSON
) -> Dataset | None:
    """New pictures of some people of a procedural data set, or None of other data.

    A picture is drawn by its number, and who is in it is the number modulo the people: numbers from
    the data's own on are pictures of the same faces that the data do not have.

    Args:
        dataset: procedural faces, or anything else.
        people: the people, named as in `Sample.person`.
        per_person: pictures of each.
    """
    source = parse_spec(dataset.spec)
    if not isinstance(source, SynthSource):
        return None
    count = source.options["subjects"]
    # The first multiple of the number of people from n on: the numbers below are in the data.
    first = -(-source.options["n"] // count) * count
    samples = []
    for name in people:
        number = int(name.removeprefix("subject person-"))
        for index in range(first + number, first + number + per_person * count, count):
            subject = f"person-{number}"
            samples.append(
                Sample(id=f"drawn-{index}", payload=index, age=source.age(index), subject=subject)
            )
    images = np.stack([source.decode(sample, dataset.size) for sample in samples])
    return Dataset(
        spec=f"{dataset.spec}, drawn again",
        images=images,
        rows=np.arange(len(samples)),
        samples=tuple(samples),
        problems=(),
        digest=hashlib.sha256(images.tobytes()).hexdigest(),
    )


def _refuse_known(dataset: Dataset, given: Dataset) -> None:
    """Other pictures must not be pictures of the data; `DataError` names the first one that is."""
    known = {_digest(dataset, row) for row in range(len(dataset))}
    same = [sample.id for row, sample in enumerate(given.samples) if _digest(given, row) in known]
    if same:
        why = f"{len(same)} of its pictures are in the data too (first: {same[0]})"
        raise DataError(f"data {given.spec}", why, "Give pictures that no model was trained on")


def _digest(dataset: Dataset, row: int) -> bytes:
    return hashlib.sha256(dataset.pixels([row]).tobytes()).digest()
