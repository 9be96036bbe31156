"""Reading a comparison: the file may come from anywhere."""

from __future__ import annotations

from pathlib import Path

from unplug.core import ReportError, read_dataclass
from unplug.sdk.statistics import Estimate

from .metrics import METRICS
from .report import ComparisonReport, Measure

MAX_BYTES = 64 * 2**20
MAX_ROWS = 100
MAX_TEXT = 4000
MAX_NUMBER = 1e15  # what is drawn stays finite below it
AGAIN = "Write it again with this version of unplug, or restore it from a copy"


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
    measures = [item for row in report.rows for item in (*row.measures.values(), *row.attributes.values())]
    problems = {
        f"it has no row, or over {MAX_ROWS}": not 0 < len(names) <= MAX_ROWS,
        "two rows share a name": len(set(names)) != len(names),
        "its reference is no row": report.reference is not None and report.reference not in names,
        "a number is unknown": any(name not in METRICS for row in report.rows for name in row.measures),
        "an interval is upside down": any(_upside_down(item) for item in measures),
        "a number is too large": any(_huge(item) for item in measures),
        "a verdict is on no row": any(verdict.row not in names for verdict in report.verdicts),
        "a row has over 64 attributes": any(len(row.attributes) > 64 for row in report.rows),
        "a text is too long": any(len(text) > MAX_TEXT for text in _texts(report)),
    }
    for why, wrong in problems.items():
        if wrong:
            raise ReportError(where, why, AGAIN)


def _upside_down(item: Measure | Estimate) -> bool:
    own = item.low is not None and item.high is not None and item.low > item.high
    return own or (isinstance(item, Measure) and item.difference is not None and _upside_down(item.difference))


def _huge(item: Measure | Estimate) -> bool:
    own = any(value is not None and abs(value) > MAX_NUMBER for value in (item.value, item.low, item.high))
    return own or (isinstance(item, Measure) and item.difference is not None and _huge(item.difference))


def _texts(report: ComparisonReport) -> list[str]:
    rows = [text for row in report.rows for text in (row.name, row.label, *row.attributes, *row.missing.values())]
    verdicts = [text for verdict in report.verdicts for text in (verdict.claim, verdict.why)]
    return [*rows, *verdicts, *report.notes, report.features.name, *(picture.prompt for picture in report.pictures)]
