"""The people whom models remember most: chosen by other models, told from strangers where the
average is not.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.intervals import ends

from unplug.core import InputError
from unplug.sdk.evidence.auditing import Signals, most_memorised
from unplug.sdk.evidence.auditing.vulnerable import memorised, vulnerable
from unplug.sdk.evidence.statistics import NotGiven
from unplug.sdk.learning.training import ClassPredictions

from .planted import says

M, PEOPLE, STRANGERS = 24, 40, 40
REMEMBERED = 10
"""The first people are learned by heart by whoever sees them, the others not at all."""


class Fleet:
    """Half of the models saw each person of the training set; ids are rows, two pictures a person."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.rows_of = np.arange(2 * (PEOPLE + STRANGERS))
        seen_MP = np.concatenate(
            [
                rng.permuted(np.tile(np.arange(M) % 2 == 0, (PEOPLE, 1)), axis=1).T,
                np.zeros((M, STRANGERS), bool),
            ],
            1,
        )
        self.seen_MN = np.repeat(seen_MP, 2, axis=1)
        self.level_N = rng.normal(0.0, 2.0, 2 * (PEOPLE + STRANGERS))
        self.phi_MN = self.level_N + rng.normal(size=(M, len(self.rows_of)))
        self.phi_MN[:, : 2 * REMEMBERED] += 4.0 * self.seen_MN[:, : 2 * REMEMBERED]
        self.record = SimpleNamespace(models=M)

    def rows(self, ids: Any) -> NDArray[np.int64]:
        return np.array(ids)

    def said(self, model_N: NDArray[np.int64], row_N: NDArray[np.int64]) -> ClassPredictions:
        return says(self.phi_MN[model_N, row_N])


def world(fleet: Fleet, knows: float, seed: int) -> tuple[Signals, Any]:
    """A model that knows the remembered people by so much, and the sets of a request of everybody."""
    noise = np.random.default_rng([seed, 3]).normal(size=len(fleet.level_N))
    phi = fleet.level_N + noise + knows * (np.arange(len(noise)) < 2 * REMEMBERED)
    forget, test = says(phi[: 2 * PEOPLE]), says(phi[2 * PEOPLE :])
    people = np.arange(2 * (PEOPLE + STRANGERS)) // 2
    sets = SimpleNamespace(
        forget=SimpleNamespace(ids=tuple(range(2 * PEOPLE)), subject_N=people[: 2 * PEOPLE]),
        test=SimpleNamespace(
            ids=tuple(range(2 * PEOPLE, 2 * (PEOPLE + STRANGERS))), subject_N=people[2 * PEOPLE :]
        ),
    )
    return Signals(forget=forget, unseen=test, population=test, retain=test), sets


def test_the_most_memorised_are_those_that_models_learned_by_heart() -> None:
    fleet: Any = Fleet()
    gap_J, people = memorised(fleet, range(2 * PEOPLE), np.arange(2 * PEOPLE) // 2)
    assert (
        people.tolist() == list(range(PEOPLE))
        and gap_J[:REMEMBERED].min() > 2.0 > np.abs(gap_J[REMEMBERED:]).max()
    )
    chosen = most_memorised(fleet, range(2 * PEOPLE), np.arange(2 * PEOPLE) // 2, REMEMBERED)
    assert sorted(chosen.tolist()) == list(range(REMEMBERED))
    with pytest.raises(InputError, match="41 wanted of 40"):
        most_memorised(fleet, range(2 * PEOPLE), np.arange(2 * PEOPLE) // 2, 41)
    with pytest.raises(InputError, match="0 models saw a person"):
        memorised(fleet, range(2 * PEOPLE, 2 * PEOPLE + 2), np.zeros(2, int))


def test_a_model_that_keeps_the_most_remembered_alone_is_found() -> None:
    fleet: Any = Fleet()
    keeps, sets = world(fleet, 4.0, 1)
    never, _ = world(fleet, 0.0, 2)
    result = vulnerable(keeps, never, fleet, sets)
    assert (result.people, result.of) == (10, 40) and result.gap > 2.0
    assert result.auc.value > 0.9 and ends(result.minus_retrained)[0] > 0.2
    outside = 0
    for seed in range(20):
        clean = vulnerable(world(fleet, 0.0, 10 + seed)[0], never, fleet, sets)
        low, high = ends(clean.minus_retrained)
        outside += not low <= 0.0 <= high
    assert outside <= 4  # Binomial(20, .05) is above 4 once in 400 times


def test_too_few_people_are_refused_with_the_number() -> None:
    fleet: Any = Fleet()
    ours, sets = world(fleet, 0.0, 1)
    few = SimpleNamespace(
        forget=SimpleNamespace(ids=tuple(range(12)), subject_N=np.arange(12) // 2), test=sets.test
    )
    refused = vulnerable(ours, None, fleet, few)
    assert isinstance(refused, NotGiven)
    assert "needs 20 forgotten people, and has 6" in refused.reason
