"""Membership attacks on every model of a row, on the same samples and folds for every row.

The forget set meets unseen samples of the same groups or classes. Shapes: M models, F forget, U
unseen, E evaluation seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.evidence.statistics import (
    NotGiven,
    Resamples,
    auc,
    bootstrap_auc,
    logistic_accuracy,
    resamples,
)
from unplug.sdk.learning.training import ClassPredictions

from .challenge_metric import Variant
from .intervals import (
    Mean,
    absolute,
    as_measure,
    cluster_mean,
    difference,
    of_comparisons,
    over_seeds,
)
from .plan import EVALUATION_SEEDS
from .pool import Pool
from .population import PopulationComparison, rmia_population
from .report import Measure

Array = NDArray[np.float64]
Index = NDArray[np.int64]
FOLDS = 10
REPLICATES = 34
"""Draws per interval and evaluation seed; the limits of three seeds are averaged."""
MIN_RMIA = 3  # retrained models: a target and two references
MAX_RMIA = 16
"""Models per side in RMIA: its interval is made by far of the samples, and every model is attacked
with all others.
"""
NAMES = ("loss_auc", "logistic_accuracy", "attack_distance", "nomus", "rmia_auc")


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which samples meet in an attack.

    Args:
        forget: positions in the forget set; samples of groups that nobody unseen belongs to are
            left out.
        unseen: positions in the test set, with the forget set's shares of groups.
    """

    forget: Index
    unseen: Index

    @property
    def enough(self) -> bool:
        """Whether ten folds have a sample of each side."""
        return min(len(self.forget), len(self.unseen)) >= FOLDS


def match(forget_group_F: Index, unseen_group_U: Index, *, seed: int) -> Match:
    """Draws the largest part of the unseen samples that has the forget set's group proportions.

    n = min_g count_U(g) / share_F(g); of each group round(n share_F(g)) unseen samples are drawn.
    Without this a forget set of children would be told from unseen adults by the age alone.

    Example:
        >>> found = match(np.array([0, 0, 1]), np.array([0, 0, 1, 1, 1, 2]), seed=0)
        >>> found.unseen[:2].tolist(), len(found.unseen)
        ([0, 1], 3)
    """
    there = np.isin(forget_group_F, unseen_group_U)
    forget = np.flatnonzero(there).astype(np.int64)
    groups, counts = np.unique(forget_group_F[there], return_counts=True)
    rng = np.random.default_rng([seed, 90])
    pools = [np.flatnonzero(unseen_group_U == group) for group in groups]
    shares = counts / max(1, counts.sum())
    size = min((len(pool) / share for pool, share in zip(pools, shares, strict=True)), default=0.0)
    drawn = [
        np.sort(rng.permutation(pool)[: round(size * share)])
        for pool, share in zip(pools, shares, strict=True)
    ]
    unseen = np.concatenate(drawn).astype(np.int64) if drawn else np.zeros(0, np.int64)
    return Match(forget=forget, unseen=unseen)


def nomus(accuracy: float, attack: float) -> float:
    """NoMUS = accuracy / 2 + (1 - 2 |attack - 1/2|) / 2.

    Example:
        >>> nomus(0.4, 0.5)
        0.7

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities,
        2023, section 4.
    """
    return accuracy / 2 + (1 - 2 * abs(attack - 0.5)) / 2


@dataclass(frozen=True)
class Oracle:
    """The retrained models, and what every row compares with.

    Args:
        pool: at least two models.
        rule: how F finds its windows, see `challenge_metric.epsilons`.
    """

    pool: Pool
    rule: Variant = "code"

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """One draw of matching unseen samples per evaluation seed."""
        truths = self.pool.truths
        return tuple(
            match(truths.forget.group_N, truths.test.group_N, seed=seed)
            for seed in EVALUATION_SEEDS
        )

    @cached_property
    def accuracies(self) -> list[Array]:
        """Of the loss attack on the retrained models, see `accuracies`."""
        return accuracies(self.pool, self.matches)

    @cached_property
    def auc(self) -> tuple[Mean, float]:
        """Mean loss AUC of the retrained models, and its spread."""
        return loss_auc(self.pool, self.matches)


def membership(pool: Pool, oracle: Oracle) -> tuple[dict[str, Measure], dict[str, str]]:
    """The numbers of `NAMES`, and why those are missing that are."""
    if not all(item.enough for item in oracle.matches):
        return {}, dict.fromkeys(
            NAMES, "fewer than ten forget samples, or unseen samples of their groups"
        )
    area, spread = oracle.auc if pool is oracle.pool else loss_auc(pool, oracle.matches)
    measures = {
        "loss_auc": as_measure(area, oracle.auc[0].value, spread),
        **_attack_numbers(pool, oracle),
    }
    if len(oracle.pool) < MIN_RMIA:
        return measures, {"rmia_auc": f"fewer than {MIN_RMIA} retrained models"}
    return measures | {"rmia_auc": _rmia(pool, oracle)}, {}


