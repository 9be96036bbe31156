"""Lens: its targets and its step by hand, one lens for a whole run, and what it must leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.training import Augment, augment_as_drawn, draw_augment, through
from unplug.sdk.unlearning import Descent, Lens
from unplug.sdk.unlearning.descent import norms_fixed, plan

from .conftest import PLAIN, Case, assert_weights, changed, sgd_step, whole_batch


@pytest.mark.long
def test_targets_are_the_logits_seen_through_the_drawn_lenses(case: Case) -> None:
    given = case.problem(seed=4)
    found_FG = Lens(lenses=2, strength=3, clear=0.4).targets(case.model(), given)
    draw = torch.Generator().manual_seed(4)
    draws = [[draw_augment(1, draw) for _ in range(3)] for _ in range(2)]
    model, rows = case.model(), []
    for image_CHW in whole_batch(case.sets.forget).image_BCHW:
        seen = []
        for changes in draws:
            view = image_CHW[None]
            for change in changes:
                view = augment_as_drawn(view, "standard", change)
            with torch.no_grad():
                seen.append(given.task.logits(model(view)))
        with torch.no_grad():
            plain = given.task.logits(model(image_CHW[None]))
        rows.append(0.4 * plain + 0.6 * (seen[0] + seen[1]) / 2)
    assert torch.allclose(found_FG, torch.cat(rows), atol=1e-4)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (3 * len(case.sets.forget), 0)


def test_one_lens_serves_the_whole_run_and_another_run_has_another(class_case: Case) -> None:
    """Forty copies of one picture, in batches of 16, get the same target."""
    copies = class_case.sets.forget.subset([3] * 40)

    def targets(seed: int) -> Tensor:
        given = class_case.problem(seed=seed, forget=copies)
        assert given.recipe.batch_size < len(copies)
        return Lens(lenses=1, clear=0.0).targets(class_case.model(), given)

    one_FG, other_FG = targets(0), targets(1)
    assert torch.allclose(one_FG, one_FG[:1].expand_as(one_FG), atol=1e-5)
    assert torch.equal(one_FG, targets(0)) and (one_FG[0] - other_FG[0]).abs().max() > 0.05


def test_batch_norm_stays_bit_for_bit(case: Case) -> None:
    moved = changed(case.original, Lens()(case.model(), case.problem()))
    assert moved and not moved & {name for name, _ in case.original.named_buffers()}


@pytest.mark.long
def test_without_weight_it_is_repair_with_fixed_norms(case: Case) -> None:
    method = Lens(weight=0.0)
    found = method(case.model(), case.problem(seed=2))
    model, given = case.model(), case.problem(seed=2)
    method.targets(model, given)  # what it draws and costs
    size = min(method.forget_size, len(given.forget))
    retain, forget = given.batches(given.retain, method.batch_size), given.batches(given.forget, size)

    def loss() -> Tensor:
        batch = next(retain)
        next(forget)  # both share one generator
        with norms_fixed(model):
            return given.loss(model, batch)

    steps = plan(given, 3.0 * (method.batch_size + size))
    assert steps > 1
    assert not changed(found, Descent(lr=method.lr)(model, given, loss, steps=steps))


def test_one_step_is_the_formula(case: Case) -> None:
    """L(D_r) + w KL( p(T x; theta_0) || p(x; theta) ), batch norm as it is at use."""
    kept, gone = case.sets.train.subset(range(24)), case.sets.forget.subset(range(8))
    options = {"recipe": PLAIN, "retain": kept, "forget": gone, "seed": 6}
    method = Lens(lenses=3, weight=4.0, lr=0.05, batch_size=24, forget_size=8, optimizer="sgd")
    target_FG = method.targets(case.model(), case.problem(**options))  # type: ignore[arg-type]
    given = case.problem(compute=24 + 8 + 32 / 3, **options)  # type: ignore[arg-type]  # four forward passes of F

    def loss(model: nn.Module) -> Tensor:
        batch = whole_batch(kept)
        says = given.task.logits(model.eval()(whole_batch(gone).image_BCHW))
        apart = F.kl_div(says.log_softmax(dim=1), target_FG.softmax(dim=1), reduction="none").sum(dim=1)
        return given.task.loss(model(batch.image_BCHW), batch).mean() + 4.0 * apart.mean()

    model = method(case.model(), given)
    assert given.meter.spent.backward == 24 + 8, "one step"
    assert_weights(model, sgd_step(case.original, loss, 0.05), case.original)


@pytest.mark.long
def test_the_weight_pulls_the_forget_set_to_its_targets(class_case: Case) -> None:
    image = whole_batch(class_case.sets.forget).image_BCHW
    target_FG = Lens().targets(class_case.model(), class_case.problem(seed=1))

    def apart(weight: float) -> float:
        model = Lens(weight=weight)(class_case.model(), class_case.problem(seed=1, budget=2.0))
        with torch.no_grad():
            said = model(image)["logits"].softmax(dim=1)
        return float((said - target_FG.softmax(dim=1)).abs().sum(dim=1).mean())

    assert apart(20.0) < 0.7 * apart(0.0)


@pytest.mark.parametrize(("augment", "changes"), [("flip", 2), ("standard", 3)])
def test_a_lens_goes_beyond_what_the_recipe_trains_with(class_case: Case, augment: Augment, changes: int) -> None:
    """A change that the network was trained with hides nothing from it."""
    given = class_case.problem(seed=4)
    family = replace(given.family, recipe=replace(given.recipe, augment=augment))
    found_FG = Lens(lenses=1, strength=2, clear=0.0).targets(class_case.model(), replace(given, family=family))
    draw = torch.Generator().manual_seed(4)
    draws = [draw_augment(1, draw) for _ in range(changes)]
    with torch.no_grad():
        seen = class_case.model().eval()(through(whole_batch(class_case.sets.forget).image_BCHW, draws))["logits"]
    assert torch.allclose(found_FG, seen, atol=1e-5)
