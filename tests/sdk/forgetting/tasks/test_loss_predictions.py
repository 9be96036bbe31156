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


def said(losses: object, plain: object = None) -> LossPredictions:
    return LossPredictions.of(np.asarray(losses), None if plain is None else np.asarray(plain))


def test_log_p_is_minus_the_loss() -> None:
    own = said(LOSSES)
    assert own.log_prob_N == pytest.approx(-LOSSES, rel=1e-12)
    assert own.error_N == pytest.approx(LOSSES, rel=1e-12)
    assert own.answer_N == pytest.approx(LOSSES, rel=1e-12)
    with pytest.raises(InputError, match="no class logits"):
        classed(own)


def test_confidence_is_the_log_odds_of_exp_minus_loss() -> None:
    """ln 2 is p = 1/2, whose odds are even; 1 is ln(1 / (e - 1))."""
    found = said(LOSSES).confidence_N
    assert found[1] == pytest.approx(0.0, abs=1e-12)
    assert found[2] == pytest.approx(-math.log(math.e - 1.0), rel=1e-12)
    assert found == pytest.approx(
        [-loss - math.log(-math.expm1(-loss)) for loss in LOSSES], rel=1e-9
    )


def test_a_loss_of_zero_stays_finite() -> None:
    own = said([0.0, 1e-30])
    assert own.error_N == pytest.approx([SMALLEST_LOSS] * 2)
    assert own.finite and np.isfinite(own.confidence_N).all()


def test_no_samples_are_no_numbers() -> None:
    own = said(np.zeros(0))
    assert own.log_prob_N.shape == own.error_N.shape == (0,) and own.probability_NG.shape == (0, 2)


def test_total_variation_is_the_difference_of_the_two_probabilities() -> None:
    one, other = said([math.log(2.0), 1.0]), said([math.log(4.0), 1.0])
    assert total_variation(one, other) == pytest.approx([0.25, 0.0])


def test_gain_golden() -> None:
    assert gain(said([0.5, 0.2], [1.0, 0.1])) == pytest.approx([math.log(2.0), -math.log(2.0)])


def test_a_loss_that_is_no_number_is_refused_and_an_age_that_is_none_is_not() -> None:
    check_finite("plugin", (said(LOSSES),))
    with pytest.raises(InputError, match="not numbers"):
        check_finite("plugin", (said([0.1, float("nan")]),))


def signals(seed: int, *, plain: bool = True) -> Signals:
    draw = np.random.default_rng(seed)
    sides = {}
    for name, count in (("forget", 12), ("unseen", 20), ("population", 15), ("retain", 30)):
        low = draw.uniform(0.05, 0.4, count)
        sides[name] = said(low, low * 1.5 if plain else None)
    return Signals(**sides)


def test_attacks_that_need_ages_are_left_out_with_the_reason() -> None:
    attacks = {name: ATTACKS.get(name)() for name in ATTACKS}
    found, unable = run_attacks(
        attacks, [signals(0), signals(1)], [signals(2), signals(3)], names=["one", "other"]
    )
    assert set(found[0]) == set(found[1]) == {"loss", "gain", "rmia", "lira"}
    assert unable.pop("person") == "nothing says who is in which picture"
    assert unable.pop("entropy") == "it says no class logits"
    further = {
        "views",
        "best-view",
        "other-pictures",
        "two-versions",
        "features",
        "head-difference",
    }
    assert all(unable.pop(name) for name in further)
    assert unable == dict.fromkeys(
        ("error", "error-lira", "task-loss"), "the model or the data has no ages"
    )
    assert all(
        np.isfinite(side).all() for scores in found for pair in scores.values() for side in pair
    )


def test_gain_needs_the_loss_without_the_plugin(world: World) -> None:
    ages: ClassPredictions = predict(world.original.model, world.sets.test)
    same = Signals(forget=ages, unseen=ages, population=ages, retain=ages)
    _, unable = run_attacks({"gain": ATTACKS.get("gain")()}, [same], [], names=["one"])
    assert unable == {"gain": "it reads the loss with and without a plugin, and this model is none"}
    with pytest.raises(InputError, match="this model is none"):
        gain(said(LOSSES))
    assert np.isfinite(residual(ages)).all()  # an age model has what a plugin lacks
