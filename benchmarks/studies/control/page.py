"""Controls beside one frozen base (ControlNet, T2I-Adapter, the plugin): tables for the terminal,
and the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unplug.core import NONE, count, fixed, percent, plain, seconds, short, signed, table
from unplug.sdk.report.page import Block, Cell, Chip, Column, KeyNumber, Notes, Section, Table
from unplug.sdk.report.verdict import Verdict

from ..pages import provenance, save_page, study_page
from .report import METRICS, ComparisonReport, Measure, Row, apart, ends, number
from .trainings import Training

CHIPS: dict[str, Chip] = {"holds": "pass", "does not hold": "fail", "cannot tell": "warn"}
GROUPS = {
    "floor": "Real pictures: what no control can beat, and what any face has",
    "base": "Without a control",
    "control": "With a control",
}

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
    return (
        NONE
        if value is None
        else f"{value / 1e9:.1f} G"
        if value < 1e12
        else f"{value / 1e9:,.0f} G"
    )


def picture_seconds(row: Row) -> str:
    """The median seconds that a picture takes."""
    return NONE if row.speed is None else f"{row.speed.median:.3f}"


def over_base(row: Row) -> str:
    """The seconds that steering adds to a picture of the bare base."""
    return NONE if row.speed is None else f"{row.speed.ratio:.2f}×"


def measure_cells(row: Row, names: Sequence[str]) -> list[str]:
    """Numbers of a row by the names of `METRICS`, each with its interval in brackets."""
    cells = []
    for name in names:
        item, metric = row.measures.get(name), METRICS[name]
        interval = "" if item is None else ends(item, metric)
        cells.append(
            NONE if item is None else number(item, metric) + (f" ({interval})" if interval else "")
        )
    return cells


def row_cells(row: Row, names: Sequence[str]) -> list[str]:
    """The terminal's cells of a row: what it costs and some of its numbers."""
    cost = [row.label, millions(row.parameters), giga(row.macs)]
    return [*cost, *measure_cells(row, names), picture_seconds(row), over_base(row)]


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


TRAINING_HEADER = (
    "training",
    "seed",
    "steps",
    "learning rate",
    "validation loss",
    "last loss",
    "gained late",
    "took",
    "device",
    "weights",
    "note",
)


