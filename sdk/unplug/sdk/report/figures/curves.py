"""Learning curves: one quantity over epochs or steps, one line a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from .canvas import COLOUR, LINE, MUTED, canvas, finish, to_svg
from .roc import thin


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Epochs (or steps) and values of one model, and how the legend calls it."""

    role: str
    label: str
    epoch: NDArray[np.float64]
    value: NDArray[np.float64]


def learning_svg(curves: Sequence[Curve], *, name: str, title: str, unit: str, width: int, per: str = "epoch") -> str:
    """Draws one quantity of training.

    Args:
        curves: one a model.
        name: prefix of ids.
        title: what is drawn.
        unit: of the values.
        width: CSS pixels.
        per: what the horizontal axis counts.
    """
    with canvas(width, 290) as (figure, axes):
        for curve in curves:
            axes.plot(
                thin(curve.epoch), thin(curve.value), color=COLOUR[curve.role], linestyle=LINE[curve.role], label=curve.label,
                marker="o" if len(curve.epoch) == 1 else None,
            )  # fmt: skip
        axes.set_ylim(0.0, 1.05 * max(float(curve.value.max()) for curve in curves) or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        axes.grid(axis="x", visible=False)
        axes.legend(loc="best", labelcolor=MUTED)
        finish(axes, title=f"{title} ({unit})", x=per)
        spoken = "; ".join(
            f"{curve.label} ends at {curve.value[-1]:.2f} after {curve.epoch[-1]:.0f} {per}s" for curve in curves
        )
        return to_svg(figure, name, f"{title} in {unit} per {per}: {spoken}.")
