"""Recipes: values out of range are refused by name; learning rates by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import InputError
from unplug.sdk.learning.training import Recipe, learning_rate

ROOT = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [1.0] * 8),
        # cos(pi k / 8)
        (
            "cosine",
            [
                1.0,
                0.5 + 0.5 * math.cos(math.pi / 8),
                0.5 + 0.5 * ROOT,
                0.6913417,
                0.5,
                0.3086583,
                0.5 - 0.5 * ROOT,
                0.0380602,
            ],
        ),
        # a quarter up: 1/25, 1/25 + 24/25 / 2; then cos(pi k / 6): 1, sqrt(3)/2, 1/2, 0, -1/2,
        # -sqrt(3)/2
        ("one-cycle", [0.04, 0.52, 1.0, 0.9330127, 0.75, 0.5, 0.25, 0.0669873]),
    ],
)
def test_learning_rates_by_hand(schedule: Any, rates: list[float]) -> None:
    assert [learning_rate(step, 8, 2.0, schedule) for step in range(8)] == pytest.approx(
        [2.0 * rate for rate in rates]
    )


@given(st.integers(1, 500), st.sampled_from(["one-cycle", "cosine", "constant"]))
def test_learning_rates_stay_between_zero_and_the_peak(total: int, schedule: Any) -> None:
    rates = [learning_rate(step, total, 0.3, schedule) for step in range(total)]
    assert all(0 < rate <= 0.3 for rate in rates), "a last step of zero would be wasted"
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1]) and rates[peak:] == sorted(
        rates[peak:], reverse=True
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", "tiny"),
        ("schedule", "linear"),
        ("loss", "mse"),
        ("augment", "mixup"),
        ("size", ["nano"]),
        ("epochs", 0),
        ("epochs", 2.5),
        ("batch_size", 1),
        ("batch_size", 8.0),
        ("lr", 0.0),
        ("lr", math.nan),
        ("lr", 11.0),
        ("weight_decay", -0.1),
        ("smoothing", 0.6),
        ("ema", 1.0),
        ("ema", -0.1),
        ("image_size", 31),
        ("image_size", 225),
        ("image_size", 64.0),
        ("dropout", 0.95),
        ("dropout", math.nan),
    ],
)
def test_values_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        Recipe(**{name: value})


def test_a_recipe_comes_back_from_json() -> None:
    recipe = Recipe(size="base", lr=1e-4, loss="ce+l1", schedule="cosine", ema=0.0)
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    "raw", [None, [], "nano", {"code": "print()"}, {"epochs": "3"}, {"epochs": None}, {"lr": [1]}]
)
def test_what_is_no_recipe_is_refused(raw: Any) -> None:
    with pytest.raises(InputError):
        Recipe.from_dict(raw)
