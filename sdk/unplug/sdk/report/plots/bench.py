"""Plots of latency: single runs, numbers of others, cold starts over time, and minutes at full
load.

Two panels with one time axis where there is a temperature, never two scales in one panel. Shapes: N
timed runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from matplotlib.ticker import MaxNLocator

from unplug.core import MINUS

from .canvas import (
    COLOUR,
    DASHED,
    DOTTED,
    GRID,
    INK,
    LOG_FROM,
    MUTED,
    PAPER,
    ROOMY,
    Array,
    canvas,
    finish,
    log_x,
    stacked,
    thin,
    to_svg,
)

MAX_DOTS = 160  # of one artifact: enough to see the shape of the spread
GOLDEN = (
    0.6180339887498949  # its multiples modulo 1 spread evenly, so the dots need no random numbers
)
PANEL, HEAT = 230, 130
LABEL_GAP = 0.075
"""Of the panel's height: labels nearer than this would run into one another."""
MAX_LABELS = 12
FEW = 3  # lines that a narrow drawing names
HALO: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0, "alpha": 0.85}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Runs of one artifact in milliseconds, their median, its interval, and whether the row may be
    ranked.
    """

    label: str
    runs_N: Array
    median: float
    low: float | None
    high: float | None
    ranked: bool = True


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Cold starts of one row: when each began, its median over the row's, and whether the row is
    ranked.
    """

    label: str
    at_s: Sequence[float]
    relative: Sequence[float]
    ranked: bool


@dataclass(frozen=True, kw_only=True)
class Heat:
    """What the device said of its temperature, and its own word for it where that is not "none"."""

    at_s: Sequence[float]
    celsius: Sequence[float]
    words: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, kw_only=True)
class Load:
    """A run at full load in windows: their middles, medians and 95th percentiles."""

    at_s: Sequence[float]
    p50: Sequence[float]
    p95: Sequence[float]


def latency_svg(timings: Sequence[Timing], *, name: str, title: str, width: int) -> str:
    """Draws raw runs as dots, the median with its interval on top; one row an artifact, its name
    above the dots.

    Args:
        timings: from top to bottom.
        name: prefix of ids.
        title: where and how it was measured.
        width: CSS pixels: wide for a page, narrow for a phone.
    """
    medians = [timing.median for timing in timings]
    smallest = min(float(timing.runs_N.min()) for timing in timings)
    with canvas(width, 70 + 46 * len(timings)) as (figure, axes):
        if smallest > 0.0 and max(medians) > LOG_FROM * min(medians):
            log_x(axes)
        else:
            axes.set_xlim(
                0.0,
                1.04 * max(float(np.percentile(timing.runs_N, 99.5)) for timing in timings) or 1.0,
            )
        for place, timing in enumerate(timings):
            _dots(axes, place, timing)
            _row_name(axes, place - 0.36, timing.label, 10.5)
        _rows(axes, (len(timings) - 0.55, -0.85))
        finish(axes, title=title, x="latency of one run (ms)")
        spoken = "; ".join(f"{timing.label} {timing.median:.3g} ms" for timing in timings)
        return to_svg(figure, name, f"Median latency, {title}: {spoken}.")


def _rows(axes: Axes, ends: tuple[float, float]) -> None:
    axes.set(ylim=ends, yticks=[])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)


def _row_name(axes: Axes, height: float, text: str, size: float) -> None:
    axes.text(
        0.0,
        height,
        text,
        transform=axes.get_yaxis_transform(),
        color=INK,
        fontsize=size,
        va="bottom",
        ha="left",
    )


