"""ROC of one attack: all models in one plot, the diagonal is guessing.

Shapes: F forget scores, U unseen scores, T thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .canvas import COLOUR, LINE, MUTED, canvas, finish, to_svg

Array = NDArray[np.float64]
MAX_POINTS = 300  # a step of a 300 px plot per point


@dataclass(frozen=True, kw_only=True)
class RocCurve:
    """Scores of one model under one attack, and how the legend calls it."""

    role: str
    label: str
    forget_F: Array
    unseen_U: Array


def roc_points(forget_F: Array, unseen_U: Array) -> tuple[Array, Array]:
    """False- and true-positive rates of `unplug.sdk.statistics.stats.roc`, from sorted counts instead of an all-pairs table."""
    thresholds_T = np.unique(np.concatenate([forget_F, unseen_U]))[::-1]
    false_T, true_T = (1.0 - np.searchsorted(np.sort(scores), thresholds_T) / len(scores) for scores in (unseen_U, forget_F))
    return np.concatenate([[0.0], false_T]), np.concatenate([[0.0], true_T])


def thin(points: Array, limit: int = MAX_POINTS) -> Array:
    """At most `limit` evenly chosen entries, both ends kept."""
    return points if len(points) <= limit else points[np.linspace(0, len(points) - 1, limit).round().astype(int)]


def roc_svg(curves: Sequence[RocCurve], *, name: str, title: str, width: int) -> str:
    """Draws the ROC of every model under one attack.

    Args:
        curves: one a model.
        name: prefix of ids.
        title: of the plot.
        width: CSS pixels.
    """
    with canvas(width, min(width, 420)) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
        for curve in curves:
            false_T, true_T = roc_points(curve.forget_F, curve.unseen_U)
            axes.plot(
                thin(false_T), thin(true_T), color=COLOUR[curve.role], linestyle=LINE[curve.role], label=curve.label,
                drawstyle="steps-post" if len(false_T) <= MAX_POINTS else "default",
            )  # fmt: skip
        axes.set(
            xlim=(-0.01, 1.01),
            ylim=(-0.01, 1.01),
            aspect="equal",
            anchor="W",
            xticks=np.linspace(0, 1, 6),
            yticks=np.linspace(0, 1, 6),
        )
        axes.legend(loc="lower right", labelcolor=MUTED)
        finish(axes, title=f"{title}: ROC", x="false-positive rate (unseen)", y="true-positive rate (forget set)")
        spoken = "; ".join(curve.label for curve in curves)
        return to_svg(figure, name, f"ROC of {title}. Area under the curve: {spoken}. The diagonal is guessing.")
