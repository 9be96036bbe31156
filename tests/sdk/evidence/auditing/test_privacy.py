"""Retain-side and worst-subject privacy: planted leaks are found, and the largest of many is not
taken for one.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from unplug.sdk.evidence.auditing import Signals, WorstSubject
from unplug.sdk.evidence.auditing.privacy import retain_privacy, worst_subject
from unplug.sdk.evidence.statistics import NotGiven, auc

from .planted import model as planted
from .planted import says

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


def model(seed: int, retain_gain: float) -> Signals:
    rng, noise = np.random.default_rng(0), np.random.default_rng([seed, 1])
    retain, unseen = rng.normal(size=300) + retain_gain, rng.normal(size=200)
    retain, unseen = retain + 0.1 * noise.normal(size=300), unseen + 0.1 * noise.normal(size=200)
    return planted(says(unseen), says(unseen), says(retain))


def test_retain_privacy_is_paired_and_golden() -> None:
    own, original, oracle = model(1, 1.0), model(2, 0.5), model(3, 0.5)
    found = retain_privacy(own, original, oracle, np.arange(300) // 3, np.arange(200) // 2)
    expected = [
        auc(item.retain.logits_NG[:, 0], item.unseen.logits_NG[:, 0])
        for item in (own, original, oracle)
    ]
    assert (
        found.original is not None
        and found.retrained is not None
        and found.minus_original is not None
    )
    assert [found.auc.value, found.original.value, found.retrained.value] == pytest.approx(expected)
    assert found.minus_original.value == pytest.approx(expected[0] - expected[1])
    assert found.minus_original.low is not None and found.minus_original.low > 0, "the rise is seen"
    gap = found.minus_original
    assert (
        gap.high is not None
        and gap.low is not None
        and found.auc.high is not None
        and found.auc.low is not None
    )
    assert gap.high - gap.low < 0.6 * (found.auc.high - found.auc.low), (
        "pairing takes the samples' noise out"
    )
    assert found.samples == 300


def people(rng: np.random.Generator, counts: Counts) -> tuple[Array, Counts]:
    own = rng.normal(0.0, 0.7, len(counts))
    return np.repeat(own, counts) + rng.normal(size=counts.sum()), np.repeat(
        np.arange(len(counts)), counts
    )


def game(seed: int, extra: float = 0.0, known: int = 60) -> WorstSubject | NotGiven:
    """12 forget and 60 unseen people with 1 to 4 pictures each; one forget person's scores are
    higher by `extra`.
    """
    rng = np.random.default_rng([seed, 8])
    (unseen, unseen_people), (forget, forget_people) = (
        people(rng, rng.integers(1, 5, count)) for count in (known, 12)
    )
    forget = forget + np.where(forget_people == 3, extra, 0.0)
    return worst_subject(
        np.exp(forget), np.exp(unseen), forget_people, unseen_people, replicates=300, seed=seed
    )


def test_a_leaking_person_is_found_and_the_largest_of_many_is_no_leak() -> None:
    found = [game(seed) for seed in range(200)]
    assert all(isinstance(item, WorstSubject) for item in found)
    alarms = sum(item.p_value <= 0.05 for item in found if isinstance(item, WorstSubject))
    assert 2 <= alarms <= 20  # 10 expected
    inside = sum(
        item.null_low <= item.value <= item.null_high
        for item in found
        if isinstance(item, WorstSubject)
    )
    assert inside >= 180
    naive = sum(item.value > 1.645 for item in found if isinstance(item, WorstSubject))
    assert naive > 60, "a test of one person, made for the worst of twelve, cries wolf"
    found = [game(seed, extra=6.0) for seed in range(40)]
    hits = [item for item in found if isinstance(item, WorstSubject) and item.p_value <= 0.05]
    assert len(hits) >= 32
    assert sum(item.auc > 0.9 for item in hits) >= len(hits) - 1
    assert hits[0].subjects == 12


def test_ranks_decide_ties_are_no_leak_and_few_subjects_are_refused() -> None:
    rng = np.random.default_rng(3)
    unseen, forget, who, others = (
        rng.normal(size=60),
        rng.normal(size=12),
        np.arange(12) // 2,
        np.arange(60) // 2,
    )
    one = worst_subject(forget, unseen, who, others, replicates=50)
    other = worst_subject(np.exp(forget) * 7, np.exp(unseen) * 7, who + 90, others, replicates=50)
    assert isinstance(one, WorstSubject) and isinstance(other, WorstSubject)
    assert (one.value, one.p_value) == (other.value, other.p_value)
    found = worst_subject(
        np.zeros(12), np.zeros(60), np.arange(12) // 2, np.arange(60) // 2, replicates=50
    )
    assert isinstance(found, WorstSubject) and found.p_value == 1.0 and np.isfinite(found.value)
    scores = np.random.default_rng(0).normal(size=60)
    unknown = worst_subject(scores[:12], scores, np.arange(12), np.arange(60))
    assert isinstance(unknown, NotGiven) and "not known" in unknown.reason
    few = game(0, known=19)
    assert isinstance(few, NotGiven) and "19 unseen subjects" in few.reason
    alone = worst_subject(scores[:12], scores, np.arange(12) // 3, np.arange(60) // 2)
    assert isinstance(alone, NotGiven) and "4 forget" in alone.reason