def _dots(axes: Axes, place: int, timing: Timing) -> None:
    runs_N = thin(timing.runs_N, MAX_DOTS)
    high_N = place + 0.34 * ((np.arange(len(runs_N)) * GOLDEN) % 1.0 - 0.5)
    # A path of points with round caps: one element for all dots where markers would be one each.
    steps = np.repeat(np.column_stack([runs_N, high_N]), 2, axis=0)
    steps[1::2, 1] += (
        0.002  # a tenth of a pixel: a browser draws no caps on a line without any length
    )
    dots = Curve(steps, np.tile(np.array([Curve.MOVETO, Curve.LINETO], np.uint8), len(runs_N)))
    dots.should_simplify = False
    colour = COLOUR["unlearned"] if timing.ranked else COLOUR["retrained"]
    axes.add_patch(
        PathPatch(
            dots, edgecolor=colour, facecolor="none", linewidth=3.0, capstyle="round", alpha=0.35
        )
    )
    if timing.low is not None and timing.high is not None:
        axes.plot(
            [timing.low, timing.high],
            [place, place],
            color=INK,
            linewidth=2.4,
            solid_capstyle="butt",
        )
    fill, edge = (INK, PAPER) if timing.ranked else (PAPER, MUTED)
    axes.plot([timing.median], [place], marker="d", markersize=7, color=fill, markeredgecolor=edge)


def published_svg(bars: Sequence[tuple[str, float]], *, name: str, title: str, width: int) -> str:
    """Draws numbers of others as hollow marks on a dotted line: another look than that of anything
    measured here.

    Args:
        bars: label and milliseconds, from top to bottom.
        name: prefix of ids.
        title: the network.
        width: CSS pixels.
    """
    with canvas(width, 66 + 34 * len(bars)) as (figure, axes):
        log_x(axes)
        values = [value for _, value in bars]
        axes.set_xlim(min(values) / 1.5, max(values) * 2.2)
        for place, (label, value) in enumerate(bars):
            axes.plot(
                [min(values) / 1.5, value],
                [place, place],
                color=GRID,
                linewidth=1.4,
                linestyle=DOTTED,
            )
            axes.plot(
                [value],
                [place],
                marker="o",
                markersize=8,
                color=PAPER,
                markeredgecolor=MUTED,
                markeredgewidth=1.6,
            )
            beside: dict[str, Any] = {
                "xytext": (9, 0),
                "textcoords": "offset points",
                "va": "center",
                "color": MUTED,
            }
            axes.annotate(f"{value:g}", (value, place), **beside)
            _row_name(axes, place - 0.2, label, 10)
        _rows(axes, (len(bars) - 0.5, -0.9))
        finish(axes, title=f"{title}, published", x="latency of one run (ms)")
        spoken = "; ".join(f"{label} {value:g} ms" for label, value in bars)
        return to_svg(figure, name, f"Published latency of {title}, not measured here: {spoken}.")


def starts_svg(
    rows: Sequence[Starts], heat: Heat | None, *, name: str, title: str, width: int
) -> str:
    """Draws the cold starts of every row over time, each relative to its row's median.

    Args:
        rows: one line each.
        heat: drawn below; None where the device does not tell.
        name: prefix of ids.
        title: where and how it was measured.
        width: CSS pixels.
    """
    with stacked(width, [PANEL + 40, *([HEAT] if heat else [])]) as (figure, panels):
        upper = panels[0]
        upper.axhline(1.0, color=MUTED, linewidth=1.0, linestyle=DOTTED)
        for row in rows:
            colour = COLOUR["unlearned"] if row.ranked else COLOUR["retrained"]
            style = "-" if row.ranked else DASHED
            upper.plot(
                row.at_s,
                row.relative,
                color=colour,
                linestyle=style,
                marker="o",
                markersize=4.5,
                markeredgecolor=PAPER,
                linewidth=1.4,
                alpha=0.85,
            )
        last = max(at_s for row in rows for at_s in row.at_s)
        upper.set_xlim(-0.02 * last, 1.02 * last)
        values = [value for row in rows for value in row.relative]
        low, high = min([0.95, *values]), max([1.05, *values])
        upper.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
        upper.yaxis.set_major_formatter(lambda value, _: _percent(value - 1.0))
        _name_lines(upper, rows, at_the_end=width > ROOMY)
        finish(
            upper,
            title=title,
            y="cold start against its row",
            x="" if heat else "seconds since the benchmark began",
        )
        if heat:
            _draw_heat(panels[1], heat, "seconds since the benchmark began")
            upper.tick_params(labelbottom=False)
        spoken = "; ".join(
            f"{row.label} {_percent(min(row.relative) - 1)} to {_percent(max(row.relative) - 1)}"
            for row in rows[:MAX_LABELS]
        )
        warm = (
            f" Temperature {min(heat.celsius):.0f} to {max(heat.celsius):.0f} degrees Celsius."
            if heat
            else ""
        )
        return to_svg(figure, name, f"Cold starts over time, {title}: {spoken}.{warm}")


