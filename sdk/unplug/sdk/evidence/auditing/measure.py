"""All that is measured on one model: utility, attacks, distance to the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.statistics import (
    NotGiven,
    Resamples,
    auc,
    bootstrap_auc,
    logistic_accuracy,
    mean_estimate,
    simultaneous,
    threshold_accuracy,
    tpr_estimate,
    with_interval,
)
from unplug.sdk.learning.training import ClassPredictions, Predictions, Sets, summarize

from .attack import Array, Attack, Lacks, Signals
from .audit_report import (
    AttackResult,
    ClassRow,
    Estimate,
    GroupRow,
    ModelAudit,
    Role,
    SubjectRows,
    Utility,
)
from .predictor import Predictor

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
T = TypeVar("T")
Scores = tuple[Array, Array]
"""Scores of the forget samples (F,) and of the unseen samples (U,)."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One attack's scores on one model, and the AUC of every bootstrap replicate (R,)."""

    forget_F: Array
    unseen_U: Array
    auc: float
    auc_R: Array

    def minus(self, other: Scored) -> Estimate:
        """Difference of two AUCs, its interval from the same replicates of both."""
        return with_interval(self.auc - other.auc, self.auc_R - other.auc_R)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One model, what it says, and how the attacks score it.

    Args:
        item: the model.
        own: its answers for each set.
        scored: the scores by attack.
    """

    item: Predictor
    own: Signals
    scored: Mapping[str, Scored]


def of_role(measured: Sequence[Measured], role: Role) -> Measured | None:
    """The first model of a role."""
    return next((one for one in measured if one.item.role == role), None)


def given(answer: T | NotGiven, name: str, missing: dict[str, str]) -> T | None:
    """A number, or None where there is none, with the reason under a name."""
    if isinstance(answer, NotGiven):
        missing[name] = answer.reason
        return None
    return answer


def run_attacks(
    attacks: Mapping[str, Attack],
    models: Sequence[Signals],
    references: Sequence[Signals],
    *,
    names: Sequence[str],
    oracle: int | None = None,
) -> tuple[list[dict[str, Scores]], dict[str, str]]:
    """Scores of every attack on every model, by model; an attack that cannot read the data is left
    out for all.

    If one model alone lacks what an attack reads (`Lacks`), the attack is left out for that model.
    It is left out for all if that model is the oracle, because a number without the oracle's says
    nothing, or if no model has it.

    Args:
        attacks: the attacks by name.
        models, references: the answers of models and references.
        names: the models' names, for reasons.
        oracle: the name of the oracle.

    Returns:
        Forget (F,) and unseen (U,) scores a model by attack, and why the attacks that are left out
        could not run.
    """
    rows: list[dict[str, Scores]] = [{} for _ in models]
    unable: dict[str, str] = {}
    for name, attack in attacks.items():
        try:
            scores, lacking = _scores(attack, models, references)
        except InputError as error:
            unable[name] = f"{error.why or error.what}"
            continue
        if oracle is not None and oracle in lacking:
            unable[name] = f"of {names[oracle]}: {lacking[oracle]}"
        elif not scores:
            unable[name] = next(iter(lacking.values()))
        elif not all(np.isfinite(side).all() for pair in scores.values() for side in pair):
            unable[name] = "some of its scores are not numbers"
        else:
            for number, pair in scores.items():
                rows[number][name] = pair
            unable |= {f"{name} on {names[number]}": why for number, why in lacking.items()}
    return rows, unable


def _scores(
    attack: Attack, models: Sequence[Signals], references: Sequence[Signals]
) -> tuple[dict[int, Scores], dict[int, str]]:
    """Scores of one attack by the number of the model, and what the other models do not give."""
    scores: dict[int, Scores] = {}
    lacking: dict[int, str] = {}
    for number, says in enumerate(models):
        try:
            scores[number] = attack(says, references)
        except Lacks as error:
            lacking[number] = error.why
    return scores, lacking


def measure(
    item: Predictor, own: Signals, scores: Mapping[str, Scores], draws: Resamples
) -> Measured:
    """Puts the AUC and its replicates next to every attack's scores."""
    scored = {
        name: Scored(
            forget_F=forget_F,
            unseen_U=unseen_U,
            auc=auc(forget_F, unseen_U),
            auc_R=bootstrap_auc(forget_F, unseen_U, draws),
        )
        for name, (forget_F, unseen_U) in scores.items()
    }
    return Measured(item=item, own=own, scored=scored)


