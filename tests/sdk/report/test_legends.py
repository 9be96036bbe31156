"""No legend, name or title lies on data or leaves the drawing, at the widths of a page and of a
phone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from unplug.sdk.report.plots import assurance, audit, erasure
from unplug.sdk.report.plots.assurance import Trace
from unplug.sdk.report.plots.audit import ForestRow, Line
from unplug.sdk.report.plots.erasure import Mark, Tried

WIDTHS = (354, 500)
ROLES = ("original", "unlearned", "retrained")
STEP_N = np.linspace(0.0, 1.0, 40)
LINES = [
    Line(role=role, label=f"{role} 0.684 (0.474 to 0.861)", x_N=STEP_N, y_N=STEP_N**power)
    for role, power in zip(ROLES, (0.3, 2.0, 6.0), strict=True)
]
ROWS = [
    ForestRow(label=label, role="artifact", value=0.6, low=0.4, high=0.7)
    for label in ("retrained (oracle)", "age.int8")
]
SHARE_N = np.geomspace(0.002, 0.9, 60)
TRACES = [
    Trace(
        role="unlearned",
        label=f"age.int8-static.tflite {number}",
        style=number,
        x_N=SHARE_N,
        y_N=SHARE_N[::-1],
        marks=() if number else ((0.2, 0.04, "25"), (0.201, 0.039, "23"), (0.202, 0.038, "21")),
    )
    for number in range(4)
]
MARKS = [
    Mark(role=role, label=f"{role}, which never saw it", value=1.0, low=0.8, high=1.0)
    for role in ROLES
]
WAYS = [
    Tried(label="relearned, 100 steps", marks=MARKS, heading=heading)
    for heading in ("control images", "", "weights")
]
LOSSES_N = np.concatenate([np.full(30, 0.1), np.full(40, 3.9)])

DRAWN: dict[str, Callable[[int], object]] = {
    "learning": lambda width: audit.learning_svg(
        LINES, name="a", title="Training loss", unit="nats", width=width
    ),
    "roc": lambda width: audit.roc_svg(LINES, name="a", title="other-pictures attack", width=width),
    "loss": lambda _: audit.loss_svg(
        LOSSES_N, LOSSES_N, np.linspace(0, 4, 21), 0.6, role="original", name="a", title="original"
    ),
    "forest": lambda width: audit.forest_svg(
        ROWS,
        name="a",
        title="head-difference attack: AUC and 95 % interval",
        x="AUC",
        spoken="",
        width=width,
        guess=0.5,
    ),
    "years": lambda width: assurance.years_svg(
        TRACES, name="a", title="Mean error", y="years", width=width
    ),
    "det": lambda width: assurance.det_svg(
        TRACES, name="a", title="Minors who pass", width=width, least=0.005
    ),
    "rates": lambda width: erasure.rates_svg(
        WAYS, name="a", title="How often it is drawn", width=width, limit=0.1
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DRAWN)
def test_nothing_lies_on_the_data(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Figure] = []

    def keep(figure: Figure, *_: Any) -> str:
        kept.append(figure)
        return ""

    for module in (audit, assurance, erasure):
        monkeypatch.setattr(module, "to_svg", keep)
    DRAWN[name](width)
    (figure,) = kept
    figure.draw_without_rendering()
    (axes,) = figure.axes
    inside, whole = axes.get_window_extent(), figure.bbox
    assert axes.get_legend() is None
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert not box.overlaps(inside), "it covers lines"
        assert box.y1 <= axes.xaxis.label.get_window_extent().y0 + 1, "it covers the axis' name"
        assert box.x1 <= whole.x1 + 1 and box.y0 >= -1
    assert bool(figure.legends) is (name != "forest")
    title = (getattr(figure, "_suptitle", None) or vars(axes)["_left_title"]).get_window_extent()
    assert title.y1 <= whole.y1 + 1 and title.x1 <= whole.x1 + 1, "it leaves the drawing"
    texts = [text.get_window_extent() for text in axes.texts]
    assert not any(
        overlap(one, other) for number, one in enumerate(texts) for other in texts[:number]
    )


def overlap(one: Any, other: Any) -> bool:
    """Whether two boxes share more than a pixel."""
    return bool(
        min(one.x1, other.x1) - max(one.x0, other.x0) > 1
        and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
    )
