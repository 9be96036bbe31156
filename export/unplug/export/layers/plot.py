"""One picture of an explanation: decibels over layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unplug.core import atomic_path

from .explain import Explanation

GOOD, BAD, QUIET = "#2f6f9f", "#c0392b", "#8a8f98"
LABELS = 60
"""Layers that have their names along the axis; of more, every second or third has."""
EXACT_AT = 160.0


def plot_layers(explanation: Explanation, path: Path) -> None:
    """Draws the PSNR of each layer, the tolerance, and the first layer beyond it, as PNG.

    Args:
        explanation: an explanation with at least one layer.
        path: the picture's path.

    Raises:
        OutputError: it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = explanation.layers
    heights = [EXACT_AT if item.psnr_db is None else item.psnr_db for item in rows]
    figure = Figure(figsize=(max(7.0, 0.17 * len(rows) + 1.5), 4.8), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(range(len(rows)), heights, color=QUIET, linewidth=1, zorder=1)
    colours = [GOOD if item.within else BAD for item in rows]
    axes.scatter(range(len(rows)), heights, c=colours, s=22, zorder=2)
    axes.axhline(explanation.threshold_db, color=BAD, linewidth=1, linestyle=(0, (4, 3)))
    axes.text(
        0.995,
        explanation.threshold_db,
        f"needs {explanation.threshold_db:g} dB",
        transform=axes.get_yaxis_transform(),
        color=BAD,
        ha="right",
        va="bottom",
        fontsize=8,
    )
    _label(axes, explanation, heights)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")


def _label(axes: Any, explanation: Explanation, heights: list[float]) -> None:
    """Names the first layer beyond the tolerance, the axes and the whole."""
    rows, first = explanation.layers, explanation.first
    if first is not None:
        place = rows.index(first)
        axes.annotate(
            f"{first.operator}\n{first.layer}",
            (place, heights[place]),
            xytext=(0, 26),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=BAD,
            arrowprops={"arrowstyle": "-", "color": BAD},
            parse_math=False,
        )
    step = -(-len(rows) // LABELS)
    axes.set_xticks(
        range(0, len(rows), step),
        [item.layer for item in rows][::step],
        rotation=90,
        fontsize=7,
        parse_math=False,
    )
    axes.set_ylabel("PSNR against the checkpoint, dB")
    title = f"{explanation.file}: {len(rows)} layers, {explanation.samples} samples"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.02, y=0.15)
