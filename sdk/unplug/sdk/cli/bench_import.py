"""``unplug bench import``: reports that something else wrote, checked and put into ours."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, table

from .base import Common, Outcome, command
from .options import given_option, option, out_option, path_argument, path_option

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchReport

OPTIONS = {
    "artifact": "artifact",
    "at": "at",
    "unit": "unit",
    "device": "on",
    "system": "os",
    "units": "compute-units",
}
"""The options of Xcode's reports: argument to option."""


@click.command("import")
@path_argument("report")
@path_option(
    "--artifact",
    help="The Core ML file that an Xcode report measured.",
)
@click.option(
    "--at",
    metavar="PATH",
    help="The latency's place in an Xcode report, say results.0.median.",
)
@click.option("--unit", type=click.Choice(["s", "ms", "us", "ns"]), help="The latency's unit.")
@click.option(
    "--on", "device", metavar="NAME", help="The device of an Xcode report, say 'iPhone 15'."
)
@option("--os", "system", default="unknown", help="Its system, say 'iOS 18.1'.")
@option(
    "--compute-units",
    "units",
    type=click.Choice(["all", "cpu", "gpu", "ane"]),
    default="all",
)
@out_option("Bench report to write (JSON).")
@command
def import_(report: Path, out: Path, common: Common, **measured: Any) -> Outcome:
    """Take in a report of the web page (a downloaded JSON) or of Xcode (NAME.mlperf).

    What can be worked out is worked out anew, and rules are applied here: rows that another program
    calls valid need not be.
    """
    from unplug.mobile_bench import BenchReport, rechecked

    if ".mlperf" in (report.suffix, report.parent.suffix):
        taken = _of_xcode(report, **measured)
    elif argument := given_option(*OPTIONS):
        why = f"a page's report says itself what --{OPTIONS[argument]} would"
        raise InputError(report.name, why, "Leave that out")
    else:
        taken = rechecked(BenchReport.load(report))
    taken.save(out)
    rows = [
        (
            row.file,
            row.device,
            "" if row.median_ms is None else f"{row.median_ms:.3f}",
            "valid" if row.valid else "not ranked",
            "; ".join((*row.reasons, *row.warnings)),
        )
        for row in taken.rows
    ]
    return Outcome(
        value=asdict(taken), text=table(("file", "device", "median ms", "row", "notes"), rows)
    )


def _of_xcode(
    report: Path,
    *,
    artifact: Path | None,
    device: str | None,
    system: str,
    **where: Any,
) -> BenchReport:
    from unplug.export import load_artifact
    from unplug.mobile_bench import BenchReport, read_xcode

    if artifact is None or device is None:
        why = "an Xcode report names neither our file nor its card"
        raise InputError(report.name, why, "Give --artifact FILE and --on NAME")
    loaded = load_artifact(artifact)
    row = read_xcode(report, loaded, device=device, os=system, **where)
    return BenchReport(rows=(row,), seed=0, versions={}, git_revision=None)
