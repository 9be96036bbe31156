"""From the results of a row to its numbers, each with an interval and the oracle's value beside it.

Shapes: U unlearned models, N retrained models, S samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.sdk.evidence.statistics import Estimate, interval, subject_weights

from .challenge_metric import challenge, forgetting_gap
from .half_samples import MIN_MODELS
from .intervals import Mean, as_measure, cluster_mean, difference, of_comparisons, of_estimates
from .klom_metric import klom, years_from_oracle
from .membership import REPLICATES, Oracle, membership
from .plan import EVALUATION_SEEDS
from .pool import Pool, Truth
from .population import ulira
from .report import Measure

Array = NDArray[np.float64]
MAX_SAMPLES = 2000
"""Samples per set in KLoM and years; of larger sets a random part is compared."""
MAX_FORGET = 500
"""Forget samples in F and in U-LiRA, which look at every sample's models in turn."""

Found = tuple[dict[str, Measure], dict[str, str]]


def measure_pool(pool: Pool, oracle: Oracle) -> Found:
    """All numbers of a row but its cost, and why those are missing that are.

    Args:
        pool: the row's models; the oracle's own pool gives the oracle's row (retrained against
            other retrained models).
        oracle: the retrained models.
    """
    measures = _utility(pool, oracle)
    attacks, missing = membership(pool, oracle)
    measures |= attacks
    measures |= _spread(pool, oracle)
    if len(pool) < MIN_MODELS:
        few = f"{len(pool)} models; a distribution takes {MIN_MODELS} or more"
        return measures, missing | {name: few for names in DISTRIBUTIONS.values() for name in names}
    for measure, names in DISTRIBUTIONS.items():
        try:
            measures |= measure(pool, oracle, measures)
        except InputError as error:  # too few models for this number: the others are still good
            missing |= dict.fromkeys(names, error.why)
    return measures, missing


def measure_cost(pool: Pool) -> dict[str, Measure]:
    """Compute and wall time of the row's unlearning runs, as fractions of retraining and in
    seconds.
    """
    whole = {"compute": 1.0, "wall": 1.0, "wall_s": None}
    measures = {
        name: as_measure(cluster_mean(pool.per_model(name), pool.clusters), best)
        for name, best in whole.items()
    }
    return {name: _not_negative(item) for name, item in measures.items()}


def _not_negative(item: Measure) -> Measure:
    """Intervals are symmetric about what they are of; costs, F and scores end at 0."""
    return replace(item, low=None if item.low is None else max(0.0, item.low))


def has_ages(pool: Pool) -> bool:
    """Whether the models predict ages."""
    return not bool(np.isnan(pool.says[0]["test"].error_N).any())


def _utility(pool: Pool, oracle: Oracle) -> dict[str, Measure]:
    measures = {}
    names = ["test_accuracy", "retain_accuracy"]
    if has_ages(pool):
        names.append("test_mae")
        if all("retain_age" in one.tensors for own in (pool, oracle.pool) for one in own.models):
            names.append("retain_mae")  # results of before had none
    for name in names:
        ours = cluster_mean(pool.per_model(name), pool.clusters)
        theirs = cluster_mean(oracle.pool.per_model(name), oracle.pool.clusters)
        gap = replace(theirs, value=0.0) if pool is oracle.pool else difference(ours, theirs)
        if name.startswith("test"):
            measures[name] = as_measure(ours, theirs.value)
        if name != "retain_accuracy":
            measures[f"{name}_gap"] = as_measure(gap, 0.0)
        if name.endswith("accuracy") and theirs.value > 0:
            measures[f"{name.partition('_')[0]}_ratio"] = _ratio(gap, theirs.value)
    return measures


def _ratio(gap: Mean, oracle: float) -> Measure:
    """ours / theirs = 1 + (ours - theirs) / theirs."""
    low, high = (
        (None, None)
        if gap.interval is None
        else (1 + gap.interval[0] / oracle, 1 + gap.interval[1] / oracle)
    )
    return Measure(value=1 + gap.value / oracle, low=low, high=high, oracle=1.0)


def _challenge(pool: Pool, oracle: Oracle, use: Mapping[str, Measure]) -> dict[str, Measure]:
    phi_US, phi_NS, subjects_S = _forget(pool, oracle)
    # Its seeds draw which retrained models meet which in the null, and the intervals.
    rounds = [
        challenge(phi_US, phi_NS, subjects_S, variant=oracle.rule, replicates=REPLICATES, seed=seed)
        for seed in EVALUATION_SEEDS
    ]
    null = of_estimates([item.null for item in rounds], None)
    if pool is oracle.pool:
        f = replace(null, oracle=null.value)
        scale = 1 / null.value if null.value > 0 else 1.0
        ratio = Measure(
            value=1.0, low=_times(null.low, scale), high=_times(null.high, scale), oracle=1.0
        )
    else:
        f = _not_negative(of_estimates([item.forgetting for item in rounds], null.value))
        ratio = _not_negative(of_estimates([item.ratio for item in rounds], 1.0))
    ratios = [use[name].value for name in ("retain_ratio", "test_ratio") if name in use]
    if len(ratios) < 2:  # retrained models that get nothing right: there is nothing to compare with
        return {"f": f, "f_ratio": ratio}
    # The accuracies vary far less than F does, so the score's interval is F's.
    factor = math.prod(ratios)
    score = replace(
        f, value=f.value * factor, low=_times(f.low, factor), high=_times(f.high, factor)
    )
    return {"f": f, "f_ratio": ratio, "score": score}


