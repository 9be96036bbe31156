"""Loss histograms of one model: the forget set filled, unseen samples as an outline, on an axis that all panels share.

Shapes: F forget losses, U unseen losses, E bin edges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .canvas import COLOUR, INK, MUTED, canvas, finish, to_svg

Array = NDArray[np.float64]
BINS = 20
TAIL_PERCENT = 98.0  # beyond this percentile of all models the losses share the last bin, so that one outlier squeezes nobody


def shared_edges(losses: Sequence[Array]) -> Array:
    """Bin edges (E,) from 0 to the tail of all losses together; from the lower tail where nothing lies near 0."""
    low, top = (float(value) for value in np.percentile(np.concatenate(losses), (100.0 - TAIL_PERCENT, TAIL_PERCENT)))
    return np.linspace(low if 0.5 * top < low < top else 0.0, max(top, 1e-6), BINS + 1)


def shares(losses_N: Array, edges_E: Array) -> Array:
    """Fraction of samples per bin; what lies outside counts in the nearest bin."""
    counts, _ = np.histogram(np.clip(losses_N, edges_E[0], edges_E[-1]), bins=edges_E)
    return counts / len(losses_N)


def loss_svg(
    forget_F: Array, unseen_U: Array, edges_E: Array, top: float, *, role: str, name: str, title: str, unit: str = "nats"
) -> str:
    """Draws one panel.

    Args:
        forget_F, unseen_U: losses.
        edges_E: shared by all panels.
        top: upper end of the shared vertical axis, a fraction.
        role: of the model.
        name: prefix of ids.
        title: of the panel.
        unit: of the losses.
    """
    with canvas(340, 250) as (figure, axes):
        forget_B, unseen_B = shares(forget_F, edges_E), shares(unseen_U, edges_E)
        axes.stairs(forget_B, edges_E, fill=True, color=COLOUR[role], alpha=0.55, label=f"forget set ({len(forget_F):,})")
        axes.stairs(unseen_B, edges_E, color=INK, linewidth=1.4, label=f"unseen ({len(unseen_U):,})")
        axes.set(xlim=(edges_E[0], edges_E[-1]), ylim=(0.0, top))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:g} %")
        axes.grid(axis="x", visible=False)
        axes.legend(loc="upper right", labelcolor=MUTED)
        finish(axes, title=title, x=f"loss ({unit})")
        medians = f"{np.median(forget_F):.2f} on the forget set and {np.median(unseen_U):.2f} on unseen samples"
        return to_svg(figure, name, f"Losses of the {title} model: median {medians}.")
