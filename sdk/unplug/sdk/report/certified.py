"""What a method leaves of as many people as a request names: the section of a certification."""

from __future__ import annotations

from functools import partial

from unplug.core import count, fixed, percent, plain, seconds
from unplug.sdk.evidence.auditing import Certification

from .page import Cell, Column, FigureGrid, Notes, Section, Table, both_widths, estimate_cell, words
from .plots.audit import ForestRow, forest_svg

WIDTHS = (760, 330)


def certification(found: Certification, number: int) -> Section:
    """A plot before and after forgetting, the numbers, and what they rest on."""
    lead = (
        f"{count(found.requests)} requests of {_people(found.people)} were forgotten by "
        f"{plain(found.method, 60)} one by one from the same original. Each model's answers on the "
        "people it forgot are compared with models that never saw them, which lie at zero. "
        "Before is the original."
    )
    rows = [
        ForestRow.of(f"{plain(name, 30)}, {word}", role, estimate)
        for name, leak in found.leaks.items()
        for word, role, estimate in (
            ("before", "original", leak.before),
            ("after", "unlearned", leak.auc),
        )
    ]
    spoken = "; ".join(f"{row.label} {row.value:+.3f}" for row in rows)
    draw = partial(
        forest_svg,
        rows,
        title="Told from strangers",
        x="AUC above a model that never saw them",
        spoken=spoken,
        aim=0.0,
        band=(-found.margin, found.margin),
    )
    caption = f"Shaded: the margin, {found.margin:g}. Bars: 95 %, for all statistics at once."
    plot = FigureGrid(
        [both_widths(draw, WIDTHS, name=f"certified-{number}", caption=caption)], columns=1
    )
    return Section(
        f"certified-{number}",
        f"The method, at {_people(found.people)} a request",
        lead,
        [plot, _table(found), Notes(_notes(found))],
    )


def _people(people: int) -> str:
    return "one person" if people == 1 else f"{count(people)} people"


def _table(found: Certification) -> Table:
    columns = [
        words("Statistic"),
        Column("before", unit="AUC"),
        Column("after", unit="AUC"),
        Column("shift", unit="sd"),
        Column("spread", unit="of 1"),
    ]
    rows = [
        [
            Cell(plain(name, 30)),
            estimate_cell(leak.before, sign=True),
            estimate_cell(leak.auc, sign=True),
            estimate_cell(leak.shift, 2, sign=True),
            estimate_cell(leak.spread, 2),
        ]
        for name, leak in found.leaks.items()
    ]
    return Table.of("What answers tell of the people that it forgot", columns, rows)


def _notes(found: Certification) -> list[str]:
    return [
        f"In {percent(found.exact_passes)} of such runs, models that never saw them would be "
        "certified: that is how often this evidence suffices.",
        f"The error became {fixed(found.test_error.value, 3)} times the original's on unseen "
        "people, and "
        f"{fixed(found.retain_error.value, 3)} times on those who stay.",
        f"One forget step took {percent(found.compute)} of retraining; all of them "
        f"{seconds(found.seconds)} on "
        f"{plain(found.device, 80)}.",
        f"Of each person {count(found.rounds)} models never saw a picture; the one that a step was "
        "fitted to does not judge it.",
    ]
