"""False alarms of every attack, in simulation: models that never saw anybody, beside an oracle that
did not either.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.intervals import ends

from unplug.sdk.evidence.auditing import ATTACKS
from unplug.sdk.evidence.statistics import auc, bootstrap_auc, resamples, simultaneous

from .test_attacks import F, U, signals

DRAWS = 1000
"""Seeds 0 to 999."""
REPLICATES = 200
FALSE_ALARMS = 0.05


def alarm(name: str, seed: int, shift: float = 0.0) -> int:
    """1 where the audit would say not forgotten, -1 where over-forgotten, 0 where nothing; pictures
    are two a person.
    """
    attack = ATTACKS.get(name)()
    samples = 5000 + seed  # other people in every draw
    model, oracle = (signals(number + seed, difficulty_seed=samples) for number in (10_000, 20_000))
    if shift:
        model = signals(10_000 + seed, difficulty_seed=samples, forget_shift=shift)
    references = [
        signals(30_000 + 1000 * n + seed, difficulty_seed=samples)
        for n in range(attack.min_references)
    ]
    draws = resamples(np.arange(F) // 2, np.arange(U) // 2, replicates=REPLICATES, seed=seed)
    scores = [attack(item, references) for item in (model, oracle)]
    (ours, own_R), (other, other_R) = ((auc(*pair), bootstrap_auc(*pair, draws)) for pair in scores)
    gaps: Mapping[str, tuple[float, np.ndarray]] = {name: (ours - other, own_R - other_R)}
    gap = simultaneous(gaps, draws.people)[name]
    low, high = ends(gap)
    return 1 if low > 0 else -1 if high < 0 else 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(ATTACKS) - {"gain"}))
def test_false_alarms_of_each_attack_are_at_most_five_in_a_hundred(name: str) -> None:
    result = [alarm(name, seed) for seed in range(DRAWS)]
    assert np.mean(np.abs(result)) <= FALSE_ALARMS, result
    assert alarm(name, 0, shift=6.0) == 1  # and it is no attack that never speaks
