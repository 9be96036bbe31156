"""Sections about forgetting: learning curves, losses, ROC, attacks, faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from unplug.core import NONE, fixed, percent, plain, span
from unplug.sdk.evidence.auditing import (
    EQUIVALENCE,
    AttackResult,
    Estimate,
    ModelAudit,
    against,
    inherent,
)
from unplug.sdk.evidence.statistics import roc

from .inputs import Inputs
from .models import (
    ROLES,
    all_models,
    attack_names,
    has_classes,
    has_years,
    label,
    main_audit,
    main_models,
    model_cell,
    short_label,
    why_no_attacks,
)
from .page import (
    Block,
    Cell,
    Chip,
    Column,
    FaceCard,
    FaceGrid,
    Figure,
    FigureGrid,
    Missing,
    Notes,
    Section,
    Table,
    both_widths,
    estimate_cell,
    words,
)
from .plots.audit import (
    ForestRow,
    Line,
    forest_svg,
    learning_svg,
    loss_svg,
    roc_svg,
    shared_edges,
    shares,
)
from .png import checked_png, data_uri
from .verdict import headline_attack

LOSS = "loss"
TOO_FEW = "too few samples"
CHIPS: dict[str, Chip] = {"equal": "pass", "open": "warn", "above": "fail", "below": "fail"}
MAX_DRAWN = 3  # attacks with plots of their own; the table holds all
MAX_OTHERS = 3  # predictions under a face besides those of the three roles
WIDTHS = (500, 354)
"""Half of a page, and a phone, in CSS pixels: letters keep their size on both."""
CURVES = (
    ("epoch", "train_loss", "Training loss", "nats"),
    ("epoch", "validation_mae", "Validation MAE", "years"),
    ("epoch", "validation_accuracy", "Validation accuracy", "share"),
    ("step", "loss", "Training loss", "mean squared error"),
)
"""What a history may be counted in, and what is drawn of it."""


def learning(inputs: Inputs) -> Section | Missing:
    """Training loss and validation error per epoch (of plugins: training loss per step) of every
    record with a history.
    """
    records = {
        role: next((item for item in inputs.records if item.role == role and item.history), None)
        for role in ROLES
    }
    figures: list[Figure] = []
    for per, field, title, unit in CURVES:
        if field == "validation_accuracy" and not has_classes(inputs):
            continue
        curves = []
        for role, record in records.items():
            rows = (
                [(getattr(row, per, None), getattr(row, field, None)) for row in record.history]
                if record
                else []
            )
            points = np.array([row for row in rows if None not in row], dtype=np.float64)
            if len(points):
                curves.append(
                    Line(role=role, label=label(role), x_N=points[:, 0], y_N=points[:, 1])
                )
        if curves:
            draw = partial(learning_svg, curves, title=title, unit=unit, per=per)
            figures.append(both_widths(draw, WIDTHS, name=f"learning-{len(figures)}"))
    if not figures:
        return Missing(
            "Learning curves",
            "no checkpoint record (unplug.json) with a training history was given",
        )
    lead = "Both models were trained by the same recipe; the oracle never saw the forget set."
    grid = FigureGrid(figures, columns=2)
    return Section("learning", "Training", lead if records["retrained"] else "", [grid])


def losses(inputs: Inputs) -> Section | Missing:
    """Loss histograms of the three models on shared axes."""
    attacks = {
        role: model.attacks[LOSS]
        for role, model in main_models(inputs).items()
        if LOSS in model.attacks
    }
    if not attacks:
        return Missing("Loss histograms", "no audit with the loss attack was given (unplug audit)")
    if not all(attack.forget_scores for attack in attacks.values()):
        return Missing("Loss histograms", "the audit is of a bundle, which holds nobody's scores")
    sides = {
        role: (-np.array(attack.forget_scores), -np.array(attack.unseen_scores))
        for role, attack in attacks.items()
    }
    every = [losses for pair in sides.values() for losses in pair]
    edges = shared_edges(every)
    top = 1.12 * max(float(shares(losses, edges).max()) for losses in every)
    nats = has_years(inputs) or has_classes(inputs)
    unit = "nats" if nats else "mean squared error"
    figures = []
    for role, pair in sides.items():
        named: dict[str, Any] = {
            "role": role,
            "name": f"loss-{role}",
            "title": label(role),
            "unit": unit,
        }
        figures.append(Figure(loss_svg(*pair, edges, top, **named)))
    lead = (
        "Each model's loss on the forget set and on unseen samples. Where the filled bars sit left "
        "of the outline, "
        "the model remembers; after forgetting it should look like the oracle."
    )
    beyond = (
        "the last bin holds everything above"
        if edges[0] == 0
        else "the outer bins hold everything beyond"
    )
    caption = f"Share of samples per bin, the same axes in every panel; {beyond}."
    return Section(
        "losses",
        "Losses",
        lead,
        [FigureGrid(figures, columns=3, caption=caption)],
    )


def attacks(inputs: Inputs) -> Section | Missing:
    """ROC per attack, the table of all models, and the oracle band."""
    models, main, audit = all_models(inputs), main_models(inputs), main_audit(inputs)
    names = attack_names(inputs)
    if audit is None or not names:
        return Missing("Attacks", why_no_attacks(audit))
    blocks: list[Block] = []
    # The one that decides first, then in the order of the audit.
    head = headline_attack(main)
    drawn_names = sorted(names, key=lambda name: name != head)[:MAX_DRAWN]
    for number, name in enumerate(drawn_names, start=1):
        drawn = any(
            name in model.attacks and model.attacks[name].forget_scores for model in main.values()
        )
        figures = [_roc(name, number, main)] if drawn else []
        figures.append(_forest(name, number, models, audit.oracle_band.get(name, ())))
        blocks.append(FigureGrid(figures, columns=2))
    blocks.append(_attack_table(models, names, audit.too_few))
    if further := sorted({name for model in models for name in model.further}):
        blocks.append(_further_table(models, further, audit.too_few))
    if len(names) > len(drawn_names):
        blocks.append(
            Notes([f"Plots of {len(drawn_names)} attacks; all {len(names)} are in the table."])
        )
    notes = list(
        dict.fromkeys(
            f"{plain(why, 200)}."
            for m in models
            for a in m.attacks.values()
            for why in a.tpr_missing.values()
        )
    )
    told = {"tpr"} if notes else set()
    notes += [
        f"Not run: {plain(name)}: {plain(why, 300)}."
        for name, why in sorted(audit.skipped.items())
        if name not in told
    ]
    if notes:
        blocks.append(Notes(notes))
    lead = (
        "An attack guesses from outputs who was in the training set. AUC 0.5 is guessing; the "
        "oracle's AUC is the goal."
    )
    return Section("attacks", "Membership inference", lead, blocks)


def _title(name: str) -> str:
    return f"{plain(name, 30)} attack"


def _band(band: tuple[float, ...]) -> str:
    if not band:
        return ""
    if len(band) == 1:
        return (
            "Oracle band: one reference model without the forget set, trained with another seed, "
            f"has AUC {fixed(band[0])}."
        )
    return (
        f"Oracle band: {len(band)} reference models that never saw the forget set, trained with "
        "other seeds, "
        f"have AUC {span(min(band), max(band))}."
    )


def _roc(name: str, number: int, main: Mapping[str, ModelAudit]) -> Figure:
    lines = []
    for role, model in main.items():
        if name in model.attacks and model.attacks[name].forget_scores:
            attack = model.attacks[name]
            text = f"{role} {fixed(attack.auc.value)}" + (
                f" ({ends})" if (ends := span(attack.auc.low, attack.auc.high)) else ""
            )
            false_N, true_N = roc(np.array(attack.forget_scores), np.array(attack.unseen_scores))
            lines.append(Line(role=role, label=text, x_N=false_N, y_N=true_N))
    return both_widths(partial(roc_svg, lines, title=_title(name)), WIDTHS, name=f"roc-{number}")


def _forest(
    name: str, number: int, models: Sequence[ModelAudit], band: tuple[float, ...]
) -> Figure:
    aucs = [(model, model.attacks[name].auc) for model in models if name in model.attacks]
    rows = [ForestRow.of(short_label(model), model.role, auc) for model, auc in aucs]
    spoken = f"AUC of {_title(name)}: {'; '.join(f'{row.label} {row.value:.3f}' for row in rows)}."
    draw = partial(
        forest_svg,
        rows,
        guess=0.5,
        band=band,
        title=f"{_title(name)}: AUC and 95 % interval",
        x="AUC; shaded: the oracle band" if band else "AUC",
        spoken=spoken + (f" Oracle band {min(band):.3f} to {max(band):.3f}." if band else ""),
    )
    return both_widths(draw, WIDTHS, name=f"forest-{number}", caption=_band(band))


def _further_table(
    models: tuple[ModelAudit, ...], names: Sequence[str], too_few: str | None
) -> Table:
    """Attacks that read more than the sets of the split; those that a retrained model fails too are
    marked.
    """
    columns = [
        words("Model"),
        Column("AUC"),
        Column("minus oracle"),
        words("against oracle"),
    ]
    groups = []
    for name in names:
        known = {
            model.name: (model, model.further[name]) for model in models if name in model.further
        }
        alone = inherent(name)
        rows = [
            [
                model_cell(model),
                estimate_cell(attack.auc),
                estimate_cell(attack.gap, sign=True),
                Cell("reported alone") if alone else _against(model, attack.gap, too_few),
            ]
            for model, attack in known.values()
        ]
        note = ": a retrained model shows it too" if alone else ""
        groups.append((f"{_title(name)}{note}", rows))
    caption = (
        "Attacks of somebody who holds more: other views and pictures, the weights, the old file"
    )
    return Table(caption, columns, groups)


def _attack_table(
    models: tuple[ModelAudit, ...], names: tuple[str, ...], too_few: str | None
) -> Table:
    rates = list(
        dict.fromkeys(
            rate for model in models for item in model.attacks.values() for rate in item.tpr
        )
    )[:6]
    columns = [
        words("Model"),
        Column("AUC"),
        Column("minus oracle"),
        words("against oracle"),
        Column("threshold accuracy"),
        *(Column(f"TPR at FPR {_rate(rate)}") for rate in rates),
    ]
    groups = [
        (
            _title(name),
            [
                _attack_row(model, model.attacks[name], rates, too_few)
                for model in models
                if name in model.attacks
            ],
        )
        for name in names
    ]
    caption = (
        "Every attack on every model, with 95 % intervals. Against the oracle, by an interval of "
        "all attacks at once: equal "
        f"lies within {EQUIVALENCE:g} on both sides; above and below are surely told apart; open "
        "is wider than it says anything"
    )
    return Table(caption, columns, groups)


def _against(model: ModelAudit, gap: Estimate | None, too_few: str | None) -> Cell:
    """What the interval that holds for all attacks at once says; only what should have forgotten
    can fail at it.
    """
    if gap is None or gap.low is None:
        return Cell(NONE)
    word = against(gap, too_few)
    return Cell(word, chip="neutral" if model.role == "original" else CHIPS[word])


def _rate(text: str) -> str:
    try:
        return f"{float(text) * 100:g} %"
    except ValueError:
        return plain(text, 12)


def _attack_row(
    model: ModelAudit, item: AttackResult, rates: list[str], too_few: str | None
) -> list[Cell]:
    right = item.threshold_accuracy
    return [
        model_cell(model),
        estimate_cell(item.auc),
        estimate_cell(item.gap, sign=True),
        _against(model, item.gap, too_few),
        Cell("", note=TOO_FEW) if right is None else Cell(percent(right)),
        *(_tpr(item, rate) for rate in rates),
    ]


def _tpr(item: AttackResult, rate: str) -> Cell:
    value, ends = item.tpr.get(rate), item.tpr_interval.get(rate)
    if value is None:
        return Cell("", note=TOO_FEW)
    return Cell(percent(value), note=span(ends.low, ends.high, 1, scale=100.0) if ends else "")


def faces(inputs: Inputs) -> Section | Missing:
    """Faces of the test set with the true age and what each model says; only where the release was
    asked for them.
    """
    cards: list[FaceCard] = []
    for number, face in enumerate(
        (face for sheet in inputs.faces for face in sheet.faces), start=1
    ):
        others = [name for name in sorted(face.predictions) if name not in ROLES][:MAX_OTHERS]
        names = [*(role for role in ROLES if role in face.predictions), *others]
        answers = [(plain(name, 20), fixed(face.predictions[name], 1)) for name in names]
        uri, age = data_uri(checked_png(face.png, f"face {number}")), fixed(face.age, 0)
        cards.append(
            FaceCard(
                uri=uri, alt=f"Face of the test set, {age} years old", age=age, predictions=answers
            )
        )
    if not cards:
        return Missing(
            "Sample faces", "people are shown only where a release was asked to (--faces)"
        )
    lead = "True age, and the age that each model predicts. Nobody who was forgotten is shown."
    grid = FaceGrid(heading="Test set, unseen by every model", faces=cards)
    return Section("faces", "Faces", lead, [grid])
