"""ACU against refitting: any order of removals, features of any range, and what is left of the
network.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.forgetting.tasks import AGE_SCALE
from unplug.sdk.forgetting.unlearning.anatomy import classifier
from unplug.sdk.forgetting.unlearning.methods.acu import ACU, best_scale, features, soft_targets
from unplug.sdk.forgetting.unlearning.ridge import BITS, RidgeHead

from .conftest import Case, changed, poisoned, says, whole_batch

# the contract: removal equals refitting, relative to the largest coefficient in units of its
# feature
REFIT = 1e-8
SAMPLES, FEATURES, GROUPS = 60, 7, 3
Head = tuple[Tensor, Tensor]


def refit(x_NF: Tensor, y_NG: Tensor, lam: float) -> Head:
    """Ridge by least squares (QR, not normal equations) on centred data: another formula, another
    algorithm.
    """
    mean_F, mean_G = x_NF.mean(0), y_NG.mean(0)
    root_FF = math.sqrt(lam) * torch.eye(x_NF.shape[1], dtype=torch.float64)
    rows = torch.cat([x_NF - mean_F, root_FF])
    sides = torch.cat([y_NG - mean_G, torch.zeros(len(mean_F), y_NG.shape[1])])
    weight_FG = torch.linalg.lstsq(rows, sides, driver="gelsy").solution
    return weight_FG.T, mean_G - mean_F @ weight_FG


def distance(one: Head, other: Head, x_NF: Tensor) -> float:
    """Largest difference of what each coefficient does to the scores, relative to the largest
    effect.
    """

    def largest(weight_GF: Tensor, bias_G: Tensor) -> float:
        effect_GP = torch.cat([weight_GF * x_NF.abs().amax(0), bias_G[:, None]], dim=1)
        return float(effect_GP.abs().max())

    return largest(one[0] - other[0], one[1] - other[1]) / largest(*other)


def made(seed: int, spread: float = 0.0) -> tuple[Tensor, Tensor, torch.Generator]:
    """Features whose columns and first ten rows span 10^(-spread) to 10^spread, one-hot targets,
    and the generator.
    """
    draw = torch.Generator().manual_seed(seed)
    x_NF = torch.randn(SAMPLES, FEATURES, generator=draw, dtype=torch.float64)
    x_NF *= 10.0 ** ((torch.rand(FEATURES, generator=draw, dtype=torch.float64) * 2 - 1) * spread)
    x_NF[:10] *= 10.0**spread
    return x_NF, F.one_hot(torch.randint(GROUPS, (SAMPLES,), generator=draw), GROUPS).double(), draw


@pytest.mark.parametrize("group", [1, 7])
@pytest.mark.parametrize("spread", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_removals_equals_refitting(seed: int, spread: float, group: int) -> None:
    x_NF, y_NG, draw = made(seed, spread)
    head = RidgeHead.fit(x_NF, y_NG, lam=0.3)
    order = torch.randperm(SAMPLES, generator=draw)
    # The large rows go first: what they leave behind must not drown the others.
    order = torch.cat([order[order < 10], order[order >= 10]])[:45]
    gone = torch.zeros(SAMPLES, dtype=torch.bool)
    for part in order.split(group):
        head.remove(x_NF[part], y_NG[part])
        gone[part] = True
        assert head.samples == int((~gone).sum())
        assert distance(head.weights(), refit(x_NF[~gone], y_NG[~gone], 0.3), x_NF[~gone]) < REFIT


def test_removals_leave_no_trace_in_any_order() -> None:
    x_NF, y_NG, draw = made(1, spread=2.0)
    whole, other = (RidgeHead.fit(x_NF, y_NG, lam=0.1) for _ in range(2))
    whole.remove(x_NF[:20], y_NG[:20])
    for index in torch.randperm(20, generator=draw).tolist():
        other.remove(x_NF[index : index + 1], y_NG[index : index + 1])
    other.remove(x_NF[20:30], y_NG[20:30])
    other.add(x_NF[20:30], y_NG[20:30])
    assert all(map(torch.equal, whole.weights(), other.weights()))
    x_NF, y_NG, _ = made(2)
    head, of_class = RidgeHead.fit(x_NF, y_NG, lam=0.1), y_NG[:, 1] == 1
    head.remove(x_NF[of_class], y_NG[of_class])
    weight_GF, bias_G = head.weights()
    assert not weight_GF[1].any() and not bias_G[1]  # sums of integers: zero, not nearly zero
    assert distance((weight_GF, bias_G), refit(x_NF[~of_class], y_NG[~of_class], 0.1), x_NF) < REFIT


def test_ridge_by_hand_and_without_rounding() -> None:
    # x = -1, 1, y = -1, 1 and lam = 2: w = sum xy / (sum x^2 + lam) = 1/2; then (5, 3) is added and
    # taken away.
    x_NF, y_NG = torch.tensor([[-1.0], [1.0], [5.0]]), torch.tensor([[-1.0], [1.0], [3.0]])
    head = RidgeHead.fit(x_NF, y_NG, lam=2.0)
    head.remove(x_NF[2:], y_NG[2:])
    assert [float(part) for part in head.weights()] == [0.5, 0.0]
    assert head.samples == 2
    # More rows than one exact product holds, all of the largest value, so that the slices are full.
    count = 3 * 2 ** (53 - 2 * BITS) + 5
    head = RidgeHead.fit(torch.full((count, 1), 1.0 - 2.0**-24), torch.ones(count, 1), lam=1.0)
    head.remove(torch.full((count - 3, 1), 1.0 - 2.0**-24), torch.ones(count - 3, 1))
    assert head.samples == 3
    assert [float(part) for part in head.weights()] == pytest.approx([0.0, 1.0], abs=1e-12)


@pytest.mark.parametrize(
    ("value", "label"), [(3.0, 0), (None, 1), (1e4, 0)], ids=["sample", "label", "far larger"]
)
def test_what_was_never_there_cannot_be_removed(value: float | None, label: int) -> None:
    x_NF, y_NG, _ = made(4)
    x_NF, y_NG = x_NF[:5], y_NG[:5]
    head = RidgeHead.fit(x_NF, y_NG, lam=1.0)
    before = head.weights()
    other_1F = x_NF[:1] if value is None else torch.full((1, FEATURES), value)
    with pytest.raises(InputError, match=r"never in the statistics|far larger"):
        head.remove(other_1F, y_NG[:1].roll(label, dims=1))
    assert all(map(torch.equal, before, head.weights())), "a refusal changed it"
    head.remove(x_NF[:1], y_NG[:1])
    with pytest.raises(InputError, match="never in the statistics"):
        head.remove(x_NF[:1], y_NG[:1])  # a second time


def test_bad_statistics_are_refused() -> None:
    x_NF, y_NG, _ = made(5)
    head, nan = RidgeHead.fit(x_NF, y_NG, lam=1.0), float("nan")
    cases = {
        "the head has 7 features": lambda: head.remove(x_NF[:2, 1:], y_NG[:2]),
        "and 3 targets": lambda: head.add(x_NF[:2], y_NG[:2, 1:]),
        "not all finite": lambda: head.remove(x_NF[:1] * nan, y_NG[:1]),
        "no sample would be left": lambda: head.remove(x_NF, y_NG),
        "do not belong together": lambda: RidgeHead.fit(x_NF[:2], y_NG, 1.0),
        "they are not all finite": lambda: RidgeHead.fit(x_NF * torch.inf, y_NG, 1.0),
        "lam 0": lambda: RidgeHead.fit(x_NF, y_NG, 0.0),
    }
    for message, call in cases.items():
        with pytest.raises(InputError, match=message):
            call()


# The method

OTHER_BATCHES = 2e-3
"""Of the largest weight. Float32 features of batches of another size differ in their last digits,
which the ridge enlarges where features nearly depend on one another: 2e-8 on one make of CPU, 8e-4
on another.
"""


def test_the_head_is_that_of_the_retain_set_and_the_rest_stays(case: Case) -> None:
    given = case.problem()
    after = ACU()(case.model(), given)
    assert changed(case.original, after) == {"classifier.weight", "classifier.bias"}
    count = len(given.retain) + len(given.forget)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (count, 0)
    # Refitted without the forget set, by the other algorithm.
    x_NF = features(case.model(), given.retain, 13).double()
    y_NG = soft_targets(given.task, case.original, given.retain)
    weight_GF, bias_G = refit(x_NF, y_NG, ACU.ridge * len(x_NF))
    scale = best_scale(RidgeHead.fit(x_NF, y_NG, ACU.ridge * len(x_NF)).left_out(x_NF, y_NG), y_NG)
    layer = classifier(after)
    largest = float(layer.weight.detach().abs().max())
    assert torch.allclose(
        layer.weight.double(), scale * weight_GF, rtol=1e-4, atol=OTHER_BATCHES * largest
    )
    assert torch.allclose(layer.bias.double(), scale * bias_G, rtol=1e-4, atol=1e-4)
    assert not after.training


def test_what_is_left_of_the_network_is_useful(class_case: Case) -> None:
    test, model = whole_batch(class_case.sets.test), class_case.model()
    with torch.no_grad():
        before_BG = says(model, test)
        after_BG = says(ACU()(model, class_case.problem()), test)
        before, after = (
            float((logits_BG.argmax(1) == test.group_B).float().mean())
            for logits_BG in (before_BG, after_BG)
        )
    assert after >= before - 0.1
    # better than knowing nothing: the scale is right
    assert float(F.cross_entropy(after_BG, test.group_B)) < math.log(4)


def test_a_class_that_is_forgotten_whole_is_never_answered(class_case: Case) -> None:
    train = class_case.sets.train
    gone, kept = (
        train.subset(torch.where(of)[0]) for of in (train.group_N == 1, train.group_N != 1)
    )
    model = ACU()(class_case.model(), class_case.problem(retain=kept, forget=gone))
    with torch.no_grad():
        logits_BG = says(model, whole_batch(gone))
    assert not classifier(model).weight[1].any() and not (logits_BG.argmax(1) == 1).any()


def test_a_budget_is_held_before_the_first_pass(class_case: Case) -> None:
    given = class_case.problem(budget=0.1, retain=poisoned(class_case.sets.train))
    with pytest.raises(BudgetExceeded, match=r"over 0\.1 of retraining"):
        ACU()(class_case.model(), given)


@pytest.mark.parametrize("loss", ["ce", "ce+l1", "ordinal"])
def test_targets_are_those_of_the_loss(age_case: Case, loss: str) -> None:
    """d CE(z, t) / dz = softmax(z) - t: read off the loss itself at z = 0."""
    data = age_case.sets.forget
    batch, model = whole_batch(data), age_case.original
    smoothing = 0.0 if loss == "ordinal" else 0.2
    task = age_case.problem(recipe={"loss": loss, "smoothing": smoothing}).task
    groups = len(task.edges) - 1
    logits = torch.zeros(len(data), groups, requires_grad=True)
    outputs = {"age_logits": logits, "expected_age": batch.age_B[:, None] + AGE_SCALE}
    (gradient,) = torch.autograd.grad(task.loss(model, outputs, batch).sum(), logits)
    assert torch.allclose(soft_targets(task, model, data).float(), 1 / groups - gradient, atol=1e-6)


def test_the_scale_and_the_left_out_scores_by_their_definitions() -> None:
    y_NG = made(6)[1]
    draw = torch.Generator().manual_seed(1)
    score_NG = 0.2 * y_NG + 0.3 * torch.rand(y_NG.shape, generator=draw, dtype=torch.float64)
    loss = [
        float(-(y_NG * (scale * score_NG).log_softmax(1)).sum(1).mean())
        for scale in torch.linspace(0, 60, 6001)
    ]
    best = 0.01 * loss.index(min(loss))
    assert 5 < best < 55 and best_scale(score_NG, y_NG) == pytest.approx(best, abs=0.02)
    assert best_scale(-y_NG, y_NG) == 0.0  # worse than nothing: nothing
    x_NF, y_NG, _ = made(7)
    scores_NG = RidgeHead.fit(x_NF, y_NG, lam=0.5).left_out(x_NF, y_NG)
    for index in range(0, SAMPLES, 7):
        others = torch.arange(SAMPLES) != index
        weight_GF, bias_G = refit(x_NF[others], y_NG[others], 0.5)
        assert torch.allclose(scores_NG[index], weight_GF @ x_NF[index] + bias_G, atol=1e-10)
