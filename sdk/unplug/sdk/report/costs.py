"""Sections about use and cost: utility, what the forget step spent, what each stage took, where it
all comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unplug.core import NONE, count, fixed, percent, plain, seconds
from unplug.sdk.evidence.auditing import ClassRow, ModelAudit, Utility

from .inputs import Inputs
from .models import ROLES, SETS, all_models, has_classes, has_years, label, main_models, model_cell
from .page import (
    Block,
    Cell,
    Column,
    Figure,
    FigureGrid,
    Missing,
    Section,
    Table,
    estimate_cell,
    words,
)
from .plots.audit import Line, groups_svg
from .schemas import AnyRecord, ReleaseRecord

MAX_CLASS_ROWS = 24


def utility(inputs: Inputs) -> Section | Missing:
    """Accuracy and error per set with intervals, and error per age group."""
    models = all_models(inputs)
    if not models:
        return Missing("Utility", "no audit was given (unplug audit)")
    years, classes = has_years(inputs), has_classes(inputs)
    use = (
        [
            Column("accuracy", interval=True),
            Column("MAE", unit="years", interval=True),
            Column("loss", unit="nats"),
            Column("distance to oracle", unit="years", interval=True),
        ]
        if years
        else [
            Column("accuracy", interval=True),
            Column("loss", unit="nats", interval=True),
            Column("distance to oracle", unit="probability", interval=True),
        ]
        if classes
        else [
            Column("loss", unit="mean squared error", interval=True),
            Column("distance to oracle", unit="of the loss", interval=True),
        ]
    )
    columns = [words("Model"), Column("samples"), *use]
    groups = [
        (
            title,
            [
                _utility_row(model, name, years, classes)
                for model in models
                if name in model.utility
            ],
        )
        for name, title in SETS.items()
        if any(name in model.utility for model in models)
    ]
    table = Table(
        "Use of every model on every set, with 95 % intervals",
        columns,
        groups,
        inline=True,
    )
    figures = _group_figures(main_models(inputs))
    caption = (
        "Mean absolute error in years per age group, the same axes in every panel; a gap is a "
        "group without samples."
    )
    blocks: list[Block] = [table]
    if classes:
        blocks.append(_class_table(main_models(inputs)))
    if figures:
        blocks.append(
            FigureGrid(figures, columns=3, caption=caption, legend=tuple(main_models(inputs)))
        )
    lead = "Forgetting must not cost use. The test set was seen by no model."
    return Section("utility", "Utility", lead, blocks)


def _utility_row(model: ModelAudit, name: str, years: bool, classes: bool) -> list[Cell]:
    use: Utility = model.utility[name]
    right, far = use.accuracy, (model.distance or {}).get(name)
    start = [model_cell(model), Cell(count(use.n))]
    if classes:
        loss = use.loss_interval or use.error
        return [
            *start,
            estimate_cell(right, share=True),
            estimate_cell(loss, 3),
            estimate_cell(far, 3),
        ]
    if not years:
        return [*start, estimate_cell(use.error, 4), estimate_cell(far, 4)]
    return [
        *start,
        estimate_cell(right, share=True),
        estimate_cell(use.mae, 2),
        Cell(fixed(use.loss, 3)),
        estimate_cell(far, 2),
    ]


def _class_table(main: dict[str, ModelAudit]) -> Table:
    """Accuracy of each class on the test set, those first that the last model knows least."""
    tested = {
        role: model.utility["test"] for role, model in main.items() if "test" in model.utility
    }
    rows = {role: {row.label: row for row in use.per_class} for role, use in tested.items()}
    last = next(reversed(rows.values()), {})
    worst = sorted(last.values(), key=lambda row: 1.0 if row.accuracy is None else row.accuracy)
    told = [
        [Cell(plain(row.label, 40)), Cell(count(row.n))]
        + [Cell(_right(by.get(row.label))) for by in rows.values()]
        for row in worst[:MAX_CLASS_ROWS]
    ]
    some = "" if len(worst) <= MAX_CLASS_ROWS else f", the {MAX_CLASS_ROWS} that are known least"
    columns = [words("Class"), Column("samples"), *(Column(label(role)) for role in rows)]
    caption = f"Accuracy of each class on the test set{some}"
    return Table(caption, columns, [("", told)], compact=True)


def _right(row: ClassRow | None) -> str:
    return NONE if row is None or row.accuracy is None else percent(row.accuracy)


def _group_figures(main: dict[str, ModelAudit]) -> list[Figure]:
    sets = [
        name
        for name in ("test", "forget", "retain")
        if any(name in model.utility for model in main.values())
    ]
    values = [
        row.mae
        for model in main.values()
        for name in sets
        if name in model.utility
        for row in model.utility[name].per_group
    ]
    known = [value for value in values if value is not None]
    figures = []
    for name in sets:
        having = {
            role: model.utility[name].per_group
            for role, model in main.items()
            if name in model.utility
        }
        ages = [row.ages for row in next(iter(having.values()))]
        lines = [
            Line(
                role=role,
                label=label(role),
                x_N=np.arange(len(rows), dtype=np.float64),
                y_N=np.array([row.mae for row in rows], np.float64),
            )
            for role, rows in having.items()
            if [row.ages for row in rows] == ages
        ]
        if known and ages:
            top = 1.06 * max(known) or 1.0
            names = [plain(text, 10).replace("-", NONE) for text in ages]
            figures.append(
                Figure(groups_svg(names, lines, top, name=f"groups-{name}", title=SETS[name]))
            )
    return figures


def cost(inputs: Inputs) -> Section | Missing:
    """Passes, wall time and fraction of retraining of every record; wall time of each stage of a
    release.
    """
    rows = [
        _cost_row(record)
        for role in ROLES
        for record in inputs.records
        if record.role == role and record.cost
    ]
    stages = [release for release in inputs.releases if release.seconds]
    if not rows and not stages:
        return Missing("Cost", "no checkpoint record (unplug.json) and no release record was given")
    blocks: list[Block] = []
    if rows:
        columns = [
            words("Model"),
            Column("forward passes"),
            Column("backward passes"),
            Column("wall time"),
            Column("compute", unit="of retraining"),
            Column("wall", unit="of retraining"),
            Column("budget"),
            words("device", wide=True),
        ]
        blocks.append(
            Table.of(
                "What each model cost; a pass is one sample through the network",
                columns,
                rows,
            )
        )
    blocks += [_stages(release) for release in stages]
    return Section("cost", "Cost", _cost_lead(inputs.records), blocks)


def _cost_lead(records: Sequence[AnyRecord]) -> str:
    step = next(
        (record.forget for record in records if record.forget and record.role == "unlearned"), None
    )
    if step is None:
        return ""
    known = f"How the wall time of retraining is known: {plain(step.cost.retrain.source, 200)}."
    if step.cost.budget is None:
        return f"{known} No budget was set."
    return f"{known} The budget counts compute; wall time depends on what else the machine does."


def _cost_row(record: AnyRecord) -> list[Cell]:
    spent = record.cost
    step = record.forget if record.role == "unlearned" else None
    name = label(record.role) + (f", {plain(step.method, 30)}" if step else "")
    within = Cell(NONE)
    if step and step.cost.budget is not None:
        note = "over" if step.cost.compute_fraction > step.cost.budget else "within"
        within = Cell(
            note, chip="pass" if note == "within" else "fail", note=percent(step.cost.budget)
        )
    return [
        Cell(name, role=record.role),
        Cell(count(spent.forward if spent else None)),
        Cell(count(spent.backward if spent else None)),
        Cell(seconds(spent.wall_s if spent else None)),
        Cell(percent(step.cost.compute_fraction) if step else NONE),
        Cell(percent(step.cost.wall_fraction) if step else NONE),
        within,
        Cell(plain(spent.device, 80) if spent and spent.device else NONE),
    ]


def _stages(release: ReleaseRecord) -> Table:
    total = sum(release.seconds.values())
    rows = [
        [
            Cell(plain(name)),
            Cell(seconds(taken)),
            Cell(percent(taken / total if total else None)),
        ]
        for name, taken in release.seconds.items()
    ]
    rows.append([Cell("all stages"), Cell(seconds(total)), Cell("")])
    columns = [
        words("Stage"),
        Column("wall time"),
        Column("share"),
    ]
    return Table.of(
        f"Wall time of each stage: {plain(release.title, 120)}",
        columns,
        rows,
        compact=True,
    )
