"""Numbers of others as hollow marks on a dotted line: another look than that of anything measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .canvas import GRID, INK, MUTED, PAPER, canvas, finish, to_svg


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One published latency in milliseconds."""

    label: str
    value: float


def published_svg(bars: Sequence[Bar], *, name: str, title: str, width: int) -> str:
    """Draws one row a number, its name above the mark.

    Args:
        bars: from top to bottom.
        name: prefix of ids.
        title: the network.
        width: CSS pixels.
    """
    with canvas(width, 66 + 34 * len(bars)) as (figure, axes):
        axes.set_xscale("log")
        low, high = min(bar.value for bar in bars), max(bar.value for bar in bars)
        axes.set_xlim(low / 1.5, high * 2.2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        for place, bar in enumerate(bars):
            axes.plot([low / 1.5, bar.value], [place, place], color=GRID, linewidth=1.4, linestyle=(0, (1, 2)))
            axes.plot([bar.value], [place], marker="o", markersize=8, color=PAPER, markeredgecolor=MUTED, markeredgewidth=1.6)
            axes.annotate(
                f"{bar.value:g}", (bar.value, place), xytext=(9, 0), textcoords="offset points", va="center", color=MUTED
            )
            axes.text(
                0.0,
                place - 0.2,
                bar.label,
                transform=axes.get_yaxis_transform(),
                color=INK,
                fontsize=10,
                va="bottom",
                ha="left",
            )
        axes.set(ylim=(len(bars) - 0.5, -0.9), yticks=[])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        finish(axes, title=f"{title}, published", x="latency of one run (ms)")
        spoken = "; ".join(f"{bar.label} {bar.value:g} ms" for bar in bars)
        return to_svg(figure, name, f"Published latency of {title}, not measured here: {spoken}.")
