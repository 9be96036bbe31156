"""AUC of every model with its interval, against the band of oracles that never saw the forget set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from .canvas import COLOUR, GRID, INK, MARK, MUTED, canvas, finish, to_svg


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """One model: its name, role, AUC and interval."""

    label: str
    role: str
    value: float
    low: float | None
    high: float | None


def forest_svg(rows: Sequence[ForestRow], band: Sequence[float], *, name: str, title: str, width: int) -> str:
    """Draws AUC and interval, one row a model.

    Args:
        rows: from top to bottom.
        band: AUC of each reference model, drawn as a shaded range; may be empty.
        name: prefix of ids.
        title: of the plot.
        width: CSS pixels.
    """
    with canvas(width, 76 + 30 * len(rows) + (18 if band else 0)) as (figure, axes):
        if band:
            axes.axvspan(min(band) - 1e-3, max(band) + 1e-3, color=COLOUR["retrained"], alpha=0.22, linewidth=0)
        axes.axvline(0.5, color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
        for place, row in enumerate(rows):
            colour = COLOUR[row.role]
            if row.low is not None and row.high is not None:
                axes.plot([row.low, row.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot([row.value], [place], color=colour, marker=MARK[row.role], markersize=6.5)
        ends = [0.5, *band, *(part for row in rows for part in (row.value, row.low, row.high) if part is not None)]
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(max(-0.02, min(ends) - 0.03), min(1.02, max(ends) + 0.03)))
        axes.set_yticks(np.arange(len(rows)), labels=[row.label for row in rows])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", color=GRID)
        finish(axes, title=f"{title}: AUC and 95 % interval", x="AUC; shaded: the oracle band" if band else "AUC")
        spoken = "; ".join(f"{row.label} {row.value:.3f}" for row in rows)
        oracle = f" Oracle band {min(band):.3f} to {max(band):.3f}." if band else ""
        return to_svg(figure, name, f"AUC of {title}: {spoken}.{oracle}")
