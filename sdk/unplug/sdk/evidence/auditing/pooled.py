"""Many requests of a few people, pooled: what is left of those whom a method forgot, beside models
that never saw them.

Shapes: M requests of n people, K = M n people, Q rounds of references (one model of each never saw
    a given person),
S statistics, B bootstrap replicates.
"""

from __future__ import annotations

import math
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
"""Of references in the place of the unlearned models: how often an exact method would have passed.
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
        original_sha256, references_sha256, data_digest: what it is of.
        method, settings, budget: of every forget step.
        people, requests: n and M.
        samples: pictures of the surrogates, on average a request.
        like: whether they were drawn to resemble the people of a request, by age.
        rounds: Q.
        leaks: by statistic.
        removed: the largest over statistics of before less after, where before shows anything: what
            the step did, in AUC.
        margin: both ends of each interval of `leaks` must be within it.
        exact_passes: share of draws in which models that never saw them pass in the place of the
            unlearned ones.
        test_error, retain_error: of the unlearned models over the original's, a ratio.
        compute: of a forget step, as a fraction of retraining.
        seconds: of all of them.
        device: that they ran on.
        verdict, why: what may be said.
        seed: of everything random.
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
        never_KQS: of models that never saw them.
        use_KQ: which of those were not what a person was fitted to.
        people: n, of a request.
        margin: see `Certification`.
        seed: of the bootstrap.
        replicates: B.

    Reference:
        Schuirmann, A Comparison of the Two One-Sided Tests Procedure, 1987 (equivalence); Owen, The
        Pigeonhole Bootstrap, 2007 (resampling two crossed factors, which is conservative).
    """
    weight_BK, weight_BQ = _weights(len(own_KS), never_KQS.shape[1], people, replicates, seed)
    names = NAMES[: own_KS.shape[1]]
    auc: dict[str, tuple[float, Array]] = {}
    before: dict[str, tuple[float, Array]] = {}
    leaks: dict[str, Leak] = {}
    for column, name in enumerate(names):
        never_KQ = never_KQS[:, :, column]
        auc[name] = _weighted(_beats(own_KS[:, column], never_KQ), use_KQ, weight_BK, weight_BQ)
        before[name] = _weighted(
            _beats(before_KS[:, column], never_KQ), use_KQ, weight_BK, weight_BQ
        )
    after, shown = simultaneous(auc), simultaneous(before)
    gone = simultaneous(
        {name: (before[name][0] - auc[name][0], before[name][1] - auc[name][1]) for name in names}
    )
    for column, name in enumerate(names):
        shift, spread = _moments(own_KS[:, column], never_KQS[:, :, column], use_KQ, people, seed)
        leaks[name] = Leak(auc=after[name], before=shown[name], shift=shift, spread=spread)
    removed = max(gone.values(), key=lambda item: item.low if item.low is not None else -math.inf)
    return Judged(leaks=leaks, removed=removed, **_verdict(after, shown, removed, margin))


def _verdict(
    after: Mapping[str, Estimate], shown: Mapping[str, Estimate], removed: Estimate, margin: float
) -> dict[str, Any]:
    def ends(item: Estimate) -> tuple[float, float]:
        return float(item.low or 0.0), float(item.high or 0.0)

    worst = max(after, key=lambda name: max(abs(end) for end in ends(after[name])))
    low, high = ends(after[worst])
    said = f"{worst} {after[worst].value:+.3f} ({low:+.3f} to {high:+.3f}) AUC"
    if all(-margin <= ends(item)[0] and ends(item)[1] <= margin for item in after.values()):
        if all(ends(item)[0] <= 0.0 for item in shown.values()):
            return {
                "verdict": "inconclusive",
                "why": "of the untouched original nobody is told from a stranger either",
            }
        if ends(removed)[0] <= 0.0:
            return {
                "verdict": "inconclusive",
                "why": f"the step took away {removed.value:+.3f} AUC, which may be nothing",
            }
        return {
            "verdict": "certified",
            "why": f"no more than {max(abs(low), abs(high)):.3f} AUC is left: {said}",
        }
    seen = [name for name, item in after.items() if ends(item)[0] > 0.0 or ends(item)[1] < 0.0]
    if seen:
        return {"verdict": "refused", "why": f"they are told from strangers: {said}"}
    return {
        "verdict": "inconclusive",
        "why": f"the interval is too wide: {said}; more requests or rounds narrow it",
    }


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
    requests = len(never_KQS) // people
    for number in range(draws):
        chosen = np.array(
            [rng.choice(np.flatnonzero(use_KQ[request * people])) for request in range(requests)]
        ).repeat(people)
        rest_KQ = use_KQ.copy()
        rest_KQ[np.arange(len(chosen)), chosen] = False
        own_KS = never_KQS[np.arange(len(chosen)), chosen]
        passed += (
            judge(own_KS, before_KS, never_KQS, rest_KQ, people, margin, number, 300).verdict
            == "certified"
        )
    return passed / draws


def _weights(
    count: int, rounds: int, people: int, replicates: int, seed: int
) -> tuple[Array, Array]:
    """How often each person and each round is drawn in each replicate (B, K) and (B, Q)."""
    rng = np.random.default_rng([seed, 59])
    requests = count // people
    weight_BM, weight_BQ = (
        drawn_again(requests, replicates, rng),
        drawn_again(rounds, replicates, rng),
    )
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

    def both(weight_K: Array) -> tuple[float, float]:
        variance = float(weight_K @ square_K / max(float(weight_K @ (count_K - 1)), 1.0))
        mean = float(np.average(gap_K, weights=weight_K))
        around = float(np.average(np.square(gap_K - mean) / (1 + 1 / count_K), weights=weight_K))
        return mean / math.sqrt(max(variance, 1e-12)), math.sqrt(around / max(variance, 1e-12))

    weight_BK, _ = _weights(len(own_K), 1, people, 300, seed)
    values = np.array([both(weight_K) for weight_K in weight_BK])
    low, high = np.percentile(values, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)], axis=0)
    return tuple(  # type: ignore[return-value]
        Estimate(value=value, low=float(low[place]), high=float(high[place]))
        for place, value in enumerate(both(np.ones(len(own_K))))
    )
