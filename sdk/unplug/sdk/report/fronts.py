"""The page of a search: errors against milliseconds, and what was found compared with what people made
and with what chance finds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from unplug.core import counted, milliseconds, plain, seconds, size
from unplug.sdk.searching import Front, FrontPoint

from .page import (
    Block,
    Cell,
    Column,
    FigureGrid,
    Section,
    Table,
    both_widths,
    estimate_cell,
    words,
)
from .plots.pareto import Axis, Point, latency_axis, pareto_svg, quality_axis

WIDTHS = (1000, 340)
ROLES = {"search": "unlearned", "random": "retrained", "hand": "original"}
"""How a size was found, with the roles of the page, which give colours and marks."""
FOUND = {"search": "found", "random": "by chance", "hand": "by hand"}


def front_words(front: Front) -> dict[str, Any]:
    """The fields of the verdict."""
    found = [point for point in front.points if point.found == "search"]
    better = [point for point in found if any(_gained(point, front))]
    cost = front.cost
    return {
        "word": "Searched",
        "chip": "neutral",
        "lead": (
            f"{len(better)} of {counted(len(found), 'size')} found: so many err less than a size "
            "made by hand that takes as long or longer; the interval of the difference excludes "
            "zero."
        ),
        "sentence": "",
        "facts": (
            f"{counted(cost.trained, 'training')}, {seconds(cost.seconds)} of work; "
            f"{cost.diverged} diverged.",
            f"Errors are those of {counted(front.people, 'person', 'people')} whom the search "
            "never saw, and means over seeds.",
        ),
    }


def _gained(point: FrontPoint, front: Front) -> list[bool]:
    """For each size by hand that takes at least as long: whether the point errs less."""
    return [
        (less.low or 0.0) > 0.0
        for name, less in point.less.items()
        for other in front.points
        if other.name == name and other.found == "hand" and other.ms >= point.ms
    ]


def searched(front: Front, number: int) -> list[Section]:
    """A chart and two tables; `number` tells those of several files apart."""
    how = "as measured" if any(point.measured_ms for point in front.points) else "as estimated"
    threads = "" if front.threads is None else f", {counted(front.threads, 'thread')}"
    place = f"{plain(front.device, 40)}, {plain(front.delegate, 30)}{threads}"
    lead = f"One picture at {front.recipe['image_size']} px on {place}, {how}."
    if front.order is not None:
        lead += f" Estimates order these sizes with Kendall's tau {front.order:.2f}."
    figure = both_widths(partial(_svg, front), WIDTHS, name=f"front-{number}")
    blocks: list[Block] = [FigureGrid([figure], columns=1), _points(front), _beside(front)]
    return [Section(f"front-{number}", "Error against milliseconds", lead, blocks)]


def _svg(front: Front, *, name: str, width: int) -> str:
    points = [
        Point(
            label=item.name,
            x=item.ms,
            y=item.error.value,
            y_ends=item.error.ends,
            diameter=11.0,
            front=item.best,
            role=ROLES[item.found],
            optional=item.found == "random",
        )
        for item in front.points
    ]
    ends = [end for item in front.points for end in (item.error.ends or (item.error.value,))]
    axis: Axis = quality_axis(ends, f"error ({front.unit})", higher_is_better=False)
    spoken = "; ".join(
        f"{item.name} {milliseconds(item.ms)} ms, {item.error.value:.3g} {front.unit}"
        for item in front.points
    )
    first = {
        item.found: point for item, point in reversed([*zip(front.points, points, strict=True)])
    }
    return pareto_svg(
        points,
        latency_axis([item.ms for item in front.points]),
        axis,
        name=name,
        spoken=f"Error against milliseconds: {spoken}.",
        width=width,
        height=400,
        staircase=True,
        legend=[(point, FOUND[found]) for found, point in first.items()],
    )


def _points(front: Front) -> Table:
    columns = [
        words("point"),
        words("size", wide=True),
        Column("measured", unit="ms"),
        Column("estimated", unit="ms", interval=True),
        Column("error", unit=front.unit, interval=True),
        Column("parameters"),
        Column("file"),
    ]
    rows = [
        [
            Cell(item.name, role=ROLES[item.found]),
            Cell(plain(item.size, 100), mono=True),
            Cell(milliseconds(item.measured_ms)),
            Cell(
                milliseconds(item.estimated_ms),
                note=""
                if item.low_ms is None
                else f"{milliseconds(item.low_ms)} to {milliseconds(item.high_ms)}",
            ),
            estimate_cell(item.error, 3 if front.task == "classes" else 2),
            Cell(f"{item.parameters:,}"),
            Cell(size(item.bytes)),
        ]
        for item in sorted(front.points, key=lambda point: point.ms)
    ]
    return Table(
        caption="Sizes, fastest first. The estimate did not see them.",
        columns=columns,
        groups=[("", rows)],
    )


def _beside(front: Front) -> Table:
    """What each point that was found gains on the others."""
    named = {item.name: item for item in front.points}
    groups = [
        (
            f"{point.name}: {milliseconds(point.ms)} ms",
            [
                [
                    Cell(name, role=ROLES[named[name].found]),
                    Cell(f"{named[name].ms / point.ms:.2f}"),
                    estimate_cell(less, 3 if front.task == "classes" else 2, sign=True),
                ]
                for name, less in point.less.items()
                if named[name].found != "search"
            ],
        )
        for point in front.points
        if point.found == "search"
    ]
    columns = [
        words("beside"),
        Column("its ms, times"),
        Column("less error", unit=front.unit, interval=True),
    ]
    return Table(
        caption="Differences paired by person: above zero, what was found errs less.",
        columns=columns,
        groups=groups,
        compact=True,
    )
