"""What is worth having of two goods and a price: a scatter plot with its Pareto front, names where
there is room for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from unplug.core import MINUS

from .canvas import COLOUR, DASHED, INK, LOG_FROM, MARK, MUTED, PAPER, canvas, finish, log_x, to_svg

LETTER, LINE = 5.6, 13.0  # CSS pixels of a letter and of a line at the size of names
HALO: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
Box = tuple[float, float, float, float]
"""Left, low, right, high, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mark.

    Args:
        label: its name.
        x, y: the mark's place.
        diameter: CSS pixels.
        front: no other is as good in everything, and better in something: drawn filled.
        role: the role that decides its colour; on leaderboards also its marker.
        marker: None takes the role's.
        optional: its name may be left out where there is no room; otherwise it overlaps something.
        x_ends, y_ends: intervals to draw, or None.
    """

    label: str
    x: float
    y: float
    diameter: float
    front: bool
    role: str = "unlearned"
    marker: str | None = None
    optional: bool = False
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis: what it says, its ends as drawn (reversed where less is better), its ticks' factor,
    None for plain ticks.
    """

    label: str
    ends: tuple[float, float]
    log: bool = False
    scale: float | None = None


def pareto_front(goods: Sequence[tuple[float, ...]]) -> list[bool]:
    """Which points no other dominates: as good in everything and better in something. Every
    coordinate is better when larger.

    Example:
        >>> pareto_front([(1.0, 1.0), (0.0, 2.0), (0.0, 1.0)])
        [True, True, False]
    """
    return [
        not any(
            all(a >= b for a, b in zip(other, good, strict=True)) and other != good
            for other in goods
        )
        for good in goods
    ]


def latency_axis(times: Sequence[float]) -> Axis:
    """Milliseconds from 0, or logarithmic where the slowest takes many times as long as the
    fastest.
    """
    label = "latency, median (ms): left is faster"
    if min(times) > 0.0 and max(times) > LOG_FROM * min(times):
        return Axis(label=label, ends=(min(times) / 1.6, max(times) * 1.9), log=True)
    return Axis(label=label, ends=(0.0, 1.3 * max(times) or 1.0))


def quality_axis(values: Sequence[float], name: str, *, higher_is_better: bool) -> Axis:
    """Up is better, whichever way the quality runs."""
    margin = 0.18 * (max(values) - min(values)) or 0.1 * abs(values[0]) or 1.0
    ends = (min(values) - margin, max(values) + margin)
    return Axis(label=f"{name}: up is better", ends=ends if higher_is_better else ends[::-1])


def robust_limits(values: Sequence[float], always: Sequence[float]) -> tuple[float, float]:
    """Room for all values but extreme ones (beyond 1.5 times the quartiles' distance), and for
    those of `always`.
    """
    low_quarter, high_quarter = np.percentile(values, [25, 75])
    room = max(1.5 * (high_quarter - low_quarter), 1e-3)
    low = min([max(min(values), low_quarter - room), *always])
    high = max([min(max(values), high_quarter + room), *always])
    pad = 0.09 * max(high - low, 1e-3)
    return float(low - pad), float(high + pad)


def pareto_svg(
    points: Sequence[Point],
    x: Axis,
    y: Axis,
    *,
    name: str,
    spoken: str,
    width: int,
    height: int,
    title: str = "",
    staircase: bool = False,
    legend: Sequence[tuple[Point, str]] = (),
    legend_columns: int = 5,
) -> str:
    """Draws every point: filled marks are on the front.

    Args:
        points: the points, at least one; names of earlier ones are placed first.
        x, y: the axes.
        name: prefix of ids.
        spoken: the text for screen readers.
        width, height: CSS pixels.
        title: the title of the plot.
        staircase: the front of the two axes alone, as a line below which everything is beaten.
        legend: marks and what they mean, above the plot.
        legend_columns: how many side by side.
    """
    with canvas(width, height) as (figure, axes):
        if x.log:
            log_x(axes)
        axes.set(xlim=x.ends, ylim=y.ends)
        if staircase:
            _staircase(axes, [point for point in points if point.front])
        for point in sorted(points, key=lambda point: -point.diameter):
            _mark(axes, point)
        for ticks, axis in ((axes.xaxis, x), (axes.yaxis, y)):
            if (scale := axis.scale) is not None:
                ticks.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
                ticks.set_major_formatter(
                    FuncFormatter(
                        lambda value, _, scale=scale: f"{value * scale:g}".replace("-", MINUS)
                    )
                )
        finish(axes, title=title, x=x.label, y=y.label)
        if legend:
            axes.legend(
                handles=[_handle(point, text) for point, text in legend],
                loc="lower center",
                bbox_to_anchor=(0.5, 1.0),
                ncols=legend_columns,
                labelcolor=MUTED,
                handletextpad=0.3,
                columnspacing=1.2,
                borderaxespad=0.2,
            )
        # the layout is settled here, and names can be put where there is room
        figure.draw_without_rendering()
        _names(axes, points)
        return to_svg(figure, name, spoken)


