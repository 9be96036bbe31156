"""MSG, CT and SalUn against hand-made kernels, masks and naive autograd, and the repair that
follows.
"""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import BudgetExceeded
from unplug.plugins import AgePredictor
from unplug.sdk.forgetting.unlearning import Repair
from unplug.sdk.forgetting.unlearning.anatomy import convolutions
from unplug.sdk.forgetting.unlearning.descent import _up_down
from unplug.sdk.forgetting.unlearning.distil import not_uniform
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
from unplug.sdk.learning.training import ImageSet, labelled, steps_per_epoch

from .conftest import PLAIN, Case, assert_weights, changed, sgd_step, snapshot, whole_batch

GRADIENT_TOLERANCE = 2e-5  # float32 sums in another order, over three batches instead of one


@pytest.fixture
def model(age_case: Case) -> AgePredictor:
    copied = age_case.model()
    assert isinstance(copied, AgePredictor)
    return copied


def test_goldens_of_kernels_rates_and_masks() -> None:
    convolution = nn.Conv2d(1, 1, 3, bias=True)
    with torch.no_grad():
        convolution.weight.copy_(torch.arange(9.0).view(1, 1, 3, 3))
    transpose_kernels(nn.Sequential(convolution))
    assert convolution.weight[0, 0].tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    oblong = nn.Conv2d(1, 1, (1, 3))
    before = oblong.weight.detach().clone()
    transpose_kernels(nn.Sequential(oblong))
    assert torch.equal(oblong.weight, before), "an oblong kernel was turned"
    assert [_up_down(step, 4, 1.0) for step in range(4)] == [0.25, 0.75, 0.75, 0.25]
    # Over all tensors together: a tensor of small numbers is masked out whole.
    sizes = {
        "a": torch.tensor([9.0, 1.0]),
        "b": torch.tensor([[0.2, 0.1]]),
        "c": torch.tensor([5.0, 6.0]),
    }
    mask = top_share(sizes, 0.5)
    assert {name: value.tolist() for name, value in mask.items()} == {
        "a": [1, 0],
        "b": [[0, 0]],
        "c": [1, 1],
    }
    assert all(bool((value == 1).all()) for value in top_share(sizes, 1.0).values())
    # The standard deviation must be sqrt(2 / (C_out k k)), whatever the fan-in.
    net = nn.Sequential(nn.Conv2d(8, 64, 3, bias=False))
    with torch.no_grad():
        net[0].weight.zero_()
    reinitialise(
        net, {"0.weight": torch.zeros(64, 8, 3, 3)}, 0.999, 1.0, torch.Generator().manual_seed(0)
    )
    weight = net[0].weight.detach()
    drawn = weight[weight != 0]
    assert float(drawn.std()) == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)


def test_transpose_is_an_involution_and_touches_large_kernels_alone(model: AgePredictor) -> None:
    before = snapshot(model)
    transpose_kernels(model)
    large = {
        f"{name}.weight" for name, module in convolutions(model) if module.kernel_size != (1, 1)
    }
    assert changed(before, model) == large
    transpose_kernels(model)
    assert not changed(before, model)


def naive_difference_gradient(
    model: AgePredictor, retain: ImageSet, forget: ImageSet
) -> dict[str, Tensor]:
    """The formula in one expression on the whole sets: grad [ CE(D_r) - CE(D_f) ]."""
    model = copy.deepcopy(model).eval()
    losses = []
    for data in (retain, forget):
        image = data.image_NCHW.float() / 255.0
        losses.append(F.cross_entropy(model(image)["age_logits"], data.group_N))
    weights = {f"{name}.weight": module.weight for name, module in convolutions(model)}
    return dict(
        zip(
            weights, torch.autograd.grad(losses[0] - losses[1], list(weights.values())), strict=True
        )
    )


def test_difference_gradient_equals_the_formula(age_case: Case, model: AgePredictor) -> None:
    size = len(age_case.sets.forget)
    # As many retain samples as forget samples: the random sample is then the whole set, in some
    # order.
    retain = age_case.sets.train.subset(range(size))
    given = age_case.problem(retain=retain, budget=5.0, recipe={"batch_size": 11})
    state = snapshot(model)
    fast = difference_gradient(model, given)
    slow = naive_difference_gradient(age_case.original, retain, age_case.sets.forget)
    assert fast.keys() == slow.keys()
    for name, gradient in slow.items():
        assert (fast[name] - gradient).abs().max() <= GRADIENT_TOLERANCE * (
            1 + gradient.abs().max()
        ), name
    # not a comparison of zeros
    assert max(float(gradient.abs().max()) for gradient in slow.values()) > 1e-3
    # ImageBatch-norm statistics stay, and no gradient is left over for the repair.
    assert not changed(state, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert (given.meter.spent.forward, given.meter.spent.backward) == (2 * size, 2 * size)


def test_a_small_forget_set_and_a_small_budget(age_case: Case, model: AgePredictor) -> None:
    small = age_case.sets.forget.subset([0, 1, 2])
    given = age_case.problem(forget=small)
    difference_gradient(model, given)
    assert given.meter.spent.forward == 2 * 3
    # 0.05 * 0.8 * 3 epochs * about 140 samples is under one batch of 32
    given = age_case.problem(budget=0.05)
    before = snapshot(model)
    with pytest.raises(BudgetExceeded, match="does not cover one step"):
        Repair(lr=0.001)(model, given)
    assert not changed(before, model)


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.9])
def test_reinitialise_draws_the_smallest_gradients_anew(model: AgePredictor, ratio: float) -> None:
    draw = torch.Generator().manual_seed(3)
    gradients = {
        f"{name}.weight": torch.randn(module.weight.shape, generator=draw)
        for name, module in convolutions(model)
    }
    before = snapshot(model)
    scale = reinitialise(model, gradients, ratio, 0.25, torch.Generator().manual_seed(4))
    assert scale.keys() == gradients.keys()
    after = model.state_dict()
    for name, gradient in gradients.items():
        moved = after[name] != before[name]
        assert int(moved.sum()) == round(ratio * gradient.numel()), name
        assert gradient[moved].abs().max() <= gradient[~moved].abs().min(), name
        assert torch.equal(scale[name], torch.where(moved, 1.0, 0.25)), name
    assert changed(before, model) <= gradients.keys()


