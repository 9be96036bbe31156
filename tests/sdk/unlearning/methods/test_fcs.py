"""FCS: its two forget losses by hand, and who is read when."""

from __future__ import annotations

import math

import pytest
import torch

from unplug.sdk.unlearning.distil import not_uniform
from unplug.sdk.unlearning.methods import fcs
from unplug.sdk.unlearning.methods.fcs import FCS, contrastive

from .conftest import Case, changed


def test_contrastive_golden() -> None:
    """z_f = [1 0], [0 2]; z_r = identity; temperature 1: rows of similarities (1, 0) and (0, 2)."""
    z_FG, z_RG = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.eye(2)
    first = math.log(math.e + 1)  # ln(e^1 + e^0)
    second = math.log(1 + math.e**2)
    expected = ((first - 1) + first + second + (second - 2)) / 4
    assert float(contrastive(z_FG, z_RG, 1.0)) == pytest.approx(expected, rel=1e-6)
    assert float(contrastive(2 * z_FG, z_RG, 2.0)) == pytest.approx(expected, rel=1e-6)  # the temperature divides


def test_contrastive_is_least_where_all_similarities_are_equal() -> None:
    same = contrastive(torch.zeros(3, 2), torch.randn(5, 2, generator=torch.Generator().manual_seed(0)), 1.15)
    assert float(same) == pytest.approx(math.log(5))
    assert contrastive(torch.ones(3, 2), torch.eye(2) * 3, 1.15) > contrastive(torch.zeros(3, 2), torch.eye(2) * 3, 1.15) - 1e-6


def test_not_uniform_golden() -> None:
    assert float(not_uniform(torch.zeros(2, 4))) == pytest.approx(0.0, abs=1e-6)
    assert float(not_uniform(torch.tensor([[50.0, 0.0, 0.0, 0.0]]))) == pytest.approx(math.log(4))  # a sure answer
    p = (0.75, 0.25)
    kl = sum(value * math.log(value / 0.5) for value in p)
    assert float(not_uniform(torch.tensor([[math.log(3.0), 0.0]]))) == pytest.approx(kl, rel=1e-5)


def test_phases_in_order_with_falling_rates(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass that flattens, then contrast and repair in turn, the rates falling by a cosine."""
    seen: list[tuple[float, int]] = []
    real = fcs.Descent.__call__

    def spy(self, model, problem, loss, *, steps):  # type: ignore[no-untyped-def]
        seen.append((self.lr, steps))
        return real(self, model, problem, loss, steps=steps)

    monkeypatch.setattr(fcs.Descent, "__call__", spy)
    method = FCS(rounds=2, batch_size=8, flatten_lr=0.001, contrast_lr=0.002, lr=0.004)
    given = class_case.problem(budget=2.0)
    method(class_case.model(), given)
    assert [lr for lr, _ in seen] == pytest.approx([0.001, 0.002, 0.004, 0.001, 0.002])
    flattens, *rounds = (steps for _, steps in seen)
    assert flattens == 2  # 16 samples by 8
    assert rounds[0] == rounds[2] == 2 and rounds[1] > 5 and rounds[3] > 5  # never more than a pass over the forget set


def test_the_first_phase_flattens_the_forget_outputs(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcs.Descent.__call__

    def first_alone(self, model, problem, loss, *, steps):  # type: ignore[no-untyped-def]
        return real(self, model, problem, loss, steps=steps) if self.lr == 0.001 else model

    monkeypatch.setattr(fcs.Descent, "__call__", first_alone)
    given = class_case.problem(budget=1.0)
    after = FCS(batch_size=8, flatten_lr=0.001)(class_case.model(), given)
    batch = given.forget.batch(torch.arange(len(given.forget)))
    with torch.no_grad():
        flat = [float(not_uniform(model(batch.image_BCHW)["logits"])) for model in (class_case.model(), after)]
    assert flat[1] < 0.9 * flat[0]
    assert not any("running" in name for name in changed(class_case.original, after))  # forget batches leave statistics
