"""All that is measured on one model: utility, attacks, distance to the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.statistics import (
    NotGiven,
    Resamples,
    auc,
    bootstrap_auc,
    interval,
    logistic_accuracy,
    mean_estimate,
    simultaneous,
    threshold_accuracy,
    tpr_estimate,
    tpr_or_reason,
)
from unplug.sdk.learning.training import ClassPredictions, Predictions, Sets, summarize

from .attack import Array, Attack, Lacks, Signals
from .audit_report import AttackResult, Estimate, GroupRow, ModelAudit, SubjectRows, Utility
from .predictor import Predictor

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One attack's scores on one model, and the AUC of every bootstrap replicate (R,)."""

    forget_F: Array
    unseen_U: Array
    auc: float
    auc_R: Array

    def minus(self, other: Scored) -> Estimate:
        """Difference of two AUCs, its interval from the same replicates of both."""
        low, high = interval(self.auc_R - other.auc_R)
        return Estimate(value=self.auc - other.auc, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One model, what it says, and how the attacks score it.

    Args:
        item: the model.
        own: what it says of each set.
        scored: by attack.
    """

    item: Predictor
    own: Signals
    scored: Mapping[str, Scored]


def run_attacks(
    attacks: Mapping[str, Attack],
    models: Sequence[Signals],
    references: Sequence[Signals],
    *,
    names: Sequence[str] = (),
    oracle: int | None = None,
) -> tuple[list[dict[str, tuple[Array, Array]]], dict[str, str]]:
    """Scores of every attack on every model, by model; an attack that cannot read the data is left
    out for all.

    What only one model does not give (`Lacks`) leaves the attack out for that model; for all where
    the model is the oracle, for a number without the oracle's beside it says nothing, or where none
    gives it.

    Args:
        attacks: by name.
        models, references: what they say.
        names: of the models, for reasons.
        oracle: which model is the oracle.

    Returns:
        Forget (F,) and unseen (U,) scores a model by attack, and why the attacks that are left out
        could not run.
    """
    found: list[dict[str, tuple[Array, Array]]] = [{} for _ in models]
    unable: dict[str, str] = {}
    for name, attack in attacks.items():
        scores: dict[int, tuple[Array, Array]] = {}
        lacking: dict[int, str] = {}
        try:
            for number, own in enumerate(models):
                try:
                    scores[number] = attack(own, references)
                except Lacks as error:
                    lacking[number] = error.why
        except InputError as error:
            unable[name] = f"{error.why or error.what}"
            continue
        if oracle in lacking or not scores:
            whose = (
                ""
                if oracle not in lacking or oracle is None or not names
                else f"of {names[oracle]}: "
            )
            unable[name] = (
                f"{whose}{lacking[oracle] if oracle in lacking else next(iter(lacking.values()))}"
            )
            continue
        if not all(np.isfinite(side).all() for pair in scores.values() for side in pair):
            unable[name] = "some of its scores are not numbers"
            continue
        for number, pair in scores.items():
            found[number][name] = pair
        for number, why in lacking.items():
            unable[f"{name} on {names[number] if names else number}"] = why
    return found, unable


def measure(
    item: Predictor, own: Signals, scores: Mapping[str, tuple[Array, Array]], draws: Resamples
) -> Measured:
    """Puts the AUC and its replicates beside every attack's scores."""
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
        sets: on the device.
        edges: age-group borders.
        draws: the bootstrap weights that `one` was measured with.
        seed: of the intervals of means.
    """
    own, item = one.own, one.item
    logistic = logistic_accuracy(-own.forget.log_prob_N, -own.unseen.log_prob_N, draws, seed=seed)
    return ModelAudit(
        name=item.name,
        role=item.role,
        sha256=item.sha256,
        target=item.target,
        precision=item.precision,
        utility={
            "retain": _utility(own.retain, sets.train.subject_N, edges, seed),
            "forget": _utility(own.forget, sets.forget.subject_N, edges, seed),
            "test": _utility(own.unseen, sets.test.subject_N, edges, seed),
        },
        attacks=attack_results(one, oracle, draws),
        logistic_accuracy=None if isinstance(logistic, NotGiven) else logistic,
        distance=None
        if oracle is None
        else {
            "forget": _distance(own.forget, oracle.own.forget, sets.forget.subject_N, seed),
            "test": _distance(own.unseen, oracle.own.unseen, sets.test.subject_N, seed),
        },
    )


def attack_results(
    one: Measured, oracle: Measured | None, draws: Resamples
) -> dict[str, AttackResult]:
    """Every attack on one model, beside the oracle's where there is one, with intervals for each
    and for all at once.
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
    low, high = interval(scored.auc_R)
    forget_F, unseen_U = scored.forget_F, scored.unseen_U
    rates = {f"{rate:g}": tpr_or_reason(forget_F, unseen_U, rate) for rate in FALSE_POSITIVE_RATES}
    found = {
        f"{rate:g}": tpr_estimate(forget_F, unseen_U, rate, draws) for rate in FALSE_POSITIVE_RATES
    }
    return AttackResult(
        auc=Estimate(value=scored.auc, low=low, high=high),
        minus_retrained=None if oracle is None else scored.minus(oracle),
        threshold_accuracy=threshold_accuracy(forget_F, unseen_U),
        tpr={name: None if isinstance(value, NotGiven) else value for name, value in rates.items()},
        tpr_interval={name: value for name, value in found.items() if value is not None},
        tpr_missing={
            name: value.reason for name, value in rates.items() if isinstance(value, NotGiven)
        },
        minus_retrained_together=together,
        forget_scores=tuple(float(score) for score in forget_F),
        unseen_scores=tuple(float(score) for score in unseen_U),
    )


def _utility(
    own: Predictions, subjects_N: NDArray[np.int64], edges: tuple[float, ...], seed: int
) -> Utility:
    summary = summarize(own, edges)
    aged = summary["mae"] is not None
    return Utility(
        n=summary["n"],
        accuracy=mean_estimate(own.correct_N.astype(np.float64), subjects_N, seed)
        if isinstance(own, ClassPredictions)
        else None,
        mae=mean_estimate(own.error_N, subjects_N, seed) if aged else None,
        loss=summary["loss"],
        per_group=tuple(GroupRow(**row) for row in summary["per_group"]),
        per_subject=_subjects(own, subjects_N) if aged else None,
        loss_interval=None if aged else mean_estimate(-own.log_prob_N, subjects_N, seed),
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


def _distance(
    own: Predictions, oracle: Predictions, subjects_N: NDArray[np.int64], seed: int
) -> Estimate:
    return mean_estimate(np.abs(own.answer_N - oracle.answer_N), subjects_N, seed)
