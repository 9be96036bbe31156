"""Many requests of a few people, pooled: what is left of those whom a method forgot, compared with
models that never saw them.

Shapes: M requests of n people, K = M n people, Q rounds of references (one model of each never saw
    a given person),
S statistics, B bootstrap replicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import STRICT
from unplug.sdk.evidence.statistics import CONFIDENCE, Estimate, drawn_again, simultaneous

from .attack import Array

NAMES = ("confidence", "error", "task loss")
"""S statistics of a person, mean over her pictures less the model's mean over the test set; higher
is better known.
"""
REPLICATES = 1000
DRAWS = 200
"""Draws of references in the place of the unlearned models: how often an exact method would have
passed.
"""
Verdict = Literal["certified", "refused", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Leak:
    """What one statistic gives away of the people whom M forget steps forgot.

    Args:
        auc: P(her number > that of a model that never saw her) + half the ties, less .5: 0 is a
            model that never saw her. The interval holds for all statistics at once.
        before: the same of the original, which nothing was done to.
        shift: mean of her number less those of models that never saw her, in their standard
            deviations.
        spread: standard deviation of that gap over what it is for one more of those models: 1 is
            right.
    """

    auc: Estimate
    before: Estimate
    shift: Estimate
    spread: Estimate


@dataclass(frozen=True, kw_only=True)
class Certification:
    """``unplug-certification/1``: what a method leaves at n people, on one original.

    Args:
        original_sha256, references_sha256, data_digest: the original, references and data that it
            is about.
        method, settings, budget: the settings of every forget step.
        people, requests: n and M.
        samples: pictures of the surrogates, on average a request.
        like: whether they were drawn to resemble the people of a request, by age.
        rounds: Q.
        leaks: the leaks by statistic.
        removed: the largest over statistics of before less after, where before shows anything: what
            the step did, in AUC.
        margin: both ends of each interval of `leaks` must be within it.
        exact_passes: share of draws in which models that never saw them pass in the place of the
            unlearned ones.
        test_error, retain_error: the unlearned models' errors over the original's, a ratio.
        compute: the compute of a forget step, as a fraction of retraining.
        seconds: the seconds of all forget steps.
        device: the device that they ran on.
        verdict, why: the verdict and its reason.
        seed: the seed of everything random.
    """

    __pydantic_config__: ClassVar = STRICT

    original_sha256: str
    references_sha256: str
    data_digest: str
    method: str
    settings: dict[str, Any]
    budget: float
    people: int
    requests: int
    samples: float
    like: bool
    rounds: int
    leaks: dict[str, Leak]
    removed: Estimate
    margin: float
    exact_passes: float
    test_error: Estimate
    retain_error: Estimate
    compute: float
    seconds: float
    device: str
    verdict: Verdict
    why: str
    seed: int
    versions: dict[str, str | None]
    schema: Literal["unplug-certification/1"] = "unplug-certification/1"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What pooled requests say."""

    leaks: dict[str, Leak]
    removed: Estimate
    verdict: Verdict
    why: str


