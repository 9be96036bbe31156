"""What the pages of studies have in common: the foot, and the report's own template without
anything about forgetting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from unplug.core import atomic_path, plain
from unplug.sdk.report.page import Block, Cell, Column, KeyNumber, Notes, Section, Table
from unplug.sdk.report.render import fill_template
from unplug.sdk.report.verdict import Verdict

MAX_FACTS, MAX_VALUE = 120, 240


def study_page(
    what: str,
    fix: str,
    *,
    title: str,
    subject: Sequence[str],
    verdict: Verdict,
    sections: Sequence[Section],
    provenance: Section,
    numbers: Sequence[KeyNumber] = (),
) -> str:
    """One HTML document, drawn by the report's template and style; the same parts give the same
    text.

    Raises:
        ReportError: it would be larger than 2 MB; `what` and `fix` are for its message.
    """
    return fill_template(
        what,
        fix,
        title=title,
        subject=subject,
        verdict=verdict,
        alarms=[],
        releases=[],
        numbers=numbers,
        sections=sections,
        missing=[],
        provenance=provenance,
    )


def provenance(
    parts: Mapping[str, Mapping[str, object]], versions: Mapping[str, str | None]
) -> Section:
    """Where the numbers come from: settings by the part that they belong to, then versions."""
    facts = [
        (f"{part}: {key}", value) for part, values in parts.items() for key, value in values.items()
    ]
    facts += [(f"version: {key}", value) for key, value in versions.items() if value is not None]
    rows = [
        [Cell(text=plain(key.replace("_", " "), 60)), Cell(text=_value(value))]
        for key, value in facts[:MAX_FACTS]
    ]
    columns = [Column(label="Fact", number=False), Column(label="value", number=False, wide=True)]
    table = Table(caption="Data, recipe, seeds, versions", columns=columns, groups=[("", rows)])
    return Section(id="provenance", heading="Provenance", lead="", blocks=[table])


def markdown(block: Block) -> str:
    """A table with its caption, or notes, for a document: intervals stand in brackets behind their
    numbers.
    """
    if isinstance(block, Notes):
        return "".join(f"- {line}\n" for line in block.lines)
    assert isinstance(block, Table), "a document shows no plots"
    heads = [f"{one.label} ({one.unit})" if one.unit else one.label for one in block.columns]
    rows = [[_written(cell) for cell in row] for _, group in block.groups for row in group]
    rule = "|" + "".join("--:|" if one.number else "---|" for one in block.columns)
    return "\n".join([f"{block.caption}:\n", _line(heads), rule, *map(_line, rows)]) + "\n"


def _written(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def save_page(html: str, path: Path) -> None:
    """Writes a page, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _value(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, sort_keys=True), MAX_VALUE)
