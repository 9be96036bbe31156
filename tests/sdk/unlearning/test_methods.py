"""The methods against their formulas: hand-made kernels, naive autograd, poisoned forget sets."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError
from unplug.plugins import AGE_EDGES, AgePredictor
from unplug.sdk.training import AgeFamily, ImageBatch, ImageSet
from unplug.sdk.unlearning import Cost, ForgetProblem, Meter, Repair, RetrainCost, build_method
from unplug.sdk.unlearning.anatomy import convolutions
from unplug.sdk.unlearning.descent import _up_down
from unplug.sdk.unlearning.methods.ct import transpose_kernels
from unplug.sdk.unlearning.methods.msg import MSG, difference_gradient, reinitialise

from ..conftest import RECIPE, World

FAMILY = AgeFamily(recipe=RECIPE, edges=tuple(map(float, AGE_EDGES)))
GRADIENT_TOLERANCE = 2e-5  # float32 sums in another order, over three batches instead of one


class Poisoned(ImageSet):
    """A set that must not be looked at."""

    def batch(self, index_B: Tensor) -> ImageBatch:
        raise AssertionError("the forget set was read")

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        raise AssertionError("the forget set was read")

    def subset(self, index: object) -> ImageSet:
        raise AssertionError("the forget set was read")


def poisoned(like: ImageSet) -> Poisoned:
    """As many samples as `like` has, without pixels or labels."""
    empty = torch.empty(0)
    return Poisoned(ids=like.ids, image_NCHW=empty, age_N=empty, group_N=empty, subject_N=np.empty(0))


def problem(
    world: World, *, budget: float = 0.5, seed: int = 0, retain: ImageSet | None = None, forget: ImageSet | None = None
) -> ForgetProblem:
    """A forget problem whose wall time is not enforced."""
    kept = retain or world.sets.train
    passes = RECIPE.epochs * len(kept)
    cost = RetrainCost(cost=Cost(forward=passes, backward=passes, wall_s=1e6), source="test")
    return ForgetProblem(
        retain=kept, forget=forget or world.sets.forget, validation=world.sets.validation,
        family=FAMILY, task=FAMILY.task(world.original.model),
        meter=Meter(cost, budget), seed=seed, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


@pytest.fixture
def model(world: World) -> AgePredictor:
    copied: AgePredictor = copy.deepcopy(world.original.model)
    return copied


# CT


def test_transpose_golden() -> None:
    convolution = nn.Conv2d(1, 1, 3, bias=True)
    with torch.no_grad():
        convolution.weight.copy_(torch.arange(9.0).view(1, 1, 3, 3))
    transpose_kernels(nn.Sequential(convolution))
    assert convolution.weight[0, 0].tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_transpose_is_an_involution_and_touches_large_kernels_alone(model: AgePredictor) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    transpose_kernels(model)
    large = {f"{name}.weight" for name, module in convolutions(model) if module.kernel_size != (1, 1)}
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == large
    transpose_kernels(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_transpose_leaves_oblong_kernels_alone() -> None:
    convolution = nn.Conv2d(1, 1, (1, 3))
    before = convolution.weight.detach().clone()
    transpose_kernels(nn.Sequential(convolution))
    assert torch.equal(convolution.weight, before)


# MSG


def naive_difference_gradient(model: AgePredictor, retain: ImageSet, forget: ImageSet) -> dict[str, Tensor]:
    """The formula in one expression on the whole sets: grad [ CE(D_r) - CE(D_f) ]."""
    model = copy.deepcopy(model).eval()
    losses = []
    for data in (retain, forget):
        image = data.image_NCHW.float() / 255.0
        losses.append(F.cross_entropy(model(image)["age_logits"], data.group_N))
    weights = {f"{name}.weight": module.weight for name, module in convolutions(model)}
    return dict(zip(weights, torch.autograd.grad(losses[0] - losses[1], list(weights.values())), strict=True))


def test_difference_gradient_equals_the_formula(world: World, model: AgePredictor) -> None:
    size = len(world.sets.forget)
    # As many retain samples as forget samples: the random sample is then the whole set, in some order.
    retain = world.sets.train.subset(range(size))
    given = problem(world, retain=retain, budget=5.0)
    given = replace(given, family=replace(FAMILY, recipe=replace(RECIPE, batch_size=11)))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    fast = difference_gradient(model, given)
    slow = naive_difference_gradient(world.original.model, retain, world.sets.forget)
    assert fast.keys() == slow.keys()
    for name, gradient in slow.items():
        assert (fast[name] - gradient).abs().max() <= GRADIENT_TOLERANCE * (1 + gradient.abs().max()), name
    assert max(float(gradient.abs().max()) for gradient in slow.values()) > 1e-3  # not a comparison of zeros
    # ImageBatch-norm statistics stay, and no gradient is left over for the repair.
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert (given.meter.spent.forward, given.meter.spent.backward) == (2 * size, 2 * size)


def test_the_retain_sample_is_as_large_as_the_forget_set(world: World, model: AgePredictor) -> None:
    small = world.sets.forget.subset([0, 1, 2])
    given = problem(world, forget=small)
    difference_gradient(model, given)
    assert given.meter.spent.forward == 2 * 3


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.9])
def test_reinitialise_draws_the_smallest_gradients_anew(model: AgePredictor, ratio: float) -> None:
    draw = torch.Generator().manual_seed(3)
    gradients = {f"{name}.weight": torch.randn(module.weight.shape, generator=draw) for name, module in convolutions(model)}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    scale = reinitialise(model, gradients, ratio, 0.25, torch.Generator().manual_seed(4))
    assert scale.keys() == gradients.keys()
    after = model.state_dict()
    for name, gradient in gradients.items():
        moved = after[name] != before[name]
        assert int(moved.sum()) == round(ratio * gradient.numel()), name
        assert gradient[moved].abs().max() <= gradient[~moved].abs().min(), name
        assert torch.equal(scale[name], torch.where(moved, 1.0, 0.25)), name
    for name in after.keys() - gradients.keys():
        assert torch.equal(after[name], before[name]), name


def test_reinitialise_draws_kaiming_fan_out() -> None:
    """The standard deviation must be sqrt(2 / (C_out k k)), whatever the fan-in."""
    net = nn.Sequential(nn.Conv2d(8, 64, 3, bias=False))
    with torch.no_grad():
        net[0].weight.zero_()
    reinitialise(net, {"0.weight": torch.zeros(64, 8, 3, 3)}, 0.999, 1.0, torch.Generator().manual_seed(0))
    weight = net[0].weight.detach()
    drawn = weight[weight != 0]
    assert float(drawn.std()) == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.05)


def test_keep_zero_freezes_what_was_not_drawn_anew(world: World, model: AgePredictor) -> None:
    given = problem(world)
    scale = reinitialise(model, difference_gradient(model, given), 0.3, 0.0, given.generator)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Repair(lr=0.01, shape="up-down")(model, given, scale)
    after = model.state_dict()
    for name, weight in scale.items():
        assert torch.equal(after[name][weight == 0], before[name][weight == 0]), name
        assert (after[name][weight == 1] != before[name][weight == 1]).float().mean() > 0.9, name
    assert not torch.equal(after["classifier.weight"], before["classifier.weight"])


@pytest.mark.parametrize("options", [{"ratio": "0"}, {"ratio": "1"}, {"ratio": "nan"}, {"keep": "-0.1"}, {"keep": "1.5"}])
def test_msg_refuses_settings_out_of_range(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="out of range"):
        build_method("msg", options)


# Repair


def test_up_down_golden() -> None:
    assert [_up_down(step, 4, 1.0) for step in range(4)] == [0.25, 0.75, 0.75, 0.25]


def test_repair_refuses_a_budget_below_one_step(world: World, model: AgePredictor) -> None:
    given = problem(world, budget=0.05)  # 0.05 * 0.8 * 3 epochs * about 140 samples is under one batch of 32
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(BudgetExceeded, match="does not cover one step"):
        Repair(lr=0.001)(model, given)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.long
@pytest.mark.parametrize("method", ["finetune", "ct", "msg"])
@pytest.mark.parametrize("option", ["lr=0", "lr=-1", "lr=nan", "lr=inf", "batch_size=0", "batch_size=-4"])
def test_repair_settings_out_of_range_are_refused(world: World, model: AgePredictor, method: str, option: str) -> None:
    with pytest.raises(InputError, match="out of range"):
        build_method(method, dict([option.split("=")]))(model, problem(world))


# What is read


@pytest.mark.long
@pytest.mark.parametrize("method", ["finetune", "ct", "retrain"])
def test_the_forget_set_is_never_read(world: World, model: AgePredictor, method: str) -> None:
    given = problem(world, forget=poisoned(world.sets.forget), budget=2.0)
    unlearned = build_method(method)(model, given)
    assert all(bool(torch.isfinite(value).all()) for value in unlearned.state_dict().values())


def test_msg_reads_the_forget_set(world: World, model: AgePredictor) -> None:
    """So that the poison above is known to work."""
    with pytest.raises(AssertionError, match="was read"):
        MSG()(model, problem(world, forget=poisoned(world.sets.forget)))
