"""The picture of what steering costs: seconds an image by number of steps, the base and what each
control adds.
"""

from __future__ import annotations

from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.overhead.names import BARE, CONTROLNET, PLUGIN

INK, LINE = "#444444", "#d9d9d9"
SHOWN = {BARE: "#9aa7b8", CONTROLNET: "#b3541e", PLUGIN: "#2456a6"}
"""Rows that are drawn, with their colours; each bar carries its number as well."""


def bars(run: dict[str, Any]) -> Figure:
    """Three bars for each number of steps, with guidance: the bare base, with a ControlNet, with
    the plugin.

    Args:
        run: an entry of the JSON's ``runs``.
    """
    figure = Figure(figsize=(9.2, 3.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    rows = {(row["control"], row["steps"]): row for row in run["rows"] if row["guidance"]}
    counts = sorted(run["steps"], reverse=True)
    for place, (control, colour) in enumerate(SHOWN.items()):
        seconds = [rows[control, steps]["seconds"]["median"] for steps in counts]
        spots = [group + (place - 1) * 0.27 for group in range(len(counts))]
        drawn = axes.bar(spots, seconds, width=0.25, color=colour, label=control)
        texts = [_text(rows[control, steps]) for steps in counts]
        axes.bar_label(drawn, texts, padding=2, fontsize=8, color=INK)
    axes.set_xticks(range(len(counts)), [f"{steps} steps" for steps in counts], color=INK)
    axes.set_ylabel("seconds an image", color=INK)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, labelcolor=INK)
    where = f"{run['size']}, {run['image'][0]} pixels, guidance, {run['dtype']}, {run['machine']}"
    if run["extrapolated"]:
        where += "; extrapolated from steps and parts"
    axes.set_title(where, loc="left", color=INK, fontsize=10)
    return figure


def _text(row: dict[str, Any]) -> str:
    if "overhead_percent" not in row:
        return f"{row['seconds']['median']:.0f} s"
    percent = row["overhead_percent"]["median"]
    return f"+{percent:.0f} %" if percent >= 1 else f"+{percent:.2f} %"
