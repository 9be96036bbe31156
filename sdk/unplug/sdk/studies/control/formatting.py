"""How the numbers of a comparison are written: the terminal, the page and the documents share it."""

from __future__ import annotations

from unplug.core import NONE, fixed, percent, plain, short, signed, table
from unplug.core import seconds as duration
from unplug.sdk.statistics import Estimate

from .metrics import METRICS, Metric
from .report import ComparisonReport, Measure, Row, Training


def number(item: Measure | Estimate, metric: Metric) -> str:
    """A value without its interval."""
    return percent(item.value, metric.digits) if metric.percent else fixed(item.value, metric.digits)


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
    return f"{write(item.low * factor, metric.digits)} to {write(item.high * factor, metric.digits)}"


def apart(item: Estimate, metric: Metric) -> str:
    """A difference with its interval; percent become percentage points."""
    factor = 100.0 if metric.percent else 1.0
    return f"{signed(item.value * factor, metric.digits)} ({ends(item, metric, sign=True)})"


def millions(value: int | None) -> str:
    """A number of parameters.

    Example:
        >>> millions(1_612_345), millions(361_000_000)
        ('1.61 M', '361 M')
    """
    if value is None:
        return NONE
    return f"{value / 1e6:.2f} M" if value < 1e8 else f"{value / 1e6:.0f} M"


def giga(value: float | None) -> str:
    """Multiply-accumulates.

    Example:
        >>> giga(12_345_000_000.0)
        '12.3 G'
    """
    return NONE if value is None else f"{value / 1e9:.1f} G" if value < 1e12 else f"{value / 1e9:,.0f} G"


def seconds(row: Row) -> str:
    """Median seconds a picture."""
    return NONE if row.speed is None else f"{row.speed.median:.3f}"


def over_base(row: Row) -> str:
    """Seconds over the base's."""
    return NONE if row.speed is None else f"{row.speed.ratio:.2f}×"


def header(report: ComparisonReport) -> list[str]:
    """Heads of the terminal's table."""
    return ["", "parameters", "MACs", *(METRICS[name].label for name in main_columns(report)), "s/picture", "of base"]


def main_columns(report: ComparisonReport) -> list[str]:
    """The numbers for which there is room in a terminal."""
    return [name for name in report.columns if not METRICS[name].aside]


def row_cells(report: ComparisonReport, row: Row) -> list[str]:
    """The terminal's cells of a row, with intervals behind the numbers."""
    cells = [row.label, millions(row.parameters), giga(row.macs)]
    for name in main_columns(report):
        item, metric = row.measures.get(name), METRICS[name]
        if item is None:
            cells.append(NONE)
        else:
            interval = ends(item, metric)
            cells.append(f"{number(item, metric)} ({interval})" if interval else number(item, metric))
    return [*cells, seconds(row), over_base(row)]


def absences(report: ComparisonReport) -> list[str]:
    """Which rows lack which numbers, and why, a line a reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in report.rows:
        for name, why in row.missing.items():
            found.setdefault((name, why), []).append(row.label)
    return [
        f"no {METRICS[name].label if name in METRICS else name} for {', '.join(rows)}: {why}"
        for (name, why), rows in found.items()
    ]


VERDICT_HEADER = ("", "asked", "verdict", "by")


def verdict_cells(report: ComparisonReport) -> list[list[str]]:
    """A line a verdict, in the columns of `VERDICT_HEADER`."""
    return [[report.row(one.row).label, one.claim, one.outcome, one.why] for one in report.verdicts]


TRAINING_HEADER = ("training", "seed", "learning rate", "validation loss", "last loss", "took", "device", "weights", "note")


def training_cells(report: ComparisonReport) -> list[list[str]]:
    """A line a training, in the columns of `TRAINING_HEADER`: those that are measured, then those of other learning rates."""
    return [
        [
            plain(row.label, 40), str(one.seed), f"{one.lr:g}", fixed(one.validation, 4), fixed(one.loss, 4),
            duration(one.wall_s), plain(one.device, 80), short(one.sha256), ", ".join(_training_notes(row, one)),
        ]
        for row in report.rows
        for one in (*row.trainings, *(one for one in row.tried if one not in row.trainings))
    ]  # fmt: skip


def _training_notes(row: Row, one: Training) -> list[str]:
    notes = {
        "tried, not measured": one not in row.trainings,
        "trained before": one.given,
        f"stored as {plain(one.stored, 20)}": one.stored != "F32",
    }
    return [note for note, there in notes.items() if there]


def rivals(report: ComparisonReport) -> list[Row]:
    """The controls that are compared with the reference."""
    return [row for row in report.rows if row.role == "control" and row.name != report.reference]


def difference_cells(report: ComparisonReport, row: Row) -> list[str]:
    """A row minus the reference control, in the columns of `difference_header`."""
    cells = [row.label]
    for name in difference_columns(report):
        item = row.measures.get(name)
        if name == "frechet_ratio":
            cells.append(NONE if item is None else f"{number(item, METRICS[name])} ({ends(item, METRICS[name])})")
        else:
            cells.append(NONE if item is None or item.difference is None else apart(item.difference, METRICS[name]))
    return cells


def difference_columns(report: ComparisonReport) -> list[str]:
    """Numbers that are compared with the reference control's."""
    return [name for name in report.columns if any(_compared(row.measures.get(name), name) for row in rivals(report))]


def _compared(item: Measure | None, name: str) -> bool:
    return item is not None and (item.difference is not None or name == "frechet_ratio")


def difference_header(report: ComparisonReport) -> list[str]:
    """Heads of the table of differences."""
    first = "" if report.reference is None else f"minus {report.row(report.reference).label}"
    return [first, *(METRICS[name].label for name in difference_columns(report))]


def comparison_table(report: ComparisonReport) -> str:
    """Rows, differences, verdicts, trainings and notes for a terminal."""
    lines = [table(header(report), [row_cells(report, row) for row in report.rows])]
    if report.reference is not None and (others := rivals(report)):
        lines += ["", table(difference_header(report), [difference_cells(report, row) for row in others])]
    if report.verdicts:
        lines += ["", table(VERDICT_HEADER, verdict_cells(report))]
    if trainings := training_cells(report):
        lines += ["", table(TRAINING_HEADER, trainings)]
    return "\n".join([*lines, "", *(f"- {line}" for line in (*absences(report), *report.notes))])
