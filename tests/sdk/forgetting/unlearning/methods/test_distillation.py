"""Methods that teach: bad teacher, distil to delete, Blindspot, Gaussian-Amnesiac, Lens and Folds;
their steps by hand, their pull.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.unlearning import Lens
from unplug.sdk.forgetting.unlearning.anatomy import embeddings
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
    through,
)
from unplug.sdk.learning.training.images import age_groups

from .conftest import AGES, Case, changed, coloured, poisoned, says, watch, whole_batch


def kl(student_BG: Tensor, teacher_BG: Tensor, temperature: float = 1.0) -> Tensor:
    """T^2 mean KL(teacher || student), by torch."""
    theirs_BG = (teacher_BG / temperature).softmax(dim=1)
    log_BG = (student_BG / temperature).log_softmax(dim=1)
    return temperature**2 * F.kl_div(log_BG, theirs_BG, reduction="batchmean")


@pytest.fixture
def few(class_case: Case) -> dict[str, ImageSet]:
    """24 samples to keep and 8 to forget."""
    sets = class_case.sets
    return {"retain": sets.train.subset(range(24)), "forget": sets.forget.subset(range(8))}


def test_mixture_golden() -> None:
    """20 : 294 of 32, at least one and at least two, and no more than there are."""
    golden = {(980, 20): (30, 2), (85, 15): (20, 12), (1000, 1): (31, 1), (10, 90): (2, 30)}
    golden[5, 3] = (5, 3)
    assert {sizes: BadTeacher().mixture(*sizes) for sizes in golden} == golden


def test_a_random_network_follows_from_its_seed_alone(case: Case) -> None:
    before = torch.random.get_rng_state()
    one, again, other = (random_network(case.problem(seed=seed)) for seed in (0, 0, 1))
    assert not changed(one, again) and changed(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


def test_bad_teacher_one_step_is_the_formula(class_case: Case, few: dict[str, ImageSet]) -> None:
    kept, gone = (whole_batch(few[name]) for name in ("retain", "forget"))
    good, bad = class_case.model(), random_network(class_case.problem())

    def loss(model: nn.Module) -> Tensor:
        here = kl(says(model, kept, train=True), says(good, kept).detach(), 2.0)
        there = kl(says(model, gone), says(bad, gone).detach(), 2.0)
        return (24 * here + 8 * there) / 32

    method = BadTeacher(retain_share=1.0, temperature=2.0, lr=0.1, optimizer="sgd")
    given = class_case.step(method, loss, compute=2 * 32, **few)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (64, 32)


@pytest.mark.parametrize("features", [0.0, 2.0])
def test_distil_one_step_is_the_formula(
    class_case: Case, few: dict[str, ImageSet], features: float
) -> None:
    draw = torch.Generator().manual_seed(0)
    kept = few["retain"].batch(torch.randperm(24, generator=draw))
    gone = few["forget"].batch(torch.randperm(8, generator=draw))

    def run(model: nn.Module, batch: object, *, train: bool = False) -> tuple[Tensor, Tensor]:
        with embeddings(model) as seen:
            return says(model, batch, train=train), seen[0]

    def distance(student: tuple[Tensor, Tensor], target: tuple[Tensor, Tensor]) -> Tensor:
        return kl(student[0], target[0]) + features * F.mse_loss(student[1], target[1])

    with torch.no_grad():
        logits_BG, seen_BF = run(class_case.model(), kept)

    def loss(model: nn.Module) -> Tensor:
        here = distance(run(model, kept, train=True), (logits_BG, seen_BF))
        return 0.6 * here + 0.4 * distance(run(model, gone), (logits_BG[:8], seen_BF[:8]))

    method = DistilToDelete(alpha=0.6, features=features, lr=0.1, optimizer="sgd")
    given = class_case.step(method, loss, compute=40, **few)  # 120 of 4 * 24 + 3 * 8
    assert (given.meter.spent.forward, given.meter.spent.backward) == (24 + 24 + 8, 24 + 8)


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
    blind = random_network(age_case.problem())
    monkeypatch.setattr(blindspot, "random_network", lambda _: blind)
    given = age_case.problem(budget=8.0)
    model = Blindspot(batch_size=16, attention=0.0)(age_case.model(), given)
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        target, before, after = (
            network.train()(image)["expected_age"] for network in (blind, age_case.model(), model)
        )
    assert (after - target).abs().mean() < (before - target).abs().mean()


def aged(count: int, mean: float, std: float, seed: int) -> ImageSet:
    age_N = mean + std * torch.randn(count, generator=torch.Generator().manual_seed(seed))
    return replace(coloured(count, seed), age_N=age_N)


def test_drawn_ages_have_the_law_of_the_retain_ages() -> None:
    retain, forget = aged(300, 45.0, 7.0, seed=1), aged(2000, 3.0, 1.0, seed=2)
    drawn = amnesiac(forget, retain, AGES.edges, torch.Generator().manual_seed(0))
    mean, spread = drawn.age_N.mean(), drawn.age_N.std()
    assert float(mean) == pytest.approx(float(retain.age_N.mean()), abs=4 * 7 / 2000**0.5)
    assert float(spread) == pytest.approx(float(retain.age_N.std()), rel=0.08)
    ranked = ((drawn.age_N - mean) / spread).sort().values
    normal = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2000) + 0.5) / 2000)
    assert (ranked - normal)[100:-100].abs().max() < 0.12  # a Gaussian, not merely its moments
    assert drawn.group_N.tolist() == age_groups(drawn.age_N.numpy(), AGES.edges).tolist()
    assert torch.equal(drawn.image_NCHW, forget.image_NCHW) and drawn.ids == forget.ids


@pytest.mark.long
def test_forget_predictions_move_towards_the_retain_mean(age_case: Case) -> None:
    """Where the drawn ages say nothing of the images, the best answer is their mean."""
    given = age_case.problem(budget=1.5, forget=age_case.sets.train.subset(range(16)))
    age_N, group_N = (torch.full_like(given.retain.age_N, age) for age in (90.0, 9.0))
    old = replace(given.retain, age_N=age_N, group_N=group_N.long())
    model = GaussianAmnesiac(batch_size=16)(age_case.model(), replace(given, retain=old))
    image = whole_batch(given.forget).image_BCHW
    with torch.no_grad():
        after, before = (
            network(image)["expected_age"].mean() for network in (model, age_case.original)
        )
    assert after > before + 5.0


@pytest.mark.long
def test_targets_are_the_logits_seen_through_the_drawn_lenses(case: Case) -> None:
    given = case.problem(seed=4)
    found_FG = Lens(lenses=2, strength=3, clear=0.4).targets(case.model(), given)
    draw = torch.Generator().manual_seed(4)
    draws = [[draw_augment(1, draw) for _ in range(3)] for _ in range(2)]
    model, rows = case.model(), []
    for image_CHW in whole_batch(case.sets.forget).image_BCHW:
        views = [image_CHW[None]]
        for changes in draws:
            view = views[0]
            for change in changes:
                view = augment_as_drawn(view, "standard", change)
            views.append(view)
        with torch.no_grad():
            plain, one, two = (given.task.logits(model(view)) for view in views)
        rows.append(0.4 * plain + 0.6 * (one + two) / 2)
    assert torch.allclose(found_FG, torch.cat(rows), atol=1e-4)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (3 * len(case.sets.forget), 0)


def test_one_lens_serves_the_whole_run_and_another_run_has_another(class_case: Case) -> None:
    """Forty copies of one picture, in batches of 16, get the same target."""
    copies = class_case.sets.forget.subset([3] * 40)
    one_FG, again_FG, other_FG = (
        Lens(lenses=1, clear=0.0).targets(
            class_case.model(), class_case.problem(seed=seed, forget=copies)
        )
        for seed in (0, 0, 1)
    )
    assert torch.allclose(one_FG, one_FG[:1].expand_as(one_FG), atol=1e-5)
    assert torch.equal(one_FG, again_FG) and (one_FG[0] - other_FG[0]).abs().max() > 0.05


def test_batch_norm_stays_bit_for_bit(case: Case) -> None:
    moved = changed(case.original, Lens()(case.model(), case.problem()))
    assert moved and not moved & {name for name, _ in case.original.named_buffers()}


def test_lens_one_step_is_the_formula(case: Case) -> None:
    """L(D_r) + w KL( p(T x; theta_0) || p(x; theta) ), batch norm as it is at use."""
    retain, forget = case.sets.train.subset(range(24)), case.sets.forget.subset(range(8))
    kept, gone = whole_batch(retain), whole_batch(forget)
    method = Lens(lenses=3, weight=4.0, lr=0.05, batch_size=24, forget_size=8, optimizer="sgd")
    target_FG = method.targets(case.model(), case.problem(seed=6, forget=forget))

    def loss(model: nn.Module) -> Tensor:
        logits_BG = case.task.logits(model.eval()(gone.image_BCHW))
        here = case.task.loss(model, model(kept.image_BCHW), kept).mean()
        return here + 4.0 * kl(logits_BG, target_FG)

    # four forward passes of F
    compute = 24 + 8 + 32 / 3
    given = case.step(method, loss, 0.05, retain=retain, forget=forget, compute=compute, seed=6)
    assert given.meter.spent.backward == 24 + 8, "one step"


@pytest.mark.parametrize(("augment", "changes"), [("flip", 2), ("standard", 3)])
def test_a_lens_goes_beyond_what_the_recipe_trains_with(
    class_case: Case, augment: Augment, changes: int
) -> None:
    """A change that the network was trained with hides nothing from it."""
    given = class_case.problem(seed=4, recipe={"augment": augment})
    found_FG = Lens(lenses=1, strength=2, clear=0.0).targets(class_case.model(), given)
    draw = torch.Generator().manual_seed(4)
    draws = [draw_augment(1, draw) for _ in range(changes)]
    image_BCHW = through(whole_batch(class_case.sets.forget).image_BCHW, draws)
    with torch.no_grad():
        assert torch.allclose(found_FG, says(class_case.model(), image_BCHW), atol=1e-5)


def test_folds_answers_as_they_did_who_never_saw_them(class_case: Case) -> None:
    gone = whole_batch(class_case.sets.forget)
    fitted = Folds(lr=2e-3, weight=3.0)(class_case.model(), class_case.problem(seed=1, budget=2.0))
    with torch.no_grad():
        after, before = (
            float(divergence(says(model, gone), class_case.outside(len(gone))).mean())
            for model in (fitted, class_case.model())
        )
    assert after < 0.5 * before


def test_folds_without_answers_says_what_to_do(class_case: Case) -> None:
    given = replace(class_case.problem(), outside_FG=None)
    with pytest.raises(InputError, match="given no out-of-fold answers"):
        Folds()(class_case.model(), given)
