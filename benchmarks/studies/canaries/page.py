"""The page of a lower bound on epsilon from planted people."""

from __future__ import annotations

from pathlib import Path

from unplug.core import NONE, count, fixed, percent, plain
from unplug.sdk.report.page import Block, Cell, Column, Notes, Section, Table
from unplug.sdk.report.verdict import Verdict

from ..pages import provenance, save_page, study_page
from .bound import CanaryReport, CanaryRow

SAID = {"original": "trained on them", "unlearned": "forgot them", "retrained": "never saw them"}
_PLANTED = (
    "Planted people show what a model gives away at least. What else was tried of it, an audit "
    "says."
)


def write_page(found: CanaryReport, path: Path) -> None:
    """Writes the bounds as one HTML file, atomically.

    Raises:
        ReportError: it would be larger than 2 MB.
    """
    verdict = Verdict(
        word="Bounded from below", chip="neutral", lead=_PLANTED, sentence="", facts=()
    )
    html = study_page(
        "canaries",
        "Bound fewer models",
        title="Planted people",
        subject=[plain(found.data.get("spec", ""), 100)],
        verdict=verdict,
        sections=[_section(found)],
        provenance=provenance({"data": found.data}, found.versions),
    )
    save_page(html, path)


def _section(found: CanaryReport) -> Section:
    lead = (
        f"{count(found.canaries)} people were given wrong ages, and a coin for each said whether "
        "she is trained on: "
        f"{count(found.included)} were. Whoever guesses the coins from what a model says of the "
        "wrong ages is right more often "
        "than chance only where the model still knows them."
    )
    blocks: list[Block] = [_table(found), Notes(lines=_notes(found))]
    return Section(id="canaries", heading="Planted people", lead=lead, blocks=blocks)


def _table(found: CanaryReport) -> Table:
    columns = [
        Column(label="Model", number=False),
        Column(label="what it did", number=False),
        Column(label="guessed right"),
        Column(label="epsilon", unit="at least"),
        Column(label="most it could be", unit="epsilon"),
    ]
    caption = "What each model gives away about planted people, at least"
    return Table(
        caption=caption, columns=columns, groups=[("", [_cells(row) for row in found.models])]
    )


def _cells(row: CanaryRow) -> list[Cell]:
    bound = row.bound
    how = "" if row.method is None or row.role != "unlearned" else f" by {plain(row.method, 30)}"
    share = "" if not how or row.budget is None else f" at {percent(row.budget)}"
    chip = "warn" if bound.epsilon > 0 and row.role == "unlearned" else "neutral"
    return [
        Cell(text=plain(row.name, 40), role=row.role),
        Cell(text=f"{SAID.get(row.role, NONE)}{how}{share}"),
        Cell(text=f"{count(bound.correct)} of {count(bound.guesses)}")
        if bound.guesses
        else Cell(text=NONE),
        Cell(text=fixed(bound.epsilon, 2), chip=chip),  # type: ignore[arg-type]
        Cell(text=fixed(bound.most, 2)),
    ]


def _notes(found: CanaryReport) -> list[str]:
    return [
        f"With {100 * found.confidence:g} % confidence and delta {found.delta:g}, no smaller "
        "epsilon fits what was seen. Zero "
        "says that these guesses saw nothing, not that nothing is left.",
        "Of a model before forgetting the bound is on its training; of the others on what is left "
        "of those who were trained "
        "on, against never having been there.",
    ]
