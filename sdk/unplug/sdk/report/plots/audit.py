"""Plots of an audit: learning curves, losses, ROC, intervals of every model (a forest plot), error
by age group.

Shapes: N points of a line, F forget losses, U unseen losses, E bin edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .canvas import (
    COLOUR,
    DASHED,
    DOTTED,
    INK,
    LINE,
    MARK,
    MAX_POINTS,
    MUTED,
    Array,
    canvas,
    finish,
    head,
    legend_below,
    thin,
    to_svg,
)

if TYPE_CHECKING:
    from unplug.core import Estimate
    from unplug.sdk.evidence.auditing import Standing

BINS = 20
# beyond this percentile of all models the losses share the last bin, so that one outlier squeezes
# nobody
TAIL_PERCENT = 98.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """One model's line: its role gives colour and dashes, the label stands in the legend; NaN
    leaves a gap.
    """

    role: str
    label: str
    x_N: Array
    y_N: Array


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """One row of a forest plot: a name, a role for its colour, a value and its interval, where
    there is one.
    """

    label: str
    role: str
    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, label: str, role: str, estimate: Estimate | Standing) -> ForestRow:
        """A row of a number with its interval."""
        ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
        return cls(label=label, role=role, **ends)  # type: ignore[arg-type]


def _draw(axes: Axes, line: Line, **style: Any) -> None:
    axes.plot(
        thin(line.x_N),
        thin(line.y_N),
        color=COLOUR[line.role],
        linestyle=LINE[line.role],
        label=line.label,
        **style,
    )


def learning_svg(
    lines: Sequence[Line], *, name: str, title: str, unit: str, width: int, per: str = "epoch"
) -> str:
    """Draws one quantity of training.

    Args:
        lines: one a model, over epochs or steps.
        name: prefix of ids.
        title: the quantity drawn.
        unit: the unit of the values.
        width: CSS pixels.
        per: the unit of the horizontal axis.
    """
    with canvas(width, 290) as (figure, axes):
        for line in lines:
            _draw(axes, line, marker="o" if len(line.x_N) == 1 else None)
        axes.set_ylim(0.0, 1.05 * max(float(line.y_N.max()) for line in lines) or 1.0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
        axes.grid(axis="x", visible=False)
        finish(axes, title=f"{title} ({unit})", x=per)
        legend_below(figure, axes)
        spoken = "; ".join(
            f"{line.label} ends at {line.y_N[-1]:.2f} after {line.x_N[-1]:.0f} {per}s"
            for line in lines
        )
        return to_svg(figure, name, f"{title} in {unit} per {per}: {spoken}.")


def roc_svg(lines: Sequence[Line], *, name: str, title: str, width: int) -> str:
    """Draws the ROC of every model under one attack; the diagonal is guessing.

    Args:
        lines: one a model, true- over false-positive rates; the legend calls it with its AUC.
        name: prefix of ids.
        title: the title of the plot.
        width: CSS pixels.
    """
    with canvas(width, min(width, 420) + 16) as (figure, axes):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1.0, linestyle=DOTTED)
        for line in lines:
            few = len(line.x_N) <= MAX_POINTS
            _draw(axes, line, drawstyle="steps-post" if few else "default")
        ticks = np.linspace(0, 1, 6)
        axes.set(
            xlim=(-0.01, 1.01),
            ylim=(-0.01, 1.01),
            aspect="equal",
            anchor="W",
            xticks=ticks,
            yticks=ticks,
        )
        finish(
            axes,
            title=f"{title}: ROC",
            x="false-positive rate (unseen)",
            y="true-positive rate (forget set)",
        )
        legend_below(figure, axes)
        spoken = "; ".join(line.label for line in lines)
        return to_svg(
            figure,
            name,
            f"ROC of {title}. Area under the curve: {spoken}. The diagonal is guessing.",
        )


def forest_svg(
    rows: Sequence[ForestRow],
    *,
    name: str,
    title: str,
    x: str,
    spoken: str,
    width: int,
    guess: float | None = None,
    aim: float | None = None,
    band: Sequence[float] = (),
    pitch: int = 30,
) -> str:
    """Draws a value and its interval, one row a model.

    Args:
        rows: the rows from top to bottom.
        name: prefix of ids.
        title, x: the title of the plot, and of its axis.
        spoken: the text for screen readers.
        width: CSS pixels.
        guess: the value of guessing, dotted, where there is one; the axis is then a share, from 0
            to 1.
        aim: the oracle's value, dashed.
        band: values of reference models, drawn as a shaded range.
        pitch: CSS pixels of a row.
    """
    with canvas(width, 76 + pitch * len(rows) + (18 if band else 0)) as (figure, axes):
        if band:
            axes.axvspan(
                min(band) - 1e-3,
                max(band) + 1e-3,
                color=COLOUR["retrained"],
                alpha=0.22,
                linewidth=0,
            )
        if guess is not None:
            axes.axvline(guess, color=MUTED, linewidth=1.0, linestyle=DOTTED)
        if aim is not None:
            axes.axvline(aim, color=COLOUR["retrained"], linewidth=1.4, linestyle=DASHED)
        for place, row in enumerate(rows):
            _interval(axes, place, row, linewidth=2.2, solid_capstyle="round")
            axes.plot(
                row.value, place, color=COLOUR[row.role], marker=MARK[row.role], markersize=6.5
            )
        values = [*(value for value in (guess, aim) if value is not None), *band, *_values(rows)]
        limits = _forest_limits(min(values), max(values), share=guess is not None)
        _name_rows(axes, [row.label for row in rows], limits)
        finish(axes, x=x)
        head(figure, title)
        return to_svg(figure, name, spoken)


def _values(rows: Sequence[ForestRow]) -> list[float]:
    return [end for row in rows for end in (row.value, row.low, row.high) if end is not None]


def _interval(axes: Axes, place: int, row: ForestRow, **style: Any) -> None:
    if row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [place, place], color=COLOUR[row.role], **style)


def _name_rows(axes: Axes, labels: Sequence[str], limits: tuple[float, float]) -> None:
    axes.set(ylim=(len(labels) - 0.4, -0.6), xlim=limits)
    axes.set_yticks(np.arange(len(labels)), labels=labels)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", visible=False)


def strangers_svg(
    rows: Sequence[ForestRow], others_R: Array, *, name: str, title: str, x: str, width: int = 520
) -> str:
    """Draws one person among strangers: models that never saw her as dots, and below them each
    model in question.

    Args:
        rows: the models in question, from top to bottom, with where each would put an unseen
            person.
        others_R: the values of the models that never saw her.
        name: prefix of ids.
        title, x: the title of the plot, and of its axis.
        width: CSS pixels.
    """
    labels = [f"never saw the person ({len(others_R)})", *(row.label for row in rows)]
    with canvas(width, 76 + 30 * len(labels)) as (figure, axes):
        axes.plot(
            others_R,
            np.zeros(len(others_R)),
            color=MUTED,
            linestyle="none",
            marker="o",
            markersize=5,
            alpha=0.55,
        )
        for place, row in enumerate(rows, 1):
            _interval(axes, place, row, alpha=0.22, linewidth=9)
            mark: dict[str, Any] = {"color": COLOUR[row.role], "marker": MARK[row.role]}
            axes.plot(row.value, place, linestyle="none", markersize=7, **mark)
        known = [*others_R.tolist(), *_values(rows)]
        _name_rows(axes, labels, _forest_limits(min(known), max(known), share=False))
        finish(axes, x=x)
        head(figure, title)
        values = "; ".join(f"{row.label} {row.value:.2f}" for row in rows)
        spoken = (
            f"{title}: {len(others_R)} models that never saw the person lie between "
            f"{others_R.min():.2f} and {others_R.max():.2f}"
        )
        return to_svg(figure, name, f"{spoken}; {values}.")


def _forest_limits(low: float, high: float, *, share: bool) -> tuple[float, float]:
    if share:
        return max(-0.02, low - 0.03), min(1.02, high + 0.03)
    pad = 0.05 * max(high - low, 1e-3)
    return low - pad, high + pad


def shared_edges(losses: Sequence[Array]) -> Array:
    """Bin edges (E,) from 0 to the tail of all losses together; from the lower tail where nothing
    lies near 0.
    """
    low, top = (
        float(value)
        for value in np.percentile(np.concatenate(losses), (100.0 - TAIL_PERCENT, TAIL_PERCENT))
    )
    return np.linspace(low if 0.5 * top < low < top else 0.0, max(top, 1e-6), BINS + 1)


def shares(losses_N: Array, edges_E: Array) -> Array:
    """Fraction of samples per bin; what lies outside counts in the nearest bin."""
    counts, _ = np.histogram(np.clip(losses_N, edges_E[0], edges_E[-1]), bins=edges_E)
    return counts / len(losses_N)


def loss_svg(
    forget_F: Array,
    unseen_U: Array,
    edges_E: Array,
    top: float,
    *,
    role: str,
    name: str,
    title: str,
    unit: str = "nats",
) -> str:
    """Draws one model's losses on axes that all panels share: the forget set filled, unseen samples
    as an outline.

    Args:
        forget_F, unseen_U: losses.
        edges_E: shared by all panels.
        top: upper end of the shared vertical axis, a fraction.
        role: the role of the model.
        name: prefix of ids.
        title: the title of the panel.
        unit: the unit of the losses.
    """
    with canvas(340, 250) as (figure, axes):
        forget_E, unseen_E = shares(forget_F, edges_E), shares(unseen_U, edges_E)
        filled: dict[str, Any] = {"fill": True, "color": COLOUR[role], "alpha": 0.55}
        axes.stairs(forget_E, edges_E, label=f"forget set ({len(forget_F):,})", **filled)
        axes.stairs(
            unseen_E, edges_E, color=INK, linewidth=1.4, label=f"unseen ({len(unseen_U):,})"
        )
        axes.set(xlim=(edges_E[0], edges_E[-1]), ylim=(0.0, top))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value * 100:g} %")
        axes.grid(axis="x", visible=False)
        finish(axes, title=title, x=f"loss ({unit})")
        legend_below(figure, axes)
        medians = (
            f"{np.median(forget_F):.2f} on the forget set and {np.median(unseen_U):.2f} on unseen "
            "samples"
        )
        return to_svg(figure, name, f"Losses of the {title} model: median {medians}.")


def groups_svg(
    ages: Sequence[str], lines: Sequence[Line], top: float, *, name: str, title: str
) -> str:
    """Draws the mean absolute error per age group on one set.

    Args:
        ages: name of each group.
        lines: one a model: years over the number of the group, NaN where it is empty.
        top: upper end of the shared axis, years.
        name: prefix of ids.
        title: the title of the panel.
    """
    with canvas(340, 250) as (figure, axes):
        for line in lines:
            _draw(axes, line, marker=MARK[line.role], markersize=4, linewidth=1.4)
        axes.set(xlim=(-0.4, len(ages) - 0.6), ylim=(0.0, top))
        axes.set_xticks(
            range(len(ages)), labels=ages, rotation=45, ha="right", rotation_mode="anchor"
        )
        axes.grid(axis="x", visible=False)
        finish(axes, title=title, x="age group (years)")
        worst = [
            f"{line.label} is worst at ages {ages[place]} with {line.y_N[place]:.1f}"
            for line in lines
            if (place := _worst(line.y_N)) is not None
        ]
        spoken = "; ".join(worst) or "no group has samples"
        return to_svg(
            figure, name, f"Mean absolute error in years per age group, {title}: {spoken}."
        )


def _worst(years_N: Array) -> int | None:
    return None if np.isnan(years_N).all() else int(np.nanargmax(years_N))
