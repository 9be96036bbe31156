"""Section about privacy beyond the forget set's AUC: the retain set, the worst subject, and
learning again.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from unplug.core import NONE, count, counted, fixed, signed, span
from unplug.sdk.evidence.auditing import (
    Estimate,
    ModelAudit,
    PersonRow,
    Relearning,
    RetainPrivacy,
    WorstSubject,
)

from .inputs import Inputs
from .models import all_models, excludes_zero, model_cell, short_label
from .page import (
    Cell,
    Chip,
    Column,
    FigureGrid,
    Missing,
    Section,
    Table,
    both_widths,
    estimate_cell,
    words,
)
from .plots.audit import ForestRow, strangers_svg
from .plots.canvas import thin

JUDGED = ("unlearned", "artifact")
WIDTHS = (560, 340)
ALPHA = 0.05
"""A person stands out whose p, over all people and both statistics, is below this."""


def privacy(inputs: Inputs) -> Section | Missing:
    """A table for each measure that some model has."""
    models = all_models(inputs)
    tables = [
        table
        for table in (_people(models), _retain(models), _forget(models), _relearning(models))
        if table is not None
    ]
    if not tables:
        return Missing(
            "Privacy beyond the attacks",
            "no audit with retain-side or worst-subject privacy was given",
        )
    blocks = [*(() if (picture := _strangers(models)) is None else (picture,)), *tables]
    lead = (
        "One average can hide who pays: samples that stay, a single person, or a model that learns "
        "everything back at once."
    )
    return Section("privacy", "Privacy beyond the average", lead, blocks)


def _people(models: tuple[ModelAudit, ...]) -> Table | None:
    """The forgotten person among models that never saw her: one row a model, of the person who
    stands out most.
    """
    rows = [
        _people_row(model, *standing)
        for model in models
        if (standing := model.most_standing_out) is not None
    ]
    if not rows:
        return None
    columns = [
        words("Model"),
        Column("log odds above strangers'"),
        Column("models that never saw the person"),
        Column("rank"),
        Column("rank of the error"),
        Column("p"),
        words("stands out"),
    ]
    people = max(len(model.people) for model in models)
    whom = "One person" if people == 1 else f"{count(people)} people, the one who stands out most"
    caption = (
        f"{whom}, among models that never saw that person: an unlearned model should be one more "
        "of them"
    )
    return Table.of(caption, columns, rows)


def _strangers(models: tuple[ModelAudit, ...]) -> FigureGrid | None:
    """The picture of the same, where one person was forgotten: her numbers are next to one set of
    strangers for all models.
    """
    places = [(model, model.people[0].confidence) for model in models if len(model.people) == 1]
    if not places or not places[0][1].others:
        return None
    first = places[0][1]
    rows = [ForestRow.of(short_label(model), model.role, place) for model, place in places]
    draw = partial(
        strangers_svg,
        rows,
        thin(np.array(first.others)),
        title="One person among strangers",
        x="log odds of the truth on the person's pictures, above unseen ones",
    )
    caption = "Bars: the range of this person's number, were they one of 95 in 100 unseen people."
    return FigureGrid([both_widths(draw, WIDTHS, name="strangers", caption=caption)], columns=1)


def _people_row(model: ModelAudit, row: PersonRow, together: float) -> list[Cell]:
    place, error = row.confidence, row.error
    beyond = together < ALPHA
    # What cannot be seen from one model is not evidence of forgetting, so nothing is shown in
    # green.
    judged: Chip = "fail" if beyond and model.role in JUDGED else "neutral"
    samples = f"{counted(row.samples, 'sample')}"
    return [
        model_cell(model),
        Cell(signed(place.value, 2), note=samples),
        Cell(
            f"{signed(place.mean, 2)} ± {fixed(place.spread, 2)}",
            note=f"{count(place.models)} models",
        ),
        Cell(f"{place.rank} of {place.models + 1}"),
        Cell(NONE if error is None else f"{error.rank} of {error.models + 1}"),
        Cell(fixed(together, 3), note=f"{count(place.people)} unseen people"),
        Cell("yes" if beyond else "not seen", chip=judged),
    ]


def _retain(models: tuple[ModelAudit, ...]) -> Table | None:
    first = next(
        (model.retain_privacy for model in models if model.retain_privacy is not None), None
    )
    if first is None:
        return None
    columns = [
        words("Model"),
        Column("AUC, retain against unseen"),
        Column("minus original"),
        Column("minus oracle"),
        words("against the original"),
    ]
    rows = [_retain_row(model, first) for model in models]
    caption = (
        f"Retain-side privacy: do the {count(first.samples)} samples that stay stand out more than "
        "before?"
    )
    return Table.of(caption, columns, [row for row in rows if row])


def _end(model: ModelAudit, auc: Estimate | None) -> list[Cell]:
    if auc is None:
        return []
    return [
        model_cell(model),
        estimate_cell(auc),
        *(Cell(NONE) for _ in range(3)),
    ]


def _retain_row(model: ModelAudit, first: RetainPrivacy) -> list[Cell]:
    """What was unlearned has its own comparison; the two that it is compared with stand in the
    first one.
    """
    privacy = model.retain_privacy
    if privacy is None:
        return _end(
            model, {"original": first.original, "retrained": first.retrained}.get(model.role)
        )
    sign = excludes_zero(privacy.minus_original)
    chip: Chip = "fail" if sign > 0 else "pass"
    judged = (
        Cell({1: "worse", 0: "alike", -1: "better"}[sign], chip=chip)
        if privacy.minus_original
        else Cell(NONE)
    )
    return [
        model_cell(model),
        estimate_cell(privacy.auc),
        estimate_cell(privacy.minus_original, sign=True),
        estimate_cell(privacy.minus_retrained, sign=True),
        judged,
    ]


def _forget(models: tuple[ModelAudit, ...]) -> Table | None:
    rows = [
        _forget_row(model) for model in models if model.logistic_accuracy or model.worst_subject
    ]
    if not rows:
        return None
    columns = [
        words("Model"),
        Column("loss-logistic accuracy"),
        Column("worst subject's AUC"),
        Column("its statistic"),
        Column("chance gives", unit="95 % of the largest"),
        words("stands out"),
    ]
    return Table.of(
        "Forget set: a fitted attack, and the subject that stands out most",
        columns,
        rows,
    )


def _forget_row(model: ModelAudit) -> list[Cell]:
    accuracy = estimate_cell(model.logistic_accuracy, share=True)
    return [
        model_cell(model),
        accuracy,
        *_worst(model, model.worst_subject),
    ]


def _worst(model: ModelAudit, found: WorstSubject | None) -> list[Cell]:
    if found is None:
        return [Cell(NONE) for _ in range(4)]
    beyond = found.value > found.null_high
    judged: Chip = "neutral" if model.role not in JUDGED else "fail" if beyond else "pass"
    samples = f"{counted(found.samples, 'sample')}, worst of {counted(found.subjects, 'subject')}"
    return [
        Cell(fixed(found.auc), note=samples),
        Cell(fixed(found.value, 2)),
        Cell(span(found.null_low, found.null_high, 2)),
        Cell("yes" if beyond else "no", chip=judged),
    ]


def _relearning(models: tuple[ModelAudit, ...]) -> Table | None:
    rows = [
        _relearning_row(model, model.relearning) for model in models if model.relearning is not None
    ]
    if not rows:
        return None
    columns = [
        words("Model"),
        Column("sample passes"),
        Column("runs"),
        words("", wide=True),
    ]
    caption = (
        "Relearn time: passes over forget samples until the original's loss is back; fewer than "
        "the oracle's is memory"
    )
    return Table.of(caption, columns, rows)


def _relearning_row(model: ModelAudit, found: Relearning) -> list[Cell]:
    runs = ", ".join("stopped" if passes is None else count(passes) for passes in found.passes[:8])
    return [
        model_cell(model),
        estimate_cell(found.mean, 0),
        Cell(runs),
        Cell(found.reason or ""),
    ]
