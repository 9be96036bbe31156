"""The section about latency: distributions, minutes at full load, the Pareto chart, and the table
after them, device by device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unplug.core import count, counted, fixed, milliseconds, percent, plain, short, size
from unplug.mobile_bench import throttling

from .inputs import Inputs
from .models import all_models
from .page import (
    Block,
    Cell,
    Chip,
    Column,
    Figure,
    FigureGrid,
    Missing,
    Notes,
    Section,
    Table,
    both_widths,
    words,
)
from .plots.bench import MAX_DOTS, Heat, Load, Timing, latency_svg, load_svg
from .plots.canvas import ROOMY
from .plots.pareto import Point, latency_axis, pareto_front, pareto_svg, quality_axis

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchRow

WIDTHS = (1056, 354)
MAX_PLOTS = 12
MAX_CHOICES = 12
"""Devices in the filter; the style sheet has a rule for each. More devices than these are drawn and
have no button.
"""
DOTS = (
    f"Dots: single runs, {MAX_DOTS} at most. Diamond: median, the geometric mean over cold starts. "
    "Bar: its 95 % interval over "
    "cold starts, where there are two or more. Grey: not ranked."
)
CURVE = "Line: median of a window. Shade: up to its 95th percentile."
EXACT_DB = 150.0
"""Where an output that is equal to the last bit is drawn: beyond what single precision can differ
by.
"""
UNSEEN = "test"
FRONT = (
    "Area: bytes of the file. Filled: no other file is as fast, as good and as small, and better "
    "in one of these. Dashed: the "
    "front of latency and quality alone. Cross: not ranked."
)
LARGEST, SMALLEST = 34.0, 7.0  # diameters of bubbles in CSS pixels


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rows of one device, taken where it is: on the device, emulated, on the host.

    Args:
        device: its name.
        where: "device", "emulated" or "host".
        rows: the rows in the order given.
        number: the number, from 1 on.
    """

    device: str
    where: str
    rows: tuple[BenchRow, ...]
    number: int

    @property
    def pick(self) -> int:
        """Its button in the filter; 0, which no button has, for a device beyond the last one."""
        return self.number if self.number <= MAX_CHOICES else 0

    @property
    def name(self) -> str:
        """The name for a button and a heading."""
        return (
            plain(self.device, 60)
            if self.where == "device"
            else f"{plain(self.device, 60)} ({self.where})"
        )


def places(inputs: Inputs) -> list[Place]:
    """Every device with its rows, in the order of the files."""
    rows_of: dict[tuple[str, str], list[BenchRow]] = {}
    for row in inputs.bench_rows:
        rows_of.setdefault((row.device, row.where), []).append(row)
    return [
        Place(device=device, where=where, rows=tuple(rows), number=number)
        for number, ((device, where), rows) in enumerate(rows_of.items(), start=1)
    ]


def row_median(row: BenchRow) -> float | None:
    """What a row is ranked by; the median of all runs together in a report of an older version."""
    return row.median_ms if row.median_ms is not None else row.summary.p50 if row.summary else None


def file_names(rows: Sequence[BenchRow]) -> list[str]:
    """File names, with the beginning of the hash where files of one name differ."""
    known = {
        name: {row.artifact_sha256 for row in rows if row.file == name}
        for name in {row.file for row in rows}
    }
    return [
        f"{plain(row.file, 60)} {short(row.artifact_sha256)[:6]}"
        if len(known[row.file]) > 1
        else plain(row.file, 60)
        for row in rows
    ]


def labels(rows: Sequence[BenchRow], limit: int = 44) -> list[str]:
    """Names that tell the rows of one place apart: file and delegate; mode, threads and hash where
    these differ.
    """
    modes, threads = {row.mode for row in rows}, {row.threads for row in rows}
    base = []
    for row in rows:
        parts = [plain(row.file, limit - 18), row.delegate_got or row.delegate_asked]
        if len(modes) > 1 and row.mode == "sustained":
            parts.append("full load")
        if len(threads) > 1:
            parts.append(counted(row.threads, "thread"))
        base.append(", ".join(parts))
    seen = Counter(base)
    told = [
        f"{text} {short(row.artifact_sha256)[:6]}" if seen[text] > 1 else text
        for text, row in zip(base, rows, strict=True)
    ]
    return [plain(text, limit) for text in told]


