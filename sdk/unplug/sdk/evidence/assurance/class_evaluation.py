"""What classifiers are worth on pictures that they never saw: right answers in all, of each class and
of each group, and how far their probabilities can be believed.

Shapes: N pictures, G classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import STRICT, Array, DataError, Estimate, counted, one_line, versions, write_json
from unplug.sdk.evidence.statistics import mean_estimate

from .answers import Answers
from .people import Apart, People

SCHEMA: Literal["unplug-class-evaluation/1"] = "unplug-class-evaluation/1"
BINS = 10
LEAST = 10
"""People, or unnamed pictures, that a group must have for its accuracy to be said."""
MAX_CELLS = 64


@dataclass(frozen=True, kw_only=True)
class ClassShare:
    """One class: of its n pictures the share that was `found`; of the answers that name it the share
    that is `right`. Null where there are none.
    """

    label: str
    n: int
    found: float | None
    right: float | None


@dataclass(frozen=True, kw_only=True)
class GroupShare:
    """Right answers on the pictures with one value of an attribute."""

    cell: str
    n: int
    people: int
    accuracy: Estimate


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """Answers with a probability in one tenth: how sure they are on average, and how often right."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class ClassesJudged:
    """What one model is worth.

    Args:
        name, sha256, checkpoint_sha256, target, precision, role, seconds: see `Answers`.
        accuracy: share of right answers.
        loss: mean cross entropy in nats.
        brier: mean squared distance of the probabilities from the truth, 0 to 2.
        calibration_error: sum over bins of n_b / N |accuracy_b - confidence_b|.
        bins: the tenths of the answers' probabilities that hold any.
        classes: a row a class, in the order of the logits.
        groups: values of attributes with enough people.
    """

    name: str
    sha256: str
    checkpoint_sha256: str
    target: str | None
    precision: str | None
    role: str | None
    seconds: float
    accuracy: Estimate
    loss: Estimate
    brier: Estimate
    calibration_error: float
    bins: tuple[CalibrationBin, ...]
    classes: tuple[ClassShare, ...]
    groups: tuple[GroupShare, ...]

    @property
    def label(self) -> str:
        """Its name, of an original or unlearned model with its role."""
        return self.name if self.role in (None, self.name) else f"{self.name} ({self.role})"


@dataclass(frozen=True, kw_only=True)
class ClassEvaluation:
    """``unplug-class-evaluation/1``.

    Args:
        data: spec, digest and size of the data.
        pictures, people: how many were asked about.
        apart, part: see `People`.
        left_out: pictures that a model learned from, or that belong to another part.
        models: one a checkpoint or file.
        seed: the seed of the intervals over people.
        versions: the versions of Python, unplug and the packages that decide numbers.

    Reference:
        Guo et al., On Calibration of Modern Neural Networks, 2017, section 2 (expected calibration
        error).
    """

    __pydantic_config__: ClassVar = STRICT

    data: dict[str, Any]
    pictures: int
    people: int
    apart: Apart
    part: str | None
    left_out: int
    models: tuple[ClassesJudged, ...]
    seed: int
    versions: dict[str, str | None]
    schema: Literal["unplug-class-evaluation/1"] = SCHEMA

    __repr__ = one_line

    @property
    def units(self) -> str:
        """What intervals and groups are over: people, or pictures where each stands for one."""
        return "pictures" if self.people == self.pictures else "people"

    @property
    def seen(self) -> str:
        """The pictures in words, with the people where they are fewer."""
        pictures = counted(self.pictures, "picture")
        if self.units == "pictures":
            return pictures
        return f"{pictures} of {counted(self.people, 'person', 'people')}"

    def to_dict(self) -> dict[str, Any]:
        """The report ready for JSON."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically; `OutputError` where the place cannot be written."""
        write_json(path, self.to_dict())


def judge_classes(answers: Sequence[Answers], seed: int = 0) -> ClassEvaluation:
    """The report of what classifiers said of the same pictures.

    Raises:
        DataError: a picture with a label that a model never had.
    """
    people = answers[0].people
    return ClassEvaluation(
        data=people.data,
        pictures=len(people),
        people=people.persons,
        apart=people.apart,
        part=people.part,
        left_out=people.left_out,
        models=tuple(_judged(item, seed) for item in answers),
        seed=seed,
        versions=versions(),
    )


def _judged(said: Answers, seed: int) -> ClassesJudged:
    people, true_N = said.people, _truth(said)
    log_NG = said.logits_NG - said.logits_NG.max(axis=1, keepdims=True)
    log_NG = log_NG - np.log(np.exp(log_NG).sum(axis=1, keepdims=True))
    probability_NG, answer_N = np.exp(log_NG), log_NG.argmax(axis=1)
    right_N = (answer_N == true_N).astype(np.float64)
    true_NG = np.eye(len(said.classes))[true_N]
    loss_N = -log_NG[np.arange(len(true_N)), true_N]
    sure_N = probability_NG.max(axis=1)
    bins = tuple(_bins(sure_N, right_N))
    return ClassesJudged(
        name=said.name,
        sha256=said.sha256,
        checkpoint_sha256=said.checkpoint_sha256,
        target=said.target,
        precision=said.precision,
        role=said.role,
        seconds=said.seconds,
        accuracy=mean_estimate(right_N, people.person_N, seed),
        loss=mean_estimate(loss_N, people.person_N, seed),
        brier=mean_estimate(np.square(probability_NG - true_NG).sum(axis=1), people.person_N, seed),
        calibration_error=sum(row.n * abs(row.accuracy - row.confidence) for row in bins)
        / len(right_N),
        bins=bins,
        classes=tuple(
            ClassShare(
                label=label,
                n=int((true_N == place).sum()),
                found=_share(right_N[true_N == place]),
                right=_share(right_N[answer_N == place]),
            )
            for place, label in enumerate(said.classes)
        ),
        groups=tuple(_groups(people, right_N, seed)),
    )


def _truth(said: Answers) -> NDArray[np.int64]:
    place = {name: number for number, name in enumerate(said.classes)}
    people = said.people
    for sample, label in zip(people.ids, people.labels, strict=True):
        if label not in place:
            why = f"sample {sample} has the label {label[:60]!r}, which {said.name} never had"
            raise DataError(f"data {people.data['spec']}", why, "Take it out")
    return np.array([place[label] for label in people.labels], np.int64)


def _share(right_N: Array) -> float | None:
    return float(right_N.mean()) if len(right_N) else None


def _bins(sure_N: Array, right_N: Array) -> Iterator[CalibrationBin]:
    bin_N = np.minimum((sure_N * BINS).astype(int), BINS - 1)
    for number in np.unique(bin_N):
        inside = bin_N == number
        yield CalibrationBin(
            n=int(inside.sum()),
            confidence=float(sure_N[inside].mean()),
            accuracy=float(right_N[inside].mean()),
        )


def _groups(people: People, right_N: Array, seed: int) -> Iterator[GroupShare]:
    cells = [
        (f"{name}: {value}", np.array(values) == value)
        for name, values in people.attributes.items()
        for value in sorted(set(values))
    ]
    for cell, inside in cells[:MAX_CELLS]:
        persons = people.persons_in(inside)
        if persons >= LEAST:
            yield GroupShare(
                cell=cell,
                n=int(inside.sum()),
                people=persons,
                accuracy=mean_estimate(right_N[inside], people.person_N[inside], seed),
            )
