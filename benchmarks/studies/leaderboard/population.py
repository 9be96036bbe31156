"""Games over many models: online LiRA, population LiRA and RMIA of a whole population, each beside
the oracle's own value.

Shapes: U unlearned models, N retrained models, M shadow models, S samples, P pairs of models, R
    replicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from unplug.core import InputError
from unplug.sdk.evidence.auditing import ATTACKS, Signals, check_different
from unplug.sdk.evidence.statistics import (
    Estimate,
    Resamples,
    auc,
    bootstrap_auc,
    drawn_again,
    interval,
    resamples,
)

from .half_samples import Draws, draw_halves, estimate, weighted_mean

Array = NDArray[np.float64]

ENOUGH = 64  # models from which on each sample has a variance of its own (LiRA, section V.B)
PARTNERS = 8  # models of the other side that each model meets; all pairs add cost and little else
TINY = 1e-12  # variance of models that all say the same


@dataclass(frozen=True, kw_only=True)
class PopulationComparison:
    """A statistic of the unlearned models beside the same statistic of the retrained ones.

    Args:
        unlearned, oracle: with intervals.
        models, oracle_models, samples: counts.
        original: of the model before forgetting; None where none was given.
    """

    unlearned: Estimate
    oracle: Estimate
    models: int
    oracle_models: int
    samples: int
    original: Estimate | None = None


@dataclass(frozen=True, kw_only=True)
class ULira:
    """Telling unlearned from retrained models, mean over samples; .5 where they cannot be told
    apart.

    Args:
        auc, accuracy: area under the ROC and balanced accuracy on models held out; `oracle`:
            retrained from other retrained.
        per_side: models a side in each game.
    """

    auc: PopulationComparison
    accuracy: PopulationComparison
    per_side: int


def lira_online(phi_target_S: Array, phi_in_MS: Array, phi_out_MS: Array) -> Array:
    """log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out) of each sample (S,); higher means "was a
    member".

    Args:
        phi_target_S: `stats.confidence` of the target.
        phi_in_MS: of models trained with each sample; NaN where a model was not.
        phi_out_MS: of models trained without it; NaN where a model was.

    Raises:
        InputError: a sample with fewer than two models on a side.

    Reference:
        Carlini et al., Membership Inference Attacks From First Principles, 2022, algorithm 1. With
        under 64 models on a side the variance of a side is shared by all samples (section V.B).
    """
    sides = []
    for phi_MS in (phi_in_MS, phi_out_MS):
        count_S = np.isfinite(phi_MS).sum(axis=0)
        if count_S.size == 0 or count_S.min() < 2:
            raise InputError(
                "attack lira",
                "a sample has fewer than two models on a side",
                "Train more shadow models",
            )
        variance_S = np.nanvar(phi_MS, axis=0, ddof=1)
        if count_S.min() < ENOUGH:
            variance_S = np.full_like(variance_S, variance_S.mean())
        scale_S = np.sqrt(np.maximum(variance_S, TINY))
        sides.append(norm.logpdf(phi_target_S, np.nanmean(phi_MS, axis=0), scale_S))
    return np.asarray(sides[0] - sides[1], np.float64)


def ulira(
    phi_unlearned_US: Array,
    phi_never_NS: Array,
    subjects_S: NDArray[np.int64] | None = None,
    *,
    replicates: int = 200,
    seed: int = 0,
) -> ULira:
    """Population LiRA: P = N(phi; mu_unl, s_unl) / (N(phi; mu_unl, s_unl) + N(phi; mu_never,
    s_never)), on held-out pairs.

    The Gaussian test of U-LiRA on another game. Theirs trains shadow models on random halves of the
    data, unlearns random forget sets from each, and asks of one sample whether a model unlearned it
    or never saw it: a mean over requests and training sets. Ours has one request: unlearned models
    of K originals against models retrained on the same retain set.

    One unlearned and one retrained model are left out together and both are judged by Gaussians
    fitted to the others. Leaving out one model at a time pulls the fit away from it, which puts the
    AUC of equal populations below .5.

    Args:
        phi_unlearned_US, phi_never_NS: `stats.confidence`; at least 6 models each.
        subjects_S: whole subjects are resampled, with halves of the models (see `draw_halves`).
        replicates: draws of halves.
        seed: of the draws.

    Raises:
        InputError: too few models, shapes that do not agree, or values that are not finite.

    Reference:
        Hayes et al., Inexact Unlearning Needs More Careful Evaluations, 2024, algorithm 1. Airola
        et al., An experimental comparison of cross-validation techniques for estimating AUC, 2011
        (leave-pair-out).
    """
    if min(len(phi_unlearned_US), len(phi_never_NS)) < 6:
        raise InputError(
            "attack population-lira",
            "it needs 6 unlearned and 6 retrained models",
            "Train more models",
        )
    check_different("retrained models", list(phi_never_NS))
    draws = draw_halves(
        held_out_pairs, phi_unlearned_US, phi_never_NS, subjects_S, draws=replicates, seed=seed
    )
    samples = phi_never_NS.shape[1]

    def compare(part: slice) -> PopulationComparison:
        own, null = draws.own_DS[:, part], draws.null_DS[:, part]
        return comparison(
            Draws(own_DS=own, null_DS=null, weight_DS=draws.weight_DS, per_side=draws.per_side),
            len(phi_unlearned_US),
            len(phi_never_NS),
        )

    return ULira(
        auc=compare(slice(samples)), accuracy=compare(slice(samples, None)), per_side=draws.per_side
    )


def comparison(draws: Draws, models: int, oracle_models: int) -> PopulationComparison:
    """The mean over samples of both sides of `draw_halves`."""
    return PopulationComparison(
        unlearned=estimate(draws.own_DS, draws.weight_DS, weighted_mean),
        oracle=estimate(draws.null_DS, draws.weight_DS, weighted_mean),
        models=models,
        oracle_models=oracle_models,
        samples=draws.weight_DS.shape[1],
    )


def held_out_pairs(own_HS: Array, other_HS: Array) -> Array:
    """AUC of each sample, then balanced accuracy of each sample (2 S,), over pairs of held-out
    models; H at least 3 a side.
    """
    count = len(own_HS)
    turns = range(min(count, PARTNERS))
    own_mean_HS, own_variance_HS = _left_out(own_HS)
    mean_HS, variance_HS = _left_out(other_HS)
    wins, right = np.zeros(own_HS.shape[1]), np.zeros(own_HS.shape[1])
    for turn in turns:
        partner = np.roll(np.arange(count), turn)
        fits = (own_mean_HS, own_variance_HS, mean_HS[partner], variance_HS[partner])
        own_score_HS, other_score_HS = _log_odds(own_HS, *fits), _log_odds(other_HS[partner], *fits)
        wins += ((own_score_HS > other_score_HS) + 0.5 * (own_score_HS == other_score_HS)).sum(
            axis=0
        )
        right += ((own_score_HS > 0).mean(axis=0) + (other_score_HS <= 0).mean(axis=0)) * count / 2
    return np.concatenate([wins, right]) / (count * len(turns))


def _left_out(phi_HS: Array) -> tuple[Array, Array]:
    """Mean and variance of all models but each one."""
    count = len(phi_HS)
    gap_HS = phi_HS - phi_HS.mean(axis=0)
    mean_HS = phi_HS.mean(axis=0) - gap_HS / (count - 1)
    squares_HS = (gap_HS**2).sum(axis=0) - gap_HS**2 * count / (count - 1)
    variance_HS = np.maximum(squares_HS / (count - 2), TINY)
    if count <= ENOUGH:
        variance_HS = np.broadcast_to(variance_HS.mean(axis=1, keepdims=True), variance_HS.shape)
    return mean_HS, variance_HS


def _log_odds(
    phi_HS: Array, own_mean: Array, own_variance: Array, mean: Array, variance: Array
) -> Array:
    own = -((phi_HS - own_mean) ** 2) / own_variance - np.log(own_variance)
    return np.asarray((own + (phi_HS - mean) ** 2 / variance + np.log(variance)) / 2, np.float64)


def rmia_population(
    unlearned: Sequence[Signals],
    retrained: Sequence[Signals],
    forget_subjects_F: NDArray[np.int64],
    unseen_subjects_U: NDArray[np.int64],
    *,
    original: Sequence[Signals] = (),
    replicates: int = 200,
    seed: int = 0,
) -> PopulationComparison:
    """Mean RMIA AUC over models, forget against unseen, each with N - 1 of the retrained models as
    references.

    The oracle's value is that of each retrained model against the N - 1 others; unlearned model u
    leaves out number u mod N, so that both have as many references. Intervals resample targets and
    subjects, not references.

    Raises:
        InputError: no unlearned model, or fewer than 3 retrained ones.
    """
    if not unlearned or len(retrained) < 3:
        raise InputError(
            "attack rmia",
            f"{len(unlearned)} unlearned and {len(retrained)} retrained models",
            "Give at least 1 and 3",
        )
    draws = resamples(forget_subjects_F, unseen_subjects_U, replicates=replicates, seed=seed)
    return PopulationComparison(
        unlearned=_mean_auc(unlearned, retrained, draws, seed),
        oracle=_mean_auc(retrained, retrained, draws, seed),
        original=_mean_auc(original, retrained, draws, seed) if original else None,
        models=len(unlearned),
        oracle_models=len(retrained),
        samples=len(forget_subjects_F),
    )


def _mean_auc(
    targets: Sequence[Signals], retrained: Sequence[Signals], draws: Resamples, seed: int
) -> Estimate:
    values, replicates = [], []
    for number, target in enumerate(targets):
        references = [
            item for index, item in enumerate(retrained) if index != number % len(retrained)
        ]
        scores = ATTACKS.get("rmia")()(target, references)
        values.append(auc(*scores))
        replicates.append(bootstrap_auc(*scores, draws))
    value_TR = np.stack(replicates)
    count, size = value_TR.shape
    weight_TR = drawn_again(count, size, np.random.default_rng([seed, 31])).T
    low, high = interval((value_TR * weight_TR).sum(axis=0) / count)
    return Estimate(value=float(np.mean(values)), low=low, high=high)
