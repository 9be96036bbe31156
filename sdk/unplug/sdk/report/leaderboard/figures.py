"""The plots of a leaderboard: cost x forgetting x utility, and every method's interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from unplug.core import MINUS, plain

from ..figures.canvas import COLOUR, GRID, INK, MARK, MUTED, canvas, finish, to_svg

AREA = (26.0, 190.0)  # of marks, in square pixels: nothing spent, the most spent
MAX_LABEL = 18
WIDE = 800
LETTER, LINE = 5.7, 12.0  # size of a label in CSS pixels, roughly


@dataclass(frozen=True, kw_only=True)
class Point:
    """One row in the plane of utility and forgetting.

    Args:
        label, role: of the row.
        x: utility, better to the right after `flip`.
        y: forgetting.
        x_ends, y_ends: intervals, or None.
        cost: fraction of retraining.
        front: nobody is at least as good in cost, forgetting and utility, and better in one.
    """

    label: str
    role: str
    x: float
    y: float
    x_ends: tuple[float, float] | None
    y_ends: tuple[float, float] | None
    cost: float
    front: bool


def pareto_front(goods: Sequence[tuple[float, ...]]) -> list[bool]:
    """Which points no other dominates; every coordinate is better when larger.

    Example:
        >>> pareto_front([(1.0, 1.0), (0.0, 2.0), (0.0, 1.0)])
        [True, True, False]
    """
    return [not any(all(a >= b for a, b in zip(other, own, strict=True)) and other != own for other in goods) for own in goods]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """How one axis is written.

    Args:
        label: its name.
        flip: smaller is better, so the axis runs the other way: the best corner is always the upper right.
        scale: what values are multiplied with.
        best: nothing beyond it counts as better; None where more always is.
    """

    label: str
    flip: bool
    scale: float = 1.0
    best: float | None = None


def pareto_svg(points: Sequence[Point], x: Axis, y: Axis, *, name: str, width: int, height: int) -> str:
    """Draws every row; marks grow with what was spent, those of the front are filled."""
    with canvas(width, height) as (figure, axes):
        x_limits = _limits(points, [point.x for point in points])
        y_limits = _limits(points, [point.y for point in points])
        axes.set(xlim=x_limits[::-1] if x.flip else x_limits, ylim=y_limits[::-1] if y.flip else y_limits)
        most = max((point.cost for point in points if point.role == "unlearned"), default=0.0)
        for point in points:
            _draw(axes, point, x_limits, y_limits, most)
        for values, axis in ((axes.xaxis, x), (axes.yaxis, y)):
            values.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
            values.set_major_formatter(FuncFormatter(lambda value, _, scale=axis.scale: _tick(value * scale)))
        axes.tick_params(axis="y", length=0)
        finish(axes, x=f"{x.label}  (better \N{RIGHTWARDS ARROW})", y=f"{y.label}  (better \N{RIGHTWARDS ARROW})")
        _legend(axes, most, columns=5 if width >= WIDE else 2)
        figure.canvas.draw()
        _labels(axes, points, x_limits, y_limits, figure.dpi / 72)
        spoken = "; ".join(f"{point.label} {point.x * x.scale:.3g}, {point.y * y.scale:.3g}" for point in points if point.front)
        return to_svg(figure, name, f"{x.label} against {y.label}. On the Pareto front: {spoken}.")


def _limits(points: Sequence[Point], values: Sequence[float]) -> tuple[float, float]:
    """Room for the original, the oracle and all points but extreme ones, which are drawn at the border."""
    low_quarter, high_quarter = np.percentile(values, [25, 75])
    room = max(1.5 * (high_quarter - low_quarter), 1e-3)
    fixed = [value for point, value in zip(points, values, strict=True) if point.role != "unlearned"]
    low, high = max(min(values), low_quarter - room), min(max(values), high_quarter + room)
    low, high = min([low, *fixed]), max([high, *fixed])
    pad = 0.09 * max(high - low, 1e-3)
    return float(low - pad), float(high + pad)


def _inside(value: float, limits: tuple[float, float]) -> float:
    edge = 0.02 * (limits[1] - limits[0])
    return min(max(value, limits[0] + edge), limits[1] - edge)


def _draw(axes: Axes, point: Point, x_limits: tuple[float, float], y_limits: tuple[float, float], most: float) -> None:
    colour = COLOUR[point.role]
    x, y = _inside(point.x, x_limits), _inside(point.y, y_limits)
    line: dict[str, Any] = {"color": colour, "linewidth": 1.0, "alpha": 0.28, "solid_capstyle": "butt", "zorder": 1}
    shown = point.front or point.role != "unlearned"  # the intervals of all would hide the marks
    if shown and point.x_ends is not None and x == point.x:
        axes.plot(np.clip(point.x_ends, *x_limits), [y, y], **line)
    if shown and point.y_ends is not None and y == point.y:
        axes.plot([x, x], np.clip(point.y_ends, *y_limits), **line)
    area = 70.0 if point.role != "unlearned" else AREA[0] + (AREA[1] - AREA[0]) * point.cost / max(most, 1e-12)
    filled = point.front or point.role != "unlearned"
    axes.scatter(
        [x], [y], s=area, marker=MARK[point.role], facecolor=colour if filled else "none", edgecolor=colour, linewidth=1.4,
        alpha=0.9, zorder=3 if filled else 2, clip_on=False,
    )  # fmt: skip


def _legend(axes: Axes, most: float, columns: int) -> None:
    def mark(role: str, text: str, *, filled: bool = True, area: float = 70.0) -> Line2D:
        return Line2D(
            [], [], linestyle="none", marker=MARK[role], markersize=area**0.5, markeredgecolor=COLOUR[role],
            markerfacecolor=COLOUR[role] if filled else "none", label=text,
        )  # fmt: skip

    handles = [
        mark("unlearned", "on the Pareto front"), mark("unlearned", "not on it", filled=False),
        mark("original", "original"), mark("retrained", "retrained (oracle)", area=50.0),
    ]  # fmt: skip
    if most > 0:
        handles.append(mark("unlearned", f"{100 * most:.3g} % of retraining", filled=False, area=AREA[1]))
    axes.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, labelcolor=MUTED, handletextpad=0.3,
        columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _labels(
    axes: Axes, points: Sequence[Point], x_limits: tuple[float, float], y_limits: tuple[float, float], pixel: float
) -> None:
    """Names beside their marks; those of the front first, others where there is room.

    `pixel` is how many of matplotlib's pixels are one of the page's.
    """
    centers = [axes.transData.transform((_inside(point.x, x_limits), _inside(point.y, y_limits))) / pixel for point in points]
    frame = (axes.bbox.x0 / pixel, axes.bbox.y0 / pixel, axes.bbox.x1 / pixel, axes.bbox.y1 / pixel)
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in centers]
    order = sorted(range(len(points)), key=lambda index: (points[index].role == "unlearned", not points[index].front, index))
    for index in order:
        point, (x, y) = points[index], centers[index]
        text = plain(point.label, MAX_LABEL)
        width = LETTER * len(text)
        others = [box for number, box in enumerate(taken) if number != index]
        for dx, dy, anchor in _spots(width, LINE):
            box = (x + dx, y + dy, x + dx + width, y + dy + LINE)
            if _fits(box, frame) and not any(_overlap(box, other) for other in others):
                taken.append(box)
                where = axes.transData.inverted().transform(((x + dx + anchor * width) * pixel, (y + dy + LINE / 2) * pixel))
                _write(axes, point, text, (float(where[0]), float(where[1])), anchor)
                break


Box = tuple[float, float, float, float]


def _fits(box: Box, frame: Box) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _overlap(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def _write(axes: Axes, point: Point, text: str, where: tuple[float, float], anchor: float) -> None:
    bold = point.front and point.role == "unlearned"
    colour = INK if bold or point.role != "unlearned" else MUTED
    side = {0.0: "left", 0.5: "center", 1.0: "right"}[anchor]
    axes.text(
        where[0], where[1], text, ha=side, va="center", color=colour, fontsize=10, fontweight="bold" if bold else "normal",
        zorder=4,
    )  # fmt: skip


def _spots(width: float, height: float) -> Iterator[tuple[float, float, float]]:
    """Offsets of the lower left corner of a label from its mark, with the side that it is anchored at."""
    for far in (9.0, 16.0, 26.0):
        yield far, -height / 2, 0.0
        yield -far - width, -height / 2, 1.0
        yield -width / 2, far, 0.5
        yield -width / 2, -far - height, 0.5
        yield far, far - 4, 0.0
        yield far, -far - height + 4, 0.0
        yield -far - width, far - 4, 1.0
        yield -far - width, -far - height + 4, 1.0


def _tick(value: float) -> str:
    return f"{value:g}".replace("-", MINUS)


@dataclass(frozen=True, kw_only=True)
class Span:
    """One row of the forest: a value with its interval."""

    label: str
    role: str
    value: float
    low: float | None
    high: float | None


def spans_svg(rows: Sequence[Span], best: float, *, name: str, title: str, x: str, width: int) -> str:
    """Draws an interval per row; the dashed line is the oracle.

    Args:
        rows: from top to bottom.
        best: the oracle's value.
        name: prefix of ids.
        title, x: of the plot and its axis.
        width: CSS pixels.
    """
    with canvas(width, 70 + 24 * len(rows)) as (figure, axes):
        axes.axvline(best, color=COLOUR["retrained"], linewidth=1.4, linestyle=(0, (4, 2)))
        for place, row in enumerate(rows):
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [place, place], color=COLOUR[row.role], linewidth=2.2, solid_capstyle="round")
            axes.plot([row.value], [place], color=COLOUR[row.role], marker=MARK[row.role], markersize=6.0)
        ends = [best, *(part for row in rows for part in (row.value, row.low, row.high) if part is not None)]
        pad = 0.05 * max(max(ends) - min(ends), 1e-3)
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(min(ends) - pad, max(ends) + pad))
        axes.set_yticks(np.arange(len(rows)), labels=[plain(row.label, MAX_LABEL) for row in rows])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        finish(axes, title=title, x=x)
        spoken = "; ".join(f"{row.label} {row.value:.3g}" for row in rows)
        return to_svg(figure, name, f"{title}: {spoken}.")
