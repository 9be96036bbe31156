"""PRMQ: which weights are drawn anew, what entropy is, what rounding leaves."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from unplug.sdk.unlearning.anatomy import layers
from unplug.sdk.unlearning.distil import entropy
from unplug.sdk.unlearning.methods import prmq
from unplug.sdk.unlearning.methods.prmq import PRMQ, refill, round_to_half

from .conftest import Case, changed, snapshot


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.99, 1.0])
def test_refill_draws_the_globally_smallest_weights_anew(case: Case, ratio: float) -> None:
    model, before = case.model(), snapshot(case.original)
    refill(model, ratio, torch.Generator().manual_seed(0))
    names = [f"{name}.weight" for name, _ in layers(model)]
    assert changed(before, model) <= set(names)
    after = model.state_dict()
    moved_W = torch.cat([(after[name] != before[name]).flatten() for name in names])
    size_W = torch.cat([before[name].abs().flatten() for name in names])
    assert int(moved_W.sum()) == pytest.approx(round(ratio * len(moved_W)), abs=2)
    if ratio < 1.0:
        assert size_W[moved_W].max() <= size_W[~moved_W].min()  # one threshold for the whole network


def test_refill_is_uniform_up_to_one_over_the_root_of_the_fan_in() -> None:
    net = nn.Sequential(nn.Conv2d(4, 64, 3), nn.Conv2d(64, 16, 1))
    refill(net, 1.0, torch.Generator().manual_seed(1))
    for module, fan_in in ((net[0], 36), (net[1], 64)):
        bound = 1 / math.sqrt(fan_in)
        weight = module.weight.detach()
        assert 0.95 * bound < float(weight.abs().max()) <= bound
        assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.06)


def test_entropy_golden() -> None:
    z_BG = torch.tensor([[0.0, 0.0, 0.0, 0.0], [60.0, 0.0, 0.0, 0.0], [math.log(3.0), 0.0, -80.0, -80.0]])
    expected = [math.log(4), 0.0, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))]
    assert entropy(z_BG).tolist() == pytest.approx(expected, abs=1e-5)


def test_every_weight_is_an_fp16_number_afterwards(class_case: Case) -> None:
    model = PRMQ(batch_size=16)(class_case.model(), class_case.problem())
    for name, value in model.named_parameters():
        assert value.dtype == torch.float32 and torch.equal(value.half().float(), value), name
    assert not all(torch.equal(value.half().float(), value) for value in class_case.original.parameters())


def test_rounding_moves_by_at_most_half_a_step() -> None:
    net = nn.Linear(40, 40)
    before = net.weight.detach().clone()
    round_to_half(net)
    assert ((net.weight - before).abs() <= before.abs() * 2**-11 + 2**-25).all()


@pytest.mark.long
def test_the_entropy_term_compares_with_the_original(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but the entropy term the repaired student answers as surely as the original did."""
    given = class_case.problem(budget=3.0)
    monkeypatch.setattr(prmq, "weighted_mean", lambda loss_B, weight_B: loss_B.sum() * 0.0)
    model = PRMQ(ratio=0.3, match=1.0, batch_size=8)(class_case.model(), given)
    broken = class_case.model()
    refill(broken, 0.3, torch.Generator().manual_seed(0))
    image = given.retain.batch(torch.arange(32)).image_BCHW
    with torch.no_grad():
        student, teacher, harmed = (entropy(net(image)["logits"]) for net in (model, class_case.original, broken))
    assert float((student - teacher).square().mean()) < float((harmed - teacher).square().mean())