def training_cells(report: ComparisonReport) -> list[list[str]]:
    """A line a training, in the columns of `TRAINING_HEADER`: those that are measured, then those
    of other learning rates.
    """
    return [
        [
            plain(row.label, 40),
            str(one.seed),
            _steps(report, one),
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


def _steps(report: ComparisonReport, one: Training) -> str:
    return count(one.steps if one.steps is not None else int(report.recipe["steps"]))


def _rates(one: Training) -> str:
    """The learning rate, and what it is multiplied with where kernels start at zero."""
    return (
        f"{one.lr:g}" if one.zero_rate == 1.0 else f"{one.lr:g}, zero kernels × {one.zero_rate:g}"
    )


def _training_notes(row: Row, one: Training) -> list[str]:
    notes = {
        "flat": one.converged is True,
        "not flat": one.converged is False,
        "tried, not measured": one not in row.trainings,
        "trained before": one.given,
        f"stored as {plain(one.stored, 20)}": one.stored != "F32",
    }
    return [note for note, there in notes.items() if there]


def rivals(report: ComparisonReport) -> list[Row]:
    """The controls that are compared with the reference."""
    return [row for row in report.rows if row.role == "control" and row.name != report.reference]


def difference_columns(report: ComparisonReport) -> list[str]:
    """Numbers in which a control is compared with the reference control; the Fréchet distances'
    ratio compares by itself.
    """

    def compared(item: Measure | None, name: str) -> bool:
        return item is not None and (item.difference is not None or name == "frechet_ratio")

    return [
        name
        for name in report.columns
        if any(compared(row.measures.get(name), name) for row in rivals(report))
    ]


def difference_header(report: ComparisonReport) -> list[str]:
    """Heads of the table of differences."""
    first = "" if report.reference is None else f"minus {report.row(report.reference).label}"
    return [first, *(METRICS[name].label for name in difference_columns(report))]


def difference_cells(report: ComparisonReport, row: Row) -> list[str]:
    """A row minus the reference control, in the columns of `difference_header`."""
    cells = [row.label]
    for name in difference_columns(report):
        item = row.measures.get(name)
        if name == "frechet_ratio":
            cells += measure_cells(row, [name])
        else:
            cells.append(
                NONE
                if item is None or item.difference is None
                else apart(item.difference, METRICS[name])
            )
    return cells


def comparison_table(report: ComparisonReport) -> str:
    """Rows, differences, verdicts, trainings and notes for a terminal."""
    names = [name for name in report.columns if not METRICS[name].aside]
    head = [
        "",
        "parameters",
        "MACs",
        *(METRICS[name].label for name in names),
        "s/picture",
        "of base",
    ]
    lines = [table(head, [row_cells(row, names) for row in report.rows])]
    if report.reference is not None and (others := rivals(report)):
        lines += [
            "",
            table(difference_header(report), [difference_cells(report, row) for row in others]),
        ]
    if report.verdicts:
        lines += ["", table(VERDICT_HEADER, verdict_cells(report))]
    if trainings := training_cells(report):
        lines += ["", table(TRAINING_HEADER, trainings)]
    return "\n".join([*lines, "", *(f"- {line}" for line in (*absences(report), *report.notes))])


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
    found = [
        KeyNumber(label=f"Plugin, {kind}", value=millions(plugin.parameters), note="parameters")
    ]
    for name in ("nme", "edge_f1", "frechet_ratio"):
        if (item := plugin.measures.get(name)) is not None:
            metric, asked = (
                METRICS[name],
                report.reference is not None and item.difference is not None,
            )
            note = (_reference(report, name) if asked else "") or ends(item, metric)
            found.append(
                KeyNumber(label=f"{metric.label}, {kind}", value=number(item, metric), note=note)
            )
    return found


def _reference(report: ComparisonReport, name: str) -> str:
    """A number of the reference control, that a difference was taken from."""
    rival = report.row(str(report.reference))
    return (
        f"{plain(rival.label, 30)} {number(rival.measures[name], METRICS[name])}"
        if name in rival.measures
        else ""
    )


def _kind(report: ComparisonReport) -> str:
    return plain(str(report.condition.get("kind", "")), 30)


def blocks(report: ComparisonReport) -> list[Block]:
    """Tables of the numbers, the differences, the verdicts and the trainings, then what is to be
    said of them.
    """
    found: list[Block] = [_main(report)]
    if report.reference is not None and rivals(report):
        found.append(_differences(report))
    if report.verdicts:
        found.append(_verdicts(report))
    if any(row.attributes for row in report.rows):
        found.append(_attributes(report))
    if any(row.trainings for row in report.rows):
        found.append(_trainings(report))
    return [*found, Notes(lines=[plain(line, 600) for line in (*absences(report), *report.notes)])]


def _main(report: ComparisonReport) -> Table:
    columns = [
        Column(label=_kind(report), number=False),
        Column(label="parameters"),
        Column(label="MACs", unit="a picture"),
    ]
    columns += [Column(label=METRICS[name].label) for name in _shown(report)]
    columns += [Column(label="time", unit="s a picture"), Column(label="of the base's")]
    groups = [
        (title, [_row(report, row) for row in report.rows if row.role == role])
        for role, title in GROUPS.items()
        if any(row.role == role for row in report.rows)
    ]
    base = plain(str(report.base.get("name")), 40)
    caption = (
        f"{count(len(report.pictures))} pictures a row, condition {_kind(report)}, base {base}; "
        "with 95 % intervals, and "
        "quartiles of the times"
    )
    return Table(caption=caption, columns=columns, groups=groups)


def _shown(report: ComparisonReport) -> list[str]:
    # it stands among the differences
    return [name for name in report.columns if name != "frechet_ratio"]


def _row(report: ComparisonReport, row: Row) -> list[Cell]:
    cells = [
        Cell(text=plain(row.label)),
        Cell(text=millions(row.parameters)),
        Cell(text=giga(row.macs)),
    ]
    cells += [_cell(row.measures.get(name), name) for name in _shown(report)]
    speed = row.speed
    if speed is None:
        return [*cells, Cell(text=NONE), Cell(text=NONE)]
    return [
        *cells,
        Cell(text=picture_seconds(row), note=f"{fixed(speed.low)} to {fixed(speed.high)}"),
        Cell(
            text=over_base(row), note=f"{fixed(speed.ratio_low, 2)} to {fixed(speed.ratio_high, 2)}"
        ),
    ]


def _cell(item: Measure | None, name: str) -> Cell:
    metric = METRICS[name]
    return (
        Cell(text=NONE)
        if item is None
        else Cell(text=number(item, metric), note=ends(item, metric))
    )


def _differences(report: ComparisonReport) -> Table:
    names = difference_columns(report)
    reference = plain(report.row(str(report.reference)).label)
    columns = [Column(label=f"minus {reference}", number=False)]
    columns += [
        Column(label=METRICS[name].label, unit=f"{METRICS[name].better} is better")
        for name in names
    ]
    rows = [
        [Cell(text=plain(row.label)), *(_difference(row, name) for name in names)]
        for row in rivals(report)
    ]
    return Table(
        caption=(
            f"Paired differences from {reference} on the same pictures; percent become percentage "
            "points"
        ),
        columns=columns,
        groups=[("", rows)],
    )


def _difference(row: Row, name: str) -> Cell:
    item, metric = row.measures.get(name), METRICS[name]
    if name == "frechet_ratio":
        return _cell(item, name)
    if item is None or item.difference is None:
        return Cell(text=NONE)
    value = item.difference.value * (100.0 if metric.percent else 1.0)
    return Cell(text=signed(value, metric.digits), note=ends(item.difference, metric, sign=True))


def _verdicts(report: ComparisonReport) -> Table:
    columns = [
        Column(label="Control", number=False),
        *(Column(label=label, number=False) for label in ("asked", "verdict")),
    ]
    rows = [
        [
            Cell(text=plain(label, 40)),
            Cell(text=plain(asked)),
            Cell(text=said, note=plain(why, 200), chip=CHIPS[said]),
        ]
        for label, asked, said, why in verdict_cells(report)
    ]
    return Table(
        caption="Verdicts by the paired 95 % intervals", columns=columns, groups=[("", rows)]
    )


def _attributes(report: ComparisonReport) -> Table:
    names = list(dict.fromkeys(name for row in report.rows for name in row.attributes))
    columns = [Column(label="Attribute", number=False), Column(label="judge on real faces")]
    columns += [Column(label=plain(row.label, 40)) for row in report.rows]
    ceiling = report.judge.accuracy if report.judge else {}
    rows = [
        [
            Cell(text=plain(name, 40)),
            Cell(text=percent(ceiling.get(name))),
            *(
                Cell(text=percent(row.attributes[name].value) if name in row.attributes else NONE)
                for row in report.rows
            ),
        ]
        for name in names
    ]
    return Table(
        caption="Share of prompts whose attribute the judge reads as named",
        columns=columns,
        groups=[("", rows)],
    )


def _trainings(report: ComparisonReport) -> Table:
    columns = [
        Column(label=label, number=0 < place < 8) for place, label in enumerate(TRAINING_HEADER)
    ]
    rows = [[Cell(text=text) for text in cells] for cells in training_cells(report)]
    batch = report.recipe.get("batch_size")
    return Table(
        caption=f"Trainings: steps of {batch} samples", columns=columns, groups=[("", rows)]
    )
