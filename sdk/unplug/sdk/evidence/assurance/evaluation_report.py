"""The evaluation report, ``unplug-evaluation/1``: what an age model is worth at age limits, and
what the sample cannot say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, ReportError, one_line, read_dataclass, write_json
from unplug.sdk.evidence.statistics import Estimate

from .copies import Copies
from .people import Apart

SCHEMA: Literal["unplug-evaluation/1"] = "unplug-evaluation/1"
Held = Literal["held", "broken", "open"]
MAX_ROWS = 1000


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share of pictures, with exact bounds over people.

    Args:
        events, pictures, people: how many, of how many, of how many different people.
        value: events / pictures; null where there are too few people to say.
        low, high: the ends of the 95 % interval (Clopper-Pearson over people).
        upper: one-sided 95 % bound: with that confidence the rate lies below.
    """

    events: int
    pictures: int
    people: int
    value: float | None
    low: float | None
    high: float | None
    upper: float | None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Whether a rate is shown to keep a limit.

    Args:
        held: "held" where the upper bound keeps it, "broken" where the lower bound of the interval
            does not, else "open".
        missing: how many more people, none of them an error, would show it; null where it is held,
            or broken.
    """

    held: Held
    missing: int | None


@dataclass(frozen=True, kw_only=True)
class YearRow:
    """People of one year of age: error and signed error (says too old where positive), null where
    they are too few.
    """

    age: int
    pictures: int
    people: int
    mae: Estimate | None
    bias: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """Challenge-T: who seems T or older passes as over 18.

    Args:
        age: T.
        by_year: false positives over minors of each year of age.
        fate_minors: the rate over minors of 14 to 17, the ages in NIST's evaluation.
        minors: the rate over all minors of the data, however young.
        fate_claim, claim: whether each of the two is shown to keep the limit of the report.
        by_group: the rate over all minors of each cell of attributes.
        rejected_by_year: false rejections of adults of 18 to 24, by year.
        rejected: the share of all 18 to 24 rejected.
    """

    age: float
    by_year: dict[str, Rate]
    fate_minors: Rate
    fate_claim: Claim
    minors: Rate
    claim: Claim
    by_group: dict[str, Rate]
    rejected_by_year: dict[str, Rate]
    rejected: Rate


@dataclass(frozen=True, kw_only=True)
class Teenagers:
    """13 to 16 as a range, [13, 17): who is in it and seems to be, and who is not and seems to be.

    Args:
        true_positives: the rate among ages 13 to 16.
        false_positives: the rate among everybody else.
        younger, older: the rates among ages 6 to 12, and 17 to 24.
        rejected_16: false rejections of a limit at 16: who is 16, 17, or 18 to 24 and seems younger
            than 16.
    """

    true_positives: Rate
    false_positives: Rate
    younger: Rate
    older: Rate
    rejected_16: dict[str, Rate]


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """One cell of attributes, ``sex=female`` or ``sex=female, race=Asian``.

    Args:
        mae, bias: errors in years.
        gap: mean error minus that of everybody else at the same ages; the interval holds for all
            cells of the report at once.
    """

    cell: str
    pictures: int
    people: int
    mae: Estimate | None
    bias: Estimate | None
    gap: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of a curve, false positives over minors against false rejections over adults, from the
    strictest threshold on.

    Args:
        score: the score that the threshold applies to: the estimated age in years, or P(age >= 18).
        threshold, false_positive, false_rejection: the values at each point.
    """

    score: Literal["age", "probability"]
    threshold: tuple[float, ...]
    false_positive: tuple[float, ...]
    false_rejection: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ModelEvaluation:
    """All numbers of one model.

    Args:
        name, sha256, checkpoint_sha256, target, precision, runtime, role, parameters, bytes, edges:
            see `Answers`.
        mae, bias: errors over all pictures, in years.
        fate_mae: mean of the errors of 26 cells, both sexes of each age from 18 to 30; null where a
            cell is too small.
        minus_first: `mae` minus that of the first model, over the same people; null for the first.
        cumulative: share of pictures whose error is at most so many years.
        years: the rows by year of age.
        groups: the rows by cell of attributes.
        worst_group: the cell whose error is furthest above everybody else's at the same ages, or
            null.
        challenges: the results for each T.
        teenagers: 13 to 16.
        det: curves at 18.
        failures: pictures that could not be processed, of all.
        seconds: the seconds per picture, on the machine that evaluated.
        refused: statements that the sample does not support for this model, each with the reason.
    """

    name: str
    sha256: str
    checkpoint_sha256: str
    target: str | None
    precision: str | None
    runtime: str
    role: str | None
    parameters: int | None
    bytes: int | None
    edges: tuple[float, ...]
    mae: Estimate
    bias: Estimate
    fate_mae: Estimate | None
    minus_first: Estimate | None
    cumulative: dict[str, Estimate]
    years: tuple[YearRow, ...]
    groups: tuple[ErrorRow, ...]
    worst_group: str | None
    challenges: tuple[Challenge, ...]
    teenagers: Teenagers
    det: tuple[Curve, ...]
    failures: Rate
    seconds: float
    refused: dict[str, str]

    @property
    def label(self) -> str:
        """What a table calls it: the file, or the folder with its role."""
        return self.name if self.role in (None, self.name) else f"{self.name} ({self.role})"

    def group(self, cell: str) -> ErrorRow:
        """The row of a cell."""
        return next(row for row in self.groups if row.cell == cell)


