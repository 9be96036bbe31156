"""Many small requests, pooled: numbers by hand, and how often the verdict is wrong where the truth
is known.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from unplug.sdk.evidence.auditing.pooled import NAMES, exact_passes, judge

MARGIN = 0.1
ROUNDS = 8
Array = NDArray[np.float64]


def world(
    requests: int, people: int, seed: int, *, shown: float = 1.2
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Strangers of every person around a mean of her own, a model as theirs, an original that knows
    her, what may be used.
    """
    rng = np.random.default_rng(seed)
    count, kinds = requests * people, len(NAMES)
    mean_KS = rng.normal(0.0, 2.0, size=(count, kinds))
    never_KQS = mean_KS[:, None] + rng.normal(size=(count, ROUNDS, kinds))
    exact_KS = mean_KS + rng.normal(size=(count, kinds))
    before_KS = mean_KS + shown + 0.5 * rng.normal(size=(count, kinds))
    use_KQ = np.ones((count, ROUNDS), bool)
    use_KQ[np.arange(count), rng.integers(0, ROUNDS, requests).repeat(people)] = False
    return exact_KS, before_KS, never_KQS, use_KQ


def test_by_hand() -> None:
    """Two people, two strangers each: above both, and above one and equal to the other: (1 + 1 + 1
    + .5) / 4 - .5.
    """
    never_KQS = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    own_KS, use_KQ = np.array([[2.0], [1.0]]), np.ones((2, 2), bool)
    result = judge(own_KS, own_KS, never_KQS, use_KQ, 1, MARGIN)
    assert result.leaks["confidence"].auc.value == 0.375 and result.removed.value == 0.0
    use_KQ[1, 1] = False
    assert judge(own_KS, own_KS, never_KQS, use_KQ, 1, MARGIN).leaks["confidence"].auc.value == 0.5
    # gaps 1.5 and 0.5, variance within people 0.5: shift 1 / sqrt(.5), spread^2 = .25 / (.5 (1 +
    # 1/2))
    leak = judge(own_KS, own_KS, never_KQS, np.ones((2, 2), bool), 1, MARGIN).leaks["confidence"]
    assert leak.shift.value == pytest.approx(
        1.0 / np.sqrt(0.5)
    ) and leak.spread.value == pytest.approx(np.sqrt(0.25 / 0.75))


@pytest.mark.parametrize(("requests", "people"), [(40, 1), (200, 1), (40, 5), (20, 50)])
def test_an_untouched_original_is_never_certified(requests: int, people: int) -> None:
    """At any size of a request: of one that shows something that is refused or open, of one that
    shows nothing it is open.
    """
    for seed in range(20):
        for shown in (0.0, 0.15, 1.2):
            _, before_KS, never_KQS, use_KQ = world(requests, people, seed, shown=shown)
            assert (
                judge(
                    before_KS, before_KS, never_KQS, use_KQ, people, MARGIN, replicates=200
                ).verdict
                != "certified"
            )


@pytest.mark.parametrize(("requests", "people"), [(500, 1), (100, 5)])
def test_an_exact_method_is_certified_where_there_is_evidence_enough(
    requests: int, people: int
) -> None:
    result = []
    for seed in range(20):
        exact_KS, before_KS, never_KQS, use_KQ = world(requests, people, seed)
        judged = judge(exact_KS, before_KS, never_KQS, use_KQ, people, MARGIN, replicates=200)
        result.append(judged.verdict)
        assert (
            abs(judged.leaks["error"].shift.value) < 0.35
            and 0.8 < judged.leaks["error"].spread.value < 1.25
        )
    assert result.count("certified") >= 18 and "refused" not in result[:10]
    assert exact_passes(never_KQS, use_KQ, before_KS, people, MARGIN, draws=20) >= 0.9


def test_few_requests_are_inconclusive_and_what_is_seen_is_refused() -> None:
    exact_KS, before_KS, never_KQS, use_KQ = world(10, 1, 0)
    few = judge(exact_KS, before_KS, never_KQS, use_KQ, 1, MARGIN)
    assert few.verdict == "inconclusive" and "too wide" in few.why
    exact_KS, before_KS, never_KQS, use_KQ = world(200, 1, 0)
    for shift in (0.8, -0.8):  # under- and over-forgetting
        seen = judge(exact_KS + shift, before_KS, never_KQS, use_KQ, 1, MARGIN)
        assert seen.verdict == "refused" and "told from strangers" in seen.why
