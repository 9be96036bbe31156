"""The tables of docs: ``python -m benchmarks.results docs/results/*.md`` writes them from the JSON.

Between ``<!--table NAME NUMBER [rows=R,...] [columns=C,...]-->`` and ``<!--/table-->`` stands one
table of docs/data/NAME.json: the rows and columns named, counted from 0, or all. A test holds the
pages to the JSON.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unplug.core import atomic_path, read_json
from unplug.mobile_bench import load_baselines

from . import (
    age_accuracy,
    crashes,
    device_pipeline,
    gate_calibration,
    person_calibration,
    plugin_latency,
    published,
    release_crashes,
    service,
    web_drawing,
)
from .overhead import report as overhead
from .studies.control import read_comparison
from .studies.control.page import blocks
from .studies.exact_designs import designs_markdown
from .studies.leaderboard import read_leaderboard
from .studies.leaderboard.document import board_markdown
from .studies.pages import markdown

DATA = Path(__file__).resolve().parent.parent / "docs/data"
TABLE = re.compile(
    r"(<!--table ([\w-]+) (\d+)(?: rows=([\d,]+))?(?: columns=([\d,]+))?-->\n)"
    r".*?(?=<!--/table-->)",
    re.DOTALL,
)


def _comparison(path: Path) -> str:
    return "\n".join(map(markdown, blocks(read_comparison(path), attributes=False)))


def _beside_published(path: Path) -> str:
    """The comparison's tables, and last the published study with ours beneath it."""
    text = _comparison(path)
    ours = chosen(text[text.index("|") :].split("\n\n")[0].splitlines(), *STUDY)
    return f"{text}\n\n{published.study_markdown(load_baselines(), ours)}"


STUDY = ("3,4,5,6", "0,4,7,10,12,13")
"""Rows and columns of the face-landmark comparison that stand beneath the published ones."""
FACTS: dict[str, Callable[[Any], str]] = {
    "age-accuracy": age_accuracy.markdown,
    "crashes": crashes.markdown,
    "device-pipeline": device_pipeline.markdown,
    "gate-calibration": gate_calibration.markdown,
    "leaderboard-designs": designs_markdown,
    "overhead": overhead.added,
    "overhead-gpu": overhead.added,
    "person_calibration": person_calibration.markdown,
    "plugin-latency": plugin_latency.markdown,
    "release-crashes": release_crashes.markdown,
    "service": service.markdown,
    "web-drawing": web_drawing.markdown,
}
"""What makes the Markdown of a file that was read."""
REPORTS: dict[str, Callable[[Path], str]] = {
    "compare-canny": _comparison,
    "compare-face_landmark": _beside_published,
    "leaderboard-people": lambda path: board_markdown(read_leaderboard(path)),
}
"""What reads a file itself and makes its Markdown."""


@cache
def tables(name: str) -> tuple[tuple[str, ...], ...]:
    """The tables of a file of docs/data, each a tuple of lines.

    Example:
        >>> tables("losses")[0][0].split(" | ")[0]
        '| loss'
    """
    path = DATA / f"{name}.json"
    if name in REPORTS:
        text = REPORTS[name](path)
    else:
        facts = read_json(path)
        text = FACTS[name](facts) if name in FACTS else "\n\n".join(map(_drawn, facts["tables"]))
    found = [part.strip().splitlines() for part in text.split("\n\n")]
    return tuple(tuple(lines) for lines in found if lines and lines[0].startswith("|"))


def _drawn(table: Mapping[str, Sequence[Any]]) -> str:
    head, rows = table["head"], table["rows"]
    lines = [_line(head), f"|---|{'--:|' * (len(head) - 1)}", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def chosen(lines: Sequence[str], rows: str | None, columns: str | None) -> list[str]:
    r"""A table with the named rows and columns alone.

    Example:
        >>> chosen(["| a | b |", "|---|--:|", "| 1 | 2 |", "| 3 | 4 |"], "1", "0")
        ['| a |', '|---|', '| 3 |']
    """
    if rows is not None:
        lines = [*lines[:2], *(lines[2:][int(row)] for row in rows.split(","))]
    if columns is None:
        return list(lines)
    kept = [int(column) for column in columns.split(",")]
    cut = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    head, rule, *rest = ([cells[column] for column in kept] for cells in cut)
    return [_line(head), f"|{'|'.join(rule)}|", *map(_line, rest)]


def filled(page: str) -> str:
    """A page with the tables that its markers name."""

    def body(match: re.Match[str]) -> str:
        mark, name, number, rows, columns = match.groups()
        return mark + "\n".join(chosen(tables(name)[int(number)], rows, columns)) + "\n"

    return TABLE.sub(body, page)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        text = filled(page.read_text(encoding="utf-8"))
        with atomic_path(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