def loss_auc(pool: Pool, matches: tuple[Match, ...]) -> tuple[Mean, float]:
    """Mean AUC of the loss over models; its variance is that between originals plus that of
    resampling subjects.
    """
    means = []
    for seed, item in zip(EVALUATION_SEEDS, matches, strict=True):
        forget, test = pool.truths.forget, pool.truths.test
        draws = resamples(
            forget.subject_N[item.forget],
            test.subject_N[item.unseen],
            replicates=REPLICATES,
            seed=seed,
        )
        scores = [_scores(own, item) for own in pool.says]
        means_R = np.mean([bootstrap_auc(*pair, draws) for pair in scores], axis=0)
        values_M = np.array([auc(*pair) for pair in scores])
        means.append(
            cluster_mean(values_M, pool.clusters).plus_variance(float(means_R.var(ddof=1)))
        )
    return over_seeds(means)


def two_versions(pool: Pool, before: Pool, oracle: Oracle) -> Measure:
    """AUC of phi(original) - phi(model), forget against unseen samples; retrained models meet the
    originals in their order.
    """
    ours = [_falls(pool, before, item) for item in oracle.matches]
    theirs = [_falls(oracle.pool, before, item) for item in oracle.matches]
    mean, spread = over_seeds([cluster_mean(values, pool.clusters) for values in ours])
    return as_measure(mean, float(np.mean(theirs)), spread)


def _falls(pool: Pool, before: Pool, item: Match) -> Array:
    found = []
    for number, (own, cluster) in enumerate(zip(pool.says, pool.clusters, strict=True)):
        old = before.says[
            before.clusters.index(cluster) if cluster in before.clusters else number % len(before)
        ]
        falls = [old[part].confidence_N - own[part].confidence_N for part in ("forget", "test")]
        found.append(auc(falls[0][item.forget], falls[1][item.unseen]))
    return np.array(found)


def accuracies(pool: Pool, matches: tuple[Match, ...]) -> list[Array]:
    """Accuracy of the logistic attack on the loss (M,), per evaluation seed (folds, and draw of the
    unseen samples).
    """
    return [
        np.array([_accuracy(*_scores(own, item), seed) for own in pool.says])
        for seed, item in zip(EVALUATION_SEEDS, matches, strict=True)
    ]


def _accuracy(forget_F: Array, unseen_U: Array, seed: int) -> float:
    # Intervals come from the models here, so nothing is resampled: every sample weighs once.
    once = Resamples(
        forget_RF=np.ones((1, len(forget_F)), np.float32),
        unseen_RU=np.ones((1, len(unseen_U)), np.float32),
    )
    attack = logistic_accuracy(-forget_F, -unseen_U, once, seed=seed)
    assert not isinstance(attack, NotGiven)  # `Match.enough` has counted the samples
    return attack.value


def _attack_numbers(pool: Pool, oracle: Oracle) -> dict[str, Measure]:
    same = pool is oracle.pool
    accuracy_EM = oracle.accuracies if same else accuracies(pool, oracle.matches)
    mean, spread = _attack(accuracy_EM, pool)
    theirs, _ = _attack(oracle.accuracies, oracle.pool)
    gap = replace(theirs, value=0.0) if same else difference(mean, theirs)
    low, high = (None, None) if gap.interval is None else absolute(*gap.interval)
    both, both_spread = _nomus(accuracy_EM, pool)
    return {
        "logistic_accuracy": as_measure(mean, theirs.value, spread),
        "attack_distance": Measure(
            value=abs(gap.value), low=low, high=high, oracle=0.0, spread=spread
        ),
        "nomus": as_measure(both, _nomus(oracle.accuracies, oracle.pool)[0].value, both_spread),
    }


def _attack(accuracy_EM: Sequence[Array], pool: Pool) -> tuple[Mean, float]:
    return over_seeds([cluster_mean(values, pool.clusters) for values in accuracy_EM])


def _nomus(accuracy_EM: Sequence[Array], pool: Pool) -> tuple[Mean, float]:
    use_M = pool.per_model("test_accuracy")
    scores_EM = [
        [nomus(use, attack) for use, attack in zip(use_M, values, strict=True)]
        for values in accuracy_EM
    ]
    return over_seeds([cluster_mean(scores, pool.clusters) for scores in scores_EM])


def _rmia(pool: Pool, oracle: Oracle) -> Measure:
    forget, test = pool.truths.forget, pool.truths.test
    found: list[PopulationComparison] = []
    for seed, item in zip(EVALUATION_SEEDS, oracle.matches, strict=True):
        found.append(
            rmia_population(
                pool.signals(item.forget, item.unseen)[:MAX_RMIA],
                oracle.pool.signals(item.forget, item.unseen)[:MAX_RMIA],
                forget.subject_N[item.forget],
                test.subject_N[item.unseen],
                replicates=REPLICATES,
                seed=seed,
            )
        )
    return of_comparisons(found, pool is oracle.pool)


def _scores(own: dict[str, ClassPredictions], item: Match) -> tuple[Array, Array]:
    return own["forget"].log_prob_N[item.forget], own["test"].log_prob_N[item.unseen]