def notes_of(row: BenchRow) -> str:
    """Why a row may not be ranked, and what to know of one that may."""
    return "; ".join(
        plain(note, 160)
        for note in dict.fromkeys((*row.reasons, *row.warnings, *row.interruptions))
    )


def latency(inputs: Inputs) -> Section | Missing:
    """Medians with intervals over the raw runs, minutes at full load, quality x latency x size, and
    every row in a table.
    """
    all_places = places(inputs)
    if not all_places:
        return Missing("Latency", "no bench report was given (unplug bench)")
    figures = [figure for place in all_places for figure in _distributions(place)]
    blocks: list[Block] = []
    if figures:
        rest = (
            f"{len(figures) - MAX_PLOTS} more plots were left out; the table has all rows."
            if len(figures) > MAX_PLOTS
            else ""
        )
        blocks.append(
            FigureGrid(figures[:MAX_PLOTS], columns=1, caption=DOTS + rest, heading="Single runs")
        )
    blocks += [*full_load(all_places), *pareto(inputs, all_places), _bench_table(all_places)]
    return Section(
        "latency",
        "Latency",
        _lead(all_places),
        blocks,
        choices=[place.name for place in all_places[:MAX_CHOICES]],
    )


def _lead(found: Sequence[Place]) -> str:
    rows = [row for place in found for row in place.rows]
    refused = sum(not row.ranked for row in rows)
    lead = f"{counted(len(rows), 'row')} on {counted(len(found), 'device')}"
    lead += (
        f", {refused} of them not ranked, with the reason in the table."
        if refused
        else ", all of them ranked."
    )
    if {row.where for row in rows} == {"host"}:
        lead += (
            " Taken on the host, not on a phone: compare rows with one another, not with a device."
        )
    return lead


def _distributions(place: Place) -> list[Figure]:
    """One plot for each number of threads."""
    figures = []
    for workers in dict.fromkeys(row.threads for row in place.rows):
        rows = [row for row in place.rows if row.threads == workers]
        timings = [
            item
            for row, label in zip(rows, labels(rows), strict=True)
            if (item := _timing(row, label)) is not None
        ]
        if not timings:
            continue
        draw = partial(latency_svg, timings, title=f"{place.name}, {counted(workers, 'thread')}")
        figures.append(
            both_widths(draw, WIDTHS, name=f"latency-{place.number}-{workers}", pick=place.pick)
        )
    return figures


def _timing(row: BenchRow, label: str) -> Timing | None:
    runs, median = [time for repeat in row.repeats for time in repeat.latencies_ms], row_median(row)
    if not runs or median is None:
        return None
    low, high = row.median_ci95_ms or (None, None)
    name = label if row.ranked else f"{label}, {row.unranked_because or 'not ranked'}"
    return Timing(
        label=name, runs_N=np.array(runs), median=median, low=low, high=high, ranked=row.ranked
    )


def _heat(row: BenchRow) -> Heat | None:
    known = [(window.end_s, window.temperature_c) for window in row.curve]
    told = [(at_s, celsius) for at_s, celsius in known if celsius is not None]
    return Heat(*map(list, zip(*told, strict=True))) if told else None


def full_load(places: list[Place]) -> list[FigureGrid]:
    """For each row that ran at full load, its curve and what it lost."""
    figures = []
    for place in places:
        for number, (row, label) in enumerate(zip(place.rows, labels(place.rows), strict=True)):
            if len(row.curve) > 1:
                figures.append(_load_figure(place, row, label, number))
    drawn = figures[:MAX_PLOTS]
    return (
        [FigureGrid(drawn, columns=2, heading="Minutes at full load", caption=CURVE)]
        if drawn
        else []
    )


def _load_figure(place: Place, row: BenchRow, label: str, number: int) -> Figure:
    middle = [(window.start_s + window.end_s) / 2 for window in row.curve]
    load = Load(
        at_s=middle,
        p50=[window.p50 for window in row.curve],
        p95=[window.p95 for window in row.curve],
    )
    warm = _heat(row)
    lost = throttling(row.curve)
    head = f"{label}: " + ("too short to say" if lost is None else f"{_slower(lost)} at the end")
    svg = load_svg(load, warm, name=f"load-{place.number}-{number}", title=head, width=508)
    told = "" if warm else " It tells no temperature."
    caption = (
        f"{place.name}, {counted(row.threads, 'thread')}: {fixed(row.curve[-1].end_s, 0)} s "
        f"without a pause.{told}"
    )
    return Figure(svg, caption=caption, pick=place.pick)


