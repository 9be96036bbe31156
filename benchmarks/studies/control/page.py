"""Controls beside one frozen base (ControlNet, T2I-Adapter, the plugin): what a comparison found,
as tables and as a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unplug.core import NONE, count, fixed, percent, plain, seconds, short, signed
from unplug.sdk.report.page import Block, Cell, Chip, Column, KeyNumber, Notes, Section, Table
from unplug.sdk.report.verdict import Verdict

from ..pages import provenance, save_page, study_page
from .report import METRICS, ComparisonReport, Measure, Row, ends, number
from .trainings import Training

CHIPS: dict[str, Chip] = {"holds": "pass", "does not hold": "fail", "cannot tell": "warn"}
GROUPS = {
    "floor": "Real pictures: what no control can beat, and what any face has",
    "base": "Without a control",
    "control": "With a control",
}

TRAINING_HEADS = (
    *("training", "seed", "steps", "learning rate", "validation loss", "last loss"),
    *("gained late", "took", "device", "weights", "note"),
)
_COMPARED = (
    "Controls of a frozen text-to-image base, trained alike and measured on the same pictures."
)


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


def write_page(report: ComparisonReport, path: Path) -> None:
    """Writes the comparison as one HTML file, atomically."""
    save_page(render_page(report), path)


def render_page(report: ComparisonReport) -> str:
    """The page; the same report gives the same text.

    Raises:
        ReportError: it would be larger than 2 MB.
    """
    parts = {
        "base": report.base,
        "data": report.data,
        "condition": report.condition,
        "recipe": report.recipe,
        "settings": report.settings,
    }
    return study_page(
        "comparison",
        "Compare fewer controls",
        title=f"Controls compared: {_kind(report)}",
        subject=[plain(str(report.data.get("spec", "")), 100)],
        verdict=Verdict(word="Compared", chip="neutral", lead=_COMPARED, sentence="", facts=()),
        numbers=_numbers(report),
        sections=[_section(report)],
        provenance=provenance(parts, report.versions),
    )


def _section(report: ComparisonReport) -> Section:
    lead = (
        "Each control was trained beside the same frozen base with the same batches; every row "
        "draws the same held-out samples "
        "from the same prompts and noise."
    )
    return Section(id="comparison", heading="Controls compared", lead=lead, blocks=blocks(report))


def _numbers(report: ComparisonReport) -> list[KeyNumber]:
    """The plugin's parameters, and its distances from the reference control."""
    plugin = next((row for row in report.rows if row.name == "plugin"), None)
    if plugin is None:
        return []
    kind = _kind(report)
    numbers = [
        KeyNumber(label=f"Plugin, {kind}", value=millions(plugin.parameters), note="parameters")
    ]
    for name in ("nme", "edge_f1", "frechet_ratio"):
        if (item := plugin.measures.get(name)) is not None:
            metric = METRICS[name]
            asked = report.reference is not None and item.difference is not None
            note = (_reference(report, name) if asked else "") or ends(item, metric)
            label = f"{metric.label}, {kind}"
            numbers.append(KeyNumber(label=label, value=number(item, metric), note=note))
    return numbers


def _reference(report: ComparisonReport, name: str) -> str:
    """A number of the reference control, that a difference was taken from."""
    rival = report.row(str(report.reference))
    if name not in rival.measures:
        return ""
    return f"{plain(rival.label, 30)} {number(rival.measures[name], METRICS[name])}"


def _kind(report: ComparisonReport) -> str:
    return plain(str(report.condition.get("kind", "")), 30)


def blocks(report: ComparisonReport, *, attributes: bool = True) -> list[Block]:
    """Numbers, differences, verdicts, attributes and trainings, then what is to be said of them.

    Args:
        report: A comparison.
        attributes: Whether the table of single attributes is among them.

    Returns:
        Tables, and the notes last.
    """
    made: list[Block] = [_main(report)]
    if report.reference is not None and _rivals(report):
        made.append(_differences(report))
    if report.verdicts:
        made.append(_verdicts(report))
    if attributes and any(row.attributes for row in report.rows):
        made.append(_attributes(report))
    if any(row.trainings for row in report.rows):
        made.append(_trainings(report))
    return [*made, Notes(lines=[plain(line, 600) for line in (*absences(report), *report.notes)])]


