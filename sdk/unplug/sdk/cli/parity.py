"""``unplug parity``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import table
from unplug.sdk import journey

from .base import Common, Outcome, command
from .options import (
    out_option,
    path_option,
    paths_argument,
    runtime_option,
    shipped_or_given,
)
from .options_of import ConfiguredCommand, given

if TYPE_CHECKING:
    from unplug.export import ParityReport, TaskDelta


@click.command(cls=ConfiguredCommand, config="unplug.sdk.exporting:ParityOrder")
@paths_argument("files")
@click.option(
    "--checkpoint",
    required=True,
    type=click.Path(),
    callback=shipped_or_given,
    help="The checkpoint that the files were made from, or the name of a plugin that ships.",
)
@runtime_option
@click.option(
    "--coreml-host",
    metavar="USER@MAC",
    help="Run Core ML packages by Core ML itself, on this Mac over ssh.",
)
@path_option(
    "--walk",
    metavar="FOLDER",
    help=(
        "Walk the layers too, and name the first one out of tolerance; a picture and a JSON of "
        "each file's layers go here."
    ),
)
@out_option("Parity report to write (JSON).", required=False)
@command
def parity(
    files: tuple[Path, ...],
    checkpoint: Path,
    runtime: str | None,
    coreml_host: str | None,
    walk: Path | None,
    out: Path | None,
    common: Common,
    **options: Any,
) -> Outcome:
    """Compare exported files with their checkpoint, per named output (exit 1 where one is out of
    tolerance).

    A folder stands for all exported files in it.
    """
    from unplug.sdk.exporting import ParityOrder

    on = given(ParityOrder, options)
    report = journey.check(
        files,
        checkpoint,
        runtime=runtime,
        coreml_host=coreml_host,
        show=common.show,
        say=common.say,
        **on,
    )
    if out is not None:
        report.save(out)
    text = parity_table(report)
    value: dict[str, Any] = asdict(report)
    if walk is not None:
        walks = journey.explain(files, checkpoint, layers=walk, show=common.show, **on)
        value["layers"] = [asdict(walk) for walk in walks]
        text += "".join(f"\n{walk}" for walk in walks) + f"\nPictures: {walk}"
    return Outcome(value=value, text=text, ok=report.passed)


def parity_table(report: ParityReport) -> str:
    """One line an output of a file."""
    from unplug.export import STAND_INS

    rows = []
    for row in report.rows:
        measured = "exact" if row.exact else "" if row.psnr_db is None else f"{row.psnr_db:.1f}"
        error = "" if row.max_abs_error is None else f"{row.max_abs_error:.2e}"
        rows.append(
            (
                row.file,
                row.output,
                measured,
                f"{row.threshold_db:g}",
                error,
                row.status,
                row.runtime,
                row.reason or "",
            )
        )
    text = table(
        ("file", "output", "PSNR dB", "needs", "max error", "status", "runtime", "reason"), rows
    )
    text += "".join(f"\n{line}" for line in _arithmetic(report))
    if report.task:
        text += "\n\n" + _task_table(report.task)
    if any(row.runtime in STAND_INS.values() for row in report.rows):
        text += (
            "\nmil: Core ML's program evaluated operator by operator with torch; Core ML itself "
            "runs on macOS only."
        )
    if not report.passed and all(row.status == "not_run" for row in report.rows):
        text += "\nNothing could be run on this machine, so nothing was checked."
    return text


def _arithmetic(report: ParityReport) -> list[str]:
    """What was not computed as a phone will: in half precision, or by other kernels."""
    lines = []
    for how in dict.fromkeys(
        row.arithmetic for row in report.rows if row.arithmetic not in (None, "float32")
    ):
        rows = [row for row in report.rows if row.arithmetic == how]
        halves = [row.half_psnr_db for row in rows if row.half_psnr_db is not None]
        half = (
            f"; in float16, by torch, {min(halves):.1f} dB at least"
            if len(halves) == len(rows)
            else ""
        )
        lines.append(
            f"computed in {how}: {', '.join(dict.fromkeys(row.file for row in rows))}{half}"
        )
    return lines


def _task_table(rows: Sequence[TaskDelta]) -> str:
    cells = [
        (
            row.file,
            f"{row.error:.4g}",
            f"{row.delta:+.2g}",
            "" if row.low is None or row.high is None else f"{row.low:+.2g} to {row.high:+.2g}",
        )
        for row in rows
    ]
    first = rows[0]
    head = (
        f"{first.samples} test samples; the checkpoint: {first.checkpoint_error:.4g} {first.unit}"
    )
    return f"{head}\n" + table(("file", first.unit, "minus checkpoint", "95 % interval"), cells)
