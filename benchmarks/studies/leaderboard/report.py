"""The leaderboard's file, ``unplug-leaderboard/1``: every number with an interval and the oracle's
value beside it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import STRICT, ReportError, read_dataclass, write_json

from .binding import SHA256
from .metrics import METRICS, Kind, PublishedNumber, Rank

SCHEMA: Literal["unplug-leaderboard/1"] = "unplug-leaderboard/1"
Role = Literal["original", "unlearned", "retrained"]
MAX_BYTES = 32 * 2**20
MAX_ROWS = 500
MAX_TEXT = 4000
MAX_NUMBER = 1e15  # plots stay finite below it
_AGAIN = "Write it again with this version of unplug, or restore it from a copy"


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number of one row.

    Args:
        value: mean over the row's models, or the number that all of them give together.
        low, high: 95 % interval; null where fewer than two models were made.
        oracle: the same number of the retrained models; null where it has none.
        spread: standard deviation between evaluation seeds (folds, bootstraps, splits); null where
            none takes part.
    """

    value: float
    low: float | None = None
    high: float | None = None
    oracle: float | None = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method, the originals, or the oracle.

    Args:
        name: of the method, or "original" or "retrained".
        role: what it is.
        rank: 1 is best; null for the original, the oracle, and methods that were refused or had a
            larger budget than others.
        refused: why runs gave no model; the numbers are then of those that did, if any. Null where
            all did.
        note: what a reader must know of this row.
        models, originals: how many models stand behind the numbers, and from how many originals
            they come.
        settings: every hyperparameter.
        needs: what the method reads.
        budget: fraction of retraining that it might cost; null where there was no limit.
        metrics: by the names of `METRICS`.
        missing: why a number is not there, by its name.
        weights_sha256: of the weights of each model behind the numbers, in the order of their
            seeds; empty in reports of before results were bound to weights.
    """

    name: str
    role: Role
    rank: int | None = None
    refused: str | None = None
    note: str = ""
    models: int = 0
    originals: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    budget: float | None = None
    metrics: dict[str, Measure] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    weights_sha256: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeaderboardReport:
    """``unplug-leaderboard/1``.

    Args:
        protocol, summary, kind: see `BenchmarkProtocol`.
        rank: what orders the rows.
        data: spec, digest and sizes of the sets.
        forget: how many samples and subjects, in which groups.
        recipe: of every model.
        seeds: of the originals, the retrained models, the unlearning runs and the evaluation.
        retraining: passes and seconds of one retraining, and how they are known.
        rows: ranked methods first, then refused ones; the original and the oracle at the end.
        published: others' numbers.
        notes: what a reader must know.
        settings: of the evaluation.
        versions: of the packages.
    """

    __pydantic_config__: ClassVar = STRICT

    protocol: str
    summary: str
    kind: Kind
    rank: Rank
    data: dict[str, Any]
    forget: dict[str, Any]
    recipe: dict[str, Any]
    seeds: dict[str, list[int]]
    retraining: dict[str, Any]
    rows: tuple[Row, ...]
    published: tuple[PublishedNumber, ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    versions: dict[str, str | None]
    schema: Literal["unplug-leaderboard/1"] = SCHEMA

    def row(self, name: str) -> Row:
        """One row by its name; `KeyError` where there is none."""
        match = next((row for row in self.rows if row.name == name), None)
        if match is None:
            raise KeyError(name)
        return match

    def to_dict(self) -> dict[str, Any]:
        """The report ready for JSON."""
        return asdict(self)

    def save(self, path: Path) -> None:
        """Writes the report, atomically; `OutputError` where the place cannot be written."""
        write_json(path, self.to_dict())


def read_leaderboard(path: Path) -> LeaderboardReport:
    """Reads a leaderboard as hostile input.

    Raises:
        ReportError: missing, too large, not of the schema, or inconsistent in itself.
    """
    report = read_dataclass(LeaderboardReport, path, ReportError, max_bytes=MAX_BYTES)
    _check(report, str(path))
    return report


def _check(report: LeaderboardReport, where: str) -> None:
    names = [row.name for row in report.rows]
    ranks = sorted(row.rank for row in report.rows if row.rank is not None)
    problems = {
        f"it has over {MAX_ROWS} rows": len(names) > MAX_ROWS,
        "two rows share a name": len(set(names)) != len(names),
        "it has no row of the oracle, or several": sum(
            row.role == "retrained" for row in report.rows
        )
        != 1,
        "its ranks are not 1, 2, 3, ...": ranks != list(range(1, len(ranks) + 1)),
        "a refused row has a rank": any(
            row.rank is not None and row.refused is not None for row in report.rows
        ),
        "a metric is unknown": any(
            name not in METRICS for row in report.rows for name in row.metrics
        ),
        "an interval is upside down": any(
            _upside_down(item) for row in report.rows for item in row.metrics.values()
        ),
        "a number is too large": any(
            _huge(item) for row in report.rows for item in row.metrics.values()
        ),
        "a row names weights of more or fewer models than it has": any(
            row.weights_sha256 and len(row.weights_sha256) != row.models for row in report.rows
        ),
        "a digest of weights is none": any(
            not SHA256.fullmatch(item) for row in report.rows for item in row.weights_sha256
        ),
        "a text is too long": any(len(text) > MAX_TEXT for text in _texts(report)),
    }
    for why, wrong in problems.items():
        if wrong:
            raise ReportError(where, why, _AGAIN)


def _upside_down(item: Measure) -> bool:
    return item.low is not None and item.high is not None and item.low > item.high


def _huge(item: Measure) -> bool:
    return any(abs(part) > MAX_NUMBER for part in asdict(item).values() if part is not None)


def _texts(report: LeaderboardReport) -> list[str]:
    rows = [
        text
        for row in report.rows
        for text in (row.name, row.refused or "", row.note, *row.needs, *row.missing.values())
    ]
    return [report.protocol, report.summary, *report.notes, *rows]
