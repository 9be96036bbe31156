"""RNI: which tensors learn in which stretch, and which are disturbed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unplug.sdk.unlearning.anatomy import classifier
from unplug.sdk.unlearning.methods import rni
from unplug.sdk.unlearning.methods.rni import RNI, choose_tensors, norm_parameters

from .conftest import Case, changed, snapshot


def test_choose_tensors_avoids_norms_and_follows_from_the_generator(case: Case) -> None:
    model = case.model()
    chosen = choose_tensors(model, 9, torch.Generator().manual_seed(0))
    norms = {id(parameter) for parameter in norm_parameters(model)}
    assert len({id(item) for item in chosen}) == 9 and not norms & {id(item) for item in chosen}
    again = choose_tensors(model, 9, torch.Generator().manual_seed(0))
    other = choose_tensors(model, 9, torch.Generator().manual_seed(1))
    assert [id(item) for item in chosen] == [id(item) for item in again] != [id(item) for item in other]
    everything = choose_tensors(model, 10_000, torch.Generator())
    assert len(everything) + len(norms) == len(list(model.parameters()))


@pytest.mark.long
def test_frozen_tensors_stay_bit_for_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretch by stretch: at most nine tensors and the norms move; noise comes from the second stretch on."""
    model, states, noisy = case.model(), [], []
    real = rni.Descent.__call__

    def spy(self, net, problem, loss, **kwargs):  # type: ignore[no-untyped-def]
        before = snapshot(net)
        real(self, net, problem, loss, **kwargs)
        states.append((before, snapshot(net), kwargs.get("trainable"), kwargs["steps"]))
        return net

    def spy_noise(parameters: list[Tensor], sigma: float, generator: torch.Generator) -> None:
        noisy.append((len(parameters), sigma, len(states)))

    monkeypatch.setattr(rni.Descent, "__call__", spy)
    monkeypatch.setattr(rni, "add_noise", spy_noise)
    RNI(batch_size=8, sigma=0.04)(model, case.problem(budget=1.0))
    assert noisy == [(6, 0.04, stretch) for stretch in range(1, 5)]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    everywhere = set(names.values())
    norms = {names[id(parameter)] for parameter in norm_parameters(model)}
    assert len(states) == 6
    for before, after, trainable, steps in states[:5]:
        allowed = {names[id(parameter)] for parameter in trainable}
        moved = changed(before, after) & everywhere
        assert steps >= 1 and moved <= allowed and len(allowed - norms) == 9
        assert moved & norms and moved - norms
    before, after, trainable, steps = states[5]
    assert trainable is None and changed(before, after) >= everywhere
    assert sum(item[3] for item in states[:5]) / (steps + sum(item[3] for item in states[:5])) == pytest.approx(5 / 9, abs=0.1)


def test_only_the_classifier_is_reset(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rni.Descent, "__call__", lambda self, model, *_, **__: model)
    torch.manual_seed(0)
    model = RNI(noisy=0)(case.model(), case.problem())
    head: nn.Linear = classifier(model)
    ends = {name for name, value in model.named_parameters() if any(value is item for item in head.parameters())}
    assert changed(case.original, model) == ends


def test_fewer_steps_than_stretches(class_case: Case) -> None:
    given = class_case.problem(budget=0.6)  # 345 passes: 7 steps of 16
    RNI(batch_size=16)(class_case.model(), given)
    assert given.meter.spent.forward == 7 * 16
