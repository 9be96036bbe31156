"""Names, seeds and settings of the models that a leaderboard needs."""

from __future__ import annotations

from collections import Counter

import pytest

from unplug.core import InputError
from unplug.sdk.studies.leaderboard import PROTOCOLS, entry, unlearned_names, unlearning_jobs, unlearning_seeds
from unplug.sdk.studies.leaderboard.plan import original_seeds, retrained_seeds, training_jobs

CHALLENGE = PROTOCOLS.get("challenge")


def test_models_are_spread_over_originals() -> None:
    pairs = unlearning_seeds(0, 4, 64)
    assert len(set(pairs)) == 64
    assert Counter(original for original, _ in pairs) == dict.fromkeys(range(4), 16)


def test_more_models_keep_those_that_are_there() -> None:
    item = entry(CHALLENGE, "msg", {})
    few, many = (set(unlearned_names(item, 0, 4, count)) for count in (8, 64))
    assert few < many
    few, many = ({job.name for job in training_jobs(0, 4, count)} for count in (8, 64))
    assert few < many


def test_seeds_of_the_three_levels_never_meet() -> None:
    levels = [set(original_seeds(5, 8)), set(retrained_seeds(5, 64)), {seed for _, seed in unlearning_seeds(5, 8, 64)}]
    assert not levels[0] & levels[1] and not levels[1] & levels[2] and not levels[0] & levels[2]
    assert len(levels[0]) == 8 and len(levels[1]) == 64


def test_jobs_have_the_names_that_scoring_reads() -> None:
    item = entry(CHALLENGE, "neggrad+", {})
    jobs = unlearning_jobs([item], 0, 2, 5)
    assert {job.name for job in jobs} == {name for name, _ in unlearned_names(item, 0, 2, 5)}
    assert all(job.arguments["budget"] == 0.05 and job.arguments["method"] == "neggrad+" for job in jobs)


def test_other_settings_or_budgets_are_other_results() -> None:
    plain, lr, budget = (entry(CHALLENGE, "msg", given) for given in ({}, {"lr": "0.5"}, {"budget": "0.1"}))
    assert len({plain.key, lr.key, budget.key, entry(CHALLENGE, "ct", {}).key}) == 4
    assert lr.settings["lr"] == 0.5 and budget.budget == 0.1 and budget.given == plain.given
    assert entry(CHALLENGE, "msg", {"lr": str(plain.settings["lr"])}).key == plain.key


@pytest.mark.parametrize("given", [{"budget": "x"}, {"budget": "0"}, {"budget": "nan"}, {"nothing": "1"}, {"lr": "x"}])
def test_wrong_settings_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(InputError):
        entry(CHALLENGE, "msg", given)