def test_keep_zero_freezes_what_was_not_drawn_anew(age_case: Case, model: AgePredictor) -> None:
    given = age_case.problem()
    scale = reinitialise(model, difference_gradient(model, given), 0.3, 0.0, given.generator)
    before = snapshot(model)
    Repair(lr=0.01, shape="up-down")(model, given, scale)
    after = model.state_dict()
    for name, weight in scale.items():
        assert torch.equal(after[name][weight == 0], before[name][weight == 0]), name
        assert (after[name][weight == 1] != before[name][weight == 1]).float().mean() > 0.9, name
    assert not torch.equal(after["classifier.weight"], before["classifier.weight"])


def test_saliency_is_the_gradient_of_the_forget_loss(class_case: Case) -> None:
    model = class_case.model().train()
    before = snapshot(model)
    problem = class_case.problem(recipe={"batch_size": 7})
    found = saliency(model, problem)
    batch = whole_batch(class_case.sets.forget)
    slow = copy.deepcopy(class_case.original).eval()
    loss = F.cross_entropy(slow(batch.image_BCHW)["logits"], batch.group_B)
    for name, gradient in zip(
        found, torch.autograd.grad(loss, list(slow.parameters())), strict=True
    ):
        assert torch.allclose(found[name], gradient.abs(), atol=1e-5), name
    assert not changed(before, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert problem.meter.spent.backward == 16


def test_random_labels_reach_all_groups_and_are_drawn_anew_each_pass(
    age_case: Case, class_case: Case
) -> None:
    for case in (age_case, class_case):
        data, edges = case.sets.forget, case.task.edges
        seen = {}
        for seed in range(60):
            wrong = random_labels(data, edges, torch.Generator().manual_seed(seed))
            seen[seed] = wrong.group_N
        first = {int(group_N[0]) for group_N in seen.values()}
        assert first == set(range(len(edges) - 1))
        given = case.problem()
        size = len(data) // 2
        passes = relabelled_passes(given, size)
        first_pass, second_pass = (
            [labelled(next(passes)) for _ in range(steps_per_epoch(len(data), size))]
            for _ in range(2)
        )
        seen_groups = [
            torch.cat([batch.group_B for batch in one]).tolist()
            for one in (first_pass, second_pass)
        ]
        assert len(seen_groups[0]) == len(seen_groups[1]) and seen_groups[0] != seen_groups[1]
        assert bool(torch.isnan(wrong.age_N).all()) == (case is class_case)
    wrong = random_labels(
        age_case.sets.forget, age_case.task.edges, torch.Generator().manual_seed(0)
    )
    edges = age_case.task.edges
    middles = [(edges[int(group)] + edges[int(group) + 1]) / 2 for group in wrong.group_N]
    assert wrong.age_N.tolist() == pytest.approx(middles)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_masked_weights_stay_bit_for_bit(class_case: Case, optimizer: str) -> None:
    """With a weight decay that would show."""
    given = class_case.problem(recipe={"weight_decay": 1.0}, compute=400)
    mask = top_share(saliency(class_case.model(), class_case.problem()), 0.5)
    model = SalUn(lr=0.01, optimizer=optimizer)(class_case.model(), given)  # type: ignore[arg-type]
    start, moved, frozen = dict(class_case.original.named_parameters()), 0, 0
    for name, value in model.named_parameters():
        still = mask[name] == 0
        assert torch.equal(value[still], start[name][still]), name
        moved += int((value[~still] != start[name][~still]).sum())
        frozen += int(still.sum())
    total = sum(value.numel() for value in start.values())
    assert frozen == pytest.approx(total / 2, abs=1)
    assert moved > 0.95 * (total - frozen)


def test_one_step_is_the_formula(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    wrong = random_labels(forget, class_case.task.edges, torch.Generator().manual_seed(0))
    monkeypatch.setattr(salun, "random_labels", lambda *_: wrong)
    down, gone = whole_batch(retain), whole_batch(wrong)

    def loss(model: nn.Module) -> Tensor:
        kept = F.cross_entropy(model.train()(down.image_BCHW)["logits"], down.group_B)
        return F.cross_entropy(model.eval()(gone.image_BCHW)["logits"], gone.group_B) + 0.5 * kept

    mask = top_share(saliency(class_case.model(), class_case.problem()), 0.3)
    start = dict(class_case.original.named_parameters())
    free = sgd_step(class_case.original, loss, 0.1)
    expected = {
        name: torch.where(mask[name] == 1, free[name], start[name].detach()) for name in free
    }
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + 2 * len(forget))
    method = SalUn(ratio=0.3, alpha=0.5, lr=0.1, optimizer="sgd")
    assert_weights(method(class_case.model(), given), expected, class_case.original)


@pytest.mark.long
def test_labels_at_random_flatten_the_forget_outputs(class_case: Case) -> None:
    batch = whole_batch(class_case.sets.forget)

    def loss(model: nn.Module) -> float:
        with torch.no_grad():
            return float(not_uniform(model.eval()(batch.image_BCHW)["logits"]))

    model = SalUn(lr=3e-3)(class_case.model(), class_case.problem(compute=1600))
    assert loss(model) < 0.9 * loss(class_case.original)
