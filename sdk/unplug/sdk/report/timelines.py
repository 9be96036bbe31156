"""Plots over time: cold starts beside the temperature, and what minutes at full load cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unplug.core import fixed, plain, threads
from unplug.mobile_bench import THERMAL_STATES, throttling

from .figures.timeline import Heat, Load, Starts, load_svg, starts_svg
from .page import Figure, FigureGrid
from .timing import Place, labels, row_median

if TYPE_CHECKING:
    from unplug.mobile_bench import BenchRow

WIDE, NARROW = 1056, 354
MAX_PLOTS = 12
STARTS = (
    "One line a file, one dot a cold start: its median against the row's own. Lines that rise together are the machine's "
    "doing, not a file's. Dashed grey: not ranked."
)
CURVE = "Line: median of a window. Shade: up to its 95th percentile."


def cold_starts(places: list[Place]) -> list[FigureGrid]:
    """Per device, the cold starts of its rows in the order in which they ran."""
    drawn = [figure for place in places if (figure := _starts_figure(place)) is not None][:MAX_PLOTS]
    if not drawn:
        return []
    return [FigureGrid(figures=drawn, columns=1, heading="Latency over the benchmark, with temperature", caption=STARTS)]


def _starts_figure(place: Place) -> Figure | None:
    rows, heat = [], []
    for row, label in zip(place.rows, labels(place.rows), strict=True):
        if row.mode == "sustained":  # it has a plot of its own
            continue
        median, runs = row_median(row), sorted(row.repeats, key=lambda repeat: repeat.started_s)
        heat += runs
        if median and len({repeat.started_s for repeat in runs}) > 1:
            relative = [repeat.summary.p50 / median for repeat in runs]
            rows.append(Starts(label=label, at_s=[r.started_s for r in runs], relative=relative, ranked=row.ranked))
    if not rows:
        return None
    warm = _heat([(repeat.started_s, repeat.temperature_c, repeat.thermal) for repeat in heat])
    wide, narrow = (
        starts_svg(rows, warm, name=f"starts-{place.number}-{width}", title=place.name, width=width) for width in (WIDE, NARROW)
    )
    return Figure(svg=wide, narrow=narrow, caption="" if warm else "It tells no temperature.", pick=place.pick)


def _heat(points: list[tuple[float, float | None, str | None]]) -> Heat | None:
    known = sorted((at_s, celsius, word) for at_s, celsius, word in points if celsius is not None)
    if not known:
        return None
    words = [(at_s, plain(word, 20)) for at_s, _, word in known if word in THERMAL_STATES[1:]]
    changed = [item for index, item in enumerate(words) if index == 0 or words[index - 1][1] != item[1]]
    return Heat(at_s=[item[0] for item in known], celsius=[item[1] for item in known], words=changed)


def full_load(places: list[Place]) -> list[FigureGrid]:
    """Per row that ran at full load, its curve and what it lost."""
    found = []
    for place in places:
        for number, (row, label) in enumerate(zip(place.rows, labels(place.rows), strict=True)):
            if len(row.curve) > 1:
                found.append(_load_figure(place, row, label, number))
    drawn = found[:MAX_PLOTS]
    return [FigureGrid(figures=drawn, columns=2, heading="Minutes at full load", caption=CURVE)] if drawn else []


def _load_figure(place: Place, row: BenchRow, label: str, number: int) -> Figure:
    middle = [(window.start_s + window.end_s) / 2 for window in row.curve]
    load = Load(at_s=middle, p50=[window.p50 for window in row.curve], p95=[window.p95 for window in row.curve])
    warm = _heat([(window.end_s, window.temperature_c, None) for window in row.curve])
    lost = throttling(row.curve)
    head = f"{label}: " + ("too short to say" if lost is None else f"{_slower(lost)} at the end")
    svg = load_svg(load, warm, name=f"load-{place.number}-{number}", title=head, width=508)
    told = "" if warm else " It tells no temperature."
    caption = f"{place.name}, {threads(row.threads)}: {fixed(row.curve[-1].end_s, 0)} s without a pause.{told}"
    return Figure(svg=svg, caption=caption, pick=place.pick)


def _slower(share: float) -> str:
    """What throttling comes to, in words.

    Example:
        >>> _slower(0.124), _slower(-0.02), _slower(0.001)
        ('12 % slower', '2 % faster', 'as fast')
    """
    if abs(share) < 0.005:
        return "as fast"
    return f"{abs(share):.0%} {'slower' if share > 0 else 'faster'}".replace("%", " %")
