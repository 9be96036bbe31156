"""Section about what export and rounding did to the edit, a file at a time."""

from __future__ import annotations

from unplug.core import NONE, count, percent, plain, short, signed, span
from unplug.sdk.evidence.auditing import OutputDistance, Rounding, RoundingOutcome

from .inputs import Inputs
from .models import has_classes, has_years
from .page import Block, Cell, Chip, Column, Missing, Notes, Section, Table, estimate_cell, words

CHIPS: dict[RoundingOutcome, Chip] = {
    "nothing back": "pass",
    "part back": "fail",
    "easier to attack": "fail",
    "further away": "warn",
    "not run": "neutral",
    "open": "warn",
}
WORST_FIRST: tuple[RoundingOutcome, ...] = (
    "easier to attack",
    "part back",
    "open",
    "further away",
    "nothing back",
    "not run",
)


def rounding_rows(inputs: Inputs) -> list[Rounding]:
    """Every compared file once, in the order given."""
    known = {
        row.sha256: row for audit in reversed(inputs.audits) for row in reversed(audit.rounding)
    }
    return list(reversed(known.values()))


def rounding(inputs: Inputs) -> Section | Missing:
    """One verdict a file, its distances, and what was not compared."""
    rows = rounding_rows(inputs)
    if not rows:
        why = (
            "no audit compares exported files with the original's export (unplug audit CHECKPOINT "
            "FILE...)"
        )
        return Missing("Rounding", why)
    blocks: list[Block] = [_verdicts(rows), _distances(rows, inputs)]
    notes = list(
        dict.fromkeys(f"{_form(row)}: {plain(note, 300)}." for row in rows for note in row.notes)
    )
    if notes:
        blocks.append(Notes(notes))
    lead = (
        "Rounding can undo an edit, and it can blur one. Every file is compared with the "
        f"original's export in the same form. {_overall(rows)}"
    )
    return Section("rounding", "After export", lead.strip(), blocks)


def rounding_fact(inputs: Inputs) -> str:
    """The sentence of the file that came off worst, for the head of the page."""
    rows = [row for row in rounding_rows(inputs) if row.outcome != "not run"]
    if not rows:
        return ""
    worst = min(
        rows, key=lambda row: (WORST_FIRST.index(row.outcome), row.kept.value if row.kept else 0.0)
    )
    return (
        f"After export ({_form(worst)}{', the worst file' if len(rows) > 1 else ''}): "
        f"{worst.sentence()}"
    )


def _overall(rows: list[Rounding]) -> str:
    ran = [row.outcome for row in rows if row.outcome != "not run"]
    if ran and all(outcome == "nothing back" for outcome in ran):
        return (
            "It brought nothing back in "
            f"{'the one file' if len(ran) == 1 else f'any of {len(ran)} files'} that ran here."
        )
    return ""


def _form(row: Rounding) -> str:
    return f"{plain(row.target, 20)} {plain(row.precision, 20)}"


def _verdicts(rows: list[Rounding]) -> Table:
    columns = [
        words("File"),
        words("outcome"),
        Column("edit left", unit="of the checkpoint's"),
        Column("attack's largest rise", unit="AUC"),
        words("in words", wide=True),
    ]
    return Table.of(
        "What rounding did to each file, with 95 % intervals",
        columns,
        list(map(_verdict, rows)),
    )


def _verdict(row: Rounding) -> list[Cell]:
    outcome = row.outcome
    shift = max(row.auc_shift.items(), key=lambda pair: pair[1].value, default=None)
    rise = Cell(NONE)
    if shift is not None:
        ends = span(shift[1].low, shift[1].high, sign=True)
        rise = Cell(signed(shift[1].value), note=f"{plain(shift[0], 20)} {ends}")
    return [
        Cell(_form(row), note=f"{plain(row.model, 40)}, {short(row.sha256)}"),
        Cell(outcome, chip=CHIPS[outcome]),
        estimate_cell(row.kept, share=True),
        rise,
        Cell(row.sentence()),
    ]


def _distances(rows: list[Rounding], inputs: Inputs) -> Table:
    years, classes = has_years(inputs), has_classes(inputs)
    unit = "years" if years else "probability" if classes else "loss"
    units = (unit, "total variation" if years or classes else "exp(−loss)")
    columns = [
        words("Distance from the original"),
        Column("stored numbers changed"),
        *(Column(f"{name} set", unit=unit) for unit in units for name in ("forget", "test")),
    ]
    digits = 2 if years else 4
    groups = [(f"{_form(row)}, {plain(row.model, 60)}", _group(row, digits)) for row in rows]
    return Table(
        "Every file against the original's export in the same form",
        columns,
        groups,
    )


def _group(row: Rounding, digits: int) -> list[list[Cell]]:
    before = [
        Cell("checkpoint, not exported", role="unlearned"),
        Cell(NONE),
        *_outputs(row.checkpoint, digits),
    ]
    rows = [before] if row.checkpoint and row.distance else []
    rows.append([Cell("this file", role="artifact"), _codes(row), *_outputs(row.distance, digits)])
    if row.retrained or row.retrained_codes:
        changed = row.retrained_codes.changed if row.retrained_codes else None
        cells = _outputs(row.retrained, digits)
        rows.append(
            [
                Cell("retrained model's file", role="retrained"),
                Cell(percent(changed)),
                *cells,
            ]
        )
    return rows


def _codes(row: Rounding) -> Cell:
    codes = row.codes
    if codes is None:
        return Cell(NONE, note="not read")
    parts = [f"of {count(codes.weights)}"]
    if codes.least is not None and codes.most is not None:
        parts.append(
            f"by tensor {percent(codes.least.changed, 0)} to {percent(codes.most.changed, 0)}"
        )
    matched = (
        f"{count(codes.tensors)} of {count(codes.tensors + codes.unmatched)} tensors matched"
        if codes.unmatched
        else ""
    )
    return Cell(percent(codes.changed), note="; ".join([*parts, matched] if matched else parts))


def _outputs(found: dict[str, OutputDistance], digits: int) -> list[Cell]:
    forget, test = found.get("forget"), found.get("test")
    errors = [estimate_cell(item.moved if item else None, digits) for item in (forget, test)]
    return [
        *errors,
        *(
            estimate_cell(item.variation if item else None, max(3, digits))
            for item in (forget, test)
        ),
    ]
