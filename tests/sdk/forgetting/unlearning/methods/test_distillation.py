"""Methods that teach: bad teacher, distil to delete, Blindspot, Gaussian-Amnesiac and Lens; their
steps by hand, their pull.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.plugins import AGE_EDGES
from unplug.sdk.forgetting.unlearning import Descent, Lens, apply_method
from unplug.sdk.forgetting.unlearning.anatomy import embeddings
from unplug.sdk.forgetting.unlearning.descent import norms_fixed, plan
from unplug.sdk.forgetting.unlearning.distil import divergence, random_network
from unplug.sdk.forgetting.unlearning.methods import blindspot
from unplug.sdk.forgetting.unlearning.methods.bad_teacher import BadTeacher
from unplug.sdk.forgetting.unlearning.methods.blindspot import (
    Blindspot,
    attention_difference,
    attention_map,
    last_features,
)
from unplug.sdk.forgetting.unlearning.methods.distil_to_delete import DistilToDelete
from unplug.sdk.forgetting.unlearning.methods.folds import Folds
from unplug.sdk.forgetting.unlearning.methods.gaussian_amnesiac import GaussianAmnesiac, amnesiac
from unplug.sdk.learning.training import (
    Augment,
    ImageSet,
    augment_as_drawn,
    draw_augment,
    joined,
    through,
)
from unplug.sdk.learning.training.images import age_groups

from .conftest import (
    PLAIN,
    Case,
    assert_weights,
    changed,
    coloured,
    poisoned,
    sgd_step,
    watch,
    whole_batch,
)


def apart(one: nn.Module, other: nn.Module, image: Tensor) -> float:
    """Mean distance of what two networks say."""
    with torch.no_grad():
        said = [item.eval()(image)["logits"].softmax(dim=1) for item in (one, other)]
    return float((said[0] - said[1]).abs().sum(dim=1).mean())


def test_mixture_golden_and_a_random_network_of_the_seed(case: Case) -> None:
    # 20 : 294 of 32, at least one and at least two, and no more than there are.
    golden = {
        (980, 20): (30, 2),
        (85, 15): (20, 12),
        (1000, 1): (31, 1),
        (10, 90): (2, 30),
        (5, 3): (5, 3),
    }
    assert {sizes: BadTeacher().mixture(*sizes) for sizes in golden} == golden
    one, again, other = (random_network(case.problem(seed=seed)) for seed in (0, 0, 1))
    assert not changed(one, again)
    assert changed(one, other)
    before = torch.random.get_rng_state()
    random_network(case.problem())
    assert torch.equal(before, torch.random.get_rng_state())


def test_bad_teacher_one_step_is_the_formula(class_case: Case) -> None:
    retain, forget = (
        class_case.sets.train.subset(range(24)),
        class_case.sets.forget.subset(range(8)),
    )
    kept, gone = whole_batch(retain).image_BCHW, whole_batch(forget).image_BCHW
    given = class_case.problem(recipe=PLAIN, retain=retain, forget=forget, compute=2 * 32)
    good, bad = class_case.model(), random_network(given)

    def apart_by(student: Tensor, teacher: Tensor) -> Tensor:
        target = (teacher / 2.0).softmax(dim=1)
        return 4.0 * F.kl_div((student / 2.0).log_softmax(dim=1), target, reduction="none").sum(
            dim=1
        )

    def loss(model: nn.Module) -> Tensor:
        with torch.no_grad():
            taught = good(kept)["logits"], bad(gone)["logits"]
        here = apart_by(model.train()(kept)["logits"], taught[0])
        there = apart_by(model.eval()(gone)["logits"], taught[1])
        return torch.cat([here, there]).mean()

    method = BadTeacher(retain_share=1.0, temperature=2.0, lr=0.1, optimizer="sgd")
    assert method.mixture(24, 8) == (24, 8)
    model = method(class_case.model(), given)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (64, 32)
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)


@pytest.mark.long
def test_the_forget_set_comes_to_resemble_the_random_network(class_case: Case) -> None:
    given = class_case.problem(compute=1600)
    bad = random_network(given)
    model = BadTeacher(lr=1e-3)(class_case.model(), given)
    gone, kept = (
        whole_batch(data).image_BCHW for data in (class_case.sets.forget, class_case.sets.train)
    )
    assert apart(model, bad, gone) < 0.8 * apart(class_case.original, bad, gone)
    assert apart(model, class_case.original, kept) < apart(model, class_case.original, gone)


def run(model: nn.Module, image: Tensor) -> tuple[Tensor, Tensor]:
    with embeddings(model) as seen:
        logits = model(image)["logits"]
    return logits, seen[0]


@pytest.mark.parametrize("features", [0.0, 2.0])
def test_distil_one_step_is_the_formula(class_case: Case, features: float) -> None:
    retain, forget = (
        class_case.sets.train.subset(range(24)),
        class_case.sets.forget.subset(range(8)),
    )
    draw = torch.Generator().manual_seed(0)
    kept = retain.batch(torch.randperm(24, generator=draw)).image_BCHW
    gone = forget.batch(torch.randperm(8, generator=draw)).image_BCHW
    teacher = class_case.model()
    with torch.no_grad():
        taught = run(teacher, kept)

    def distance(student: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> Tensor:
        response = F.kl_div(
            student[0].log_softmax(dim=1), target[0].softmax(dim=1), reduction="batchmean"
        )
        return response + features * F.mse_loss(student[1], target[1])

    def loss(model: nn.Module) -> Tensor:
        here = distance(run(model.train(), kept), taught)
        there = distance(run(model.eval(), gone), (taught[0][:8], taught[1][:8]))
        return 0.6 * here + 0.4 * there

    # 120 of 4 * 24 + 3 * 8
    given = class_case.problem(recipe=PLAIN, retain=retain, forget=forget, compute=40)
    method = DistilToDelete(alpha=0.6, features=features, lr=0.1, optimizer="sgd")
    model = method(class_case.model(), given)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (24 + 24 + 8, 24 + 8)
    assert_weights(model, sgd_step(class_case.original, loss, 0.1), class_case.original)


@pytest.mark.long
def test_retained_outputs_stay_closer_than_deleted_ones(class_case: Case) -> None:
    """All deleted samples become one blur: the mean of what the original says of random others."""
    model = DistilToDelete(lr=1e-3)(class_case.model(), class_case.problem(compute=1600))
    gone, kept = (
        apart(model, class_case.original, whole_batch(data).image_BCHW)
        for data in (class_case.sets.forget, class_case.sets.train)
    )
    assert gone > 1.1 * kept


def test_attention_map_golden_and_features_without_a_hook(age_case: Case) -> None:
    # Channels (3, 0) and (0, 4) at two positions: mean squares 4.5 and 8, of length one (9, 16) /
    # sqrt(337).
    x_BCHW = torch.tensor([[3.0, 0.0], [0.0, 4.0]]).view(1, 2, 1, 2)
    expected = [9 / 337**0.5, 16 / 337**0.5]
    assert attention_map(x_BCHW)[0].tolist() == pytest.approx(expected)
    # neither sign nor scale counts
    assert torch.allclose(attention_map(-7 * x_BCHW), attention_map(x_BCHW))
    other = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).view(1, 2, 1, 2)
    by_hand = ((expected[0] - 1.0) ** 2 + expected[1] ** 2) / 2
    assert float(attention_difference(x_BCHW, other)) == pytest.approx(by_hand)
    model = age_case.model()
    with last_features(model) as seen:
        model(torch.zeros(2, 3, 32, 32))
    assert seen[0].shape[:2] == (2, 384)
    assert not any(module._forward_hooks for module in model.modules())


def test_the_blind_model_is_new_and_trained_without_the_forget_set(
    age_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = watch(monkeypatch, lambda number: number == 0)
    model = age_case.model()
    given = age_case.problem(budget=1.0, forget=poisoned(age_case.sets.forget))
    Blindspot(batch_size=16)(model, given)
    blind, student = (phase.model for phase in trained)
    assert student is model and not changed(model, age_case.original)
    assert changed(blind, age_case.original) >= {name for name, _ in blind.named_parameters()}


@pytest.mark.long
def test_forget_predictions_follow_the_blind_model(
    age_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    blinds: list[torch.nn.Module] = []
    real = blindspot.random_network
    monkeypatch.setattr(
        blindspot, "random_network", lambda problem: blinds.append(real(problem)) or blinds[-1]
    )
    given = age_case.problem(budget=8.0)
    model = Blindspot(batch_size=16, attention=0.0)(age_case.model(), given)
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        target, before, after = (
            net.train()(image)["expected_age"] for net in (blinds[0], age_case.model(), model)
        )
    assert (after - target).abs().mean() < (before - target).abs().mean()


EDGES = tuple(map(float, AGE_EDGES))


def aged(count: int, mean: float, std: float, seed: int) -> ImageSet:
    age_N = mean + std * torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return replace(coloured(count, seed), age_N=age_N)


def test_drawn_ages_have_the_law_of_the_retain_ages_and_joined_keeps_order() -> None:
    retain, forget = aged(300, 45.0, 7.0, seed=1), aged(2000, 3.0, 1.0, seed=2)
    drawn = amnesiac(forget, retain, EDGES, torch.Generator().manual_seed(0))
    assert float(drawn.age_N.mean()) == pytest.approx(
        float(retain.age_N.mean()), abs=4 * 7 / 2000**0.5
    )
    assert float(drawn.age_N.std()) == pytest.approx(float(retain.age_N.std()), rel=0.08)
    ranked = ((drawn.age_N - drawn.age_N.mean()) / drawn.age_N.std()).sort().values
    normal = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2000) + 0.5) / 2000)
    assert (ranked - normal)[100:-100].abs().max() < 0.12  # a Gaussian, not merely its moments
    assert drawn.group_N.tolist() == age_groups(drawn.age_N.numpy(), EDGES).tolist()
    assert torch.equal(drawn.image_NCHW, forget.image_NCHW) and drawn.ids == forget.ids
    one, other = whole_batch(aged(3, 20.0, 1.0, seed=1)), whole_batch(aged(2, 60.0, 1.0, seed=2))
    both = joined(one, other)
    assert len(both) == 5 and torch.equal(both.age_B, torch.cat([one.age_B, other.age_B]))
    assert torch.equal(both.image_BCHW[3:], other.image_BCHW) and torch.equal(
        both.group_B[:3], one.group_B
    )


@pytest.mark.long
def test_forget_predictions_move_towards_the_retain_mean(age_case: Case) -> None:
    """Where the drawn ages say nothing of the images, the best answer is their mean."""
    given = age_case.problem(budget=1.5, forget=age_case.sets.train.subset(range(16)))
    old = replace(
        given.retain,
        age_N=torch.full_like(given.retain.age_N, 90.0),
        group_N=torch.full_like(given.retain.group_N, 9),
    )
    model = GaussianAmnesiac(batch_size=16)(age_case.model(), replace(given, retain=old))
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        assert (
            model(image)["expected_age"].mean()
            > age_case.original(image)["expected_age"].mean() + 5.0
        )


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
    retain, forget = (
        given.batches(given.retain, method.batch_size),
        given.batches(given.forget, size),
    )

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
        apart = F.kl_div(says.log_softmax(dim=1), target_FG.softmax(dim=1), reduction="none").sum(
            dim=1
        )
        return given.task.loss(model, model(batch.image_BCHW), batch).mean() + 4.0 * apart.mean()

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
def test_a_lens_goes_beyond_what_the_recipe_trains_with(
    class_case: Case, augment: Augment, changes: int
) -> None:
    """A change that the network was trained with hides nothing from it."""
    given = class_case.problem(seed=4)
    task = replace(given.task, recipe=replace(given.recipe, augment=augment))
    found_FG = Lens(lenses=1, strength=2, clear=0.0).targets(
        class_case.model(), replace(given, task=task)
    )
    draw = torch.Generator().manual_seed(4)
    draws = [draw_augment(1, draw) for _ in range(changes)]
    with torch.no_grad():
        seen = class_case.model().eval()(
            through(whole_batch(class_case.sets.forget).image_BCHW, draws)
        )["logits"]
    assert torch.allclose(found_FG, seen, atol=1e-5)


def test_folds_answers_as_they_did_who_never_saw_them(class_case: Case) -> None:
    target_FG = class_case.outside(len(class_case.sets.forget))

    def far(model: nn.Module) -> float:
        problem = class_case.problem(budget=None)
        with torch.no_grad():
            said_FG = problem.logits(
                model.eval(), problem.forget.batch(torch.arange(len(target_FG)))
            )
        return float(divergence(said_FG, target_FG).mean())

    fitted = Folds(lr=2e-3, weight=3.0)(class_case.model(), class_case.problem(seed=1, budget=2.0))
    assert far(fitted) < 0.5 * far(class_case.model())


def test_folds_without_answers_says_what_to_do(class_case: Case) -> None:
    with pytest.raises(
        InputError, match=r"out-of-fold answers, and there is none.*unplug references"
    ):
        apply_method(
            Folds(),
            class_case.original,
            class_case.sets,
            class_case.task,
            class_case.whole(),
            0.5,
            seed=0,
        )
    given = replace(class_case.problem(), outside_FG=None)
    with pytest.raises(InputError, match="given no out-of-fold answers"):
        Folds()(class_case.model(), given)
