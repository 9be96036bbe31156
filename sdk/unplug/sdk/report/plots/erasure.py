"""The plot of an erasure: how often a concept is drawn, by what an attacker tried and by which base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from .canvas import (
    COLOUR,
    DASHED,
    FONT_PX,
    INK,
    MARK,
    MUTED,
    ROOMY,
    canvas,
    finish,
    head,
    legend_below,
    to_svg,
)

LINE_PX, GAP_PX = 15.0, 12.0
"""CSS pixels of a mark, and between two groups of marks."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One base's rate and its interval: `role` gives the colour, `label` stands in the legend."""

    role: str
    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One way to get a concept drawn, with a mark for each base; `heading` opens a group of ways."""

    label: str
    marks: Sequence[Mark]
    heading: str = ""


def rates_svg(
    ways: Sequence[Tried],
    *,
    name: str,
    title: str,
    width: int,
    limit: float | None = None,
) -> str:
    """Draws rates and their intervals, one line a base, with the rate written after each.

    Args:
        ways: the ways from top to bottom.
        name: prefix of ids.
        title: the title of the plot.
        width: CSS pixels.
        limit: the rate up to which an interval may reach, dashed, where there is one for all ways.
    """
    ticks, y = list[tuple[float, str, bool]](), 0.0
    named = set[str]()
    height = sum(GAP_PX + LINE_PX * (len(way.marks) + bool(way.heading)) for way in ways)
    with canvas(width, round(height) + 76) as (figure, axes):
        if limit is not None:
            axes.axvline(limit, color=COLOUR["original"], linewidth=1.2, linestyle=DASHED)
        for way in ways:
            y += GAP_PX
            if way.heading:
                ticks.append((y, way.heading, True))
                y += LINE_PX
            ticks.append((y + LINE_PX * (len(way.marks) - 1) / 2, way.label, False))
            for mark in way.marks:
                _mark(axes, mark, y, known=mark.label in named)
                named.add(mark.label)
                y += LINE_PX
        axes.set(ylim=(y + 2.0, 0.0))
        _name_ways(axes, ticks, width)
        finish(axes, x="% of pictures in which the judge sees it")
        head(figure, title)
        legend_below(figure, axes)
        spoken = "; ".join(
            f"{way.label}: "
            + ", ".join(f"{mark.label} {100 * mark.value:.0f} %" for mark in way.marks)
            for way in ways
        )
        return to_svg(figure, name, f"{title}. {spoken}.")


def _name_ways(axes: Axes, ticks: Sequence[tuple[float, str, bool]], width: int) -> None:
    # what follows an interval that ends at 100 % needs room
    axes.set_xlim(-0.02, 1.1 if width >= ROOMY else 1.25)
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0], labels=["0", "25", "50", "75", "100"])
    axes.set_yticks([tick[0] for tick in ticks], labels=[tick[1] for tick in ticks])
    for text, (_, _, heading) in zip(axes.get_yticklabels(), ticks, strict=True):
        text.set(color=INK if heading else MUTED, weight="bold" if heading else "normal")
    axes.grid(axis="y", visible=False)


def _mark(axes: Axes, mark: Mark, y: float, *, known: bool) -> None:
    colour = COLOUR[mark.role]
    axes.plot([mark.low, mark.high], [y, y], color=colour, linewidth=2.2, solid_capstyle="round")
    axes.plot(
        mark.value,
        y,
        color=colour,
        marker=MARK[mark.role],
        markersize=5.5,
        linestyle="none",
        label=None if known else mark.label,
    )
    axes.annotate(
        f"{100 * mark.value:.0f} %",
        (mark.high, y),
        xytext=(6, 0),
        textcoords="offset points",
        va="center_baseline",
        color=colour,
        fontsize=FONT_PX - 1,
    )
