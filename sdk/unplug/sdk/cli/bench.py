"""``unplug bench``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .base import Common, Outcome, command, table
from .export import progress_bar
from .options import out_option


@click.command()
@click.argument("artifacts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--on", "device", default="host", show_default=True, help="See `unplug list devices`.")
@click.option("--threads", type=click.IntRange(1, 256), default=2, show_default=True, help="CPU threads.")
@click.option("--warmup", type=click.IntRange(0, 10_000), default=5, show_default=True, help="Untimed runs of each repeat.")
@click.option(
    "--iterations", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="Timed runs of each repeat."
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=3, show_default=True, help="Cold starts of each artifact.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Check every run's output against this checkpoint.")
@out_option("Bench report to write (JSON).", required=False)
@command
def bench(
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
