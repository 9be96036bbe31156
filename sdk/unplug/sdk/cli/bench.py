"""``unplug bench``: time files, compare reports."""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict
from pathlib import Path

import click

from unplug.plugins.errors import InputError

from .base import Common, Outcome, command, table
from .export import progress_bar
from .options import out_option


class _Bench(click.Group):
    """Where the first word is no subcommand, it is a file to time."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = (*self.commands, "--help")
        return super().parse_args(ctx, args if args and args[0] in known else ["run", *args])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, "run")


@click.group(cls=_Bench)
def bench() -> None:
    """Time exported files (`unplug bench FILES`, see `unplug bench run --help`), compare two such reports."""


@bench.command()
@click.argument("artifacts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--on", "device", default="host", show_default=True, help="See `unplug list devices`.")
@click.option("--threads", type=click.IntRange(1, 256), default=2, show_default=True, help="CPU threads.")
@click.option("--warmup", type=click.IntRange(0, 10_000), default=5, show_default=True, help="Untimed runs of each repeat.")
@click.option(
    "--iterations", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="Timed runs of each repeat."
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=5, show_default=True, help="Cold starts of each artifact.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Check every run's output against this checkpoint.")
@out_option("Bench report to write (JSON).", required=False)
@command
def run(
    artifacts: tuple[Path, ...], device: str, threads: int, warmup: int, iterations: int, repeats: int,
    checkpoint: Path | None, out: Path | None, common: Common,
) -> Outcome:  # fmt: skip
    """Time exported files side by side (exit 1 where a row that ran is not valid)."""
    from unplug.export import load_artifact
    from unplug.mobile_bench import bench_artifacts

    loaded = [load_artifact(path) for path in artifacts]
    with progress_bar("bench", common) as progress:
        report = bench_artifacts(
            loaded, on=device, threads=threads, warmup=warmup, iterations=iterations, repeats=repeats,
            checkpoint=checkpoint, seed=common.seed, progress=progress,
        )  # fmt: skip
    if out is not None:
        report.save(out)
    rows: list[tuple[str, ...]] = []
    for row in report.rows:
        if row.summary is None or row.median_ci95_ms is None:
            rows.append((row.file, row.status, "", "", "", "", "; ".join(row.reasons)))
            continue
        low, high = row.median_ci95_ms
        median = f"{row.summary.p50:.3f} ({low:.3f}-{high:.3f})"
        memory = "" if row.peak_memory_bytes is None else f"{row.peak_memory_bytes / 2**20:.0f} MiB"
        state = "valid" if row.valid else "REFUSED"
        rows.append(
            (row.file, state, median, f"{row.summary.p90:.3f}", row.delegate_got or "?", memory, "; ".join(row.reasons))
        )
    header = ("file", "row", "median ms (95 %)", "p90", "delegate", "peak memory", "notes")
    where = f"{report.rows[0].device}, {threads} threads: times of this machine, not of a phone"
    ok = all(row.valid or row.status == "not_run" for row in report.rows)
    return Outcome(value=asdict(report), text=f"{where}\n{table(header, rows)}", ok=ok)


@bench.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--fail-above", default="5%", show_default=True, help="Slow-down that must not go through, say 5% or 0.05.")
@out_option("Comparison to write (JSON).", required=False)
@command
def compare(old: Path, new: Path, fail_above: str, out: Path | None, common: Common) -> Outcome:
    """Compare two bench reports of one device: exit 1 where a row became slower, by as much as --fail-above or more.

    Rows are compared where device, threads, delegate, clock mode and inputs are the same. An interval of the ratio comes from
    the cold starts; a row fails where all of it is above 1 and it reaches the limit: noise alone fails one comparison of forty.
    """
    from unplug.mobile_bench import BenchReport, compare_reports
    from unplug.plugins.files import write_json

    found = compare_reports(BenchReport.load(old), BenchReport.load(new), fail_above=_share(fail_above))
    if out is not None:
        write_json(out, asdict(found))
    rows = [
        (
            row.file, row.runtime, _ms(row.old_ms), _ms(row.new_ms),
            "" if row.ratio is None else f"{row.ratio.value - 1:+.1%} ({row.ratio.low - 1:+.1%} to {row.ratio.high - 1:+.1%})",
            "FAILS" if row.fails else row.verdict, "; ".join(row.reasons),
        )
        for row in found.changes
    ]  # fmt: skip
    text = table(("file", "runtime", "old ms", "new ms", "change (95 %)", "verdict", "notes"), rows)
    for name, files in (("old", found.only_old), ("new", found.only_new)):
        if files:
            text += f"\nOnly in the {name} report: {', '.join(files)}"
    if not any(row.ratio for row in found.changes):
        text += "\nNothing could be compared, so nothing was checked."
    return Outcome(value=asdict(found) | {"passed": found.passed}, text=text, ok=found.passed)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _share(text: str) -> float:
    """A share above 0, of "5%" or "0.05"."""
    with contextlib.suppress(ValueError):
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        if 0.0 < value < math.inf:
            return value
    raise InputError(f"--fail-above {text}", "not a share above 0", "Write 5% or 0.05")
