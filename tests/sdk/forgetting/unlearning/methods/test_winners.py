"""The competition's winners and UNSIR: what is disturbed, what learns in which phase, and their
losses by hand.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.forgetting.unlearning.anatomy import classifier, first_convolution, layers
from unplug.sdk.forgetting.unlearning.distil import entropy, not_uniform
from unplug.sdk.forgetting.unlearning.methods import prmq, rni
from unplug.sdk.forgetting.unlearning.methods.cfw import (
    CFW,
    add_noise,
    class_weights,
    weighted_mean,
)
from unplug.sdk.forgetting.unlearning.methods.fcs import FCS, contrastive
from unplug.sdk.forgetting.unlearning.methods.kde import KDE, soft_ce
from unplug.sdk.forgetting.unlearning.methods.noise import WeightNoise
from unplug.sdk.forgetting.unlearning.methods.prmq import PRMQ, refill, round_to_half
from unplug.sdk.forgetting.unlearning.methods.rni import RNI, choose_tensors, norm_parameters
from unplug.sdk.forgetting.unlearning.methods.unsir import UNSIR
from unplug.sdk.learning.training import ImageBatch

from .conftest import Case, changed, error, poisoned, says, snapshot, unlabelled, watch, whole_batch

LN3 = math.log(3.0)  # softmax of (ln 3, 0) is (3/4, 1/4)


def test_contrastive_golden() -> None:
    # z_f = [1 0], [0 2]; z_r = identity; temperature 1: rows of similarities (1, 0) and (0, 2).
    z_FG, z_RG = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.eye(2)
    first, second = math.log(math.e + 1), math.log(1 + math.e**2)
    expected = ((first - 1) + first + second + (second - 2)) / 4
    assert float(contrastive(z_FG, z_RG, 1.0)) == pytest.approx(expected, rel=1e-6)
    # the temperature divides
    assert float(contrastive(2 * z_FG, z_RG, 2.0)) == pytest.approx(expected, rel=1e-6)
    assert float(contrastive(torch.zeros(3, 2), torch.ones(5, 2), 1.15)) == pytest.approx(
        math.log(5)
    )


@pytest.mark.parametrize(
    ("z_G", "value", "gradient"),
    [
        ([0.0] * 4, 0.0, [0.0] * 4),
        # uniform first, as released: sum 1/2 ln (1/2 / p), and its gradient p - u
        ([LN3, 0.0], (math.log(2 / 3) + math.log(2)) / 2, [0.25, -0.25]),
        # where the network is sure the gradient is not 0
        ([50.0, 0.0, 0.0, 0.0], 0.75 * 50 - math.log(4), [0.75, -0.25, -0.25, -0.25]),
    ],
)
def test_not_uniform_golden(z_G: list[float], value: float, gradient: list[float]) -> None:
    z_BG = torch.tensor([z_G], requires_grad=True)
    told = not_uniform(z_BG)
    told.backward()
    assert float(told.detach()) == pytest.approx(value, abs=1e-5)
    assert z_BG.grad is not None and z_BG.grad[0].tolist() == pytest.approx(gradient, abs=1e-6)


def test_goldens_of_weights_entropy_and_soft_labels() -> None:
    group_N = torch.tensor([0, 0, 0, 0, 2])
    assert class_weights(group_N, 4, power=1.0).tolist() == [0.25, 0.0, 1.0, 0.0]
    assert class_weights(group_N, 4, power=0.1)[0] == pytest.approx(4**-0.1)
    assert float(weighted_mean(torch.tensor([2.0, 4.0]), torch.tensor([0.25, 0.75]))) == 3.5
    z_BG = torch.tensor([[0.0, 0.0, 0.0, 0.0], [60.0, 0.0, 0.0, 0.0], [LN3, 0.0, -80.0, -80.0]])
    expected = [math.log(4), 0.0, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))]
    assert entropy(z_BG).tolist() == pytest.approx(expected, abs=1e-5)
    theirs, ours = torch.tensor([[LN3, 0.0]]), torch.tensor([[0.0, math.log(4.0)]])
    value = -(0.75 * math.log(0.2) + 0.25 * math.log(0.8))
    assert float(soft_ce(ours, theirs)) == pytest.approx(value, rel=1e-6)
    # a sure teacher gives the cross entropy
    sure, logits = torch.tensor([[60.0, 0.0], [0.0, 60.0]]), torch.tensor([[1.0, -1.0], [0.5, 0.2]])
    value = float(F.cross_entropy(logits, torch.tensor([0, 1])))
    assert float(soft_ce(logits, sure)) == pytest.approx(value)


def test_phases_in_order_with_falling_rates(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FCS: one pass that flattens, then contrast and repair in turn, the rates falling by a cosine."""
    seen = watch(monkeypatch)
    method = FCS(rounds=2, batch_size=8, flatten_lr=0.001, contrast_lr=0.002, lr=0.004)
    method(class_case.model(), class_case.problem(budget=2.0))
    assert [phase.lr for phase in seen] == pytest.approx([0.001, 0.002, 0.004, 0.001, 0.002])
    steps = [phase.how["steps"] for phase in seen]
    # 16 samples by 8: never more than a pass over the forget set
    assert steps[0] == steps[1] == steps[3] == 2 and steps[2] > 5 and steps[4] > 5
    gone, flat = whole_batch(class_case.sets.forget), seen[0].after
    model = class_case.model()
    model.load_state_dict(flat)
    with torch.no_grad():
        after, before = (
            float(not_uniform(says(network, gone))) for network in (model, class_case.model())
        )
    assert after < 0.9 * before
    # forget batches leave statistics
    assert not any("running" in name for name in changed(class_case.original, flat))
    seen = watch(monkeypatch, lambda _: False)
    UNSIR(impair_lr=0.002, lr=0.001)(class_case.model(), class_case.problem(budget=1.0))
    assert [phase.lr for phase in seen] == [0.002, 0.001]


