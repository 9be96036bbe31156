"""Controls beside one frozen base (ControlNet, T2I-Adapter, the plugin): what a comparison found,
as tables.
"""

from __future__ import annotations

from unplug.core import NONE, count, fixed, percent, plain, seconds, short

from ..pages import markdown_table, with_note
from .report import METRICS, ComparisonReport, Measure, Row, apart, ends, number
from .trainings import Training

ROLES = ("floor", "base", "control")
TRAINING_HEADS = (
    *("training", "seed", "steps", "learning rate", "validation loss", "last loss"),
    *("gained late", "took", "device", "weights", "note"),
)


def tables(report: ComparisonReport) -> list[str]:
    """Numbers, differences, verdicts, attributes and trainings, then what is to be said of them."""
    made = [_numbers(report)]
    if report.reference is not None and _rivals(report):
        made.append(_differences(report))
    if report.verdicts:
        made.append(_verdicts(report))
    if any(row.attributes for row in report.rows):
        made.append(_attributes(report))
    if any(row.trainings for row in report.rows):
        made.append(_trainings(report))
    notes = (plain(line, 600) for line in (*absences(report), *report.notes))
    return [*made, "".join(f"- {line}\n" for line in notes)]


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
    if value is None:
        return NONE
    return f"{value / 1e9:.1f} G" if value < 1e12 else f"{value / 1e9:,.0f} G"


def absences(report: ComparisonReport) -> list[str]:
    """Which rows lack which numbers, and why, a line a reason."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for row in report.rows:
        for name, why in row.missing.items():
            lacking.setdefault((name, why), []).append(row.label)
    return [
        f"no {METRICS[name].label if name in METRICS else name} for {', '.join(rows)}: {why}"
        for (name, why), rows in lacking.items()
    ]


def _numbers(report: ComparisonReport) -> str:
    # the ratio of Fréchet distances stands among the differences
    names = [name for name in report.columns if name != "frechet_ratio"]
    kind = plain(str(report.condition.get("kind", "")), 30)
    heads = [kind, "parameters", "MACs (a picture)", *(METRICS[name].label for name in names)]
    rows = [row for role in ROLES for row in report.rows if row.role == role]
    caption = (
        f"{count(len(report.pictures))} pictures a row, condition {kind}, base "
        f"{plain(str(report.base.get('name')), 40)}; with 95 % intervals, and quartiles of the "
        "times"
    )
    cells = [
        [
            plain(row.label),
            millions(row.parameters),
            giga(row.macs),
            *(_measured(row.measures.get(name), name) for name in names),
            *_times(row),
        ]
        for row in rows
    ]
    return markdown_table(caption, [*heads, "time (s a picture)", "of the base's"], cells)


def _times(row: Row) -> tuple[str, str]:
    speed = row.speed
    if speed is None:
        return NONE, NONE
    quartiles = f"{fixed(speed.low)} to {fixed(speed.high)}"
    of_ratio = f"{fixed(speed.ratio_low, 2)} to {fixed(speed.ratio_high, 2)}"
    return with_note(f"{speed.median:.3f}", quartiles), with_note(f"{speed.ratio:.2f}×", of_ratio)


def _measured(item: Measure | None, name: str) -> str:
    metric = METRICS[name]
    return NONE if item is None else with_note(number(item, metric), ends(item, metric))


def _rivals(report: ComparisonReport) -> list[Row]:
    """The controls that are compared with the reference."""
    return [row for row in report.rows if row.role == "control" and row.name != report.reference]


def _differences(report: ComparisonReport) -> str:
    reference = plain(report.row(str(report.reference)).label)
    cells = {
        name: [_difference(row.measures.get(name), name) for row in _rivals(report)]
        for name in report.columns
    }
    names = [name for name, column in cells.items() if any(text != NONE for text in column)]
    heads = [f"{METRICS[name].label} ({METRICS[name].better} is better)" for name in names]
    return markdown_table(
        f"Paired differences from {reference} on the same pictures; percent become percentage "
        "points",
        [f"minus {reference}", *heads],
        [
            [plain(row.label), *(cells[name][place] for name in names)]
            for place, row in enumerate(_rivals(report))
        ],
    )


def _difference(item: Measure | None, name: str) -> str:
    if name == "frechet_ratio":  # it compares by itself
        return _measured(item, name)
    return (
        NONE if item is None or item.difference is None else apart(item.difference, METRICS[name])
    )


def _verdicts(report: ComparisonReport) -> str:
    rows = [
        [
            plain(report.row(one.row).label, 40),
            plain(one.claim),
            with_note(one.outcome, plain(one.why, 200)),
        ]
        for one in report.verdicts
    ]
    heads = ["Control", "asked", "verdict"]
    return markdown_table("Verdicts by the paired 95 % intervals", heads, rows, texts=range(3))


def _attributes(report: ComparisonReport) -> str:
    ceiling = report.judge.accuracy if report.judge else {}
    rows = [
        [
            plain(name, 40),
            percent(ceiling.get(name)),
            *(
                percent(row.attributes[name].value) if name in row.attributes else NONE
                for row in report.rows
            ),
        ]
        for name in dict.fromkeys(name for row in report.rows for name in row.attributes)
    ]
    heads = ["Attribute", "judge on real faces", *(plain(row.label, 40) for row in report.rows)]
    return markdown_table("Share of prompts whose attribute the judge reads as named", heads, rows)


def _trainings(report: ComparisonReport) -> str:
    """A line a training: those that are measured, then those of other learning rates."""
    rows = [
        [
            plain(row.label, 40),
            str(one.seed),
            count(one.steps if one.steps is not None else int(report.recipe["steps"])),
            _rates(one),
            fixed(one.validation, 4),
            fixed(one.loss, 4),
            percent(one.late_gain, 0),
            seconds(one.wall_s),
            plain(one.device, 80),
            short(one.sha256),
            ", ".join(_training_notes(row, one)),
        ]
        for row in report.rows
        for one in (*row.trainings, *(one for one in row.tried if one not in row.trainings))
    ]
    caption = f"Trainings: steps of {report.recipe.get('batch_size')} samples"
    return markdown_table(caption, TRAINING_HEADS, rows, texts=(0, 8, 9, 10))


def _rates(one: Training) -> str:
    """The learning rate, and what it is multiplied with where kernels start at zero."""
    factor = "" if one.zero_rate == 1.0 else f", zero kernels × {one.zero_rate:g}"
    return f"{one.lr:g}{factor}"


def _training_notes(row: Row, one: Training) -> list[str]:
    notes = {
        "flat": one.converged is True,
        "not flat": one.converged is False,
        "tried, not measured": one not in row.trainings,
        "trained before": one.given,
        f"stored as {plain(one.stored, 20)}": one.stored != "F32",
    }
    return [note for note, there in notes.items() if there]
