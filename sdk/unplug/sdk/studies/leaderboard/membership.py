"""Membership attacks on every model of a row, on the same samples and folds for every row.

Shapes: M models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.auditing import Comparison, Variant, rmia_population
from unplug.sdk.statistics import Estimate, Refused, Resamples, auc, bootstrap_auc, logistic_accuracy, resamples
from unplug.sdk.training import Predictions

from .attacks import Match, match, nomus
from .clusters import Mean, absolute, cluster_mean, difference
from .plan import EVALUATION_SEEDS
from .pool import Pool
from .report import Measure

Array = NDArray[np.float64]
REPLICATES = 34
"""Draws per interval and evaluation seed; the limits of three seeds are averaged."""
MIN_RMIA = 3  # retrained models: a target and two references
MAX_RMIA = 16
"""Models per side in RMIA: its interval is made by far of the samples, and every model is attacked with all others."""
NAMES = ("loss_auc", "logistic_accuracy", "attack_distance", "nomus", "rmia_auc")


@dataclass(frozen=True)
class Oracle:
    """The retrained models, and what every row compares with.

    Args:
        pool: at least two models.
        rule: how F finds its windows, see `unplug.sdk.auditing.challenge_metric`.
    """

    pool: Pool
    rule: Variant = "code"

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """One draw of matching unseen samples per evaluation seed."""
        truths = self.pool.truths
        return tuple(match(truths.forget.group_N, truths.test.group_N, seed=seed) for seed in EVALUATION_SEEDS)

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
        return {}, dict.fromkeys(NAMES, "fewer than ten forget samples, or unseen samples of their groups")
    area, spread = oracle.auc if pool is oracle.pool else loss_auc(pool, oracle.matches)
    found = {"loss_auc": as_measure(area, oracle.auc[0].value, spread), **_attack_numbers(pool, oracle)}
    if len(oracle.pool) < MIN_RMIA:
        return found, {"rmia_auc": f"fewer than {MIN_RMIA} retrained models"}
    return found | {"rmia_auc": _rmia(pool, oracle)}, {}


def as_measure(mean: Mean, oracle: float | None, spread: float | None = None) -> Measure:
    """A mean over models as a number of the report."""
    low, high = mean.interval or (None, None)
    return Measure(value=mean.value, low=low, high=high, oracle=oracle, spread=spread)


def loss_auc(pool: Pool, matches: tuple[Match, ...]) -> tuple[Mean, float]:
    """Mean AUC of the loss over models; its variance is that between originals plus that of resampling subjects."""
    means = []
    for seed, item in zip(EVALUATION_SEEDS, matches, strict=True):
        forget, test = pool.truths.forget, pool.truths.test
        draws = resamples(forget.subject_N[item.forget], test.subject_N[item.unseen], replicates=REPLICATES, seed=seed)
        scores = [_scores(own, item) for own in pool.says]
        means_R = np.mean([bootstrap_auc(*pair, draws) for pair in scores], axis=0)
        values_M = np.array([auc(*pair) for pair in scores])
        means.append(cluster_mean(values_M, pool.clusters).plus_variance(float(means_R.var(ddof=1))))
    return over_seeds(means)


def accuracies(pool: Pool, matches: tuple[Match, ...]) -> list[Array]:
    """Accuracy of the logistic attack on the loss (M,), per evaluation seed (folds, and draw of the unseen samples)."""
    return [
        np.array([_accuracy(*_scores(own, item), seed) for own in pool.says])
        for seed, item in zip(EVALUATION_SEEDS, matches, strict=True)
    ]


def _accuracy(forget_F: Array, unseen_U: Array, seed: int) -> float:
    # Intervals come from the models here, so nothing is resampled: every sample weighs once.
    once = Resamples(forget_RF=np.ones((1, len(forget_F)), np.float32), unseen_RU=np.ones((1, len(unseen_U)), np.float32))
    found = logistic_accuracy(-forget_F, -unseen_U, once, seed=seed)
    assert not isinstance(found, Refused)  # `Match.enough` has counted the samples
    return found.value


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
        "attack_distance": Measure(value=abs(gap.value), low=low, high=high, oracle=0.0, spread=spread),
        "nomus": as_measure(both, _nomus(oracle.accuracies, oracle.pool)[0].value, both_spread),
    }


def _attack(accuracy_EM: Sequence[Array], pool: Pool) -> tuple[Mean, float]:
    return over_seeds([cluster_mean(values, pool.clusters) for values in accuracy_EM])


def _nomus(accuracy_EM: Sequence[Array], pool: Pool) -> tuple[Mean, float]:
    use_M = pool.per_model("test_accuracy")
    scores_EM = [[nomus(use, attack) for use, attack in zip(use_M, values, strict=True)] for values in accuracy_EM]
    return over_seeds([cluster_mean(scores, pool.clusters) for scores in scores_EM])


def _rmia(pool: Pool, oracle: Oracle) -> Measure:
    forget, test = pool.truths.forget, pool.truths.test
    found: list[Comparison] = []
    for seed, item in zip(EVALUATION_SEEDS, oracle.matches, strict=True):
        found.append(
            rmia_population(
                pool.signals(item.forget, item.unseen)[:MAX_RMIA], oracle.pool.signals(item.forget, item.unseen)[:MAX_RMIA],
                forget.subject_N[item.forget], test.subject_N[item.unseen], replicates=REPLICATES, seed=seed,
            )
        )  # fmt: skip
    return of_comparisons(found, pool is oracle.pool)


def over_seeds(means: Sequence[Mean]) -> tuple[Mean, float]:
    """Mean over evaluation seeds, with the variance of a single one (they share the models), and the spread between them."""
    values = [item.value for item in means]
    variances = [item.variance for item in means if item.variance is not None]
    variance = float(np.mean(variances)) if len(variances) == len(means) else None
    return replace(means[0], value=float(np.mean(values)), variance=variance), float(np.std(values, ddof=1))


def of_estimates(found: Sequence[Estimate], oracle: float | None) -> Measure:
    """The mean of estimates of several evaluation seeds, of their limits too; the spread is between them."""
    values = [item.value for item in found]
    lows = [item.low for item in found if item.low is not None]
    highs = [item.high for item in found if item.high is not None]
    return Measure(
        value=float(np.mean(values)),
        low=float(np.mean(lows)) if len(lows) == len(found) else None,
        high=float(np.mean(highs)) if len(highs) == len(found) else None,
        oracle=oracle,
        spread=float(np.std(values, ddof=1)) if len(found) > 1 else None,
    )


def of_comparisons(found: Sequence[Comparison], oracle_row: bool) -> Measure:
    """The unlearned side of comparisons with the oracle's beside it; of the oracle's own row, the oracle's side."""
    theirs = float(np.mean([item.oracle.value for item in found]))
    return of_estimates([item.oracle if oracle_row else item.unlearned for item in found], theirs)


def _scores(own: dict[str, Predictions], item: Match) -> tuple[Array, Array]:
    return own["forget"].log_prob_N[item.forget], own["test"].log_prob_N[item.unseen]