def behind(pool: Pool, best: Pool, oracle: Oracle, factors: tuple[float, float]) -> Measure:
    """Score of a row minus that of the best one, paired over models' draws and subjects.

    Args:
        pool, best: the two rows' models.
        oracle: the retrained models.
        factors: product of the accuracy ratios of each.
    """
    phi_US, phi_NS, subjects_S = _forget(pool, oracle)
    gaps = [
        forgetting_gap(
            phi_US,
            _forget(best, oracle)[0],
            phi_NS,
            subjects_S,
            factors=factors,
            variant=oracle.rule,
            replicates=REPLICATES,
            seed=seed,
        )
        for seed in EVALUATION_SEEDS
    ]
    return of_estimates(gaps, None)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _ulira(pool: Pool, oracle: Oracle, use: Mapping[str, Measure]) -> dict[str, Measure]:
    phi_US, phi_NS, subjects_S = _forget(pool, oracle)
    games = [
        ulira(phi_US, phi_NS, subjects_S, replicates=REPLICATES, seed=seed)
        for seed in EVALUATION_SEEDS
    ]
    return {"ulira_auc": of_comparisons([item.auc for item in games], pool is oracle.pool)}


def _spread(pool: Pool, oracle: Oracle) -> dict[str, Measure]:
    """How far phi lies from the retrained models', and how widely it varies: half the models a
    side, as in F / F_null.

    shift = mean_s |mean phi_U(s) - mean phi_N(s)| / mean_s sd phi_N(s);  ratio = mean_s sd phi_U(s) / mean_s sd phi_N(s).
    Intervals are over subjects.
    """
    phi_US, phi_NS, subjects_S = _forget(pool, oracle)
    half = min(len(phi_US), len(phi_NS) // 2)
    if half < 2:
        return {}
    shifts: list[tuple[Estimate, float]] = []
    ratios: list[tuple[Estimate, float]] = []
    for seed in EVALUATION_SEEDS:
        rng = np.random.default_rng([seed, 93])
        order_N = rng.permutation(len(phi_NS))
        first_HS, other_HS = phi_NS[order_N[:half]], phi_NS[order_N[half : 2 * half]]
        own_HS = other_HS if pool is oracle.pool else phi_US[rng.permutation(len(phi_US))[:half]]
        weight_RS = np.vstack(
            [np.ones(len(subjects_S)), subject_weights(subjects_S, REPLICATES, rng)]
        )
        for found, numerator in ((shifts, _shift), (ratios, _deviation)):
            scale_R = weight_RS @ np.maximum(_deviation(first_HS, first_HS), 1e-12)
            own_R, null_R = (
                weight_RS @ numerator(side, first_HS) / scale_R for side in (own_HS, other_HS)
            )
            low, high = interval(own_R[1:])
            value = float(own_R[0])
            found.append(
                (
                    Estimate(value=value, low=min(low, value), high=max(high, value)),
                    float(null_R[0]),
                )
            )
    return {
        name: of_estimates([own for own, _ in found], float(np.mean([null for _, null in found])))
        for name, found in (("phi_shift", shifts), ("phi_sd", ratios))
    }


def _shift(own_HS: Array, first_HS: Array) -> Array:
    return np.asarray(abs(own_HS.mean(axis=0) - first_HS.mean(axis=0)))


def _deviation(own_HS: Array, first_HS: Array) -> Array:
    return np.asarray(own_HS.std(axis=0, ddof=1))


def _forget(pool: Pool, oracle: Oracle) -> tuple[Array, Array, NDArray[np.int64]]:
    truth = pool.truths.forget
    where = _part(truth, MAX_FORGET)
    return (
        pool.margin("forget")[:, where],
        oracle.pool.margin("forget")[:, where],
        truth.subject_N[where],
    )


def _klom(pool: Pool, oracle: Oracle, use: Mapping[str, Measure]) -> dict[str, Measure]:
    measures = {}
    for part in ("forget", "validation", "retain"):
        truth: Truth = getattr(pool.truths, part)
        where = _part(truth)
        ours, theirs = pool.margin(part)[:, where], oracle.pool.margin(part)[:, where]
        rounds = [
            klom(ours, theirs, truth.subject_N[where], replicates=REPLICATES, seed=seed).mean
            for seed in EVALUATION_SEEDS
        ]
        measures[f"klom_{part}"] = of_comparisons(rounds, pool is oracle.pool)
    return measures


def _years(pool: Pool, oracle: Oracle, use: Mapping[str, Measure]) -> dict[str, Measure]:
    measures = {}
    for part in ("forget", "test") if has_ages(pool) else ():
        truth: Truth = getattr(pool.truths, part)
        where = _part(truth)
        ours, theirs = pool.age(part)[:, where], oracle.pool.age(part)[:, where]
        rounds = [
            years_from_oracle(
                ours, theirs, truth.subject_N[where], replicates=REPLICATES, seed=seed
            )
            for seed in EVALUATION_SEEDS
        ]
        measures[f"distance_{part}"] = of_comparisons(rounds, pool is oracle.pool)
    return measures


def _part(truth: Truth, most: int = MAX_SAMPLES) -> NDArray[np.int64]:
    """Positions of all samples, or of a random part of them where there are many."""
    if len(truth) <= most:
        return np.arange(len(truth))
    return np.sort(np.random.default_rng(92).permutation(len(truth))[:most])


DISTRIBUTIONS: dict[
    Callable[[Pool, Oracle, Mapping[str, Measure]], dict[str, Measure]], tuple[str, ...]
] = {
    _challenge: ("f", "f_ratio", "score"),
    _ulira: ("ulira_auc",),
    _klom: ("klom_forget", "klom_validation", "klom_retain"),
    _years: ("distance_forget", "distance_test"),
}
"""What needs several models, and the numbers that it gives."""
