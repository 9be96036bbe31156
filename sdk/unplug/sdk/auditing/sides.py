"""Who else pays for forgetting: the retain set, the worst subject; and how soon a model learns the forget set again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from unplug.plugins import Checkpoint
from unplug.sdk.statistics import Refused
from unplug.sdk.tasks import Kind
from unplug.sdk.training import Sets

from .measure import Measured
from .privacy import retain_privacy, worst_subject
from .relearn import Censored, forget_loss, relearn
from .report import ModelAudit, Relearning, RetainPrivacy, WorstSubject

JUDGED = ("unlearned", "artifact")


def add_sides(
    models: Sequence[ModelAudit], measured: Sequence[Measured], sets: Sets, seed: int
) -> tuple[tuple[ModelAudit, ...], dict[str, str]]:
    """Adds worst-subject and retain-side privacy to every model that it can be told of.

    Returns:
        The models, and what could not be told with the reason.
    """
    original = next((item for item in measured if item.item.role == "original"), None)
    oracle = next((item for item in measured if item.item.role == "retrained"), None)
    missing: dict[str, str] = {}
    found = []
    for model, item in zip(models, measured, strict=True):
        worst = _worst(item, sets)
        if isinstance(worst, Refused):
            missing["worst subject"] = worst.reason.removeprefix("worst subject: ")
        told = None if isinstance(worst, Refused) else worst
        found.append(replace(model, worst_subject=told, retain_privacy=_retain(item, original, oracle, sets, seed)))
    if any(item.item.role in JUDGED for item in measured) and (original is None or oracle is None):
        missing["retain privacy"] = "it is compared with the original's and the retrained model's, and one is not given"
    return tuple(found), missing


def _worst(item: Measured, sets: Sets) -> WorstSubject | Refused:
    scores = item.own.forget.log_prob_N, item.own.unseen.log_prob_N
    found = worst_subject(*scores, sets.forget.subject_N, sets.test.subject_N)
    if isinstance(found, Refused):
        return found
    return WorstSubject(
        value=found.value,
        null_low=found.null_low,
        null_high=found.null_high,
        p_value=found.p_value,
        auc=found.auc,
        subjects=found.subjects,
        samples=int(np.count_nonzero(sets.forget.subject_N == found.subject)),
    )


def _retain(item: Measured, original: Measured | None, oracle: Measured | None, sets: Sets, seed: int) -> RetainPrivacy | None:
    if item.item.role not in JUDGED or original is None or oracle is None:
        return None
    found = retain_privacy(
        item.own, original.own, oracle.own, sets.train.subject_N, sets.test.subject_N, seed=seed
    )  # fmt: skip
    return RetainPrivacy(
        auc=found.unlearned,
        original=found.original,
        retrained=found.oracle,
        minus_original=found.minus_original,
        minus_retrained=found.minus_oracle,
        samples=found.samples,
    )


def relearn_times(
    original: Checkpoint, models: Mapping[str, Checkpoint], sets: Sets, kind: Kind, seed: int
) -> dict[str, Relearning]:
    """Relearn time of each model by name; the original's loss on the forget set is what it must come down to.

    Args:
        original: the model before forgetting.
        models: unlearned and retrained checkpoints.
        sets: on the device; only the forget set is learned.
        kind: the original's.
        seed: of the first of three runs a model.
    """
    device = sets.forget.age_N.device
    before = kind.network(original.model).to(device)
    target = forget_loss(before, sets.forget, kind.family.task(before))
    found = {}
    for name, checkpoint in models.items():
        model = kind.network(checkpoint.model).to(device)
        seeds = (seed, seed + 1, seed + 2)
        took = relearn([model], sets.forget, kind.family.task(model), target_loss=target, seeds=seeds)
        if isinstance(took, Censored):
            found[name] = Relearning(passes=took.passes, target_loss=target, reason=took.reason)
        else:
            found[name] = Relearning(passes=took.passes, mean=took.mean, target_loss=took.target_loss)
    return found
