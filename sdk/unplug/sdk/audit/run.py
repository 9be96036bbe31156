"""``unplug audit``: utility, attacks and distance to the oracle, with intervals, for checkpoints and artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from unplug.plugins.errors import DataError, InputError
from unplug.sdk.data import Split
from unplug.sdk.train.evaluate import Predictions, summarize
from unplug.sdk.train.run import Sets
from unplug.sdk.versions import versions

from .attack import ATTACKS, Attack, Signals
from .predictor import Predictor
from .report import (
    Alarm,
    AttackResult,
    AuditReport,
    Estimate,
    GroupRow,
    ModelAudit,
    SubjectRows,
    Utility,
)
from .stats import (
    CONFIDENCE,
    MIN_FALSE_POSITIVES,
    REPLICATES,
    Resamples,
    auc,
    bootstrap_auc,
    interval,
    mean_interval,
    resamples,
    threshold_accuracy,
    tpr_at,
)

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
MIN_SUBJECTS = 5  # with fewer, most bootstrap draws repeat the same people
MIN_FORGET = 2  # an interval over one sample says nothing, and AUC over one sample is a rank


def audit(
    predictors: Sequence[Predictor],
    sets: Sets,
    split: Split,
    *,
    edges: tuple[float, ...],
    data: dict[str, Any],
    references: Sequence[Predictor] = (),
    attacks: Sequence[str] | None = None,
    seed: int = 0,
    show: bool = True,
) -> AuditReport:
    """Audits models that share a forget request.

    Args:
        predictors: what to audit; one of role "retrained" is the oracle that the others are compared with.
        sets: retain (as ``train``), forget, validation and test on the device.
        split: where the sets come from.
        edges: age-group borders.
        data: facts about the data, copied into the report.
        references: models trained without the forget set, with other seeds; RMIA needs one.
        attacks: names of `ATTACKS`; None takes all.
        seed: of the resampling.
        show: progress bar.

    Returns:
        The report. Attacks that could not run are in ``skipped``, with the reason.

    Raises:
        DataError: no forget set, or one of a single sample.
        InputError: no such attack, or a model whose outputs are not finite.
    """
    check_forget_size(len(sets.forget))
    chosen, skipped = _usable(attacks, len(references))
    skipped |= _limits(sets, oracle=any(item.role == "retrained" for item in predictors))
    # By position, because two models may share a name.
    signals = [_signals(item, sets) for item in tqdm(predictors, desc="audit", unit="model", disable=not show, leave=False)]
    reference_signals = [_signals(item, sets) for item in references]
    oracle = next((says for item, says in zip(predictors, signals, strict=True) if item.role == "retrained"), None)
    draws = resamples(sets.forget.subject_N, sets.test.subject_N, seed=seed)
    models = tuple(
        _audit_model(item, own, None if own is oracle else oracle, reference_signals, chosen, sets, edges, draws, seed)
        for item, own in zip(predictors, signals, strict=True)
    )
    return AuditReport(
        data=data,
        forget={"samples": len(sets.forget), "subjects": len(np.unique(sets.forget.subject_N))},
        models=models,
        oracle_band={"loss": tuple(auc(item.forget.log_prob_N, item.unseen.log_prob_N) for item in reference_signals)},
        skipped=skipped,
        alarms=tuple(_alarms(models)) if enough_people(sets) else (),
        settings={
            "confidence": CONFIDENCE,
            "replicates": REPLICATES,
            "seed": seed,
            "references": [item.sha256 for item in references],
            "split_sha256": split.sha256,
            "edges": list(edges),
            "resampled": "whole subjects" if len(np.unique(sets.test.subject_N)) < len(sets.test) else "single samples",
        },
        versions=versions(),
    )


def _usable(names: Sequence[str] | None, references: int) -> tuple[dict[str, Attack], dict[str, str]]:
    chosen: dict[str, Attack] = {}
    skipped: dict[str, str] = {}
    for name in names or tuple(ATTACKS):
        attack: Attack = ATTACKS.get(name)()
        if attack.min_references > references:
            skipped[name] = f"needs {attack.min_references} reference model(s), {references} given"
        else:
            chosen[name] = attack
    return chosen, skipped


def check_forget_size(samples: int) -> None:
    """Refuses a forget set that no attack can say anything about; callers that train first ask before that."""
    if samples < MIN_FORGET:
        raise DataError("audit", f"{samples} forget samples support no interval", "Name at least two samples")


def enough_people(sets: Sets) -> bool:
    """Whether resampling the forget set's subjects says anything."""
    return len(np.unique(sets.forget.subject_N)) >= MIN_SUBJECTS


def _signals(item: Predictor, sets: Sets) -> Signals:
    own = item.signals(sets)
    for part in (own.forget, own.unseen, own.population, own.retain):
        if not (np.isfinite(part.logits_NG).all() and np.isfinite(part.age_N).all()):
            raise InputError(
                item.name, "some of its outputs are not numbers", "Check it with `unplug parity`, or export in fp32"
            )
    return own


