"""``unplug report``."""

from __future__ import annotations

from pathlib import Path

import click

from .base import Common, Outcome, command
from .options import option, out_option, paths_argument


@click.command()
@paths_argument("reports")
@option("--title", default="unplug report", help="Title of the page.")
@click.option(
    "--baselines", is_flag=True, help="Show published numbers too, in a section of their own."
)
@out_option("HTML file to write.", required=False, default=Path("report.html"))
@command
def report(
    reports: tuple[Path, ...], title: str, baselines: bool, out: Path, common: Common
) -> Outcome:
    """Turn JSON REPORTS (audit, parity, bench, release, checkpoint records) into one self-contained
    HTML page.
    """
    from unplug.sdk.report import write_report

    write_report(reports, out, title=title, baselines=baselines)
    size = out.stat().st_size
    return Outcome(value={"out": str(out), "bytes": size}, text=f"{out} ({size / 1024:.0f} KiB)")
