"""Plots of an evaluation at age limits: error by year of age, who passes a challenge by year, and
error trade-off (DET).

Shapes: N points of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import norm

from .canvas import (
    COLOUR,
    DASHED,
    DOTTED,
    INK,
    MARK,
    MUTED,
    PAPER,
    Array,
    canvas,
    finish,
    legend_below,
    thin,
    to_svg,
)

ADULT = 18
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
NAME = 11.0  # CSS pixels of a line of names
STYLES: tuple[Any, ...] = ("-", DASHED, DOTTED, (0, (5, 1, 1, 1)))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One model's line.

    Args:
        role: the role of its colour.
        label: the label in the legend.
        style: index of its dashes, so that two of one colour are told apart.
        x_N, y_N: points; NaN leaves a gap.
        low_N, high_N: interval, or None.
        marks: (x, y, text) of points that are named.
    """

    role: str
    label: str
    style: int
    x_N: Array
    y_N: Array
    low_N: Array | None = None
    high_N: Array | None = None
    marks: tuple[tuple[float, float, str], ...] = ()


def years_svg(
    traces: Sequence[Trace],
    *,
    name: str,
    title: str,
    y: str,
    width: int,
    share: bool = False,
    zero: bool = False,
) -> str:
    """Draws a quantity by year of age, with its intervals.

    Args:
        traces: one a model.
        name: prefix of ids.
        title, y: the title of the plot, and of its vertical axis.
        width: CSS pixels.
        share: the quantity is a share, drawn from 0 to 100 %.
        zero: draws a line at zero, which the quantity may be below.
    """
    with canvas(width, 300) as (figure, axes):
        axes.axvline(ADULT, color=MUTED, linewidth=1.0, linestyle=DOTTED)
        if zero:
            axes.axhline(0.0, color=MUTED, linewidth=1.0)
        for trace in traces:
            colour = COLOUR[trace.role]
            if trace.low_N is not None and trace.high_N is not None:
                axes.fill_between(
                    trace.x_N, trace.low_N, trace.high_N, color=colour, alpha=0.16, linewidth=0
                )
            axes.plot(
                trace.x_N,
                trace.y_N,
                color=colour,
                linestyle=STYLES[trace.style % len(STYLES)],
                label=trace.label,
                marker=MARK[trace.role],
                markersize=3.5 if len(trace.x_N) < 40 else 1.8,  # a year between gaps is a point
            )
        if share:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        elif not zero:
            axes.set_ylim(bottom=0.0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.grid(axis="x", visible=False)
        finish(axes, title=title, x="age, years", y=y)
        if traces:
            legend_below(figure, axes)
        spoken = "; ".join(f"{trace.label}: {_spoken(trace, share)}" for trace in traces)
        return to_svg(figure, name, f"{title} by age. {spoken}. The dotted line is 18.")


def _spoken(trace: Trace, share: bool) -> str:
    known = np.flatnonzero(~np.isnan(trace.y_N))
    if not len(known):
        return "too few people at every age"
    scale, unit = (100.0, " %") if share else (1.0, "")
    ends = (known[0], known[-1])
    return ", ".join(
        f"{scale * trace.y_N[place]:.1f}{unit} at {trace.x_N[place]:.0f}" for place in ends
    )


def det_svg(traces: Sequence[Trace], *, name: str, title: str, width: int, least: float) -> str:
    """Draws false positives against false rejections on axes of normal deviates, on which such
    curves are near straight.

    Args:
        traces: false positive over x, false rejection over y, as shares.
        name: prefix of ids.
        title: the title of the plot.
        width: CSS pixels.
        least: the smallest share that the sample can tell from none; the axes begin there.

    Reference:
        Martin et al., The DET curve in assessment of detection task performance, 1997.
    """
    low = max(1e-3, min(least, 0.05))
    with canvas(width, min(width, 430)) as (figure, axes):
        for trace in traces:
            _det_line(axes, trace, low)
        shown = [tick for tick in TICKS if low <= tick <= 0.95]
        named, ends = [f"{100 * tick:g}" for tick in shown], _deviate(np.array([low, 0.95]), low)
        axes.set(xlim=ends, ylim=ends, xticks=norm.ppf(shown), yticks=norm.ppf(shown))
        axes.set(xticklabels=named, yticklabels=named)
        finish(axes, title=title, x="minors who pass, %", y="adults who are rejected, %")
        legend_below(figure, axes)
        figure.draw_without_rendering()  # the layout is settled here, and names can be moved apart
        for trace in traces:
            _name_marks(axes, trace, low)
        spoken = "; ".join(f"{trace.label}: {_spoken_marks(trace)}" for trace in traces)
        return to_svg(figure, name, f"{title}. {spoken}.")


def _det_line(axes: Axes, trace: Trace, low: float) -> None:
    colour, style = COLOUR[trace.role], STYLES[trace.style % len(STYLES)]
    x_N, y_N = (_deviate(thin(values), low) for values in (trace.x_N, trace.y_N))
    axes.plot(x_N, y_N, color=colour, linestyle=style, label=trace.label)
    mark: dict[str, Any] = {"marker": MARK[trace.role], "markersize": 6.5, "color": colour}
    for x, y, _ in trace.marks:
        axes.plot(*_deviate(np.array([x, y]), low), markeredgecolor=PAPER, **mark)


def _spoken_marks(trace: Trace) -> str:
    return ", ".join(
        f"{text} passes {100 * x:.1f} % and rejects {100 * y:.1f} %" for x, y, text in trace.marks
    )


def _name_marks(axes: Axes, trace: Trace, low: float) -> None:
    """Names at the right of points of a falling curve, where nothing is drawn, each above the one
    below it.
    """
    floor = -np.inf
    marks = [(*_deviate(np.array([x, y]), low).tolist(), text) for x, y, text in trace.marks]
    for x, y, text in sorted(marks, key=lambda mark: mark[1]):
        height = float(axes.transData.transform((x, y))[1]) * 72.0 / axes.figure.dpi
        top = max(height + 5.0, floor)
        axes.annotate(
            text,
            (x, y),
            xytext=(7, top - height),
            textcoords="offset points",
            color=INK,
            fontsize=10,
        )
        floor = top + NAME


def _deviate(share_N: Array, low: float) -> Array:
    return np.asarray(norm.ppf(np.clip(share_N, low, 0.95)))