def _limits(sets: Sets, *, oracle: bool) -> dict[str, str]:
    """What this request cannot show, and why."""
    limits = {}
    if not oracle:
        limits["oracle"] = "no retrained model was given, so nothing can be compared with it"
    if not enough_people(sets):
        limits["forget interval"] = (
            f"the forget set is fewer than {MIN_SUBJECTS} subjects: intervals show how much the unseen side may vary, hardly "
            "the forget side, and raise no alarm"
        )
    if missing := explain_missing_tpr(len(sets.test)):
        limits["tpr"] = missing
    return limits


def _audit_model(
    item: Predictor,
    own: Signals,
    best: Signals | None,
    references: Sequence[Signals],
    attacks: dict[str, Attack],
    sets: Sets,
    edges: tuple[float, ...],
    draws: Resamples,
    seed: int,
) -> ModelAudit:
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
        attacks={name: attack_model(attack, own, best, references, draws) for name, attack in attacks.items()},
        distance=None
        if best is None
        else {
            "forget": _distance(own.forget, best.forget, sets.forget.subject_N, seed),
            "test": _distance(own.unseen, best.unseen, sets.test.subject_N, seed),
        },
    )


def attack_model(
    attack: Attack, own: Signals, oracle: Signals | None, references: Sequence[Signals], draws: Resamples
) -> AttackResult:
    """One attack on one model, with its paired difference from the oracle."""
    forget_F, unseen_U = attack(own, references)
    replicate_R = bootstrap_auc(forget_F, unseen_U, draws)
    value = auc(forget_F, unseen_U)
    low, high = interval(replicate_R)
    difference = None
    if oracle is not None:
        oracle_F, oracle_U = attack(oracle, references)
        minus_low, minus_high = interval(replicate_R - bootstrap_auc(oracle_F, oracle_U, draws))
        difference = Estimate(value=value - auc(oracle_F, oracle_U), low=minus_low, high=minus_high)
    return AttackResult(
        auc=Estimate(value=value, low=low, high=high),
        minus_retrained=difference,
        threshold_accuracy=threshold_accuracy(forget_F, unseen_U),
        tpr={f"{rate:g}": tpr_at(forget_F, unseen_U, rate) for rate in FALSE_POSITIVE_RATES},
        forget_scores=tuple(float(score) for score in forget_F),
        unseen_scores=tuple(float(score) for score in unseen_U),
    )


def _utility(own: Predictions, subjects_N: NDArray[np.int64], edges: tuple[float, ...], seed: int) -> Utility:
    summary = summarize(own, edges)
    accuracy = mean_interval(own.correct_N.astype(np.float64), subjects_N, seed=seed)
    mae = mean_interval(own.error_N, subjects_N, seed=seed)
    return Utility(
        n=summary["n"],
        accuracy=Estimate(value=summary["accuracy"], low=accuracy[0], high=accuracy[1]),
        mae=Estimate(value=summary["mae"], low=mae[0], high=mae[1]),
        loss=summary["loss"],
        per_group=tuple(GroupRow(**row) for row in summary["per_group"]),
        per_subject=_subjects(own, subjects_N),
    )


def _subjects(own: Predictions, subjects_N: NDArray[np.int64]) -> SubjectRows | None:
    people, number_N, count = np.unique(subjects_N, return_inverse=True, return_counts=True)
    if len(people) == len(subjects_N):  # every sample its own subject: nothing that `mae` does not say
        return None
    mae = np.bincount(number_N, weights=own.error_N) / count
    worst = np.argsort(mae)[::-1][:5]
    return SubjectRows(
        subjects=len(people),
        mean_mae=float(mae.mean()),
        worst=tuple({"n": int(count[index]), "mae": float(mae[index])} for index in worst),
    )


def _distance(own: Predictions, oracle: Predictions, subjects_N: NDArray[np.int64], seed: int) -> Estimate:
    gap_N = np.abs(own.age_N - oracle.age_N)
    low, high = mean_interval(gap_N, subjects_N, seed=seed)
    return Estimate(value=float(gap_N.mean()), low=low, high=high)


def _alarms(models: Sequence[ModelAudit]) -> list[Alarm]:
    """A paired interval entirely below zero is over-forgetting, entirely above zero is not forgotten."""
    alarms = []
    for model in models:
        if model.role not in ("unlearned", "artifact"):
            continue
        for name, result in model.attacks.items():
            gap = result.minus_retrained
            if gap is None or gap.low is None or gap.high is None:
                continue
            span = f"{gap.value:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
            if gap.high < 0:
                text = f"{name}: AUC is below the retrained model's by {span}; the forget set stands out, which leaks too"
                alarms.append(Alarm(kind="over-forgetting", model=model.name, message=text))
            elif gap.low > 0:
                text = f"{name}: AUC is above the retrained model's by {span}; the forget set is still recognizable"
                alarms.append(Alarm(kind="not-forgotten", model=model.name, message=text))
    return alarms


def explain_missing_tpr(unseen: int) -> str:
    """Why some TPR entries are null; empty where none is."""
    rates = ", ".join(f"{rate:g}" for rate in FALSE_POSITIVE_RATES if rate * unseen < MIN_FALSE_POSITIVES)
    return (
        rates and f"TPR at FPR {rates} needs more than {unseen} unseen samples (at least {MIN_FALSE_POSITIVES} false positives)"
    )