def _slower(share: float) -> str:
    """What throttling comes to, in words.

    Example:
        >>> _slower(0.124), _slower(-0.02), _slower(0.001)
        ('12 % slower', '2 % faster', 'as fast')
    """
    if abs(share) < 0.005:
        return "as fast"
    return f"{abs(share):.0%} {'slower' if share > 0 else 'faster'}".replace("%", " %")


@dataclass(frozen=True, kw_only=True)
class Quality:
    """One number a file, by SHA-256, and what it is."""

    values: Mapping[str, float]
    axis: str
    higher_is_better: bool
    caption: str


def measured_quality(inputs: Inputs) -> Quality | None:
    """What the files are worth: their error in the task where an audit ran them, else their parity
    with the checkpoint.
    """
    return _audited(inputs) or _parity(inputs)


def _audited(inputs: Inputs) -> Quality | None:
    years: dict[str, float] = {}
    wrong: dict[str, float] = {}
    losses: dict[str, float] = {}
    for model in all_models(inputs):
        if model.role == "artifact" and (use := model.utility.get(UNSEEN)) is not None:
            kind = years if use.mae else wrong if use.wrong else losses
            kind[model.sha256] = use.error.value
    if years or wrong:
        return Quality(
            values=years or wrong,
            axis="Mean absolute error (years)" if years else "Share of wrong answers",
            higher_is_better=False,
            caption="error on unseen samples",
        )
    if losses:
        return Quality(
            values=losses, axis="Loss", higher_is_better=False, caption="loss on unseen samples"
        )
    return None


def _parity(inputs: Inputs) -> Quality | None:
    worst: dict[str, float] = {}
    for row in inputs.parity_rows:
        value = EXACT_DB if row.exact else row.psnr_db
        if value is not None:
            worst[row.artifact_sha256] = min(value, worst.get(row.artifact_sha256, EXACT_DB))
    if not worst:
        return None
    caption = (
        f"parity of the worst output with the checkpoint, exact ones at {EXACT_DB:g} dB (no audit "
        "of these files was given)"
    )
    return Quality(values=worst, axis="Parity (dB)", higher_is_better=True, caption=caption)


def pareto(inputs: Inputs, places: list[Place]) -> list[FigureGrid | Notes]:
    """For each device, quality against latency with the size as area; nothing where quality or size
    is not known.
    """
    quality = measured_quality(inputs)
    if quality is None:
        return [
            Notes(
                [
                    "No Pareto chart: it needs an audit or a parity report of the files that were "
                    "timed."
                ]
            )
        ]
    figures = [
        figure
        for place in places
        if (figure := _figure(place, quality, sizes_of(inputs))) is not None
    ]
    if not figures:
        return [
            Notes(
                [
                    "No Pareto chart: none of the timed files has both a known quality and a known "
                    "size."
                ]
            )
        ]
    caption = f"Quality: {plain(quality.caption, 160)}. {FRONT}"
    return [FigureGrid(figures, columns=1, heading="Quality, latency and size", caption=caption)]


def sizes_of(inputs: Inputs) -> dict[str, int]:
    """Bytes of each file by SHA-256, by its card or by a bench report."""
    told = {row.artifact_sha256: row.bytes for row in inputs.bench_rows if row.bytes}
    return told | {card.sha256: card.bytes for card in inputs.cards}


def _figure(place: Place, quality: Quality, sizes: Mapping[str, int]) -> Figure | None:
    files, without = [], 0
    for row, label in zip(place.rows, labels(place.rows, 36), strict=True):
        median, known = row_median(row), sizes.get(row.artifact_sha256)
        if median is None or row.mode != "burst":
            continue
        if known is None or row.artifact_sha256 not in quality.values:
            without += 1
            continue
        brief = plain(f"{row.precision} {row.delegate_got or row.delegate_asked}", 22)
        value = quality.values[row.artifact_sha256]
        files.append(
            _File(
                label=f"{label}, {size(known)}",
                short=brief,
                ms=median,
                value=value,
                bytes=known,
                ranked=row.ranked,
            )
        )
    if not files:
        return None
    caption = (
        f"Not drawn, because their quality or size is not known: {without}." if without else ""
    )
    draw = partial(_pareto_svg, files, place, quality)
    return both_widths(
        draw, WIDTHS, name=f"pareto-{place.number}", caption=caption, pick=place.pick
    )


