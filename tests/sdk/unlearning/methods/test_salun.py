"""SalUn: the mask by hand, labels that are always wrong, weights that are truly frozen."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.unlearning.methods.salun import SalUn, random_labels, saliency, top_share

from .conftest import PLAIN, Case, assert_weights, changed, sgd_step, snapshot, whole_batch


def test_top_share_golden() -> None:
    """Over all tensors together: a tensor of small numbers is masked out whole."""
    sizes = {"a": torch.tensor([9.0, 1.0]), "b": torch.tensor([[0.2, 0.1]]), "c": torch.tensor([5.0, 6.0])}
    mask = top_share(sizes, 0.5)
    assert {name: value.tolist() for name, value in mask.items()} == {"a": [1, 0], "b": [[0, 0]], "c": [1, 1]}
    assert all(bool((value == 1).all()) for value in top_share(sizes, 1.0).values())


def test_saliency_is_the_gradient_of_the_forget_loss(class_case: Case) -> None:
    model = class_case.model().train()
    before = snapshot(model)
    problem = class_case.problem(recipe={"batch_size": 7})
    found = saliency(model, problem)
    batch = whole_batch(class_case.sets.forget)
    slow = copy.deepcopy(class_case.original).eval()
    loss = F.cross_entropy(slow(batch.image_BCHW)["logits"], batch.group_B)
    for name, gradient in zip(found, torch.autograd.grad(loss, list(slow.parameters())), strict=True):
        assert torch.allclose(found[name], gradient.abs(), atol=1e-5), name
    assert not changed(before, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert problem.meter.spent.backward == 16


def test_random_labels_are_never_the_own_and_reach_all_others(age_case: Case, class_case: Case) -> None:
    for case in (age_case, class_case):
        data, edges = case.sets.forget, case.family.edges
        seen = {}
        for seed in range(60):
            wrong = random_labels(data, edges, torch.Generator().manual_seed(seed))
            assert bool((wrong.group_N != data.group_N).all())
            seen[seed] = wrong.group_N
        first = {int(group_N[0]) for group_N in seen.values()}
        assert first == set(range(len(edges) - 1)) - {int(data.group_N[0])}
        assert bool(torch.isnan(wrong.age_N).all()) == (case is class_case)
    wrong = random_labels(age_case.sets.forget, age_case.family.edges, torch.Generator().manual_seed(0))
    edges = age_case.family.edges
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


def test_one_step_is_the_formula(class_case: Case) -> None:
    retain, forget = class_case.sets.train.subset(range(24)), class_case.sets.forget
    wrong = random_labels(forget, class_case.family.edges, torch.Generator().manual_seed(0))
    down, gone = whole_batch(retain), whole_batch(wrong)

    def loss(model: nn.Module) -> Tensor:
        kept = F.cross_entropy(model.train()(down.image_BCHW)["logits"], down.group_B)
        return F.cross_entropy(model.eval()(gone.image_BCHW)["logits"], gone.group_B) + 0.5 * kept

    mask = top_share(saliency(class_case.model(), class_case.problem()), 0.3)
    start = dict(class_case.original.named_parameters())
    free = sgd_step(class_case.original, loss, 0.1)
    expected = {name: torch.where(mask[name] == 1, free[name], start[name].detach()) for name in free}
    given = class_case.problem(recipe=PLAIN, retain=retain, compute=len(retain) + 2 * len(forget))
    method = SalUn(ratio=0.3, alpha=0.5, lr=0.1, optimizer="sgd")
    assert_weights(method(class_case.model(), given), expected, class_case.original)


@pytest.mark.long
def test_the_forget_set_takes_its_wrong_labels(class_case: Case) -> None:
    wrong = random_labels(class_case.sets.forget, class_case.family.edges, torch.Generator().manual_seed(0))
    batch = whole_batch(wrong)

    def loss(model: nn.Module) -> float:
        with torch.no_grad():
            return float(F.cross_entropy(model.eval()(batch.image_BCHW)["logits"], batch.group_B))

    model = SalUn(lr=3e-3)(class_case.model(), class_case.problem(compute=1600))
    assert loss(model) < 0.7 * loss(class_case.original)
