"""KLoM: how far the distribution of a margin over unlearned models is from that over retrained
ones, sample by sample.

Shapes: U unlearned models, N retrained models, H models a side, S samples, B bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .half_samples import draw_halves, estimate, weighted_p95
from .population import PopulationComparison, comparison

Array = NDArray[np.float64]

BINS = 20
CLIP = 50.0
"""Margins beyond it (a probability within e^-50 of 0 or 1) are all alike; one of them would stretch
every bin.
"""
PRIOR = 1.0
"""Models spread evenly over the bins before the real ones are counted, so that an empty bin does
not make KL infinite.
"""


@dataclass(frozen=True, kw_only=True)
class Klom:
    """Nats. In each, `oracle` is the null: retrained models against other retrained models, as many
    a side.

    The plug-in KL of equal populations is not 0 (histograms of few models differ), so read a value
    beside its null. With 16 models a side a shift of one standard deviation is seen in 40 samples;
    with 4 it takes two.

    Args:
        mean: over samples.
        p95: 95th percentile over samples.
        per_side: models a side in every histogram.
    """

    mean: PopulationComparison
    p95: PopulationComparison
    per_side: int


def klom(
    phi_unlearned_US: Array,
    phi_retrained_NS: Array,
    subjects_S: NDArray[np.int64] | None = None,
    *,
    replicates: int = 200,
    seed: int = 0,
) -> Klom:
    """KLoM on one set; call it for the forget, the retain and the validation set.

    Args:
        phi_unlearned_US, phi_retrained_NS: `stats.confidence`; at least 2 and 4 models.
        subjects_S: whole subjects are resampled, with halves of the models (see `draw_halves`).
        replicates: draws of halves; the values are means over them.
        seed: of the draws.

    Raises:
        InputError: too few models, shapes that do not agree, or values that are not finite.

    Reference:
        Georgiev et al., Attribute-to-Delete: Machine Unlearning via Datamodel Matching, 2024,
        section 2 (KL divergence of margins). Bins, clipping and smoothing are this module's: 20
        equal bins over the pooled range, margins clipped at +-50, one model's weight spread over
        the bins.
    """
    draws = draw_halves(
        divergence, phi_unlearned_US, phi_retrained_NS, subjects_S, draws=replicates, seed=seed
    )
    models, oracle_models = len(phi_unlearned_US), len(phi_retrained_NS)
    p95 = PopulationComparison(
        unlearned=estimate(draws.own_DS, draws.weight_DS, weighted_p95),
        oracle=estimate(draws.null_DS, draws.weight_DS, weighted_p95),
        models=models,
        oracle_models=oracle_models,
        samples=phi_retrained_NS.shape[1],
    )
    return Klom(mean=comparison(draws, models, oracle_models), p95=p95, per_side=draws.per_side)


def divergence(own_HS: Array, oracle_HS: Array) -> Array:
    """KL(oracle || own) of the margins' histograms, each sample (S,), nats."""
    own_HS, oracle_HS = np.clip(own_HS, -CLIP, CLIP), np.clip(oracle_HS, -CLIP, CLIP)
    low_S = np.minimum(own_HS.min(axis=0), oracle_HS.min(axis=0))
    width_S = np.maximum(own_HS.max(axis=0), oracle_HS.max(axis=0)) - low_S
    own_SB, oracle_SB = (
        _histogram(item, low_S, np.where(width_S > 0, width_S, 1.0)) for item in (own_HS, oracle_HS)
    )
    return np.asarray((oracle_SB * np.log(oracle_SB / own_SB)).sum(axis=1), np.float64)


def _histogram(phi_HS: Array, low_S: Array, width_S: Array) -> Array:
    models, samples = phi_HS.shape
    bin_HS = (
        np.minimum((phi_HS - low_S) / width_S * BINS, BINS - 1).astype(np.int64)
        + np.arange(samples) * BINS
    )
    count_SB = np.bincount(bin_HS.ravel(), minlength=samples * BINS).reshape(samples, BINS)
    return np.asarray((count_SB + PRIOR / BINS) / (models + PRIOR), np.float64)


def years_from_oracle(
    age_unlearned_US: Array,
    age_retrained_NS: Array,
    subjects_S: NDArray[np.int64] | None = None,
    *,
    replicates: int = 200,
    seed: int = 0,
) -> PopulationComparison:
    """Mean over models and samples of |E[age] - the retrained models' mean E[age]|, in years.

    The mean is over half of the retrained models; `oracle` is the distance of the other half from
    it, so 0 is out of reach.

    Args:
        age_unlearned_US, age_retrained_NS: expected ages in years; at least 2 and 4 models.
        subjects_S, replicates, seed: as for `klom`.

    Raises:
        InputError: too few models, shapes that do not agree, or data without ages.
    """
    draws = draw_halves(
        _years, age_unlearned_US, age_retrained_NS, subjects_S, draws=replicates, seed=seed
    )
    return comparison(draws, len(age_unlearned_US), len(age_retrained_NS))


def _years(own_HS: Array, oracle_HS: Array) -> Array:
    return np.asarray(np.abs(own_HS - oracle_HS.mean(axis=0)).mean(axis=0), np.float64)
