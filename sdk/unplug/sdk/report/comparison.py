"""Section about controls beside one frozen base: ControlNet, T2I-Adapter and the plugin in one table a comparison."""

from __future__ import annotations

from unplug.core import NONE, count, fixed, percent, plain, signed
from unplug.sdk.studies.control import (
    METRICS,
    TRAINING_HEADER,
    ComparisonReport,
    Measure,
    Row,
    absences,
    difference_columns,
    ends,
    giga,
    millions,
    number,
    over_base,
    rivals,
    seconds,
    training_cells,
    verdict_cells,
)

from .inputs import Inputs
from .page import Block, Cell, Chip, Column, KeyNumber, Notes, Section, Table

CHIPS: dict[str, Chip] = {"holds": "pass", "does not hold": "fail", "cannot tell": "warn"}
GROUPS = {
    "floor": "Real pictures: what no control can beat, and what any face has",
    "base": "Without a control",
    "control": "With a control",
}


def comparison(inputs: Inputs) -> Section:
    """Tables of every comparison that was given."""
    blocks: list[Block] = []
    for report in inputs.comparisons:
        blocks += _blocks(report)
    lead = (
        "Each control was trained beside the same frozen base with the same batches; every row draws the same held-out samples "
        "from the same prompts and noise."
    )
    return Section(id="comparison", heading="Controls compared", lead=lead, blocks=blocks)


def comparison_numbers(inputs: Inputs) -> list[KeyNumber]:
    """The plugin's parameters, and its distances from the reference control."""
    found = []
    for report in inputs.comparisons:
        plugin = next((row for row in report.rows if row.name == "plugin"), None)
        if plugin is None:
            continue
        kind = _kind(report)
        found.append(KeyNumber(label=f"Plugin, {kind}", value=millions(plugin.parameters), note="parameters"))
        for name in ("nme", "edge_f1", "frechet_ratio"):
            if (item := plugin.measures.get(name)) is not None:
                metric = METRICS[name]
                found.append(
                    KeyNumber(
                        label=f"{metric.label}, {kind}",
                        value=number(item, metric),
                        note=_against(report, item) or ends(item, metric),
                    )
                )
    return found


def _against(report: ComparisonReport, item: Measure) -> str:
    if report.reference is None or item.difference is None:
        return ""
    rival = report.row(report.reference)
    name = next(name for name, own in METRICS.items() if item is report.row("plugin").measures.get(name))
    return f"{plain(rival.label, 30)} {number(rival.measures[name], METRICS[name])}" if name in rival.measures else ""


def _kind(report: ComparisonReport) -> str:
    return plain(str(report.condition.get("kind", "")), 30)


def _blocks(report: ComparisonReport) -> list[Block]:
    blocks: list[Block] = [_main(report)]
    if report.reference is not None and rivals(report):
        blocks.append(_differences(report))
    if report.verdicts:
        blocks.append(_verdicts(report))
    if any(row.attributes for row in report.rows):
        blocks.append(_attributes(report))
    if any(row.trainings for row in report.rows):
        blocks.append(_trainings(report))
    return [*blocks, Notes(lines=[plain(line, 600) for line in (*absences(report), *report.notes)])]


def _main(report: ComparisonReport) -> Table:
    columns = [Column(label=_kind(report), number=False), Column(label="parameters"), Column(label="MACs", unit="a picture")]
    columns += [Column(label=METRICS[name].label) for name in _shown(report)]
    columns += [Column(label="time", unit="s a picture"), Column(label="of the base's")]
    groups = [
        (title, [_row(report, row) for row in report.rows if row.role == role])
        for role, title in GROUPS.items()
        if any(row.role == role for row in report.rows)
    ]
    base = plain(str(report.base.get("name")), 40)
    caption = (
        f"{count(len(report.pictures))} pictures a row, condition {_kind(report)}, base {base}; 95 % intervals below the "
        "numbers, quartiles below the times"
    )
    return Table(caption=caption, columns=columns, groups=groups)


def _shown(report: ComparisonReport) -> list[str]:
    return [name for name in report.columns if name != "frechet_ratio"]  # it stands among the differences


def _row(report: ComparisonReport, row: Row) -> list[Cell]:
    cells = [Cell(text=plain(row.label)), Cell(text=millions(row.parameters)), Cell(text=giga(row.macs))]
    cells += [_cell(row.measures.get(name), name) for name in _shown(report)]
    speed = row.speed
    if speed is None:
        return [*cells, Cell(text=NONE), Cell(text=NONE)]
    return [
        *cells,
        Cell(text=seconds(row), note=f"{fixed(speed.low)} to {fixed(speed.high)}"),
        Cell(text=over_base(row), note=f"{fixed(speed.ratio_low, 2)} to {fixed(speed.ratio_high, 2)}"),
    ]


def _cell(item: Measure | None, name: str) -> Cell:
    metric = METRICS[name]
    return Cell(text=NONE) if item is None else Cell(text=number(item, metric), note=ends(item, metric))


def _differences(report: ComparisonReport) -> Table:
    names = difference_columns(report)
    reference = plain(report.row(str(report.reference)).label)
    columns = [Column(label=f"minus {reference}", number=False)]
    columns += [Column(label=METRICS[name].label, unit=f"{METRICS[name].better} is better") for name in names]
    rows = [[Cell(text=plain(row.label)), *(_difference(row, name) for name in names)] for row in rivals(report)]
    return Table(
        caption=f"Paired differences from {reference} on the same pictures; percent become percentage points", columns=columns,
        groups=[("", rows)],
    )  # fmt: skip


def _difference(row: Row, name: str) -> Cell:
    item, metric = row.measures.get(name), METRICS[name]
    if name == "frechet_ratio":
        return _cell(item, name)
    if item is None or item.difference is None:
        return Cell(text=NONE)
    value = item.difference.value * (100.0 if metric.percent else 1.0)
    return Cell(text=signed(value, metric.digits), note=ends(item.difference, metric, sign=True))


def _verdicts(report: ComparisonReport) -> Table:
    columns = [Column(label="Control", number=False), *(Column(label=label, number=False) for label in ("asked", "verdict"))]
    rows = [
        [Cell(text=plain(label, 40)), Cell(text=plain(asked)), Cell(text=said, note=plain(why, 200), chip=CHIPS[said])]
        for label, asked, said, why in verdict_cells(report)
    ]
    return Table(caption="Verdicts by the paired 95 % intervals", columns=columns, groups=[("", rows)])


def _attributes(report: ComparisonReport) -> Table:
    names = list(dict.fromkeys(name for row in report.rows for name in row.attributes))
    columns = [Column(label="Attribute", number=False), Column(label="judge on real faces")]
    columns += [Column(label=plain(row.label, 40)) for row in report.rows]
    ceiling = report.judge.accuracy if report.judge else {}
    rows = [
        [
            Cell(text=plain(name, 40)), Cell(text=percent(ceiling.get(name))),
            *(Cell(text=percent(row.attributes[name].value) if name in row.attributes else NONE) for row in report.rows),
        ]
        for name in names
    ]  # fmt: skip
    return Table(caption="Share of prompts whose attribute the judge reads as named", columns=columns, groups=[("", rows)])


def _trainings(report: ComparisonReport) -> Table:
    columns = [Column(label=label, number=0 < place < 6) for place, label in enumerate(TRAINING_HEADER)]
    rows = [[Cell(text=text) for text in cells] for cells in training_cells(report)]
    steps, batch = report.recipe.get("steps"), report.recipe.get("batch_size")
    return Table(caption=f"Trainings: {steps} steps of {batch} samples each", columns=columns, groups=[("", rows)])
