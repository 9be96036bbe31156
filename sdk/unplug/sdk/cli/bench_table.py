"""``unplug bench table``, ``unplug bench baselines``: a report, or what others published, as a
table.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from unplug.core import table as plain_table

from .base import Common, Outcome, command
from .options import option, out_option, path_argument


@click.command()
@path_argument("report")
@option(
    "--format",
    "form",
    type=click.Choice(["markdown", "csv", "litert-board"]),
    default="markdown",
    help="litert-board: lines for measurements.jsonl of LiteRT's leaderboard, of ranked rows alone.",
)
@out_option("File to write instead of printing.", required=False)
@command
def table(report: Path, form: str, out: Path | None, common: Common) -> Outcome:
    """Print a bench REPORT as a table: every row, those that may not be ranked with the reason."""
    from unplug.core import atomic_path
    from unplug.mobile_bench import BenchReport, board_lines, csv_text, markdown

    bench = BenchReport.load(report)
    forms = {"markdown": markdown, "csv": csv_text, "litert-board": board_lines}
    text = forms[form](bench)
    if out is not None:
        with atomic_path(out) as temporary:
            temporary.write_bytes(text.encode("utf-8"))  # CSV has its own line ends
        return Outcome(value={"out": str(out), "rows": len(bench.rows)}, text=str(out))
    return Outcome(value=[asdict(row) for row in bench.rows], text=text.rstrip("\r\n"))


@click.command()
@command
def baselines(common: Common) -> Outcome:
    """List published numbers with their sources: none of them was measured here."""
    from unplug.mobile_bench import NOT_OURS, listing, load_baselines

    published = load_baselines()
    return Outcome(
        value=asdict(published),
        text=f"{NOT_OURS} (read on {published.retrieved})\n{plain_table(*listing(published))}",
    )
