"""The page of classifiers that were judged by the labels of their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unplug.core import NONE, count, counted, fixed, milliseconds, percent, plain, span
from unplug.sdk.evidence.assurance import ClassesJudged, ClassEvaluation

from .page import Cell, Column, KeyNumber, Section, Table, estimate_cell

WHOM = {
    "held out": "that none of them learned from",
    "other data": "of other data than they learned from",
    "unknown": "of which nobody said whether they learned from them",
}


def labels(report: ClassEvaluation, number: int) -> list[Section]:
    """The sections of one evaluation; `number` tells those of several files apart."""
    lead = f"{report.seen} {WHOM[report.apart]}. Intervals are 95 %, over {report.units}."
    blocks = [_models(report), *map(_classes, report.models), *_grouped(report)]
    return [Section(f"labels-{number}", "Right answers", lead, tuple(blocks))]


def labels_words(report: ClassEvaluation) -> dict[str, Any]:
    """The fields of the verdict."""
    first = report.models[0]
    lead = f"{counted(len(report.models), 'classifier')} on {count(report.pictures)} pictures "
    sentence = (
        f"{plain(first.label, 40)}: {percent(first.accuracy.value)} right "
        f"({span(first.accuracy.low, first.accuracy.high, 1, scale=100.0)})."
    )
    chip = "warn" if report.apart == "unknown" else "neutral"
    facts = {"word": "Evaluated", "chip": chip, "sentence": sentence, "facts": ()}
    return {**facts, "lead": f"{lead}{WHOM[report.apart]}."}


def labels_numbers(report: ClassEvaluation) -> list[KeyNumber]:
    """What a reader should take away of the first model."""
    first = report.models[0]
    right, known = first.accuracy, [row for row in first.classes if row.found is not None]
    numbers = [
        KeyNumber(
            "Right answers", percent(right.value), span(right.low, right.high, 1, scale=100.0)
        ),
        KeyNumber(
            "Calibration error",
            fixed(first.calibration_error, 3),
            "how far probabilities are from the share of right answers",
        ),
    ]
    if known:
        worst = min(known, key=lambda row: row.found or 0.0)
        note = f"{counted(worst.n, 'picture')}"
        numbers.append(
            KeyNumber(f"Found least: {plain(worst.label, 40)}", percent(worst.found or 0.0), note)
        )
    return numbers


def _models(report: ClassEvaluation) -> Table:
    columns = (
        Column("model", number=False),
        Column("right", interval=True),
        Column("cross entropy", interval=True),
        Column("Brier score", interval=True),
        Column("calibration error"),
        Column("a picture", unit="ms"),
    )
    rows = [
        (
            Cell(plain(model.label, 60), note=" ".join(filter(None, _form(model)))),
            estimate_cell(model.accuracy, share=True),
            estimate_cell(model.loss),
            estimate_cell(model.brier),
            Cell(fixed(model.calibration_error, 3)),
            Cell(milliseconds(1000 * model.seconds)),
        )
        for model in report.models
    ]
    return Table.of("What each model is worth on these pictures.", columns, rows)


def _form(model: ClassesJudged) -> Sequence[str | None]:
    return (model.target or "checkpoint", model.precision)


def _classes(model: ClassesJudged) -> Table:
    columns = (
        Column("class", number=False),
        Column("pictures"),
        Column("found"),
        Column("right where it is named"),
    )
    rows = [
        (
            Cell(plain(row.label, 60)),
            Cell(count(row.n)),
            *(Cell(NONE if share is None else percent(share)) for share in (row.found, row.right)),
        )
        for row in sorted(model.classes, key=lambda row: 2.0 if row.found is None else row.found)
    ]
    caption = f"{plain(model.label, 60)}: its classes, those that it finds least first."
    return Table.of(caption, columns, rows, compact=True)


def _grouped(report: ClassEvaluation) -> list[Table]:
    columns = (
        Column("group", number=False),
        Column(report.units),
        *(Column(plain(model.label, 40), interval=True) for model in report.models),
    )
    cells = {row.cell: row.people for model in report.models for row in model.groups}
    of_model = [{row.cell: row.accuracy for row in model.groups} for model in report.models]
    rows = [
        (
            Cell(plain(cell, 60)),
            Cell(count(people)),
            *(estimate_cell(found.get(cell), share=True) for found in of_model),
        )
        for cell, people in cells.items()
    ]
    return [Table.of("Right answers by group.", columns, rows)] if rows else []