def audit_model(
    one: Measured,
    oracle: Measured | None,
    sets: Sets,
    edges: tuple[float, ...],
    draws: Resamples,
    seed: int,
) -> ModelAudit:
    """Utility, attacks and distance to the oracle of one model.

    Args:
        one: the model.
        oracle: the retrained model; None for the oracle itself, or without one.
        sets: the sets on the device.
        edges: age-group borders.
        draws: the bootstrap weights that `one` was measured with.
        seed: the seed of the intervals of means.
    """
    own, model = one.own, one.item
    people = {
        "retain": sets.train.subject_N,
        "forget": sets.forget.subject_N,
        "test": sets.test.subject_N,
    }
    logistic = logistic_accuracy(-own.forget.log_prob_N, -own.unseen.log_prob_N, draws, seed=seed)

    return ModelAudit(
        name=model.name,
        role=model.role,
        sha256=model.sha256,
        target=model.target,
        precision=model.precision,
        utility={
            name: utility_of(part, people[name], edges, seed)
            for name, part in (("retain", own.retain), ("forget", own.forget), ("test", own.unseen))
        },
        attacks=attack_results(one, oracle, draws),
        # Why it is missing stands in `skipped` already, once for all models.
        logistic_accuracy=given(logistic, "", {}),
        distance=None
        if oracle is None
        else {
            "forget": _years(own.forget, oracle.own.forget, people["forget"], seed),
            "test": _years(own.unseen, oracle.own.unseen, people["test"], seed),
        },
    )


def attack_results(
    one: Measured, oracle: Measured | None, draws: Resamples
) -> dict[str, AttackResult]:
    """Every attack on one model, compared with the oracle where there is one, with intervals for
    each and for all at once.
    """
    together: dict[str, Estimate] = {}
    if oracle is not None:
        gaps = {
            name: (it.auc - oracle.scored[name].auc, it.auc_R - oracle.scored[name].auc_R)
            for name, it in one.scored.items()
        }
        together = simultaneous(gaps, draws.people)
    return {
        name: _result(scored, oracle.scored[name] if oracle else None, together.get(name), draws)
        for name, scored in one.scored.items()
    }


def _result(
    scored: Scored, oracle: Scored | None, together: Estimate | None, draws: Resamples
) -> AttackResult:
    forget_F, unseen_U = scored.forget_F, scored.unseen_U
    tpr: dict[str, float | None] = {}
    between: dict[str, Estimate] = {}
    missing: dict[str, str] = {}
    for rate in FALSE_POSITIVE_RATES:
        name = f"{rate:g}"
        estimate = given(tpr_estimate(forget_F, unseen_U, rate, draws), name, missing)
        tpr[name] = None if estimate is None else estimate.value
        if estimate is not None:
            between[name] = estimate
    return AttackResult(
        auc=with_interval(scored.auc, scored.auc_R),
        minus_retrained=None if oracle is None else scored.minus(oracle),
        threshold_accuracy=threshold_accuracy(forget_F, unseen_U),
        tpr=tpr,
        tpr_interval=between,
        tpr_missing=missing,
        minus_retrained_together=together,
        forget_scores=tuple(map(float, forget_F)),
        unseen_scores=tuple(map(float, unseen_U)),
    )


def utility_of(
    own: Predictions, subjects_N: NDArray[np.int64], edges: tuple[float, ...], seed: int
) -> Utility:
    """What a model is worth on one set (N,), by what it says there and whose samples they are."""
    summary = summarize(own, edges)
    aged, classes = summary.get("mae") is not None, summary.get("per_class", ())
    return Utility(
        n=summary["n"],
        accuracy=mean_estimate(own.correct_N.astype(np.float64), subjects_N, seed)
        if isinstance(own, ClassPredictions)
        else None,
        mae=mean_estimate(own.error_N, subjects_N, seed) if aged else None,
        loss=summary["loss"],
        per_group=tuple(GroupRow(**row) for row in summary.get("per_group", ())),
        per_subject=_subjects(own, subjects_N) if aged else None,
        loss_interval=None if aged else mean_estimate(-own.log_prob_N, subjects_N, seed),
        wrong=mean_estimate((~own.correct_N).astype(np.float64), subjects_N, seed)
        if isinstance(own, ClassPredictions) and classes
        else None,
        per_class=tuple(ClassRow(**row) for row in classes),
    )


def _subjects(own: Predictions, subjects_N: NDArray[np.int64]) -> SubjectRows | None:
    people, number_N, count = np.unique(subjects_N, return_inverse=True, return_counts=True)
    if len(people) == len(
        subjects_N
    ):  # every sample its own subject: nothing that `mae` does not say
        return None
    mae = np.bincount(number_N, weights=own.error_N) / count
    worst = np.argsort(mae)[::-1][:5]
    return SubjectRows(
        subjects=len(people),
        mean_mae=float(mae.mean()),
        worst=tuple({"n": int(count[index]), "mae": float(mae[index])} for index in worst),
    )


def _years(
    own: Predictions, oracle: Predictions, subjects_N: NDArray[np.int64], seed: int
) -> Estimate:
    return mean_estimate(np.abs(own.answer_N - oracle.answer_N), subjects_N, seed)
