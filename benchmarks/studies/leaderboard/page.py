"""The leaderboard as one HTML document, drawn by the report's own template and style; no script, no
outside address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from unplug.core import NONE, count, percent, plain, seconds
from unplug.sdk.report.page import (
    Block,
    Cell,
    Column,
    Figure,
    FigureGrid,
    KeyNumber,
    Notes,
    Section,
    Table,
    both_widths,
)
from unplug.sdk.report.plots.audit import ForestRow, forest_svg
from unplug.sdk.report.plots.pareto import Axis, Point, pareto_front, pareto_svg, robust_limits
from unplug.sdk.report.verdict import Verdict

from ..pages import provenance, save_page, study_page
from .cells import (
    COLUMNS,
    interval_note,
    main_columns,
    number,
    published_cells,
    reason,
    settings_text,
    title_of,
)
from .metrics import METRICS, RANKED_BY, RANKING
from .report import LeaderboardReport, Role, Row


@dataclass(frozen=True, kw_only=True)
class Good:
    """What is better the further up or right it is drawn.

    Args:
        metric: a name of `METRICS`.
        label: of the axis.
        flip: smaller is better, so that the axis runs the other way.
        scale: what values are multiplied with.
        best: nothing beyond it counts as better; None where more always is.
    """

    metric: str
    label: str
    flip: bool
    scale: float = 1.0
    best: float | None = None

    def of(self, row: Row) -> float:
        """The metric of a row, turned so that larger is better and nothing beyond the best value
        counts.
        """
        value = row.metrics[self.metric].value
        value = -value if self.flip else value
        return value if self.best is None else min(value, self.best)


_DISTANCE = Good(
    metric="attack_distance", label="attack accuracy, distance to retrained", flip=True
)
_LOSS_ATTACK = ("logistic_accuracy", "accuracy of the loss attack; dashed: retrained models")
UTILITY = {
    "age": Good(metric="test_mae_gap", label="test MAE above retrained, years", flip=True),
    "class": Good(
        metric="test_accuracy_gap",
        label="test accuracy minus retrained, points",
        flip=False,
        scale=100.0,
    ),
}
FORGETTING = {
    "challenge": Good(
        metric="f_ratio", label="forgetting, F / F_null; 1 is perfect", flip=False, best=1.0
    ),
    "nomus": _DISTANCE,
    "attack": _DISTANCE,
}
FOREST = {
    "challenge": ("f_ratio", "F / F_null; dashed: retrained models"),
    "nomus": _LOSS_ATTACK,
    "attack": _LOSS_ATTACK,
}
COST: dict[Role, float] = {"original": 0.0, "retrained": 1.0, "unlearned": 0.0}
AREA = (26.0, 190.0)  # of marks, in square pixels: nothing spent, the most spent
REFERENCE_AREA = 70.0  # of the original and the oracle
WIDTHS = (1000, 480)
HEIGHTS = {1000: 540, 480: 440}  # of the Pareto chart
MAX_LABEL = 18
TABLES: tuple[tuple[str, str, str, str], ...] = (
    (
        "attacks",
        "Attacks",
        "attacks",
        "Membership attacks on single models, forget set against unseen samples of the same "
        "groups. The aim is the oracle's value: below it the forget set stands out too.",
    ),
    (
        "distances",
        "Distance to the oracle",
        "distances",
        "How far the distribution over models is from that over retrained "
        "models; the oracle's row is the distance between retrained models themselves.",
    ),
    (
        "utility",
        "Utility",
        "utility",
        "Forgetting must not cost use. The test set was seen by no model.",
    ),
)


def render_page(report: LeaderboardReport) -> str:
    """The page; the same report gives the same text.

    Raises:
        ReportError: it would be larger than 2 MB.
    """
    sections = [
        _ranking(report),
        _plots(report),
        *_tables(report),
        _settings(report),
        *_published(report),
    ]
    return study_page(
        "leaderboard",
        "Rank fewer methods",
        title=f"Leaderboard: {plain(report.protocol, 60)}",
        subject=_subject(report),
        verdict=_verdict(report),
        numbers=_numbers(report),
        sections=sections,
        provenance=_provenance(report),
    )


def write_page(report: LeaderboardReport, path: Path) -> None:
    """Writes the leaderboard as one HTML file, atomically."""
    save_page(render_page(report), path)


def _subject(report: LeaderboardReport) -> list[str]:
    spec = report.data.get("spec")
    return [plain(str(spec), 100), f"forget set of {_whole(report.forget.get('samples'))} samples"]


def _verdict(report: LeaderboardReport) -> Verdict:
    best = next((row for row in report.rows if row.rank == 1), None)
    ranked = sum(row.rank is not None for row in report.rows)
    methods = sum(row.role == "unlearned" for row in report.rows)
    lead = (
        f"{plain(best.name)} ranks first of {ranked} methods{_level(report)}."
        if best
        else "No method could be ranked."
    )
    return Verdict(
        word=f"{ranked} of {methods} ranked",
        chip="neutral",
        lead=lead,
        sentence=f"Ranked by {RANKED_BY[report.rank]}.",
        facts=(plain(report.summary, 1000),),
    )


def _level(report: LeaderboardReport) -> str:
    """Who may be as good as the first: the interval of the paired difference reaches zero."""
    gaps = {
        row.name: row.metrics["score_gap"].high
        for row in report.rows
        if row.rank is not None and "score_gap" in row.metrics
    }
    level = [name for name, high in gaps.items() if high is not None and high >= 0]
    if not level:
        return ", clearly" if gaps else ""
    others = f" and {len(level) - 1} more are" if len(level) > 1 else " is"
    return f"; {plain(level[0])}{others} not clearly behind"


def _numbers(report: LeaderboardReport) -> list[KeyNumber]:
    seeds = report.seeds
    oracle = next(row for row in report.rows if row.role == "retrained")
    refused = sum(row.refused is not None for row in report.rows)
    methods = sum(row.role == "unlearned" for row in report.rows)
    share = report.forget.get("share")
    return [
        KeyNumber(label="Methods", value=count(methods), note=f"{refused} refused, shown below"),
        KeyNumber(
            label="Models",
            value=count(sum(row.models for row in report.rows)),
            note=(
                f"{len(seeds.get('originals', []))} originals, {oracle.models} retrained, "
                f"{oracle.models} per method"
            ),
        ),
        KeyNumber(
            label="Forget set",
            value=_whole(report.forget.get("samples")),
            note=(
                f"{percent(share if isinstance(share, float) else None)} of training, "
                f"{_groups(report)}"
            ),
        ),
        KeyNumber(
            label="One retraining",
            value=seconds(_number(report.retraining.get("wall_s"))),
            note=f"{_whole(report.retraining.get('passes'))} samples forward and backward",
        ),
    ]


def _groups(report: LeaderboardReport) -> str:
    groups = report.forget.get("groups")
    if not isinstance(groups, dict) or not groups:
        return "groups unknown"
    return (
        f"groups {', '.join(plain(str(name), 20) for name in groups)}"
        if len(groups) <= 3
        else f"{len(groups)} groups"
    )


def _ranking(report: LeaderboardReport) -> Section:
    names = main_columns(report)
    blocks: list[Block] = [
        _table("Best first; 95 % intervals below each number", names, report, places=True)
    ]
    if why := _unranked(report):
        blocks.append(why)
    if report.notes:
        blocks.append(Notes(lines=[plain(note, 500) for note in report.notes]))
    lead = (
        "Every method had the same data, the same originals and the same budget. Refused runs are "
        "kept and shown, not ranked."
    )
    return Section(id="ranking", heading="Ranking", lead=lead, blocks=blocks)


def _unranked(report: LeaderboardReport) -> Table | None:
    """Why methods have no rank."""
    reasons = {row.name: reason(row, RANKING[report.rank]) for row in report.rows}
    rows = [
        [Cell(text=plain(name)), Cell(text=plain(why, 400))] for name, why in reasons.items() if why
    ]
    columns = [Column(label="Method", number=False), Column(label="why", number=False, wide=True)]
    return Table(caption="Not ranked", columns=columns, groups=[("", rows)]) if rows else None


def _plots(report: LeaderboardReport) -> Section:
    """Cost, forgetting and utility of every row in one plot, and every interval of a number that
    says who forgot.
    """
    rows = plotted_rows(report)
    blocks: list[Block] = [Notes(lines=["No method was measured."])]
    if rows:
        caption = (
            "Best is the upper right. Larger marks spent more; filled ones are on the front: no "
            "other method is at least as "
            "good in cost, forgetting and utility and better in one. Thin lines are their 95 % "
            "intervals; border marks lie "
            "outside."
        )
        blocks = [
            FigureGrid(
                figures=[
                    both_widths(
                        partial(_pareto, report, rows), WIDTHS, name="pareto", caption=caption
                    )
                ],
                columns=1,
            ),
            FigureGrid(figures=[_forest(report)], columns=1),
        ]
    return Section(id="pareto", heading="Cost, forgetting, utility", lead="", blocks=blocks)


def plotted_rows(report: LeaderboardReport) -> list[tuple[Row, bool]]:
    """Every row that has both numbers, and whether it is on the front of the methods."""
    x, y = UTILITY[report.kind], FORGETTING[report.rank]
    rows = [row for row in report.rows if x.metric in row.metrics and y.metric in row.metrics]
    goods = {
        row.name: (x.of(row), y.of(row), -_cost(row)) for row in rows if row.role == "unlearned"
    }
    front = dict(zip(goods, pareto_front(list(goods.values())), strict=True))
    return [(row, front.get(row.name, False)) for row in rows]


def _cost(row: Row) -> float:
    item = row.metrics.get("compute")
    return COST[row.role] if item is None else item.value


def _pareto(
    report: LeaderboardReport, rows: Sequence[tuple[Row, bool]], *, name: str, width: int
) -> str:
    x, y = UTILITY[report.kind], FORGETTING[report.rank]
    x_limits, y_limits = (_limits([row for row, _ in rows], good.metric) for good in (x, y))
    most = max((_cost(row) for row, _ in rows if row.role == "unlearned"), default=0.0)
    points = [_point(row, front, most, x, x_limits, y, y_limits) for row, front in rows]
    # who finds room for a name first
    points.sort(key=lambda point: (point.role == "unlearned", not point.front))
    x_axis, y_axis = (
        Axis(
            label=f"{good.label}  (better \N{RIGHTWARDS ARROW})",
            ends=ends[::-1] if good.flip else ends,
            scale=good.scale,
        )
        for good, ends in ((x, x_limits), (y, y_limits))
    )
    best = [
        f"{title_of(row)} {row.metrics[x.metric].value * x.scale:.3g}, "
        f"{row.metrics[y.metric].value * y.scale:.3g}"
        for row, front in rows
        if front
    ]
    return pareto_svg(
        points,
        x_axis,
        y_axis,
        name=name,
        spoken=f"{x.label} against {y.label}. On the Pareto front: {'; '.join(best)}.",
        width=width,
        height=HEIGHTS[width],
        legend=_legend(most),
        legend_columns=5 if width == max(WIDTHS) else 2,
    )


def _limits(rows: Sequence[Row], metric: str) -> tuple[float, float]:
    always = [row.metrics[metric].value for row in rows if row.role != "unlearned"]
    return robust_limits([row.metrics[metric].value for row in rows], always)


def _point(
    row: Row,
    front: bool,
    most: float,
    x: Good,
    x_limits: tuple[float, float],
    y: Good,
    y_limits: tuple[float, float],
) -> Point:
    """A row's mark, at the border where its place lies outside; intervals of all would hide the
    marks.
    """
    filled = front or row.role != "unlearned"
    area = (
        AREA[0] + (AREA[1] - AREA[0]) * _cost(row) / max(most, 1e-12)
        if row.role == "unlearned"
        else REFERENCE_AREA
    )
    at: list[float] = []
    ends: list[tuple[float, float] | None] = []
    for good, (low, high) in ((x, x_limits), (y, y_limits)):
        item, edge = row.metrics[good.metric], 0.02 * (high - low)
        at.append(min(max(item.value, low + edge), high - edge))
        known = (item.low, item.high) if item.low is not None and item.high is not None else None
        ends.append(known if filled and at[-1] == item.value else None)
    return Point(
        label=plain(title_of(row), MAX_LABEL),
        x=at[0],
        y=at[1],
        diameter=area**0.5,
        front=filled,
        role=row.role,
        optional=True,
        x_ends=ends[0],
        y_ends=ends[1],
    )


def _legend(most: float) -> list[tuple[Point, str]]:
    def mark(role: str, area: float, *, front: bool = True) -> Point:
        return Point(label="", x=0.0, y=0.0, diameter=area**0.5, front=front, role=role)

    handles = [
        (mark("unlearned", REFERENCE_AREA), "on the Pareto front"),
        (mark("unlearned", REFERENCE_AREA, front=False), "not on it"),
        (mark("original", REFERENCE_AREA), "original"),
        (mark("retrained", 50.0), "retrained (oracle)"),
    ]
    if most > 0:
        handles.append(
            (mark("unlearned", AREA[1], front=False), f"{100 * most:.3g} % of retraining")
        )
    return handles


def _forest(report: LeaderboardReport) -> Figure:
    name, x = FOREST[report.rank]
    measured = [(row, item) for row in report.rows if (item := row.metrics.get(name)) is not None]
    rows = [
        ForestRow(
            label=plain(title_of(row), MAX_LABEL),
            role=row.role,
            value=item.value,
            low=item.low,
            high=item.high,
        )
        for row, item in measured
    ]
    aim = next((row.value for row in rows if row.role == "retrained"), rows[-1].value)
    title = f"{METRICS[name].label} and 95 % interval"
    spoken = "; ".join(f"{row.label} {row.value:.3g}" for row in rows)
    return both_widths(
        partial(
            forest_svg, rows, title=title, x=x, spoken=f"{title}: {spoken}.", aim=aim, pitch=24
        ),
        WIDTHS,
        name="forest",
    )


def _tables(report: LeaderboardReport) -> list[Section]:
    made = []
    for name, heading, group, lead in TABLES:
        columns = [
            metric for metric in COLUMNS[group] if any(metric in row.metrics for row in report.rows)
        ]
        if columns:
            table = _table(
                "; ".join(f"{METRICS[item].label}: {METRICS[item].says}" for item in columns),
                columns,
                report,
            )
            made.append(Section(id=name, heading=heading, lead=lead, blocks=[table]))
    return made


def _table(
    caption: str, names: Sequence[str], report: LeaderboardReport, *, places: bool = False
) -> Table:
    heads = [Column(label=METRICS[name].label, unit=METRICS[name].unit) for name in names]
    first = [Column(label="Method", number=False), *([Column(label="rank")] if places else [])]

    def cells(row: Row) -> list[Cell]:
        head = Cell(text=title_of(row), role=row.role)
        place = [Cell(text=NONE if row.rank is None else str(row.rank))] if places else []
        return [head, *place, *(_cell(row, name) for name in names)]

    parts = {
        "Oracle and original": [row for row in report.rows if row.role != "unlearned"][::-1],
        "Ranked": [row for row in report.rows if row.rank is not None],
        "Not ranked": [
            row
            for row in report.rows
            if row.role == "unlearned" and row.rank is None and row.metrics
        ],
    }
    groups = [(heading, [cells(row) for row in rows]) for heading, rows in parts.items() if rows]
    return Table(caption=caption, columns=[*first, *heads], groups=groups)


def _cell(row: Row, name: str) -> Cell:
    item = row.metrics.get(name)
    if item is None:
        return Cell(text=NONE)
    return Cell(text=number(item, METRICS[name]), note=interval_note(item, METRICS[name]))


def _settings(report: LeaderboardReport) -> Section:
    rows = [
        [
            Cell(text=plain(row.name)),
            Cell(text=percent(row.budget)),
            Cell(text=count(row.models)),
            Cell(text=plain(", ".join(row.needs), 120)),
            Cell(text=plain(settings_text(row.settings), 240)),
        ]
        for row in report.rows
        if row.role == "unlearned"
    ]
    columns = [
        Column(label="Method", number=False),
        Column(label="budget"),
        Column(label="models"),
        Column(label="reads", number=False, wide=True),
        Column(label="settings", number=False, wide=True),
    ]
    table = Table(caption="What each method ran with", columns=columns, groups=[("", rows)])
    return Section(id="settings", heading="Settings", lead="", blocks=[table])


def _published(report: LeaderboardReport) -> list[Section]:
    if not report.published:
        return []
    rows = [[Cell(text=text) for text in line] for line in published_cells(report)]
    columns = [
        Column(label="Method", number=False),
        Column(label="number", number=False),
        Column(label="published"),
        Column(label="here"),
        Column(label="here minus published"),
    ]
    table = Table(
        caption="Published numbers beside these", columns=columns, groups=[("", rows)], compact=True
    )
    lead = "Others' networks and recipes differ, so only the order is comparable."
    return [Section(id="published", heading="Published", lead=lead, blocks=[table])]


def _provenance(report: LeaderboardReport) -> Section:
    seeds = {key: _seed_text(values) for key, values in report.seeds.items()}
    parts = {
        "data": report.data,
        "forget": report.forget,
        "recipe": report.recipe,
        "retraining": report.retraining,
        "evaluation": report.settings,
        "seeds": seeds,
    }
    return provenance(parts, report.versions)


def _seed_text(values: Sequence[int]) -> str:
    if len(values) > 3 and list(values) == list(range(values[0], values[0] + len(values))):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _whole(value: object) -> str:
    return count(value) if isinstance(value, int) else NONE


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
