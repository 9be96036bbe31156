"""The comparison's file, ``unplug-compare/1``: a row for each way to make pictures, raw numbers of
every picture kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, ReportError, fixed, percent, read_dataclass, signed, write_json
from unplug.sdk.evidence.statistics import Estimate

from .trainings import Training


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a row.

    Args:
        label: head of its column.
        better: which way is better.
        says: what it is, in a sentence.
        digits: decimals shown.
        percent: shown as one.
    """

    label: str
    better: Literal["lower", "higher"]
    says: str
    digits: int = 3
    percent: bool = False


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "found": Metric(
            label="faces found",
            better="higher",
            percent=True,
            digits=1,
            says="share of pictures in which the Face Landmarker finds a face",
        ),
        "nme": Metric(
            label="NME",
            better="lower",
            percent=True,
            digits=2,
            says="mean distance of the 478 landmarks from the source picture's, over the source's outer eye distance, where a "
            "face is found",
        ),
        "nme_8": Metric(
            label="NME under 8 %",
            better="higher",
            percent=True,
            digits=1,
            says=(
                "share of pictures in which a face is found with an NME under 8 %; a missing face "
                "fails"
            ),
        ),
        "true_nme": Metric(
            label="NME, drawn landmarks",
            better="lower",
            percent=True,
            digits=2,
            says="the same against where the renderer put its named landmarks; the source row has what the two conventions "
            "differ by",
        ),
        "edge_f1": Metric(
            label="edge F1",
            better="higher",
            says="harmonic mean of edge precision and edge recall, mean over pictures",
        ),
        "edge_precision": Metric(
            label="edge precision",
            better="higher",
            says=(
                "share of the picture's Canny edges that lie at one of the condition, within a "
                "pixel at 128"
            ),
        ),
        "edge_recall": Metric(
            label="edge recall",
            better="higher",
            says="share of the condition's edges at which the picture has one",
        ),
        "frechet": Metric(
            label="Fréchet distance",
            better="lower",
            digits=2,
            says="between Gaussians fitted to features of the row's pictures and of other held-out pictures, extrapolated to "
            "endless samples",
        ),
        "frechet_ratio": Metric(
            label="Fréchet, of ControlNet's",
            better="lower",
            says="the row's Fréchet distance over the reference control's",
        ),
        "frechet_finite": Metric(
            label="Fréchet, not extrapolated",
            better="lower",
            digits=2,
            says="the same at this number of pictures, biased upwards",
        ),
        "kid": Metric(
            label="KID",
            better="lower",
            digits=4,
            says=(
                "kernel distance between the same pictures in all features, kernel (x.y/d + 1)^3, "
                "unbiased"
            ),
        ),
        "consistency": Metric(
            label="prompt kept",
            better="higher",
            percent=True,
            digits=1,
            says="share of the attributes named in the prompts that the judge reads as named; what was not asked for is not "
            "judged",
        ),
        "loss": Metric(
            label="noise loss",
            better="lower",
            digits=4,
            says=(
                "squared error of the predicted noise on held-out samples, mean over eight noise "
                "levels"
            ),
        ),
    }
)
"""In the order of the columns. Seconds, parameters and operations have fields of their own."""

CONTROL_ERROR: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "face_landmark": ("found", "nme", "nme_8", "true_nme"),
        "canny": ("edge_f1", "edge_precision", "edge_recall"),
    }
)
"""What says how well a picture follows a condition; other conditions have no such number."""

JUDGED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"face_landmark": ("nme", "nme_8"), "canny": ("edge_f1",)}
)
"""Those of `CONTROL_ERROR` that the verdict goes by: NME alone would reward a control that loses
the difficult faces.
"""

