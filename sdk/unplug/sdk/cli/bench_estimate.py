"""``unplug bench estimate``: a latency on a device that is not here, always labelled as what it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unplug.core import InputError, milliseconds, table

from .base import Common, Outcome, command
from .options import out_option, path_argument, path_option

if TYPE_CHECKING:
    from unplug.mobile_bench import EstimateReport


@click.command()
@path_argument("artifacts", nargs=-1)
@path_option(
    "--rows",
    multiple=True,
    help="Bench report with rows of it; repeatable.",
)
@path_option(
    "--artifacts",
    "files",
    multiple=True,
    help="Files of those rows, or a folder of them; those next to the report need no naming.",
)
@click.option(
    "--delegate", help="Delegate of the rows to calibrate on (default: the most frequent)."
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    help="Threads of the rows to calibrate on (default: the most frequent).",
)
@click.option(
    "--on", "device", metavar="DEVICE", help="Short name of the device, say pixel-3 or host."
)
@out_option("Estimates to write (JSON).", required=False)
@command
def estimate(
    artifacts: tuple[Path, ...],
    rows: tuple[Path, ...],
    files: tuple[Path, ...],
    delegate: str | None,
    threads: int | None,
    device: str | None,
    out: Path | None,
    common: Common,
) -> Outcome:
    """Estimate the latency of LiteRT files on a device, from measured rows of it or else from
    published numbers; without files, list the devices that this can be done for.

    The estimate comes with its error on rows that the fit did not see. It is not a measurement and
    enters no benchmark.
    """
    from unplug.export import load_artifact
    from unplug.mobile_bench import BenchReport, estimate_artifacts, known_devices, load_baselines

    if not artifacts:
        devices = known_devices([BenchReport.load(path) for path in rows], load_baselines())
        return Outcome(
            value=devices, text=table(("device", "calibrated on"), sorted(devices.items()))
        )
    if device is None:
        fix = "Write --on pixel-3; `unplug bench estimate` alone lists all"
        raise InputError("estimate", "no device is given", fix)
    report = estimate_artifacts(
        [load_artifact(path) for path in artifacts],
        device=device,
        rows=rows,
        files=files,
        delegate=delegate,
        threads=threads,
    )
    if out is not None:
        report.save(out)
    return Outcome(value=asdict(report), text=text_of(report))


def text_of(report: EstimateReport) -> str:
    """The text for a terminal: what it is, the numbers, their error, and what they rest on."""
    from unplug.mobile_bench import LABEL

    setting = report.setting
    threads = "threads not told" if setting.threads is None else f"threads: {setting.threads}"
    lines = [
        f"{LABEL}: {report.device}, {setting.delegate}, {threads}, "
        f"{setting.precision or 'precision not told'}"
    ]
    rows = [
        (
            item.file,
            milliseconds(item.latency_ms),
            "unknown"
            if item.low_ms is None or item.high_ms is None
            else f"{milliseconds(item.low_ms)} to {milliseconds(item.high_ms)}",
            f"{item.macs / 1e6:.1f}",
            f"{item.bytes / 1e6:.1f}",
            f"{item.operators}",
        )
        for item in report.estimates
    ]
    lines.append(
        table(("file", "estimated ms", "held-out range", "M MACs", "MB moved", "operators"), rows)
    )
    lines.append(report.error_text())
    lines.append(f"calibrated on {len(report.calibration)} {report.source}:")
    lines += [f"  {line}" for line in report.calibration]
    warnings = list(dict.fromkeys(text for row in report.estimates for text in row.warnings))
    for name, notes in (
        ("source", report.sources),
        ("left out", report.left_out),
        ("careful", warnings),
    ):
        lines += [f"{name}: {note}" for note in notes]
    return "\n".join(lines)


# The shared option picks torch's device elsewhere; here it names a phone.
for parameter in estimate.params:
    if isinstance(parameter, click.Option) and parameter.name == "device_name":
        parameter.help = "Short name of the device, say pixel-3 or host; see --list."
        parameter.show_default = False