def _percent(share: float) -> str:
    """A change, with its sign.

    Example:
        >>> _percent(0.05), _percent(-0.001)
        ('+5 %', '0 %')
    """
    rounded = round(100 * share)
    return f"{rounded:+d} %".replace("-", MINUS) if rounded else "0 %"


def _name_lines(axes: Axes, rows: Sequence[Starts], *, at_the_end: bool) -> None:
    """Names at the lines' ends, moved apart; without room there, only those that strayed most,
    where they did.
    """
    bottom, top = axes.get_ylim()
    gap = LABEL_GAP * (top - bottom)
    if at_the_end:
        height = bottom - gap
        for row in sorted(rows, key=lambda row: row.relative[-1])[:MAX_LABELS]:
            height = max(height + gap, row.relative[-1])
            axes.annotate(
                row.label,
                (1.0, height),
                xycoords=axes.get_yaxis_transform(),
                xytext=(6, 0),
                textcoords="offset points",
                fontsize=9.5,
                color=INK if row.ranked else MUTED,
                ha="left",
                va="center",
            )
            axes.plot(
                [row.at_s[-1], axes.get_xlim()[1]],
                [row.relative[-1], height],
                color=GRID,
                linewidth=0.9,
                scalex=False,
                scaley=False,
                zorder=1,
            )
        return
    taken: list[float] = []
    for row in sorted(rows, key=lambda row: -max(abs(value - 1.0) for value in row.relative))[:FEW]:
        place = max(range(len(row.relative)), key=lambda index: abs(row.relative[index] - 1.0))
        height = row.relative[place]
        if any(abs(height - other) < gap for other in taken):
            continue
        taken.append(height)
        right = row.at_s[place] > sum(axes.get_xlim()) / 2
        axes.annotate(
            row.label,
            (row.at_s[place], height),
            xytext=(-8 if right else 8, 0),
            textcoords="offset points",
            fontsize=9.5,
            color=INK,
            ha="right" if right else "left",
            va="center",
            bbox=HALO,
        )


def load_svg(load: Load, heat: Heat | None, *, name: str, title: str, width: int) -> str:
    """Draws latency over minutes at full load.

    Args:
        load: the windows.
        heat: drawn below; None where the device does not tell.
        name: prefix of ids.
        title: of the plot.
        width: CSS pixels.
    """
    with stacked(width, [PANEL, *([HEAT] if heat else [])]) as (figure, panels):
        upper = panels[0]
        upper.fill_between(
            load.at_s, load.p50, load.p95, color=COLOUR["unlearned"], alpha=0.22, linewidth=0
        )
        upper.plot(load.at_s, load.p50, color=COLOUR["unlearned"], linewidth=2.0)
        upper.set_ylim(0.0, 1.12 * max(load.p95))
        x = "seconds at full load"
        finish(upper, title=title, y="latency of one run (ms)", x="" if heat else x)
        if heat:
            _draw_heat(panels[1], heat, x)
            upper.tick_params(labelbottom=False)
        return to_svg(
            figure,
            name,
            f"{title}: median of a window {load.p50[0]:.3g} ms at the beginning, "
            f"{load.p50[-1]:.3g} ms at the end.",
        )


def _draw_heat(axes: Axes, heat: Heat, x: str) -> None:
    axes.plot(
        heat.at_s, heat.celsius, color=COLOUR["original"], marker="s", markersize=3.5, linewidth=1.4
    )
    low, high = min(heat.celsius), max(heat.celsius)
    axes.set_ylim(low - max(1.0, 0.15 * (high - low)), high + max(1.0, 0.3 * (high - low)))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    for at_s, word in heat.words:
        axes.axvline(at_s, color=COLOUR["original"], linewidth=1.0, linestyle=DOTTED)
        axes.annotate(
            word,
            (at_s, axes.get_ylim()[1]),
            xytext=(4, -3),
            textcoords="offset points",
            fontsize=9.5,
            va="top",
        )
    finish(axes, y="°C", x=x)