@dataclass(frozen=True, kw_only=True)
class _File:
    """One file on one device: its name in full and in a few letters, median, quality, size."""

    label: str
    short: str
    ms: float
    value: float
    bytes: int
    ranked: bool


def on_the_front(files: Sequence[_File], *, higher_is_better: bool) -> list[bool]:
    """Which files no other beats in latency, quality and size; what may not be ranked neither is on
    the front nor beats.
    """
    sign = 1.0 if higher_is_better else -1.0
    goods = {
        place: (-file.ms, sign * file.value, -file.bytes)
        for place, file in enumerate(files)
        if file.ranked
    }
    best = dict(zip(goods, pareto_front(list(goods.values())), strict=True))
    return [best.get(place, False) for place in range(len(files))]


def _pareto_svg(
    files: Sequence[_File], place: Place, quality: Quality, *, name: str, width: int
) -> str:
    best = on_the_front(files, higher_is_better=quality.higher_is_better)
    largest = max(file.bytes for file in files)
    points = [
        Point(
            label=file.label if width > ROOMY else file.short,
            x=file.ms,
            y=file.value,
            front=first,
            diameter=max(SMALLEST, LARGEST * (file.bytes / largest) ** 0.5),
            marker="o" if file.ranked else "X",
            role="unlearned" if file.ranked else "retrained",
        )
        for file, first in zip(files, best, strict=True)
    ]
    title = f"{place.name}, {_threads(place)}"
    spoken = "; ".join(
        f"{file.label} {milliseconds(file.ms)} ms, {file.value:.4g}{', on the front' if first else ''}"
        for file, first in zip(files, best, strict=True)
    )
    return pareto_svg(
        points,
        latency_axis([file.ms for file in files]),
        quality_axis(
            [file.value for file in files], quality.axis, higher_is_better=quality.higher_is_better
        ),
        name=name,
        spoken=f"{quality.axis} against latency, {title}: {spoken}.",
        width=width,
        height=380,
        title=title,
        staircase=True,
    )


def _threads(place: Place) -> str:
    counts = sorted({row.threads for row in place.rows})
    return (
        counted(counts[0], "thread") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} threads"
    )


def _bench_table(found: Sequence[Place]) -> Table:
    columns = [
        words("Artifact"),
        words("runtime"),
        Column("median", unit="ms"),
        Column("p90", unit="ms"),
        Column("first run", unit="ms"),
        Column("load", unit="ms"),
        Column("spread", unit="of starts"),
        Column("peak memory"),
        Column("runs", unit="cold starts"),
        words("ranked", wide=True),
    ]
    return Table(
        "Every timed artifact; medians with 95 % intervals over cold starts",
        columns,
        [(f"{place.where}: {plain(place.device, 100)}", _bench_rows(place)) for place in found],
        picks=[place.pick for place in found],
    )


def _bench_rows(place: Place) -> list[list[Cell]]:
    return [
        _bench_row(row, name) for row, name in zip(place.rows, file_names(place.rows), strict=True)
    ]


def _bench_row(row: BenchRow, name: str) -> list[Cell]:
    low, high = row.median_ci95_ms or (None, None)
    ends = f"{milliseconds(low)} to {milliseconds(high)}" if low is not None else ""
    state: Chip = (
        "pass" if row.ranked else "warn" if row.valid or row.status == "not_run" else "fail"
    )
    word = (
        "yes"
        if row.ranked
        else row.unranked_because or ("not run" if row.status == "not_run" else "no")
    )
    got = f"{plain(row.delegate_got or row.delegate_asked, 30)}, {counted(row.threads, 'thread')}"
    return [
        Cell(f"{plain(row.target, 20)} {plain(row.precision, 20)}", note=name),
        Cell(f"{plain(row.runtime, 30)} {plain(row.runtime_version or '', 20)}", note=got),
        Cell(milliseconds(row_median(row)), note=ends),
        Cell(milliseconds(row.summary.p90 if row.summary else None)),
        Cell(milliseconds(row.first_inference_ms)),
        Cell(milliseconds(row.init_ms_cold)),
        Cell(percent(row.spread if len(row.repeats) > 1 else None)),
        Cell(size(row.peak_memory_bytes)),
        Cell(
            count(row.summary.count if row.summary else None),
            note=count(len(row.repeats)) if row.repeats else "",
        ),
        Cell(word, chip=state, note=notes_of(row)),
    ]