@dataclass(frozen=True, kw_only=True)
class EvaluationAlarm:
    """Something that a mean hides."""

    kind: Literal["worst-group", "training-people"]
    model: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Processing:
    """Failure to process: photographs that were asked about and of which a careful application
    would say nothing.

    They stay in all other numbers, for a model answers whatever it is shown.

    Args:
        any: photographs with a fault.
        faults: fault to the photographs that have it (the first that is found; see
            `unplug.sdk.drawing.inference.FAULTS`).
        unmeasured: why nobody looked; `any` and `faults` are empty then.
    """

    any: Rate | None
    faults: dict[str, Rate]
    unmeasured: str | None


@dataclass(frozen=True, kw_only=True)
class PeopleFacts:
    """Who was asked about: see `People`; `attributes` counts pictures of each value,
    `attributes_sha256` binds them.

    `copies` is null where nothing says what the models saw, and of reports from before pixels were
    compared.
    """

    apart: Apart
    part: str | None
    subjects_apart: bool | None
    pictures: int
    people: int
    minors: int
    left_out: int
    without_age: int
    attributes: dict[str, dict[str, int]]
    attributes_sha256: str
    copies: Copies | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """``unplug-evaluation/1``.

    Args:
        protocol: name in `PROTOCOLS`.
        data: spec, digest and size of the data.
        people: the people asked about.
        limit: the claims' limit on false positives over minors.
        needed: people without an error that show the limit at all.
        models: one a checkpoint or file.
        refused: statements that the data do not support for any model, each with the reason.
        alarms: warnings that a reader must not miss.
        settings: seeds, replicates, confidence, and what the terms mean.
        versions: the versions of Python, unplug and the packages that decide numbers.
        processing: the quality check's results for the pictures; null in reports from before there
            was one.
    """

    __pydantic_config__: ClassVar = STRICT

    protocol: str
    data: dict[str, Any]
    people: PeopleFacts
    limit: float
    needed: int
    models: tuple[ModelEvaluation, ...]
    refused: dict[str, str]
    alarms: tuple[EvaluationAlarm, ...]
    settings: dict[str, Any]
    versions: dict[str, str | None]
    processing: Processing | None = None
    schema: Literal["unplug-evaluation/1"] = SCHEMA

    def model(self, name: str) -> ModelEvaluation:
        """One model by its name, or the first of a role."""
        return next(
            item for by in ("name", "role") for item in self.models if getattr(item, by) == name
        )

    def of(self, sha256: str) -> ModelEvaluation | None:
        """The evaluation of some weights or file, or None."""
        return next(
            (item for item in self.models if sha256 in (item.sha256, item.checkpoint_sha256)), None
        )

    __repr__ = one_line

    def published(self) -> EvaluationReport:
        """What a bundle holds: without the path of the data, and without the digest over who is in
        the test set.
        """
        data = {name: value for name, value in self.data.items() if name != "spec"}
        return replace(self, data=data, people=replace(self.people, attributes_sha256=""))

    def to_dict(self) -> dict[str, Any]:
        """The report ready for JSON."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically; `OutputError` where the place cannot be written."""
        write_json(path, self.to_dict())


def read_evaluation(path: Path) -> EvaluationReport:
    """Reads a report; `ReportError` where it is missing, broken, or of another schema."""
    return read_dataclass(EvaluationReport, path, ReportError)


def check_evaluation(report: EvaluationReport, where: str) -> None:
    """Refuses a report that no page can draw: shares outside 0 to 1, lines of unequal length, more
    rows than anybody reads.

    Raises:
        ReportError: it is about no model, or its numbers do not fit together.
    """
    if not report.models:
        raise ReportError(
            where, "it is about no model", "Write it again with this version of unplug"
        )
    checked = report.processing
    faults = [] if checked is None else [*checked.faults.values(), checked.any]
    for model in report.models:
        if not (_shares_fit(model, faults) and _rows_fit(model)):
            why = f"the numbers of {model.name[:60]!r} do not fit together"
            raise ReportError(
                where, why, "Write it again with this version of unplug, or restore it from a copy"
            )


def _shares_fit(model: ModelEvaluation, faults: Sequence[Rate | None]) -> bool:
    """Whether every share is one, and every curve has as many points on both axes."""
    rates = [rate for rate in faults if rate is not None]
    for row in model.challenges:
        rates += [row.minors, row.fate_minors, row.rejected]
        rates += [*row.by_year.values(), *row.rejected_by_year.values()]
    shares = [part for rate in rates for part in (rate.value, rate.low, rate.high)]
    for curve in model.det:
        shares += [*curve.false_positive, *curve.false_rejection]
        if not len(curve.threshold) == len(curve.false_positive) == len(curve.false_rejection):
            return False
    return all(share is None or 0.0 <= share <= 1.0 for share in shares)


def _rows_fit(model: ModelEvaluation) -> bool:
    """Whether tables are short enough to read, years are years, and cells are those of the groups."""
    tables = (model.years, model.groups, model.challenges, model.cumulative)
    points = [len(curve.threshold) for curve in model.det]
    years = [year for row in model.challenges for year in (*row.by_year, *row.rejected_by_year)]
    cells = {row.cell for row in model.groups}
    return (
        max(*map(len, tables), *points) <= MAX_ROWS
        and all(year.isdecimal() and len(year) < 4 for year in years)
        and (model.worst_group is None or model.worst_group in cells)
        and all(cells <= row.by_group.keys() for row in model.challenges)
    )