def judge(
    own_KS: Array,
    before_KS: Array,
    never_KQS: Array,
    use_KQ: NDArray[np.bool_],
    people: int,
    margin: float,
    seed: int = 0,
    replicates: int = REPLICATES,
) -> Judged:
    """The leak of each statistic and the verdict.

        auc = mean over k, q of ( [x_k > y_kq] + [x_k = y_kq] / 2 ) - 1/2

    over the pairs that may be used. Requests (with all of their people) and rounds are drawn with
    replacement at once, since the people of one request share a model, and one round's models serve
    all. Certified where both ends of every interval are within the margin *and* the step took away,
    significantly, what the original showed; an original that shows nothing, and evidence that does
    not decide, are inconclusive.

    Args:
        own_KS: the unlearned models' numbers of the people they forgot, those of a request
            together.
        before_KS: the original's.
        never_KQS: statistics of models that never saw them.
        use_KQ: True for those that no person was fitted to.
        people: n, of a request.
        margin: see `Certification`.
        seed: the seed of the bootstrap.
        replicates: B.

    Reference:
        Schuirmann, A Comparison of the Two One-Sided Tests Procedure, 1987 (equivalence); Owen, The
        Pigeonhole Bootstrap, 2007 (resampling two crossed factors, which is conservative).
    """
    after, shown, removed = _gaps(
        own_KS, before_KS, never_KQS, use_KQ, _weights(never_KQS, people, replicates, seed)
    )
    leaks = {}
    for column, name in enumerate(after):
        shift, spread = _moments(own_KS[:, column], never_KQS[:, :, column], use_KQ, people, seed)
        leaks[name] = Leak(auc=after[name], before=shown[name], shift=shift, spread=spread)
    verdict, why = _verdict(after, shown, removed, margin)
    return Judged(leaks=leaks, removed=removed, verdict=verdict, why=why)


def _gaps(
    own_KS: Array,
    before_KS: Array,
    never_KQS: Array,
    use_KQ: NDArray[np.bool_],
    weights: tuple[Array, Array],
) -> tuple[dict[str, Estimate], dict[str, Estimate], Estimate]:
    """For each statistic the AUC less 1/2 after the step and before it, and the largest fall of
    one.
    """
    after: dict[str, tuple[float, Array]] = {}
    before: dict[str, tuple[float, Array]] = {}
    for column, name in enumerate(NAMES[: own_KS.shape[1]]):
        never_KQ = never_KQS[:, :, column]
        after[name] = _weighted(_beats(own_KS[:, column], never_KQ), use_KQ, *weights)
        before[name] = _weighted(_beats(before_KS[:, column], never_KQ), use_KQ, *weights)
    falls = simultaneous(
        {
            name: (before[name][0] - value, before[name][1] - value_B)
            for name, (value, value_B) in after.items()
        }
    )
    removed = max(falls.values(), key=lambda fall: _ends(fall)[0])
    return simultaneous(after), simultaneous(before), removed


def _ends(estimate: Estimate) -> tuple[float, float]:
    return float(estimate.low or 0.0), float(estimate.high or 0.0)


def _verdict(
    after: Mapping[str, Estimate], shown: Mapping[str, Estimate], removed: Estimate, margin: float
) -> tuple[Verdict, str]:
    worst = max(after, key=lambda name: max(abs(end) for end in _ends(after[name])))
    low, high = _ends(after[worst])
    told = f"{worst} {after[worst].value:+.3f} ({low:+.3f} to {high:+.3f}) AUC"
    intervals = [_ends(gap) for gap in after.values()]
    if not all(-margin <= low and high <= margin for low, high in intervals):
        if any(low > 0.0 or high < 0.0 for low, high in intervals):
            return "refused", f"they are told from strangers: {told}"
        return (
            "inconclusive",
            f"the interval is too wide: {told}; more requests or rounds narrow it",
        )
    if all(_ends(gap)[0] <= 0.0 for gap in shown.values()):
        return "inconclusive", "of the untouched original nobody is told from a stranger either"
    if _ends(removed)[0] <= 0.0:
        return (
            "inconclusive",
            f"the step took away {removed.value:+.3f} AUC, which may be nothing",
        )
    return "certified", f"no more than {max(abs(low), abs(high)):.3f} AUC is left: {told}"


