"""Retain-side and worst-subject privacy: planted leaks are found, and the largest of many is not
taken for one.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.intervals import ends

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
    ours, original, oracle = model(1, 1.0), model(2, 0.5), model(3, 0.5)
    result = retain_privacy(ours, original, oracle, np.arange(300) // 3, np.arange(200) // 2)
    expected = [
        auc(item.retain.logits_NG[:, 0], item.unseen.logits_NG[:, 0])
        for item in (ours, original, oracle)
    ]
    assert result.original and result.retrained and result.minus_original
    assert [result.auc.value, result.original.value, result.retrained.value] == pytest.approx(
        expected
    )
    assert result.minus_original.value == pytest.approx(expected[0] - expected[1])
    assert ends(result.minus_original)[0] > 0, "the rise is seen"
    narrower = np.ptp(ends(result.minus_original)) < 0.6 * np.ptp(ends(result.auc))
    assert narrower, "pairing takes the samples' noise out"
    assert result.samples == 300


def people(rng: np.random.Generator, counts: Counts) -> tuple[Array, Counts]:
    ours = rng.normal(0.0, 0.7, len(counts))
    return np.repeat(ours, counts) + rng.normal(size=counts.sum()), np.repeat(
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


def told(answer: WorstSubject | NotGiven) -> WorstSubject:
    assert isinstance(answer, WorstSubject)
    return answer


def test_a_leaking_person_is_found_and_the_largest_of_many_is_no_leak() -> None:
    clean = [told(game(seed)) for seed in range(200)]
    assert 2 <= sum(worst.p_value <= 0.05 for worst in clean) <= 20  # 10 expected
    assert sum(worst.null_low <= worst.value <= worst.null_high for worst in clean) >= 180
    naive = sum(worst.value > 1.645 for worst in clean)
    assert naive > 60, "a test of one person, made for the worst of twelve, cries wolf"
    hits = [worst for seed in range(40) if (worst := told(game(seed, 6.0))).p_value <= 0.05]
    assert len(hits) >= 32 and hits[0].subjects == 12
    assert sum(worst.auc > 0.9 for worst in hits) >= len(hits) - 1


def test_ranks_decide_and_ties_are_no_leak() -> None:
    rng = np.random.default_rng(3)
    unseen, forget = rng.normal(size=60), rng.normal(size=12)
    who, others = np.arange(12) // 2, np.arange(60) // 2
    one = told(worst_subject(forget, unseen, who, others, replicates=50))
    scaled, renamed = np.exp(forget) * 7, who + 90
    other = told(worst_subject(scaled, np.exp(unseen) * 7, renamed, others, replicates=50))
    assert (one.value, one.p_value) == (other.value, other.p_value)
    ties = told(worst_subject(np.zeros(12), np.zeros(60), who, others, replicates=50))
    assert ties.p_value == 1.0 and np.isfinite(ties.value)


def test_few_subjects_are_refused() -> None:
    scores, pairs = np.random.default_rng(0).normal(size=60), np.arange(60) // 2
    for refused, words in (
        (worst_subject(scores[:12], scores, np.arange(12), np.arange(60)), "not known"),
        (game(0, known=19), "19 unseen subjects"),
        (worst_subject(scores[:12], scores, np.arange(12) // 3, pairs), "4 forget"),
    ):
        assert isinstance(refused, NotGiven) and words in refused.reason