def _main(report: ComparisonReport) -> Table:
    # the ratio of Fréchet distances stands among the differences
    names = [name for name in report.columns if name != "frechet_ratio"]
    kind = _kind(report)
    columns = [
        Column(label=kind, number=False),
        Column(label="parameters"),
        Column(label="MACs", unit="a picture"),
        *(Column(label=METRICS[name].label) for name in names),
        Column(label="time", unit="s a picture"),
        Column(label="of the base's"),
    ]
    rows = {role: [row for row in report.rows if row.role == role] for role in GROUPS}
    groups = [
        (GROUPS[role], [[*_cost(row), *_cells(row, names), *_times(row)] for row in group])
        for role, group in rows.items()
        if group
    ]
    base = plain(str(report.base.get("name")), 40)
    caption = (
        f"{count(len(report.pictures))} pictures a row, condition {kind}, base {base}; with 95 % "
        "intervals, and quartiles of the times"
    )
    return Table(caption=caption, columns=columns, groups=groups)


def _cost(row: Row) -> list[Cell]:
    return [
        Cell(text=text) for text in (plain(row.label), millions(row.parameters), giga(row.macs))
    ]


def _cells(row: Row, names: Sequence[str]) -> list[Cell]:
    return [_cell(row.measures.get(name), name) for name in names]


def _times(row: Row) -> tuple[Cell, Cell]:
    speed = row.speed
    if speed is None:
        return Cell(text=NONE), Cell(text=NONE)
    quartiles = f"{fixed(speed.low)} to {fixed(speed.high)}"
    of_ratio = f"{fixed(speed.ratio_low, 2)} to {fixed(speed.ratio_high, 2)}"
    return (
        Cell(text=f"{speed.median:.3f}", note=quartiles),
        Cell(text=f"{speed.ratio:.2f}×", note=of_ratio),
    )


def _cell(item: Measure | None, name: str) -> Cell:
    if item is None:
        return Cell(text=NONE)
    return Cell(text=number(item, METRICS[name]), note=ends(item, METRICS[name]))


def _rivals(report: ComparisonReport) -> list[Row]:
    """The controls that are compared with the reference."""
    return [row for row in report.rows if row.role == "control" and row.name != report.reference]


def _differences(report: ComparisonReport) -> Table:
    reference = plain(report.row(str(report.reference)).label)
    cells = {
        name: [_difference(row.measures.get(name), name) for row in _rivals(report)]
        for name in report.columns
    }
    names = [name for name, column in cells.items() if any(cell.text != NONE for cell in column)]
    columns = [
        Column(label=METRICS[name].label, unit=f"{METRICS[name].better} is better")
        for name in names
    ]
    rows = [
        [Cell(text=plain(row.label)), *(cells[name][place] for name in names)]
        for place, row in enumerate(_rivals(report))
    ]
    return Table(
        caption=f"Paired differences from {reference} on the same pictures; percent become "
        "percentage points",
        columns=[Column(label=f"minus {reference}", number=False), *columns],
        groups=[("", rows)],
    )


def _difference(item: Measure | None, name: str) -> Cell:
    if name == "frechet_ratio":  # it compares by itself
        return _cell(item, name)
    if item is None or item.difference is None:
        return Cell(text=NONE)
    metric = METRICS[name]
    value = item.difference.value * (100.0 if metric.percent else 1.0)
    return Cell(text=signed(value, metric.digits), note=ends(item.difference, metric, sign=True))


def _verdicts(report: ComparisonReport) -> Table:
    rows = [
        [
            Cell(text=plain(report.row(one.row).label, 40)),
            Cell(text=plain(one.claim)),
            Cell(text=one.outcome, note=plain(one.why, 200), chip=CHIPS[one.outcome]),
        ]
        for one in report.verdicts
    ]
    columns = [Column(label=label, number=False) for label in ("Control", "asked", "verdict")]
    caption = "Verdicts by the paired 95 % intervals"
    return Table(caption=caption, columns=columns, groups=[("", rows)])


def _attributes(report: ComparisonReport) -> Table:
    ceiling = report.judge.accuracy if report.judge else {}
    names = dict.fromkeys(name for row in report.rows for name in row.attributes)
    rows = [
        [
            plain(name, 40),
            percent(ceiling.get(name)),
            *(
                percent(row.attributes[name].value) if name in row.attributes else NONE
                for row in report.rows
            ),
        ]
        for name in names
    ]
    labels = ["judge on real faces", *(plain(row.label, 40) for row in report.rows)]
    return Table(
        caption="Share of prompts whose attribute the judge reads as named",
        columns=[Column(label="Attribute", number=False), *(Column(label=one) for one in labels)],
        groups=[("", [[Cell(text=text) for text in row] for row in rows])],
    )


def _trainings(report: ComparisonReport) -> Table:
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
    return Table(
        caption=f"Trainings: steps of {report.recipe.get('batch_size')} samples",
        columns=[
            Column(label=label, number=0 < place < 8) for place, label in enumerate(TRAINING_HEADS)
        ],
        groups=[("", [[Cell(text=text) for text in row] for row in rows])],
    )


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
