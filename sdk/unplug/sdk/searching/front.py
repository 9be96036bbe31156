"""``unplug-front/1``: sizes that a search found, next to those made by hand and those found at random,
each with its error and its milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    CheckpointError,
    Estimate,
    ReportError,
    json_sha256,
    read_dataclass,
    write_json,
)
from unplug.mobile_bench import HeldOut
from unplug.plugins import load_checkpoint
from unplug.trust.bundle import is_safe

FRONT_FILE = "front.json"
SCHEMA: Literal["unplug-front/1"] = "unplug-front/1"


@dataclass(frozen=True, kw_only=True)
class FrontPoint:
    """One size.

    Args:
        name: the name of its size, ``at-0.3`` where it was found for .3 ms, or ``random-0.3``.
        found: the arm that it comes from.
        size: see `unplug.plugins.size_of`.
        parameters, macs: counts of the network.
        bytes: the size of the exported float32 file.
        estimated_ms, low_ms, high_ms: milliseconds by the rows of the device; the ends are those of
            rows that were held out, where there are enough.
        measured_ms: the median on this machine, where the search was for it.
        validation: error of the first seed on the people who chose.
        error: the mean over seeds on people whom the search never saw, in years or as the share
            of wrong labels; its interval is over people.
        by_seed: the same of each seed.
        less: the name of another point to the error that this one has less, paired by person.
        weights: folder to the SHA-256 of its weights, of those that the front holds: the first
            seed's has the name of the point.
        best: no other point is as good and as fast.
    """

    name: str
    found: Literal["search", "random", "hand"]
    size: str
    parameters: int
    macs: int
    bytes: int
    estimated_ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    measured_ms: float | None = None
    validation: float
    error: Estimate
    by_seed: tuple[float, ...]
    less: dict[str, Estimate] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    best: bool = False

    @property
    def ms(self) -> float:
        """What it takes: as measured, or else as estimated."""
        return self.estimated_ms if self.measured_ms is None else self.measured_ms


@dataclass(frozen=True, kw_only=True)
class FrontCost:
    """What a search took.

    Args:
        drawn: sizes drawn.
        left_out: drawn sizes that the estimate put outside all budgets, or that came when those
            were full: never trained.
        trained: trainings.
        diverged: trainings whose loss was no number.
        passes: training samples seen in all.
        seconds: seconds of training, over all workers.
    """

    drawn: int
    left_out: int
    trained: int
    diverged: int
    passes: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Front:
    """What a search found.

    Args:
        task: "age" or "classes".
        data: facts of the data.
        split_sha256: the hash of the split: people to train on, to choose by, to ask at the end.
        people: the number of those who were asked at the end.
        recipe: the recipe of a full training, but for its size.
        at: budgets in milliseconds.
        device, source, delegate, threads: the place where the milliseconds hold.
        held_out: the error of the estimate on rows that it had not seen.
        order: Kendall's tau between estimated and measured milliseconds of the points; None of a
            device that is not here.
        points: those found first, by budget.
        cost: trainings and draws.
        versions: versions of Python, unplug and torch.
        sha256: SHA-256 of all other fields, as canonical JSON.
        schema: always ``unplug-front/1``.
    """

    __pydantic_config__: ClassVar = STRICT

    task: Literal["age", "classes"]
    data: dict[str, Any]
    split_sha256: str
    people: int
    recipe: dict[str, Any]
    at: tuple[float, ...]
    device: str
    source: str
    delegate: str
    threads: int | None
    held_out: HeldOut | None
    order: float | None
    points: tuple[FrontPoint, ...]
    cost: FrontCost
    versions: dict[str, str | None]
    sha256: str = ""
    schema: Literal["unplug-front/1"] = SCHEMA

    def sealed(self) -> Front:
        """The same with the hash of its content."""
        return replace(self, sha256=self._digest())

    def save(self, path: Path) -> None:
        """Writes it as JSON, atomically."""
        write_json(path, asdict(self))

    @classmethod
    def load(cls, path: Path) -> Front:
        """Reads a front.

        Args:
            path: ``front.json``, or its folder.

        Raises:
            ReportError: it is missing, does not follow the schema, or was edited.
        """
        file = path / FRONT_FILE if path.is_dir() else path
        front = read_dataclass(cls, file, ReportError)
        front.check(str(file))
        return front

    def trunks(self, folder: Path) -> list[Path]:
        """The checkpoints of the points that were found, of the first seed.

        Raises:
            CheckpointError: one is missing, or has other weights.
        """
        places = [(folder / item.name, item) for item in self.points if item.found == "search"]
        for place, item in places:
            if load_checkpoint(place).sha256 != item.weights[item.name]:
                why = f"its weights are not those of {FRONT_FILE}"
                raise CheckpointError(str(place), why, "Restore the folder, or search again")
        return [place for place, _ in places]

    def check(self, where: str) -> None:
        """Refuses a front that was edited, or that has no points or impossible ones: `ReportError`."""
        names = [point.name for point in self.points]
        told = [
            (
                point.ms > 0.0,
                {*point.less} <= {*names},
                all(map(is_safe, point.weights)),
                point.found != "search" or point.name in point.weights,
            )
            for point in self.points
        ]
        why = ""
        if not names or len({*names}) < len(names) or not all(map(all, told)):
            why = "its points are none that a search finds"
        elif self.sha256 != self._digest():
            why = "its hash is not that of its content: it was edited"
        if why:
            raise ReportError(where, why, "Restore it, or search again")

    def _digest(self) -> str:
        return json_sha256({**asdict(self), "sha256": ""})

    @property
    def unit(self) -> str:
        """What an error is in."""
        return "years" if self.task == "age" else "wrong"


def with_best(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Marks the points that no other beats in both error and milliseconds."""
    return tuple(
        replace(
            point,
            best=not any(
                other.ms <= point.ms
                and other.error.value <= point.error.value
                and (other.ms, other.error.value) != (point.ms, point.error.value)
                for other in points
            ),
        )
        for point in points
    )