SCHEMA: Literal["unplug-compare/1"] = "unplug-compare/1"
MAX_BYTES, MAX_ROWS, MAX_TEXT = 64 * 2**20, 100, 4000
MAX_NUMBER = 1e15  # what is drawn stays finite below it
Raw = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number of one row.

    Args:
        value: over all its pictures.
        low, high: 95 % interval over pictures, widened by Student's t over trainings where there
            are several; null where it has none.
        pictures: that count in it, over all trainings.
        difference: minus the reference control's, on pictures that count in both, paired; null for
            that row and without one.
    """

    value: float
    low: float | None = None
    high: float | None = None
    pictures: int
    difference: Estimate | None = None


def number(item: Measure | Estimate, metric: Metric) -> str:
    """A value without its interval."""
    return (
        percent(item.value, metric.digits) if metric.percent else fixed(item.value, metric.digits)
    )


def ends(item: Measure | Estimate, metric: Metric, *, sign: bool = False) -> str:
    """The interval, in percent where the value is; empty where there is none.

    Example:
        >>> ends(Estimate(value=0.1, low=0.05, high=0.2), METRICS["found"])
        '5.0 to 20.0'
    """
    if item.low is None or item.high is None:
        return ""
    factor = 100.0 if metric.percent else 1.0
    write = signed if sign else fixed
    return (
        f"{write(item.low * factor, metric.digits)} to {write(item.high * factor, metric.digits)}"
    )


def apart(item: Estimate, metric: Metric) -> str:
    """A difference with its interval; percent become percentage points."""
    factor = 100.0 if metric.percent else 1.0
    return f"{signed(item.value * factor, metric.digits)} ({ends(item, metric, sign=True)})"


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
        role: a floor is not made by the base: real pictures, those of other samples, and real ones
            through the autoencoder.
        every_step: of a control: whether it runs at each step of sampling.
        parameters: of the control alone; of the base for the base.
        macs: multiply-accumulates of one picture, everything included; null where they were not
            counted.
        trainings: of the control, one a seed.
        tried: the first seed's trainings with each learning rate, where there were several; one of
            them is in `trainings`.
        speed: null for floors.
        measures: by the names of `METRICS`.
        attributes: share read as named, for each attribute that prompts name.
        raw: by name of the number, (trainings, pictures); null where a picture has none.
            ``attribute:NAME`` is 1 or 0.
        missing: why a number is not there.
    """

    name: str
    label: str
    role: Literal["floor", "base", "control"]
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
        outcome: by the paired 95 % interval: all of it on the good side, all on the other, or
            neither.
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
        sha256: of its weights. parameters: how many. samples: faces that it learned from. steps: of
            its training.
        held_out: real faces that it was examined on. accuracy: for each attribute, the ceiling of
            the rows.
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
        name: of the features. width: how many there are. components: how many of their principal
            components the Fréchet distance is in, or null for all. variance: share of the real
            pictures' variance in those.
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
        match = next((row for row in self.rows if row.name == name), None)
        if match is None:
            raise KeyError(name)
        return match

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the numbers that any row has, in the order of `METRICS`."""
        return tuple(name for name in METRICS if any(name in row.measures for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """The report ready for JSON."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically; `OutputError` where the place cannot be written."""
        write_json(path, self.to_dict())


def read_comparison(path: Path) -> ComparisonReport:
    """Reads a comparison as hostile input.

    Raises:
        ReportError: missing, too large, not of the schema, or inconsistent in itself.
    """
    report = read_dataclass(ComparisonReport, path, ReportError, max_bytes=MAX_BYTES)
    check_comparison(report, str(path))
    return report


def check_comparison(report: ComparisonReport, where: str) -> None:
    """Raises `ReportError` where a report does not hold together."""
    names = [row.name for row in report.rows]
    estimates = list(_estimates(report))
    numbers = [
        value
        for item in estimates
        for value in (item.value, item.low, item.high)
        if value is not None
    ]
    problems = {
        f"it has no row, or over {MAX_ROWS}": not 0 < len(names) <= MAX_ROWS,
        "two rows share a name": len(set(names)) != len(names),
        "its reference is no row": report.reference is not None and report.reference not in names,
        "a number is unknown": any(
            name not in METRICS for row in report.rows for name in row.measures
        ),
        "an interval is upside down": any(
            item.low is not None and item.high is not None and item.low > item.high
            for item in estimates
        ),
        "a number is too large": any(abs(value) > MAX_NUMBER for value in numbers),
        "a verdict is on no row": any(verdict.row not in names for verdict in report.verdicts),
        "a row has over 64 attributes": any(len(row.attributes) > 64 for row in report.rows),
        "a text is too long": any(len(text) > MAX_TEXT for text in _texts(report)),
    }
    for why, wrong in problems.items():
        if wrong:
            raise ReportError(
                where, why, "Write it again with this version of unplug, or restore it from a copy"
            )


def _estimates(report: ComparisonReport) -> Iterator[Measure | Estimate]:
    for measure in (
        one for row in report.rows for one in (*row.measures.values(), *row.attributes.values())
    ):
        yield measure
        if measure.difference is not None:
            yield measure.difference


def _texts(report: ComparisonReport) -> list[str]:
    rows = [
        text
        for row in report.rows
        for text in (row.name, row.label, *row.attributes, *row.missing.values())
    ]
    verdicts = (text for verdict in report.verdicts for text in (verdict.claim, verdict.why))
    return [
        *rows,
        *verdicts,
        *report.notes,
        report.features.name,
        *(picture.prompt for picture in report.pictures),
    ]
