"""The comparison's file, ``unplug-compare/1``: a row for each way to make pictures, raw numbers of every picture kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, write_json
from unplug.sdk.statistics import Estimate

from .metrics import METRICS

SCHEMA: Literal["unplug-compare/1"] = "unplug-compare/1"
Role = Literal["floor", "base", "control"]
Raw = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a control.

    Args:
        seed: of weights, order and noise.
        lr: peak learning rate.
        wall_s: seconds that it took.
        loss: of its last steps.
        validation: its loss on the validation set, by which one of several learning rates is taken; null without such a set.
        device: it ran on.
        sha256: of the weights.
        stored: type of the numbers in the weight file, as safetensors names it.
        given: it was trained before and passed in.
    """

    seed: int
    lr: float
    wall_s: float
    loss: float
    validation: float | None
    device: str
    sha256: str
    stored: str
    given: bool


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number of one row.

    Args:
        value: over all its pictures.
        low, high: 95 % interval over pictures, widened by Student's t over trainings where there are several; null where it
            has none.
        pictures: that count in it, over all trainings.
        difference: minus the reference control's, on pictures that count in both, paired; null for that row and without one.
    """

    value: float
    low: float | None = None
    high: float | None = None
    pictures: int
    difference: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Seconds a picture, batch 1, from interleaved rounds: median and quartiles.

    Args:
        ratio, ratio_low, ratio_high: over the base's in the same round: median and quartiles.
        seconds: of each round.
    """

    median: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    seconds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to make pictures.

    Args:
        name: "source", "shuffled", "autoencoder", "base", or of a control.
        label: in tables.
        role: a floor is not made by the base: real pictures, those of other samples, and real ones through the autoencoder.
        every_step: of a control: whether it runs at each step of sampling.
        parameters: of the control alone; of the base for the base.
        macs: multiply-accumulates of one picture, everything included; null where they were not counted.
        trainings: of the control, one a seed.
        tried: the first seed's trainings with each learning rate, where there were several; one of them is in `trainings`.
        speed: null for floors.
        measures: by the names of `METRICS`.
        attributes: share read as named, for each attribute that prompts name.
        raw: by name of the number, (trainings, pictures); null where a picture has none. ``attribute:NAME`` is 1 or 0.
        missing: why a number is not there.
    """

    name: str
    label: str
    role: Role
    every_step: bool | None = None
    parameters: int | None = None
    macs: float | None = None
    trainings: tuple[Training, ...] = ()
    tried: tuple[Training, ...] = ()
    speed: Speed | None = None
    measures: dict[str, Measure] = field(default_factory=dict)
    attributes: dict[str, Measure] = field(default_factory=dict)
    raw: dict[str, Raw] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a control keeps what is asked of it beside the reference control.

    Args:
        row: name of the control's row.
        claim: what is asked.
        outcome: by the paired 95 % interval: all of it on the good side, all on the other, or neither.
        why: the numbers, or what is missing.
    """

    row: str
    claim: str
    outcome: Literal["holds", "does not hold", "cannot tell"]
    why: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What one picture of every row was made from."""

    id: str
    prompt: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class JudgeFacts:
    """The classifier that reads attributes, and how well it does on real held-out faces.

    Args:
        sha256: of its weights. parameters: how many. samples: faces that it learned from. steps: of its training.
        held_out: real faces that it was examined on. accuracy: for each attribute, the ceiling of the rows.
        overall: over all of them together.
    """

    sha256: str
    parameters: int
    samples: int
    steps: int
    held_out: int
    accuracy: dict[str, float]
    overall: float


@dataclass(frozen=True, kw_only=True)
class FeatureFacts:
    """What the distances are taken in.

    Args:
        name: of the features. width: how many there are. components: how many of their principal components the Fréchet
            distance is in, or null for all. variance: share of the real pictures' variance in those.
        real: pictures that every row is held against.
    """

    name: str
    width: int
    components: int | None
    variance: float
    real: int


@dataclass(frozen=True, kw_only=True)
class ComparisonReport:
    """``unplug-compare/1``.

    Args:
        condition: kind, settings, and how many samples have none.
        base: how it was called, SHA-256, parameters.
        data: spec, digest and sizes of the sets.
        recipe: of every control; learning rates are in the rows.
        reference: name of the row that differences are taken from; null without one.
        rows: floors, the base, then the controls.
        verdicts: on each control beside the reference.
        pictures: what was drawn.
        features: of the distances.
        judge: null where the data names no attributes.
        notes: what a reader must know.
        settings: of sampling, intervals and timing.
        versions: of the packages.
    """

    __pydantic_config__: ClassVar = STRICT

    condition: dict[str, Any]
    base: dict[str, Any]
    data: dict[str, Any]
    recipe: dict[str, Any]
    reference: str | None
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    pictures: tuple[Picture, ...]
    features: FeatureFacts
    judge: JudgeFacts | None
    notes: tuple[str, ...]
    settings: dict[str, Any]
    versions: dict[str, str | None]
    schema: Literal["unplug-compare/1"] = SCHEMA

    def row(self, name: str) -> Row:
        """One row by its name; `KeyError` where there is none."""
        found = next((row for row in self.rows if row.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numbers that any row has, in the order of `METRICS`."""
        return tuple(name for name in METRICS if any(name in row.measures for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically."""
        write_json(path, self.to_dict())
