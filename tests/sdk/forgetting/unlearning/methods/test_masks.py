"""MSG, CT and SalUn against hand-made kernels, masks and naive autograd, and the repair that
follows.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from unplug.sdk.forgetting.unlearning import Repair
from unplug.sdk.forgetting.unlearning.anatomy import convolutions
from unplug.sdk.forgetting.unlearning.methods import salun
from unplug.sdk.forgetting.unlearning.methods.ct import transpose_kernels
from unplug.sdk.forgetting.unlearning.methods.msg import difference_gradient, reinitialise
from unplug.sdk.forgetting.unlearning.methods.salun import (
    SalUn,
    random_labels,
    relabelled_passes,
    saliency,
    top_share,
)
from unplug.sdk.learning.training import labelled, steps_per_epoch

from .conftest import PLAIN, Case, assert_weights, changed, error, sgd_step, snapshot, whole_batch

GRADIENT_TOLERANCE = 2e-5  # float32 sums in another order, over three batches instead of one


def test_square_kernels_are_transposed_and_no_others(age_case: Case) -> None:
    square, oblong = nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, (1, 3))
    with torch.no_grad():
        square.weight.copy_(torch.arange(9.0).view(1, 1, 3, 3))
    before = oblong.weight.detach().clone()
    transpose_kernels(nn.Sequential(square, oblong))
    assert square.weight[0, 0].tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    assert torch.equal(oblong.weight, before)
    model = age_case.model()
    transpose_kernels(model)
    large = {name for name, module in convolutions(model) if module.kernel_size != (1, 1)}
    assert changed(age_case.original, model) == {f"{name}.weight" for name in large}


def test_weights_are_drawn_with_the_deviation_of_the_fan_out() -> None:
    """sqrt(2 / (C_out k k)), whatever the fan-in."""
    net = nn.Sequential(nn.Conv2d(8, 64, 3, bias=False))
    gradients = {"0.weight": torch.zeros(64, 8, 3, 3)}
    reinitialise(net, gradients, 0.999, 1.0, torch.Generator().manual_seed(0))
    assert float(net[0].weight.detach().std()) == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)


def test_difference_gradient_equals_the_formula(age_case: Case) -> None:
    """grad [ CE(D_r) - CE(D_f) ] in one expression on the whole sets, of equal size."""
    forget = age_case.sets.forget
    size = len(forget)
    retain = age_case.sets.train.subset(range(size))
    given = age_case.problem(retain=retain, budget=5.0, recipe={"batch_size": 11})
    model, slow = age_case.model(), age_case.model()
    fast = difference_gradient(model, given)
    kept, gone = (
        nn.functional.cross_entropy(slow(whole_batch(data).image_BCHW)["age_logits"], data.group_N)
        for data in (retain, forget)
    )
    weights = {f"{name}.weight": module.weight for name, module in convolutions(slow)}
    gradients = torch.autograd.grad(kept - gone, list(weights.values()))
    assert fast.keys() == weights.keys()
    for name, gradient in zip(weights, gradients, strict=True):
        tolerance = GRADIENT_TOLERANCE * (1 + gradient.abs().max())
        assert (fast[name] - gradient).abs().max() <= tolerance, name
    # not a comparison of zeros
    assert max(float(gradient.abs().max()) for gradient in gradients) > 1e-3
    # batch-norm statistics stay, and no gradient is left over for the repair
    assert not changed(age_case.original, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert (given.meter.spent.forward, given.meter.spent.backward) == (2 * size, 2 * size)
    given = age_case.problem(forget=forget.subset([0, 1, 2]))
    difference_gradient(model, given)
    assert given.meter.spent.forward == 2 * 3


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.9])
def test_reinitialise_draws_the_smallest_gradients_anew(age_case: Case, ratio: float) -> None:
    model, draw = age_case.model(), torch.Generator().manual_seed(3)
    gradients = {
        f"{name}.weight": torch.randn(module.weight.shape, generator=draw)
        for name, module in convolutions(model)
    }
    before = snapshot(model)
    scale = reinitialise(model, gradients, ratio, 0.25, torch.Generator().manual_seed(4))
    assert scale.keys() == gradients.keys() >= changed(before, model)
    for name, gradient in gradients.items():
        moved = model.state_dict()[name] != before[name]
        assert int(moved.sum()) == round(ratio * gradient.numel()), name
        assert gradient[moved].abs().max() <= gradient[~moved].abs().min(), name
        assert torch.equal(scale[name], torch.where(moved, 1.0, 0.25)), name


def test_keep_zero_freezes_what_was_not_drawn_anew(age_case: Case) -> None:
    model, given = age_case.model(), age_case.problem()
    scale = reinitialise(model, difference_gradient(model, given), 0.3, 0.0, given.generator)
    before = snapshot(model)
    Repair(lr=0.01, shape="up-down")(model, given, scale)
    moved = {name: value != before[name] for name, value in model.state_dict().items()}
    for name, weight in scale.items():
        assert not moved[name][weight == 0].any(), name
        assert moved[name][weight == 1].float().mean() > 0.9, name
    assert moved["classifier.weight"].any()


def test_saliency_is_the_gradient_of_the_forget_loss(class_case: Case) -> None:
    model, slow = class_case.model().train(), class_case.model()
    problem = class_case.problem(recipe={"batch_size": 7})
    sizes = saliency(model, problem)
    loss = error(slow, whole_batch(class_case.sets.forget))
    gradients = torch.autograd.grad(loss, list(slow.parameters()))
    for (name, size), gradient in zip(sizes.items(), gradients, strict=True):
        assert torch.allclose(size, gradient.abs(), atol=1e-5), name
    assert not changed(class_case.original, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert problem.meter.spent.backward == 16


def test_random_labels_reach_all_groups_and_are_drawn_anew_each_pass(case: Case) -> None:
    data, edges = case.sets.forget, case.task.edges
    drawn = [random_labels(data, edges, torch.Generator().manual_seed(seed)) for seed in range(60)]
    assert {int(wrong.group_N[0]) for wrong in drawn} == set(range(len(edges) - 1))
    size = len(data) // 2
    passes = relabelled_passes(case.problem(), size)
    first, second = (
        torch.cat([labelled(next(passes)).group_B for _ in range(steps_per_epoch(len(data), size))])
        for _ in range(2)
    )
    assert len(first) == len(second) and not torch.equal(first, second)
    if bool(data.age_N.isnan().all()):
        assert bool(drawn[0].age_N.isnan().all())
    else:
        middles = [(edges[group] + edges[group + 1]) / 2 for group in drawn[0].group_N.tolist()]
        assert drawn[0].age_N.tolist() == pytest.approx(middles)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_masked_weights_stay_bit_for_bit(class_case: Case, optimizer: str) -> None:
    """With a weight decay that would show."""
    given = class_case.problem(recipe={"weight_decay": 1.0}, compute=400)
    mask = top_share(saliency(class_case.model(), class_case.problem()), 0.5)
    model = SalUn(lr=0.01, optimizer=optimizer)(class_case.model(), given)
    start = dict(class_case.original.named_parameters())
    moved = torch.cat(
        [(value != start[name]).flatten() for name, value in model.named_parameters()]
    )
    free = torch.cat([mask[name].flatten() == 1 for name in start])
    assert not moved[~free].any() and moved[free].float().mean() > 0.95
    assert int(free.sum()) == pytest.approx(len(free) / 2, abs=1)


def test_salun_one_step_is_the_formula(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    wrong = random_labels(forget, class_case.task.edges, torch.Generator().manual_seed(0))
    monkeypatch.setattr(salun, "random_labels", lambda *_: wrong)
    down, gone = whole_batch(retain), whole_batch(wrong)

    def loss(model: nn.Module) -> Tensor:
        return 0.5 * error(model, down, train=True) + error(model, gone)

    mask = top_share(saliency(class_case.model(), class_case.problem()), 0.3)
    start = dict(class_case.original.named_parameters())
    expected = {
        name: torch.where(mask[name] == 1, value, start[name].detach())
        for name, value in sgd_step(class_case.original, loss, 0.1).items()
    }
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + 2 * len(forget))
    method = SalUn(ratio=0.3, alpha=0.5, lr=0.1, optimizer="sgd")
    assert_weights(method(class_case.model(), given), expected, class_case.original)
