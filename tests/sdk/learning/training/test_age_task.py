"""Losses by hand, their gradients by finite differences, and the mean ages of groups."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.forgetting.tasks.age import group_centers
from unplug.sdk.learning.training import ClassPredictions, ImageBatch, Recipe, summarize

CENTERS = torch.tensor([5.0, 20.0, 50.0])
LOGITS = [[math.log(2.0), 0.0, 0.0], [0.0, 0.0, 0.0]]  # probabilities 1/2 1/4 1/4 and 1/3 1/3 1/3
AGES, GROUPS = [8.0, 50.0], [0, 2]
EXPECTED = [0.5 * 5 + 0.25 * 20 + 0.25 * 50, 25.0]  # 20 and 25 years


def age_loss(
    outputs: dict[str, Tensor], batch: ImageBatch, centers: Tensor = CENTERS, **recipe: Any
) -> Tensor:
    model = SimpleNamespace(age_centers=centers)
    return task(**recipe).loss(model, outputs, batch)


def task(**recipe: Any) -> AgeTask:
    return AgeTask(recipe=Recipe(**recipe), edges=(0.0, 10.0, 30.0, 100.0))


def outputs_of(logits: Tensor) -> dict[str, Tensor]:
    return {
        "age_logits": logits,
        "expected_age": (logits.softmax(1) * CENTERS.to(logits.dtype)).sum(1, keepdim=True),
    }


def batch_of(dtype: torch.dtype = torch.float32) -> ImageBatch:
    return ImageBatch(
        image_BCHW=torch.zeros(2, 3, 1, 1),
        age_B=torch.tensor(AGES, dtype=dtype),
        group_B=torch.tensor(GROUPS),
    )


def by_hand(name: str, smoothing: float = 0.0, width: float = 4.0) -> list[float]:
    """The formulas of `AgeTask`, in plain Python."""
    losses = []
    for logits, age, group, expected in zip(LOGITS, AGES, GROUPS, EXPECTED, strict=True):
        total = sum(math.exp(z) for z in logits)
        log_p = [z - math.log(total) for z in logits]
        if name == "ordinal":
            raw = [math.exp(-((c - age) ** 2) / (2 * width**2)) for c in CENTERS.tolist()]
            target = [value / sum(raw) for value in raw]
        else:
            target = [(1 - smoothing) * (g == group) + smoothing / 3 for g in range(3)]
        loss = -sum(t * p for t, p in zip(target, log_p, strict=True))
        losses.append(loss + (0.0 if name == "ce" else abs(expected - age) / 10))
    return losses


@pytest.mark.parametrize(
    ("name", "options"), [("ce", {}), ("ce+l1", {}), ("ordinal", {}), ("ce", {"smoothing": 0.3})]
)
def test_losses_by_the_formula(name: Any, options: dict[str, float]) -> None:
    loss_B = age_loss(outputs_of(torch.tensor(LOGITS)), batch_of(), loss=name, **options)
    assert loss_B.tolist() == pytest.approx(by_hand(name, **options), rel=1e-5)


def test_log_prob_is_that_of_the_true_group() -> None:
    values = task().log_prob(outputs_of(torch.tensor(LOGITS)), batch_of())
    assert values.tolist() == pytest.approx([math.log(1 / 2), math.log(1 / 3)], rel=1e-5)


def test_group_centers_are_mean_ages_and_middles_where_nobody_is() -> None:
    ages, groups = torch.tensor([1.0, 2.0, 4.5, 70.0]), torch.tensor([0, 0, 0, 2])
    assert group_centers(ages, groups, (0.0, 10.0, 60.0, 100.0)) == (2.5, 35.0, 70.0)


def test_summary_by_hand() -> None:
    predictions = ClassPredictions(
        logits_NG=np.array([[math.log(3.0), 0.0], [0.0, math.log(3.0)], [0.0, 0.0]]),
        age_N=np.array([10.0, 20.0, 33.0]),
        true_age_N=np.array([12.0, 15.0, 30.0]),
        true_group_N=np.array([0, 0, 0]),
    )
    row = summarize(predictions, (0.0, 40.0, 80.0))
    # a tie goes to the first group
    assert row["n"] == 3 and row["accuracy"] == pytest.approx(2 / 3)
    assert row["mae"] == pytest.approx(10 / 3)
    assert row["loss"] == pytest.approx((math.log(4 / 3) + math.log(4) + math.log(2)) / 3)
    assert row["per_group"][1] == {"ages": "40-80", "n": 0, "accuracy": None, "mae": None}
    assert row["per_group"][0]["n"] == 3


def test_log_probabilities_survive_large_logits() -> None:
    predictions = ClassPredictions(
        logits_NG=np.array([[1e4, 0.0], [-1e4, 0.0]]),
        age_N=np.zeros(2),
        true_age_N=np.zeros(2),
        true_group_N=np.array([0, 0]),
    )
    assert predictions.log_prob_N.tolist() == [0.0, -1e4]
