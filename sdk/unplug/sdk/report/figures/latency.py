"""Latencies: raw runs as dots, the median with its interval on top.

Shapes: N timed runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from numpy.typing import NDArray

from .canvas import COLOUR, INK, MUTED, PAPER, canvas, finish, to_svg
from .roc import thin

Array = NDArray[np.float64]
MAX_DOTS = 160  # of one artifact: enough to see the shape of the spread
LOG_FROM = 8.0  # ratio of the slowest to the fastest median from which a logarithmic axis reads better
GOLDEN = 0.6180339887498949  # its multiples modulo 1 spread evenly, so the dots need no random numbers


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Runs of one artifact in milliseconds, their median, its interval, and whether the row may be ranked."""

    label: str
    runs_N: Array
    median: float
    low: float | None
    high: float | None
    ranked: bool = True


def latency_svg(timings: Sequence[Timing], *, name: str, title: str, width: int) -> str:
    """Draws one row an artifact, its name above the dots.

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
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        else:
            axes.set_xlim(0.0, 1.04 * max(float(np.percentile(timing.runs_N, 99.5)) for timing in timings) or 1.0)
        for place, timing in enumerate(timings):
            _row(axes, place, timing)
        axes.set(ylim=(len(timings) - 0.55, -0.85), yticks=[])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        finish(axes, title=title, x="latency of one run (ms)")
        spoken = "; ".join(f"{timing.label} {timing.median:.3g} ms" for timing in timings)
        return to_svg(figure, name, f"Median latency, {title}: {spoken}.")


def _row(axes: Axes, place: int, timing: Timing) -> None:
    runs_N = thin(timing.runs_N, MAX_DOTS)
    high_N = place + 0.34 * ((np.arange(len(runs_N)) * GOLDEN) % 1.0 - 0.5)
    # A path of points with round caps: one element for all dots where markers would be one each.
    steps = np.repeat(np.column_stack([runs_N, high_N]), 2, axis=0)
    steps[1::2, 1] += 0.002  # a tenth of a pixel: a browser draws no caps on a line without any length
    dots = Curve(steps, np.tile(np.array([Curve.MOVETO, Curve.LINETO], np.uint8), len(runs_N)))
    dots.should_simplify = False
    colour = COLOUR["unlearned"] if timing.ranked else COLOUR["retrained"]
    axes.add_patch(PathPatch(dots, edgecolor=colour, facecolor="none", linewidth=3.0, capstyle="round", alpha=0.35))
    if timing.low is not None and timing.high is not None:
        axes.plot([timing.low, timing.high], [place, place], color=INK, linewidth=2.4, solid_capstyle="butt")
    axes.plot([timing.median], [place], marker="d", markersize=7, **_diamond(timing.ranked))
    axes.text(
        0.0, place - 0.36, timing.label, transform=axes.get_yaxis_transform(), color=INK, fontsize=10.5, va="bottom", ha="left"
    )


def _diamond(ranked: bool) -> dict[str, Any]:
    return {"color": INK, "markeredgecolor": PAPER} if ranked else {"color": PAPER, "markeredgecolor": MUTED}