def _style(point: Point) -> dict[str, Any]:
    colour = COLOUR[point.role]
    return {
        "linestyle": "",
        "marker": point.marker or MARK[point.role],
        "markersize": point.diameter,
        "color": colour if point.front else PAPER,
        "markeredgecolor": colour,
        "markeredgewidth": 1.6,
    }


def _mark(axes: Axes, point: Point) -> None:
    line: dict[str, Any] = {
        "color": COLOUR[point.role],
        "linewidth": 1.0,
        "alpha": 0.28,
        "solid_capstyle": "butt",
        "zorder": 1,
    }
    if point.x_ends is not None:
        axes.plot(_within(point.x_ends, axes.get_xlim()), [point.y, point.y], **line)
    if point.y_ends is not None:
        axes.plot([point.x, point.x], _within(point.y_ends, axes.get_ylim()), **line)
    axes.plot([point.x], [point.y], alpha=0.75 if point.front else 1.0, **_style(point))


def _within(ends: tuple[float, float], limits: tuple[float, float]) -> list[float]:
    return [min(max(end, min(limits)), max(limits)) for end in ends]


def _handle(point: Point, text: str) -> Line2D:
    return Line2D([], [], label=text, **_style(point))


def _staircase(axes: Axes, best: Sequence[Point]) -> None:
    low, high = axes.get_ylim()
    sign, reached, steps = (1.0 if high > low else -1.0), -np.inf, []
    for point in sorted(best, key=lambda point: (point.x, -sign * point.y)):
        if sign * point.y > reached:
            steps.append((point.x, point.y))
            reached = sign * point.y
    if not steps:
        return
    steps.append((axes.get_xlim()[1], steps[-1][1]))
    axes.plot(
        *zip(*steps, strict=True),
        color=MUTED,
        linewidth=1.2,
        drawstyle="steps-post",
        linestyle=DASHED,
    )


def _names(axes: Axes, points: Sequence[Point]) -> None:
    """Each name next to its mark, on the first side where it meets neither a name, nor a mark, nor
    the frame.
    """
    frame, scale = axes.get_window_extent(), 72.0 / axes.figure.dpi
    limits: Box = (frame.x0 * scale, frame.y0 * scale, frame.x1 * scale + 8, frame.y1 * scale)
    centers = [axes.transData.transform((point.x, point.y)) * scale for point in points]
    taken: list[Box] = []
    for point, (x, y) in zip(points, centers, strict=True):
        radius = point.diameter / 2
        taken.append((x - radius, y - radius, x + radius, y + radius))
    for point, (x, y) in zip(points, centers, strict=True):
        spots = list(
            _spots(x, y, point.diameter / 2 + 4, LETTER * len(point.label), far=point.optional)
        )
        free = (
            spot
            for spot in spots
            if _inside(spot[1], limits) and not any(_meet(spot[1], other) for other in taken)
        )
        spot = next(free, None if point.optional else spots[0])
        if spot is None:
            continue
        side, box = spot
        taken.append(box)
        note = axes.annotate(
            point.label,
            (point.x, point.y),
            xytext=side[:2],
            textcoords="offset points",
            ha=side[2],
            va="center",
            fontsize=10,
            bbox=HALO,
            color=INK if point.front else MUTED,
        )
        note.set_in_layout(False)  # or the plot would shrink to make room for what fits in it


def _spots(
    x: float, y: float, gap: float, length: float, *, far: bool
) -> Iterator[tuple[tuple[float, float, str], Box]]:
    """Where a name may stand: its offset and alignment, and the box that it takes; `far` adds
    places further away.
    """
    for out in (gap, gap + 7, gap + 17) if far else (gap,):
        sides = {
            (out, 0.0, "left"): (x + out, y - LINE / 2),
            (-out, 0.0, "right"): (x - out - length, y - LINE / 2),
            (0.0, out + 4, "center"): (x - length / 2, y + out),
            (0.0, -out - 4, "center"): (x - length / 2, y - out - LINE),
            (out, LINE, "left"): (x + out, y + LINE / 2),
            (out, -LINE, "left"): (x + out, y - 1.5 * LINE),
        }
        for side, (left, low) in sides.items():
            yield side, (left, low, left + length, low + LINE)


def _inside(box: Box, limits: Box) -> bool:
    return (
        box[0] >= limits[0] and box[1] >= limits[1] and box[2] <= limits[2] and box[3] <= limits[3]
    )


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