def exact_passes(
    never_KQS: Array,
    use_KQ: NDArray[np.bool_],
    before_KS: Array,
    people: int,
    margin: float,
    seed: int = 0,
    draws: int = DRAWS,
) -> float:
    """Share of draws in which models that never saw them are certified in the place of the
    unlearned ones.

    Each request is given the models of one round, drawn among those that may be used; the others
    judge them.
    """
    rng, passed = np.random.default_rng([seed, 53]), 0
    first_of_request = range(0, len(never_KQS) // people * people, people)
    for number in range(draws):
        chosen = [rng.choice(np.flatnonzero(use_KQ[first])) for first in first_of_request]
        drawn = np.arange(len(chosen) * people), np.repeat(chosen, people)
        # Whose numbers stand in for an unlearned model judges nobody in that draw.
        rest_KQ = use_KQ.copy()
        rest_KQ[drawn] = False
        weights = _weights(never_KQS, people, 300, number)
        gaps = _gaps(never_KQS[drawn], before_KS, never_KQS, rest_KQ, weights)
        passed += _verdict(*gaps, margin)[0] == "certified"
    return passed / draws


def _weights(never_KQS: Array, people: int, replicates: int, seed: int) -> tuple[Array, Array]:
    """How often each person and each round is drawn in each replicate (B, K) and (B, Q)."""
    rng = np.random.default_rng([seed, 59])
    count, rounds = never_KQS.shape[:2]
    weight_BM = drawn_again(count // people, replicates, rng)
    weight_BQ = drawn_again(rounds, replicates, rng)
    return weight_BM.repeat(people, axis=1).astype(np.float64), weight_BQ.astype(np.float64)


def _beats(own_K: Array, never_KQ: Array) -> Array:
    """1 where a person's number is above a stranger's, 1/2 where they are equal (K, Q)."""
    return np.asarray((own_K[:, None] > never_KQ) + 0.5 * (own_K[:, None] == never_KQ), np.float64)


def _weighted(
    win_KQ: Array, use_KQ: NDArray[np.bool_], weight_BK: Array, weight_BQ: Array
) -> tuple[float, Array]:
    """Mean over pairs less 1/2, and of every replicate (B,)."""
    use = use_KQ.astype(np.float64)
    total_B = ((weight_BK @ (win_KQ * use)) * weight_BQ).sum(axis=1)
    pairs_B = ((weight_BK @ use) * weight_BQ).sum(axis=1)
    # A replicate may draw no pair that may be used; it then says what the sample says.
    value = float((win_KQ * use).sum() / use.sum()) - 0.5
    return value, np.where(pairs_B > 0, total_B / np.maximum(pairs_B, 1.0), value + 0.5) - 0.5


def _moments(
    own_K: Array, never_KQ: Array, use_KQ: NDArray[np.bool_], people: int, seed: int
) -> tuple[Estimate, Estimate]:
    """Shift in standard deviations of strangers, and spread over what one more stranger has;
    intervals over requests.

    s^2 = pooled variance within a person over R models; d_k = x_k - mean_R; shift = mean d / s;
    spread^2 = mean (d - mean d)^2 / (s^2 (1 + 1/R)).
    """
    count_K = use_KQ.sum(axis=1)
    mean_K = (never_KQ * use_KQ).sum(axis=1) / count_K
    square_K = (np.square(never_KQ - mean_K[:, None]) * use_KQ).sum(axis=1)
    gap_K = own_K - mean_K

    def both(weight_BK: Array) -> Array:
        """Shift and spread (B, 2)."""
        total_B = weight_BK.sum(axis=1)
        variance_B = weight_BK @ square_K / np.maximum(weight_BK @ (count_K - 1), 1.0)
        scale_B = np.sqrt(np.maximum(variance_B, 1e-12))
        shift_B = weight_BK @ gap_K / total_B
        around_BK = np.square(gap_K - shift_B[:, None]) / (1 + 1 / count_K)
        spread_B = np.sqrt((weight_BK * around_BK).sum(axis=1) / total_B)
        return np.stack([shift_B / scale_B, spread_B / scale_B], axis=1)

    weight_BK, _ = _weights(never_KQ[:, :1], people, 300, seed)
    low, high = np.percentile(
        both(weight_BK), [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)], axis=0
    )
    shift, spread = (
        Estimate(value=float(value), low=float(low[place]), high=float(high[place]))
        for place, value in enumerate(both(np.ones((1, len(own_K))))[0])
    )
    return shift, spread
