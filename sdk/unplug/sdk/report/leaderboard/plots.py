"""From the rows to the plots: what stands on which axis in which protocol, and who is on the Pareto front."""

from __future__ import annotations

from unplug.sdk.studies.leaderboard import METRICS, LeaderboardReport, Measure, Role, Row

from ..page import Block, Figure, FigureGrid, Notes, Section
from .figures import Axis, Point, Span, pareto_front, pareto_svg, spans_svg
from .words import title_of

UTILITY: dict[str, tuple[str, Axis]] = {
    "age": ("test_mae_gap", Axis(label="test MAE above retrained, years", flip=True)),
    "class": ("test_accuracy_gap", Axis(label="test accuracy minus retrained, points", flip=False, scale=100.0)),
}
FORGETTING: dict[str, tuple[str, Axis]] = {
    "challenge": ("f_ratio", Axis(label="forgetting, F / F_null; 1 is perfect", flip=False, best=1.0)),
    "nomus": ("attack_distance", Axis(label="attack accuracy, distance to retrained", flip=True)),
    "attack": ("attack_distance", Axis(label="attack accuracy, distance to retrained", flip=True)),
}
FOREST: dict[str, tuple[str, str]] = {
    "challenge": ("f_ratio", "F / F_null; dashed: retrained models"),
    "nomus": ("logistic_accuracy", "accuracy of the loss attack; dashed: retrained models"),
    "attack": ("logistic_accuracy", "accuracy of the loss attack; dashed: retrained models"),
}
COST: dict[Role, float] = {"original": 0.0, "retrained": 1.0, "unlearned": 0.0}


def plots(report: LeaderboardReport) -> Section:
    """The section with both plots."""
    points = points_of(report)
    if not points:
        return Section(
            id="pareto", heading="Cost, forgetting, utility", lead="", blocks=[Notes(lines=["No method was measured."])]
        )
    x, y = UTILITY[report.kind][1], FORGETTING[report.rank][1]
    wide = pareto_svg(points, x, y, name="pareto", width=1000, height=540)
    narrow = pareto_svg(points, x, y, name="pareto-narrow", width=480, height=440)
    caption = (
        "Best is the upper right. Larger marks spent more; filled ones are on the front: no other method is at least as good "
        "in cost, forgetting and utility and better in one. Thin lines are their 95 % intervals; border marks lie outside."
    )
    blocks: list[Block] = [
        FigureGrid(figures=[Figure(svg=wide, narrow=narrow, caption=caption)], columns=1),
        FigureGrid(figures=[_forest(report)], columns=1),
    ]
    return Section(id="pareto", heading="Cost, forgetting, utility", lead="", blocks=blocks)


def points_of(report: LeaderboardReport) -> list[Point]:
    """Every row that has both numbers, with the front among the methods marked."""
    (x_name, x), (y_name, y) = UTILITY[report.kind], FORGETTING[report.rank]
    rows = [row for row in report.rows if x_name in row.metrics and y_name in row.metrics]
    goods = {row.name: _goods(row, x_name, y_name, x, y) for row in rows if row.role == "unlearned"}
    front = dict(zip(goods, pareto_front(list(goods.values())), strict=True))
    return [
        Point(
            label=title_of(row), role=row.role, x=row.metrics[x_name].value, y=row.metrics[y_name].value,
            x_ends=_ends(row.metrics[x_name]), y_ends=_ends(row.metrics[y_name]), cost=_cost(row),
            front=front.get(row.name, False),
        )
        for row in rows
    ]  # fmt: skip


def _goods(row: Row, x_name: str, y_name: str, x: Axis, y: Axis) -> tuple[float, ...]:
    """Utility, forgetting and thrift, each better when larger."""
    use, forgotten = row.metrics[x_name].value, row.metrics[y_name].value
    gained = -forgotten if y.flip else forgotten
    return (-use if x.flip else use, gained if y.best is None else min(gained, y.best), -_cost(row))


def _cost(row: Row) -> float:
    item = row.metrics.get("compute")
    return COST[row.role] if item is None else item.value


def _ends(item: Measure) -> tuple[float, float] | None:
    return None if item.low is None or item.high is None else (item.low, item.high)


def _forest(report: LeaderboardReport) -> Figure:
    name, x = FOREST[report.rank]
    rows = [
        Span(label=title_of(row), role=row.role, value=item.value, low=item.low, high=item.high)
        for row in report.rows
        if (item := row.metrics.get(name)) is not None
    ]
    best = next((row.value for row in rows if row.role == "retrained"), rows[-1].value)
    title = f"{METRICS[name].label} and 95 % interval"
    return Figure(
        svg=spans_svg(rows, best, name="forest", title=title, x=x, width=1000),
        narrow=spans_svg(rows, best, name="forest-narrow", title=title, x=x, width=480),
    )