@pytest.mark.parametrize("method", [CFW(sigma=0.6), KDE(), RNI(noisy=0)], ids=lambda m: str(m)[:3])
def test_what_is_harmed_or_reset_before_the_repair(
    case: Case, monkeypatch: pytest.MonkeyPatch, method: CFW | KDE | RNI
) -> None:
    watch(monkeypatch, lambda _: False)
    model = method(case.model(), case.problem())
    first, head = first_convolution(model), classifier(model)
    harmed = {CFW: [first.weight], KDE: [*first.parameters(), *head.parameters()]}
    wanted = {id(value) for value in harmed.get(type(method), head.parameters())}
    named = dict(model.named_parameters())
    assert changed(case.original, model) == {
        name for name, value in named.items() if id(value) in wanted
    }
    if isinstance(method, CFW):
        noise = (first.weight - first_convolution(case.original).weight).detach().flatten()
        assert len(noise) > 400 and abs(float(noise.mean())) < 0.1
        assert float(noise.std()) == pytest.approx(0.6, rel=0.1)


def test_noise_is_on_every_weight_and_on_nothing_that_is_counted(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n = (theta - theta_0) / sigma is standard normal in every tensor, drawn before the repair."""
    seen = watch(monkeypatch, lambda _: False)
    model = WeightNoise(sigma=0.3)(class_case.model(), class_case.problem())
    named = dict(class_case.original.named_parameters())
    assert changed(class_case.original, model) == set(named), "no buffer, and every parameter"
    noise_W = torch.cat(
        [(value - named[name]).detach().flatten() / 0.3 for name, value in model.named_parameters()]
    )
    count = len(noise_W)
    assert abs(float(noise_W.mean())) < 5 / math.sqrt(count), "five standard errors"
    assert abs(float(noise_W.std()) - 1) < 5 / math.sqrt(2 * count)
    assert [phase.lr for phase in seen] == [2e-3]


def test_late_noise_comes_once_before_the_last_quarter(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch(monkeypatch, lambda _: False)
    model = class_case.model()
    CFW(sigma=0.0, late_sigma=0.5)(model, class_case.problem(budget=2.0))
    assert seen[0].how["steps"] == 12  # 1152 passes, 32 a step
    noisy = []
    for step in range(12):
        before = snapshot(model)
        seen[0].how["on_step"](step)
        noisy += [(step + 1, name) for name in changed(before, model)]
    assert noisy == [(9, "conv1.weight")]


def test_refill_rounding_and_noise_by_their_laws() -> None:
    net = nn.Sequential(nn.Conv2d(4, 64, 3), nn.Conv2d(64, 16, 1))
    refill(net, 1.0, torch.Generator().manual_seed(1))
    for module, fan_in in ((net[0], 36), (net[1], 64)):
        bound, weight = 1 / math.sqrt(fan_in), module.weight.detach()
        assert 0.95 * bound < float(weight.abs().max()) <= bound
        assert 0.7 * bound < float(module.bias.detach().abs().max()) <= bound
        assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.06)
    layer = nn.Linear(40, 40)
    before = layer.weight.detach().clone()
    round_to_half(layer)
    assert ((layer.weight - before).abs() <= before.abs() * 2**-11 + 2**-25).all()
    first, second = torch.zeros(50), torch.zeros(50)
    for values in (first, second):
        add_noise([values], 2.0, torch.Generator().manual_seed(1))
    assert torch.equal(first, second) and 1.5 < float(first.std()) < 2.5


def test_validation_comes_first_without_its_labels(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phase one must work with labels withheld and the retain set out of reach, phase two without
    validation data.
    """
    seen, sets = watch(monkeypatch, lambda number: number == 0), class_case.sets
    given = class_case.problem(retain=poisoned(sets.train), validation=unlabelled(sets.validation))
    KDE(validation_lr=0.001, lr=0.002)(class_case.model(), given)
    assert [phase.lr for phase in seen] == [0.001, 0.002]
    assert given.meter.spent.forward == 2 * given.meter.spent.backward  # the teacher too
    seen.clear()
    with pytest.raises(AssertionError, match="was read"):
        KDE()(class_case.model(), class_case.problem(validation=poisoned(sets.validation)))


@pytest.mark.long
def test_the_student_comes_closer_to_the_original(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first phase; in the second the labels outweigh the teacher, whose terms carry no
    factor T^2.
    """
    seen = watch(monkeypatch, lambda number: number == 0)
    torch.manual_seed(0)
    taught, reset = class_case.model(), class_case.model()
    KDE(batch_size=8)(taught, class_case.problem(budget=3.0))
    reset.load_state_dict(seen[0].before)
    batch = whole_batch(class_case.sets.validation)
    with torch.no_grad():
        theirs, near, far = (
            says(model, batch).softmax(dim=1) for model in (class_case.model(), taught, reset)
        )
    assert (near - theirs).abs().mean() < (far - theirs).abs().mean()


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.99, 1.0])
def test_refill_draws_the_globally_smallest_weights_anew(case: Case, ratio: float) -> None:
    model, before = case.model(), snapshot(case.original)
    refill(model, ratio, torch.Generator().manual_seed(0))
    names = [
        f"{name}.{part}" for name, module in layers(model) for part, _ in module.named_parameters()
    ]
    assert changed(before, model) <= set(names) and any(name.endswith("bias") for name in names)
    after = model.state_dict()
    moved_W = torch.cat([(after[name] != before[name]).flatten() for name in names])
    size_W = torch.cat([before[name].abs().flatten() for name in names])
    assert int(moved_W.sum()) == pytest.approx(round(ratio * len(moved_W)), abs=2)
    if ratio < 1.0:
        # one threshold for the whole network
        assert size_W[moved_W].max() <= size_W[~moved_W].min()


def test_every_weight_is_an_fp16_number_afterwards(class_case: Case) -> None:
    def halves(model: nn.Module) -> bool:
        return all(torch.equal(value.half().float(), value) for value in model.parameters())

    assert halves(PRMQ(batch_size=16)(class_case.model(), class_case.problem()))
    assert not halves(class_case.original)


@pytest.mark.long
def test_the_entropy_term_compares_with_the_original(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing but the entropy term the repaired student answers as surely as the original did."""
    monkeypatch.setattr(prmq, "weighted_mean", lambda loss_B, weight_B: loss_B.sum() * 0.0)
    seen, harmed = watch(monkeypatch), class_case.model()
    model = PRMQ(ratio=0.3, match=1.0, batch_size=8)(
        class_case.model(), class_case.problem(budget=3.0)
    )
    harmed.load_state_dict(seen[0].before)
    batch = whole_batch(class_case.sets.train.subset(range(32)))
    with torch.no_grad():
        student, teacher, broken = (
            entropy(says(network, batch)) for network in (model, class_case.model(), harmed)
        )
    assert float((student - teacher).square().mean()) < float((broken - teacher).square().mean())


def test_chosen_tensors_are_no_norms_and_follow_from_the_generator(case: Case) -> None:
    model = case.model()
    chosen, again, other = (
        [id(value) for value in choose_tensors(model, 9, torch.Generator().manual_seed(seed))]
        for seed in (0, 0, 1)
    )
    norms = {id(parameter) for parameter in norm_parameters(model)}
    assert len(set(chosen)) == 9 and not norms & set(chosen) and chosen == again != other
    everything = choose_tensors(model, 10_000, torch.Generator())
    assert len(everything) + len(norms) == len(list(model.parameters()))


@pytest.mark.long
def test_frozen_tensors_stay_bit_for_bit(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretch by stretch: at most nine tensors and the norms move; noise comes from the second
    stretch on, and never on a tensor that an earlier stretch had chosen.
    """
    model, phases = class_case.model(), watch(monkeypatch)
    noisy = list[tuple[set[int], float, int]]()

    def spy_noise(parameters: list[Tensor], sigma: float, generator: torch.Generator) -> None:
        noisy.append(({id(value) for value in parameters}, sigma, len(phases)))

    monkeypatch.setattr(rni, "add_noise", spy_noise)
    RNI(batch_size=8, sigma=0.04)(model, class_case.problem(budget=1.0))
    assert [(sigma, stretch) for _, sigma, stretch in noisy] == [(0.04, n) for n in range(1, 5)]
    chosen = [{id(value) for value in phase.how["trainable"]} for phase in phases[:5]]
    for disturbed, _, stretch in noisy:
        fresh = chosen[stretch] - set.union(*chosen[:stretch])
        assert disturbed <= fresh and len(disturbed) == min(6, len(fresh))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    norms = {names[id(parameter)] for parameter in norm_parameters(model)}
    for phase, learning in zip(phases[:5], chosen, strict=True):
        allowed = {names[place] for place in learning}
        moved = changed(phase.before, phase.after) & {*names.values()}
        assert phase.how["steps"] >= 1 and moved <= allowed and len(allowed - norms) == 9
        assert moved & norms and moved - norms
    *few, whole = phases
    assert len(few) == 5 and whole.how.get("trainable") is None
    assert changed(whole.before, whole.after) >= {*names.values()}
    steps = [phase.how["steps"] for phase in phases]
    assert sum(steps[:5]) / sum(steps) == pytest.approx(5 / 9, abs=0.1)


def noise_of(case: Case, count: int, steps: int, **settings: float) -> ImageBatch:
    return UNSIR(**settings).learn_noise(case.model(), case.problem(budget=None), count, steps)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_noise_raises_the_loss_alone(class_case: Case, penalty: float) -> None:
    model, problem = class_case.model(), class_case.problem(budget=None)
    learned = UNSIR(penalty=penalty).learn_noise(model, problem, 8, 10)
    start = noise_of(class_case, 8, 0)
    assert bool(error(model, learned) > error(model, start) + 0.5)
    assert not changed(class_case.original, model) and not learned.image_BCHW.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_classes_of_the_forget_set_get_noise_and_the_penalty_keeps_it_short(
    class_case: Case,
) -> None:
    assert noise_of(class_case, 5, 0).group_B.tolist() == [0, 2, 0, 2, 0]
    short, long = (
        float((noise_of(class_case, 4, 15, penalty=penalty).image_BCHW - 0.5).square().sum())
        for penalty in (1.0, 0.0)
    )
    assert short < 0.2 * long


def test_the_first_noise_step_is_adam_on_the_formula(class_case: Case) -> None:
    """Adam's first step is lr * sign(gradient) of penalty ||n||^2 - CE."""
    start, after = (noise_of(class_case, 4, steps, penalty=0.05, noise_lr=0.01) for steps in (0, 1))
    noise = (start.image_BCHW - 0.5).requires_grad_()
    says_BG = says(class_case.model(), 0.5 + noise)
    loss = 0.05 * noise.square().sum() / 4 - F.cross_entropy(says_BG, start.group_B)
    (gradient,) = torch.autograd.grad(loss, noise)
    clear = gradient.abs() > 1e-5
    step = after.image_BCHW - start.image_BCHW
    assert torch.allclose(step[clear], -0.01 * gradient[clear].sign(), atol=1e-4)
    assert clear.float().mean() > 0.9
