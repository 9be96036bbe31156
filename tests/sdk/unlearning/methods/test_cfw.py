"""CFW: what its noise and its weights are."""

from __future__ import annotations

import pytest
import torch

from unplug.sdk.unlearning.methods import cfw
from unplug.sdk.unlearning.methods.cfw import CFW, add_noise, class_weights, weighted_mean

from .conftest import Case, changed, snapshot


def test_only_the_first_convolution_is_harmed_before_the_repair(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfw.Descent, "__call__", lambda self, model, *_, **__: model)
    model = CFW(sigma=0.6)(case.model(), case.problem())
    moved = changed(case.original, model)
    assert moved == {next(name for name, _ in case.original.named_parameters())}
    noise = (snapshot(model)[next(iter(moved))] - snapshot(case.original)[next(iter(moved))]).flatten()
    assert len(noise) > 400
    assert float(noise.std()) == pytest.approx(0.6, rel=0.1) and abs(float(noise.mean())) < 0.1


def test_late_noise_comes_once_before_the_last_quarter(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    monkeypatch.setattr(cfw, "add_noise", lambda parameters, sigma, _: calls.append(len(list(parameters)) * sigma))
    given = class_case.problem(budget=2.0)  # 1152 passes: 12 steps of 32
    real = cfw.Descent.__call__

    def spy(self, model, problem, loss, *, steps: int, on_step):  # type: ignore[no-untyped-def]
        def counted(step: int) -> None:
            on_step(step)
            seen.append(len(calls))

        seen: list[int] = []
        real(self, model, problem, loss, steps=steps, on_step=counted)
        assert seen == [1] * 8 + [2] * 4  # one call for the first noise, the second after 9 of 12 steps
        return model

    monkeypatch.setattr(cfw.Descent, "__call__", spy)
    CFW(sigma=1.0, late_sigma=0.5)(class_case.model(), given)
    assert calls == [1.0, 20 * 0.5]  # ResNet-18 has 20 convolutions


def test_class_weights_golden() -> None:
    group_N = torch.tensor([0, 0, 0, 0, 2])
    assert class_weights(group_N, 4, power=1.0).tolist() == [0.25, 0.0, 1.0, 0.0]
    assert class_weights(group_N, 4, power=0.1)[0] == pytest.approx(4**-0.1)
    assert float(weighted_mean(torch.tensor([2.0, 4.0]), torch.tensor([0.25, 0.75]))) == pytest.approx(3.5)


def test_noise_follows_from_the_generator() -> None:
    first, second = torch.zeros(50), torch.zeros(50)
    for weight in (first, second):
        add_noise([weight], 2.0, torch.Generator().manual_seed(1))
    assert torch.equal(first, second) and 1.5 < float(first.std()) < 2.5
