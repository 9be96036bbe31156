"""Quality against latency, size as area: which files no other file beats.

Shapes: N files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from .canvas import COLOUR, INK, MUTED, PAPER, canvas, finish, to_svg

HEIGHT = 380
LARGEST = 34.0  # diameter in pixels of the largest bubble
SMALLEST = 7.0
LETTER, LINE = 5.6, 13.0  # pixels of a letter and of a line at that font size
LOG_FROM = 8.0
ROOMY = 600
HALO: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
Box = tuple[float, float, float, float]
"""Left, low, right, high, in pixels."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One file on one device.

    Args:
        label: name, with the size.
        short: of a few letters, for a narrow drawing.
        latency_ms: median.
        quality: in the unit of the axis.
        bytes: of the file.
        ranked: rows that may not be ranked are drawn and are no part of the front.
    """

    label: str
    short: str
    latency_ms: float
    quality: float
    bytes: int
    ranked: bool = True


def front(points: Sequence[Point], *, higher_is_better: bool) -> list[bool]:
    """Which points no other ranked point beats: as fast, as good and as small, and better in one of the three.

    Example:
        >>> fast = Point(label="a", short="a", latency_ms=1.0, quality=5.0, bytes=10)
        >>> slow = Point(label="b", short="b", latency_ms=2.0, quality=6.0, bytes=10)
        >>> front([fast, slow], higher_is_better=True), front([fast, slow], higher_is_better=False)
        ([True, True], [True, False])
    """
    sign = -1.0 if higher_is_better else 1.0
    costs_N3 = np.array([[item.latency_ms, sign * item.quality, float(item.bytes)] for item in points]).reshape(-1, 3)
    ranked_N = np.array([item.ranked for item in points], bool)
    found = []
    for index, cost in enumerate(costs_N3):
        beats = ranked_N & (costs_N3 <= cost).all(axis=1) & (costs_N3 < cost).any(axis=1)
        found.append(bool(ranked_N[index]) and not bool(beats.any()))
    return found


def pareto_svg(
    points: Sequence[Point], *, higher_is_better: bool, axis: str, name: str, title: str, width: int
) -> str:  # fmt: skip
    """Draws one bubble a file: further left is faster, further up is better, smaller is smaller.

    Args:
        points: of one device; at least one.
        higher_is_better: of the quality; otherwise the axis is turned round, so that up stays better.
        axis: name and unit of the quality.
        name: prefix of ids.
        title: where it was measured.
        width: CSS pixels.
    """
    best = front(points, higher_is_better=higher_is_better)
    with canvas(width, HEIGHT) as (figure, axes):
        _limits(axes, points, higher_is_better)
        _staircase(axes, [point for point, first in zip(points, best, strict=True) if first], higher_is_better)
        largest = max(point.bytes for point in points)
        sizes = [max(SMALLEST, LARGEST * (point.bytes / largest) ** 0.5) for point in points]
        order = sorted(range(len(points)), key=lambda index: -sizes[index])
        for index in order:
            point, colour = points[index], COLOUR["unlearned"] if points[index].ranked else COLOUR["retrained"]
            axes.plot(
                [point.latency_ms], [point.quality], marker="o" if point.ranked else "X", markersize=sizes[index], linestyle="",
                color=colour if best[index] else PAPER, markeredgecolor=colour, markeredgewidth=1.6,
                alpha=0.75 if best[index] else 1.0,
            )  # fmt: skip
        finish(axes, title=title, x="latency, median (ms): left is faster", y=f"{axis}: up is better")
        figure.draw_without_rendering()  # the layout is settled here, and labels can be put where there is room
        _labels(axes, points, [point.label if width > ROOMY else point.short for point in points], sizes, best)
        spoken = "; ".join(
            f"{point.label} {point.latency_ms:.3g} ms, {point.quality:.4g}{', on the front' if first else ''}"
            for point, first in zip(points, best, strict=True)
        )
        return to_svg(figure, name, f"{axis} against latency, {title}: {spoken}.")


def _limits(axes: Axes, points: Sequence[Point], higher_is_better: bool) -> None:
    times = [point.latency_ms for point in points]
    if min(times) > 0.0 and max(times) > LOG_FROM * min(times):
        axes.set_xscale("log")
        axes.set_xlim(min(times) / 1.6, max(times) * 1.9)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_xlim(0.0, 1.3 * max(times) or 1.0)
    qualities = [point.quality for point in points]
    margin = 0.18 * (max(qualities) - min(qualities)) or 0.1 * abs(qualities[0]) or 1.0
    ends = (min(qualities) - margin, max(qualities) + margin)
    axes.set_ylim(ends if higher_is_better else ends[::-1])


def _staircase(axes: Axes, best: Sequence[Point], higher_is_better: bool) -> None:
    """The front of latency and quality alone, as the line below which everything is beaten."""
    sign, reached, steps = (1.0 if higher_is_better else -1.0), -np.inf, []
    for point in sorted(best, key=lambda point: (point.latency_ms, -sign * point.quality)):
        if sign * point.quality > reached:
            steps.append((point.latency_ms, point.quality))
            reached = sign * point.quality
    if not steps:
        return
    steps.append((axes.get_xlim()[1], steps[-1][1]))
    axes.plot(*zip(*steps, strict=True), color=MUTED, linewidth=1.2, drawstyle="steps-post", linestyle=(0, (4, 2)))


def _labels(axes: Axes, points: Sequence[Point], texts: Sequence[str], sizes: Sequence[float], best: Sequence[bool]) -> None:
    """Each name beside its bubble, on the first side where it meets neither a name nor the frame."""
    frame, scale = axes.get_window_extent(), 72.0 / axes.figure.dpi
    limits: Box = (frame.x0 * scale, frame.y0 * scale, frame.x1 * scale + 8, frame.y1 * scale)
    taken: list[Box] = [_bubble(axes, point, width * 0.5, scale) for point, width in zip(points, sizes, strict=True)]
    for index, (point, text) in enumerate(zip(points, texts, strict=True)):
        x, y = axes.transData.transform((point.latency_ms, point.quality)) * scale
        gap, length = sizes[index] / 2 + 4, LETTER * len(text)
        sides = {
            (gap, 0.0, "left"): (x + gap, y - LINE / 2), (-gap, 0.0, "right"): (x - gap - length, y - LINE / 2),
            (0.0, gap + 4, "center"): (x - length / 2, y + gap), (0.0, -gap - 4, "center"): (x - length / 2, y - gap - LINE),
            (gap, LINE, "left"): (x + gap, y + LINE / 2), (gap, -LINE, "left"): (x + gap, y - 1.5 * LINE),
        }  # fmt: skip
        boxes = {side: (left, low, left + length, low + LINE) for side, (left, low) in sides.items()}
        free = (side for side, box in boxes.items() if _inside(box, limits) and not any(_meet(box, other) for other in taken))
        side = next(free, next(iter(boxes)))
        taken.append(boxes[side])
        note = axes.annotate(
            text, (point.latency_ms, point.quality), xytext=side[:2], textcoords="offset points", ha=side[2],
            va="center", fontsize=10, bbox=HALO, color=INK if best[index] else MUTED,
        )  # fmt: skip
        note.set_in_layout(False)  # or the plot would shrink to make room for what fits in it


def _bubble(axes: Axes, point: Point, radius: float, scale: float) -> Box:
    x, y = axes.transData.transform((point.latency_ms, point.quality)) * scale
    return x - radius, y - radius, x + radius, y + radius


def _inside(box: Box, limits: Box) -> bool:
    return box[0] >= limits[0] and box[1] >= limits[1] and box[2] <= limits[2] and box[3] <= limits[3]


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
