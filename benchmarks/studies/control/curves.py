"""The picture of how fast each control learned: its validation loss against steps, and against
seconds.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .report import ComparisonReport, Row
from .trainings import Training

COLOURS = ("#b3541e", "#3a7d44", "#2456a6", "#7b3f98", "#555555")
"""By the order of the controls; each stands beside its name in the legend, and lines of one control
share theirs.
"""
INK, LINE = "#444444", "#d9d9d9"


def has_curves(report: ComparisonReport) -> bool:
    """Whether any training of the comparison was measured on its way."""
    return any(one.curve for row in report.rows for one in row.trainings)


def curves_figure(report: ComparisonReport) -> Figure:
    """Two plots side by side; tried rates are thin, those that are measured are strong, a line a
    seed.

    Args:
        report: a comparison `has_curves` holds for.

    Returns:
        A figure of 920 x 340 pixels; its ``savefig`` writes it.
    """
    figure = Figure(figsize=(9.2, 3.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    by_steps, by_seconds = figure.subplots(1, 2, sharey=True)
    drawn = [row for row in report.rows if row.role == "control"]
    for row, colour in zip(drawn, COLOURS * len(drawn), strict=False):
        _draw(by_steps, row, colour, seconds=False)
        _draw(by_seconds, row, colour, seconds=True)
    for axes, label in ((by_steps, "steps"), (by_seconds, "seconds of training")):
        axes.set_xlabel(label, color=INK)
        axes.tick_params(colors=INK, length=3)
        axes.grid(color=LINE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlim(left=0)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    by_steps.set_ylabel("validation loss, lower is better", color=INK)
    by_steps.legend(frameon=False, labelcolor=INK)
    kind = str(report.condition.get("kind", ""))[:40]
    figure.suptitle(
        f"{kind}: how fast each control learns (thin: rates that were only tried)",
        color=INK,
        fontsize=11,
        x=0.01,
        ha="left",
    )
    return figure


def _draw(axes: Axes, row: Row, colour: str, *, seconds: bool) -> None:
    named = False
    for one in (*row.trainings, *(one for one in row.tried if one not in row.trainings)):
        if one.curve:
            measured = one in row.trainings
            label = row.label if measured and not named else None
            named |= measured
            x, y = _line(one, seconds=seconds)
            axes.plot(
                x,
                y,
                color=colour,
                label=label,
                linewidth=1.8 if measured else 0.8,
                alpha=1.0 if measured else 0.45,
            )


def _line(one: Training, *, seconds: bool) -> tuple[list[float], list[float]]:
    return [point.wall_s if seconds else float(point.step) for point in one.curve], [
        point.validation for point in one.curve
    ]
