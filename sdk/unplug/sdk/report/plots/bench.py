"""Plots of latency: single runs, numbers of others, and minutes at full load.

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

from unplug.core import milliseconds

from .canvas import (
    COLOUR,
    DOTTED,
    GRID,
    INK,
    LOG_FROM,
    MUTED,
    PAPER,
    Array,
    canvas,
    finish,
    log_x,
    stacked,
    thin,
    to_svg,
)

MAX_DOTS = 160  # of one artifact: enough to see the shape of the spread
# its multiples modulo 1 spread evenly, so the dots need no random numbers
GOLDEN = 0.6180339887498949
PANEL, HEAT = 230, 130  # CSS pixels


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


@dataclass(frozen=True)
class Heat:
    """What the device said of its temperature."""

    at_s: Sequence[float]
    celsius: Sequence[float]


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
        timings: the timings from top to bottom.
        name: prefix of ids.
        title: the place and the conditions of the measurement.
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
        spoken = "; ".join(f"{timing.label} {milliseconds(timing.median)} ms" for timing in timings)
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


def load_svg(load: Load, heat: Heat | None, *, name: str, title: str, width: int) -> str:
    """Draws latency over minutes at full load.

    Args:
        load: the windows.
        heat: drawn below; None where the device does not tell.
        name: prefix of ids.
        title: the title of the plot.
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
            f"{title}: median of a window {milliseconds(load.p50[0])} ms at the beginning, "
            f"{milliseconds(load.p50[-1])} ms at the end.",
        )


def _draw_heat(axes: Axes, heat: Heat, x: str) -> None:
    axes.plot(
        heat.at_s, heat.celsius, color=COLOUR["original"], marker="s", markersize=3.5, linewidth=1.4
    )
    low, high = min(heat.celsius), max(heat.celsius)
    axes.set_ylim(low - max(1.0, 0.15 * (high - low)), high + max(1.0, 0.3 * (high - low)))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    finish(axes, y="°C", x=x)
