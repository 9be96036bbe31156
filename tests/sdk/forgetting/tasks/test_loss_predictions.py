"""Losses read as probabilities, by hand: what every attack on a plugin stands on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unplug.core import InputError
from unplug.sdk.evidence.auditing import ATTACKS, Signals
from unplug.sdk.evidence.auditing.attacks.gain import gain
from unplug.sdk.evidence.auditing.attacks.residual import residual
from unplug.sdk.evidence.auditing.measure import run_attacks
from unplug.sdk.evidence.auditing.predictor import check_finite
from unplug.sdk.evidence.auditing.rounding import total_variation
from unplug.sdk.learning.training import ClassPredictions, LossPredictions, classed, predict
from unplug.sdk.learning.training.predictions import SMALLEST_LOSS

from ...conftest import World

LOSSES = np.array([0.1, math.log(2.0), 1.0, 3.0, 40.0])


def answers(losses: object, plain: object = None) -> LossPredictions:
    return LossPredictions.of(np.asarray(losses), None if plain is None else np.asarray(plain))


def test_log_p_is_minus_the_loss() -> None:
    told = answers(LOSSES)
    assert told.log_prob_N == pytest.approx(-LOSSES, rel=1e-12)
    assert told.error_N == pytest.approx(LOSSES, rel=1e-12)
    assert told.answer_N == pytest.approx(LOSSES, rel=1e-12)
    with pytest.raises(InputError, match="no class logits"):
        classed(told)


def test_confidence_is_the_log_odds_of_exp_minus_loss() -> None:
    """ln 2 is p = 1/2, whose odds are even; 1 is ln(1 / (e - 1))."""
    odds_N = answers(LOSSES).confidence_N
    assert odds_N[1] == pytest.approx(0.0, abs=1e-12)
    assert odds_N[2] == pytest.approx(-math.log(math.e - 1.0), rel=1e-12)
    assert odds_N == pytest.approx(
        [-loss - math.log(-math.expm1(-loss)) for loss in LOSSES], rel=1e-9
    )


def test_losses_of_zero_and_no_losses_stay_finite() -> None:
    told, none = answers([0.0, 1e-30]), answers(np.zeros(0))
    assert told.error_N == pytest.approx([SMALLEST_LOSS] * 2)
    assert told.finite and np.isfinite(told.confidence_N).all()
    assert none.log_prob_N.shape == none.error_N.shape == (0,)
    assert none.probability_NG.shape == (0, 2)


def test_total_variation_is_the_difference_of_the_two_probabilities() -> None:
    one, other = answers([math.log(2.0), 1.0]), answers([math.log(4.0), 1.0])
    assert total_variation(one, other) == pytest.approx([0.25, 0.0])


def test_gain_golden() -> None:
    assert gain(answers([0.5, 0.2], [1.0, 0.1])) == pytest.approx([math.log(2.0), -math.log(2.0)])


def test_a_loss_that_is_no_number_is_refused_and_an_age_that_is_none_is_not() -> None:
    check_finite("plugin", (answers(LOSSES),))
    with pytest.raises(InputError, match="not numbers"):
        check_finite("plugin", (answers([0.1, float("nan")]),))


def signals(seed: int, *, plain: bool = True) -> Signals:
    draw = np.random.default_rng(seed)
    sides = {}
    for name, count in (("forget", 12), ("unseen", 20), ("population", 15), ("retain", 30)):
        low = draw.uniform(0.05, 0.4, count)
        sides[name] = answers(low, low * 1.5 if plain else None)
    return Signals(**sides)


def test_attacks_that_need_ages_are_left_out_with_the_reason() -> None:
    attacks = {name: ATTACKS.get(name)() for name in ATTACKS}
    scores_of, unable = run_attacks(
        attacks, [signals(0), signals(1)], [signals(2), signals(3)], names=["one", "other"]
    )
    assert set(scores_of[0]) == set(scores_of[1]) == {"loss", "gain", "rmia", "lira"}
    assert unable.pop("person") == "nothing says who is in which picture"
    assert unable.pop("entropy") == "it says no class logits"
    further = "views best-view other-pictures two-versions features head-difference"
    assert all(unable.pop(name) for name in further.split())
    ages = "the model answers with no number, or the data have none"
    assert unable == dict.fromkeys(("error", "error-lira", "task-loss"), ages)
    assert all(
        np.isfinite(side).all() for scores in scores_of for pair in scores.values() for side in pair
    )


def test_gain_needs_the_loss_without_the_plugin(world: World) -> None:
    ages: ClassPredictions = predict(world.original.model, world.sets.test)
    same = Signals(forget=ages, unseen=ages, population=ages, retain=ages)
    _, unable = run_attacks({"gain": ATTACKS.get("gain")()}, [same], [], names=["one"])
    assert unable == {
        "gain": "it reads the loss with and without a plugin, and this model is not a plugin"
    }
    with pytest.raises(InputError, match="this model is not a plugin"):
        gain(answers(LOSSES))
    assert np.isfinite(residual(ages)).all()  # an age model has what a plugin lacks
