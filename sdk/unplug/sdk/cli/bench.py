"""``unplug bench``: time files, compare reports."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, table
from unplug.sdk import journey

from .base import Common, Outcome, command, names, seed_option
from .bench_estimate import estimate
from .bench_import import import_
from .bench_table import baselines
from .bench_table import table as bench_table
from .options import option, out_option, path_argument, path_option, paths_argument
from .options_of import ConfiguredCommand, given
from .run_group import RunGroup

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchReport, BenchRow


@click.group(cls=RunGroup)
def bench() -> None:
    """Time exported files (`unplug bench FILES`, see `unplug bench run --help`), and compare, print
    or import reports.
    """


@bench.command(cls=ConfiguredCommand, config="unplug.mobile_bench:Plan", skip=("seed",))
@paths_argument("files")
@option(
    "--on",
    default="host",
    metavar="DEVICES",
    help="Devices, comma-separated, see `unplug list devices`; adb:SERIAL is one phone of several.",
)
@click.option("--runtime", help="Runtime, say tensorflow (default: that of each file's target).")
@click.option(
    "--delegate",
    "delegates",
    default="",
    metavar="NAMES",
    help="Delegates, comma-separated, say xnnpack,gpu: a row for each.",
)
@click.option(
    "--require",
    "required",
    default="",
    metavar="NAMES",
    help=(
        "Delegates that must work, say wasm,webgpu: exit 1 where a file has no right row of one, "
        "whatever became of others."
    ),
)
@path_option(
    "--checkpoint",
    help="Check every run's output against this checkpoint.",
)
@out_option(
    "Bench report to write (JSON). The same command goes on where an earlier one was cut off.",
    required=False,
)
@seed_option
@command
def run(
    files: tuple[Path, ...],
    on: str,
    runtime: str | None,
    delegates: str,
    required: str,
    checkpoint: Path | None,
    out: Path | None,
    common: Common,
    **options: Any,
) -> Outcome:
    """Time exported files side by side (exit 1 where a row that ran is not valid, or none ran).

    A checkpoint's folder, or the name of what ships (canny, small/unet), is timed with PyTorch
    itself: --delegate eager,compiled.
    """
    from unplug.mobile_bench import Plan

    asked = names(delegates)
    if asked and (missing := [name for name in names(required) if name not in asked]):
        raise InputError(f"--require {missing[0]}", "--delegate leaves it out", "Name it there too")
    report = journey.bench(
        files,
        on=names(on),
        delegates=asked,
        runtime=runtime,
        checkpoint=checkpoint,
        out=out,
        show=common.show,
        say=common.say,
        seed=common.seed,
        **given(Plan, options),
    )
    outcome = Outcome(value=asdict(report), text=_told(report))
    if required:
        for line in _broken(report, names(required)):
            outcome.add(line, ok=False)
        return outcome
    ran = [row for row in report.rows if row.status != "not_run"]
    outcome.ok = bool(ran) and all(row.valid for row in ran)
    return outcome


def _broken(report: BenchReport, required: Sequence[str]) -> Iterator[str]:
    """A line for each file and delegate that had to work and did not; what a busy or hot machine
    did to times is not a reason.
    """
    from unplug.mobile_bench import at_fault

    for name in required:
        for place, file in dict.fromkeys((row.device, row.file) for row in report.rows):
            rows = [
                row
                for row in report.rows
                if (row.device, row.file, row.delegate_asked) == (place, file, name)
            ]
            if not any(row.status == "ok" and not at_fault(row) for row in rows):
                why = (
                    "; ".join(reason for row in rows for reason in row.reasons)
                    or "it has no such row"
                )
                yield f"REQUIRED {name} does not work with {file}: {why}"


def _told(report: BenchReport) -> str:
    """A table a device."""
    header = ("file", "row", "median ms (95 %)", "p90 ms", "delegate", "peak memory", "notes")
    places: dict[str, list[tuple[str, ...]]] = {}
    for row in report.rows:
        kind = {
            "host": "times of this machine, not of a phone",
            "emulated": "emulated: its times mean nothing",
        }
        place = f"{row.device}, {counted(row.threads, 'thread')}" + (
            f": {kind[row.where]}" if row.where in kind else ""
        )
        places.setdefault(place, []).append(_row(row))
    return "\n\n".join(f"{place}\n{table(header, rows)}" for place, rows in places.items())


def _row(row: BenchRow) -> tuple[str, ...]:
    from unplug.mobile_bench import throttling

    notes = "; ".join((*row.reasons, *row.warnings, *row.interruptions))
    if row.median_ms is None:
        return (row.file, row.status, "", "", "", "", notes)
    interval = (
        ""
        if row.median_ci95_ms is None
        else f" ({row.median_ci95_ms[0]:.3f}–{row.median_ci95_ms[1]:.3f})"
    )
    memory = "" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:.0f} MiB"
    state = "valid" if row.valid else "REFUSED" if row.status == "ok" else "INCOMPLETE"
    p90 = "" if row.summary is None or row.summary.p90 is None else f"{row.summary.p90:.3f}"
    if row.curve and (lost := throttling(row.curve)) is not None:
        notes = "; ".join(
            filter(None, (f"{lost:+.0%} after {row.curve[-1].end_s:.0f} s at full load", notes))
        )
    return (
        row.file,
        state,
        f"{row.median_ms:.3f}{interval}",
        p90,
        row.delegate_got or "?",
        memory,
        notes,
    )


@bench.command()
@path_argument("old")
@path_argument("new")
@option(
    "--fail-above",
    default="5%",
    help="Slow-down that must not go through, say 5% or 0.05.",
)
@out_option("Comparison to write (JSON).", required=False)
@command
def compare(old: Path, new: Path, fail_above: str, out: Path | None, common: Common) -> Outcome:
    """Compare two bench reports of one device: exit 1 where a row became slower, by as much as
    --fail-above or more.

    Rows are compared where device, threads, delegate, clock mode and inputs are the same. Intervals
    of the ratios come from the cold starts and hold for all rows together; a row fails where all of
    its interval is above 1 and reaches the limit. Noise alone then fails about one comparison of
    two reports in forty. The more rows, the more --repeats it takes to see a change. A valid row of
    the old report that cannot be compared fails as well: nothing was checked of it.
    """
    from unplug.core import write_json
    from unplug.mobile_bench import BenchReport, compare_reports

    comparison = compare_reports(
        BenchReport.load(old), BenchReport.load(new), fail_above=_share(fail_above)
    )
    if out is not None:
        write_json(out, asdict(comparison))
    rows = [
        (
            row.file,
            f"{row.runtime} {row.delegate}",
            _ms(row.old_ms),
            _ms(row.new_ms),
            ""
            if row.ratio is None
            else f"{row.ratio.value - 1:+.1%} ({row.ratio.low - 1:+.1%} to {row.ratio.high - 1:+.1%})",
            "FAILS" if row.fails else row.verdict,
            "; ".join(row.reasons),
        )
        for row in comparison.changes
    ]
    text = table(("file", "on", "old ms", "new ms", "change (95 %)", "verdict", "notes"), rows)
    for name, files in (("old", comparison.only_old), ("new", comparison.only_new)):
        if files:
            text += f"\nOnly in the {name} report: {', '.join(files)}"
    if comparison.unchecked:
        text += f"\nNot checked, though valid in the old report: {', '.join(comparison.unchecked)}"
    if not any(row.ratio for row in comparison.changes):
        text += "\nNothing could be compared, so nothing was checked."
    return Outcome(
        value=asdict(comparison) | {"passed": comparison.passed}, text=text, ok=comparison.passed
    )


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _share(text: str) -> float:
    """A share above 0, of "5%" or "0.05"."""
    with contextlib.suppress(ValueError):
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if 0.0 < value < math.inf:
            return value
    raise InputError(f"--fail-above {text}", "not a share above 0", "Write 5% or 0.05")


for _command in (estimate, bench_table, baselines, import_):
    bench.add_command(_command)
