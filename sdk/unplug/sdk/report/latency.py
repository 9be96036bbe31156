"""The section about latency: distributions, timelines, the Pareto chart, and the table behind them, device by device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unplug.core import count, milliseconds, percent, plain, size, threads

from .figures.latency import MAX_DOTS, Timing, latency_svg
from .inputs import Inputs
from .page import Block, Cell, Chip, Column, Figure, FigureGrid, Missing, Section, Table
from .quality import pareto
from .timelines import cold_starts, full_load
from .timing import MAX_CHOICES, Place, file_names, labels, notes_of, places, row_median

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchRow

WIDE, NARROW = 1056, 354
MAX_PLOTS = 12
DOTS = (
    f"Dots: single runs, {MAX_DOTS} at most. Diamond: median, the geometric mean over cold starts. Bar: its 95 % interval over "
    "cold starts, where there are two or more. Grey: not ranked."
)


def latency(inputs: Inputs) -> Section | Missing:
    """Medians with intervals over the raw runs, latency over time, quality x latency x size, and every row in a table."""
    found = places(inputs)
    if not found:
        return Missing(what="Latency", why="no bench report was given (unplug bench)")
    figures = [figure for place in found for figure in _distributions(place)]
    blocks: list[Block] = []
    if figures:
        rest = (
            f"{len(figures) - MAX_PLOTS} more plots were left out; the table has all rows." if len(figures) > MAX_PLOTS else ""
        )
        blocks.append(FigureGrid(figures=figures[:MAX_PLOTS], columns=1, caption=DOTS + rest, heading="Single runs"))
    blocks += [*cold_starts(found), *full_load(found), *pareto(inputs, found), _bench_table(found)]
    return Section(
        id="latency", heading="Latency", lead=_lead(found), blocks=blocks, choices=[place.name for place in found[:MAX_CHOICES]]
    )


def _lead(found: Sequence[Place]) -> str:
    rows = [row for place in found for row in place.rows]
    refused = sum(not row.ranked for row in rows)
    lead = f"{len(rows)} row{'' if len(rows) == 1 else 's'} on {len(found)} device{'' if len(found) == 1 else 's'}"
    lead += f", {refused} of them not ranked, with the reason in the table." if refused else ", all of them ranked."
    if {row.where for row in rows} == {"host"}:
        lead += " Taken on the host, not on a phone: compare rows with one another, not with a device."
    return lead


def _distributions(place: Place) -> list[Figure]:
    """One plot for each number of threads."""
    found = []
    for workers in dict.fromkeys(row.threads for row in place.rows):
        rows = [row for row in place.rows if row.threads == workers]
        timings = [item for row, label in zip(rows, labels(rows), strict=True) if (item := _timing(row, label)) is not None]
        if not timings:
            continue
        title = f"{place.name}, {threads(workers)}"
        wide, narrow = (
            latency_svg(timings, name=f"latency-{place.number}-{workers}-{width}", title=title, width=width)
            for width in (WIDE, NARROW)
        )
        found.append(Figure(svg=wide, narrow=narrow, pick=place.pick))
    return found


def _timing(row: BenchRow, label: str) -> Timing | None:
    runs, median = [time for repeat in row.repeats for time in repeat.latencies_ms], row_median(row)
    if not runs or median is None:
        return None
    low, high = row.median_ci95_ms or (None, None)
    name = label if row.ranked else f"{label}, {row.unranked_because or 'not ranked'}"
    return Timing(label=name, runs_N=np.array(runs), median=median, low=low, high=high, ranked=row.ranked)


def _bench_table(found: Sequence[Place]) -> Table:
    columns = [
        Column(label="Artifact", number=False), Column(label="runtime", number=False),
        Column(label="median", unit="ms"), Column(label="p90", unit="ms"), Column(label="first run", unit="ms"),
        Column(label="load", unit="ms"), Column(label="spread", unit="of starts"), Column(label="peak memory"),
        Column(label="runs", unit="cold starts"), Column(label="ranked", number=False, wide=True),
    ]  # fmt: skip
    return Table(
        caption="Every timed artifact; medians with 95 % intervals over cold starts",
        columns=columns,
        groups=[(f"{place.where}: {plain(place.device, 100)}", _bench_rows(place)) for place in found],
        picks=[place.pick for place in found],
    )


def _bench_rows(place: Place) -> list[list[Cell]]:
    return [_bench_row(row, name) for row, name in zip(place.rows, file_names(place.rows), strict=True)]


def _bench_row(row: BenchRow, name: str) -> list[Cell]:
    low, high = row.median_ci95_ms or (None, None)
    ends = f"{milliseconds(low)} to {milliseconds(high)}" if low is not None else ""
    state: Chip = "pass" if row.ranked else "warn" if row.valid or row.status == "not_run" else "fail"
    word = "yes" if row.ranked else row.unranked_because or ("not run" if row.status == "not_run" else "no")
    got = f"{plain(row.delegate_got or row.delegate_asked, 30)}, {threads(row.threads)}"
    return [
        Cell(text=f"{plain(row.target, 20)} {plain(row.precision, 20)}", note=name),
        Cell(text=f"{plain(row.runtime, 30)} {plain(row.runtime_version or '', 20)}", note=got),
        Cell(text=milliseconds(row_median(row)), note=ends),
        Cell(text=milliseconds(row.summary.p90 if row.summary else None)),
        Cell(text=milliseconds(row.first_inference_ms)),
        Cell(text=milliseconds(row.init_ms_cold)),
        Cell(text=percent(row.spread if len(row.repeats) > 1 else None)),
        Cell(text=size(row.peak_memory_bytes)),
        Cell(text=count(row.summary.count if row.summary else None), note=count(len(row.repeats)) if row.repeats else ""),
        Cell(text=word, chip=state, note=notes_of(row)),
    ]
