"""The competition's winners and UNSIR: what is disturbed, what learns in which phase, and their
losses by hand.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from unplug.sdk.forgetting.unlearning.anatomy import classifier, first_convolution, layers
from unplug.sdk.forgetting.unlearning.distil import entropy, not_uniform
from unplug.sdk.forgetting.unlearning.methods import cfw, prmq, rni
from unplug.sdk.forgetting.unlearning.methods.cfw import (
    CFW,
    add_noise,
    class_weights,
    weighted_mean,
)
from unplug.sdk.forgetting.unlearning.methods.fcs import FCS, contrastive
from unplug.sdk.forgetting.unlearning.methods.kde import KDE, soft_ce
from unplug.sdk.forgetting.unlearning.methods.prmq import PRMQ, refill, round_to_half
from unplug.sdk.forgetting.unlearning.methods.rni import RNI, choose_tensors, norm_parameters
from unplug.sdk.forgetting.unlearning.methods.unsir import UNSIR, error
from unplug.sdk.learning.training import ImageBatch

from .conftest import Case, changed, poisoned, snapshot, unlabelled, watch


def test_goldens() -> None:
    # z_f = [1 0], [0 2]; z_r = identity; temperature 1: rows of similarities (1, 0) and (0, 2).
    z_FG, z_RG = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.eye(2)
    first = math.log(math.e + 1)  # ln(e^1 + e^0)
    second = math.log(1 + math.e**2)
    expected = ((first - 1) + first + second + (second - 2)) / 4
    assert float(contrastive(z_FG, z_RG, 1.0)) == pytest.approx(expected, rel=1e-6)
    # the temperature divides
    assert float(contrastive(2 * z_FG, z_RG, 2.0)) == pytest.approx(expected, rel=1e-6)
    same = contrastive(
        torch.zeros(3, 2), torch.randn(5, 2, generator=torch.Generator().manual_seed(0)), 1.15
    )
    assert float(same) == pytest.approx(math.log(5))
    assert (
        contrastive(torch.ones(3, 2), torch.eye(2) * 3, 1.15)
        > contrastive(torch.zeros(3, 2), torch.eye(2) * 3, 1.15) - 1e-6
    )
    assert float(not_uniform(torch.zeros(2, 4))) == pytest.approx(0.0, abs=1e-6)
    kl = sum(0.5 * math.log(0.5 / value) for value in (0.75, 0.25))  # uniform first, as released
    z_BG = torch.tensor([[math.log(3.0), 0.0]], requires_grad=True)
    not_uniform(z_BG).backward()
    assert float(not_uniform(z_BG.detach())) == pytest.approx(kl, rel=1e-5)
    assert z_BG.grad is not None and z_BG.grad.tolist()[0] == pytest.approx([0.25, -0.25])  # p - u
    sure = torch.tensor([[50.0, 0.0, 0.0, 0.0]], requires_grad=True)
    not_uniform(sure).backward()
    # not 0
    assert sure.grad is not None and sure.grad.tolist()[0] == pytest.approx(
        [0.75, -0.25, -0.25, -0.25]
    )
    group_N = torch.tensor([0, 0, 0, 0, 2])
    assert class_weights(group_N, 4, power=1.0).tolist() == [0.25, 0.0, 1.0, 0.0]
    assert class_weights(group_N, 4, power=0.1)[0] == pytest.approx(4**-0.1)
    assert float(
        weighted_mean(torch.tensor([2.0, 4.0]), torch.tensor([0.25, 0.75]))
    ) == pytest.approx(3.5)
    z_BG = torch.tensor(
        [[0.0, 0.0, 0.0, 0.0], [60.0, 0.0, 0.0, 0.0], [math.log(3.0), 0.0, -80.0, -80.0]]
    )
    expected = [math.log(4), 0.0, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))]
    assert entropy(z_BG).tolist() == pytest.approx(expected, abs=1e-5)
    theirs, ours = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, math.log(4.0)]])
    expected = -(0.75 * math.log(0.2) + 0.25 * math.log(0.8))
    assert float(soft_ce(ours, theirs)) == pytest.approx(expected, rel=1e-6)
    sure = torch.tensor([[60.0, 0.0], [0.0, 60.0]])  # a sure teacher gives the cross entropy
    logits = torch.tensor([[1.0, -1.0], [0.5, 0.2]])
    assert float(soft_ce(logits, sure)) == pytest.approx(
        float(torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1])))
    )


def test_phases_in_order_with_falling_rates(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One pass that flattens, then contrast and repair in turn, the rates falling by a cosine.
    seen = watch(monkeypatch)
    method = FCS(rounds=2, batch_size=8, flatten_lr=0.001, contrast_lr=0.002, lr=0.004)
    method(class_case.model(), class_case.problem(budget=2.0))
    assert [phase.lr for phase in seen] == pytest.approx([0.001, 0.002, 0.004, 0.001, 0.002])
    flattens, *rounds = (phase.how["steps"] for phase in seen)
    assert flattens == 2  # 16 samples by 8
    # never more than a pass over the forget set
    assert rounds[0] == rounds[2] == 2 and rounds[1] > 5 and rounds[3] > 5
    # The impairing steps alone make the classes of the noise worse than the repaired model has
    # them.
    seen = watch(monkeypatch)
    given = class_case.problem(budget=1.0)
    UNSIR(batch_size=8, impair_lr=0.002, lr=0.001)(class_case.model(), given)
    assert [phase.lr for phase in seen] == [0.002, 0.001]


def test_the_first_phase_flattens_the_forget_outputs(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch, lambda number: number == 0)
    given = class_case.problem(budget=1.0)
    after = FCS(batch_size=8, flatten_lr=0.001)(class_case.model(), given)
    batch = given.forget.batch(torch.arange(len(given.forget)))
    with torch.no_grad():
        flat = [
            float(not_uniform(model(batch.image_BCHW)["logits"]))
            for model in (class_case.model(), after)
        ]
    assert flat[1] < 0.9 * flat[0]
    # forget batches leave statistics
    assert not any("running" in name for name in changed(class_case.original, after))


def test_what_is_harmed_or_reset_before_the_repair(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch, lambda _: False)
    model = CFW(sigma=0.6)(case.model(), case.problem())
    moved = changed(case.original, model)
    assert moved == {next(name for name, _ in case.original.named_parameters())}
    noise = (
        snapshot(model)[next(iter(moved))] - snapshot(case.original)[next(iter(moved))]
    ).flatten()
    assert len(noise) > 400
    assert float(noise.std()) == pytest.approx(0.6, rel=0.1) and abs(float(noise.mean())) < 0.1
    watch(monkeypatch, lambda _: False)
    torch.manual_seed(0)
    model = KDE()(case.model(), case.problem())
    ends = {
        id(parameter)
        for end in (first_convolution(model), classifier(model))
        for parameter in end.parameters()
    }
    assert changed(case.original, model) == {
        name for name, value in model.named_parameters() if id(value) in ends
    }
    watch(monkeypatch, lambda _: False)
    torch.manual_seed(0)
    model = RNI(noisy=0)(case.model(), case.problem())
    head: nn.Linear = classifier(model)
    ends = {
        name
        for name, value in model.named_parameters()
        if any(value is item for item in head.parameters())
    }
    assert changed(case.original, model) == ends


def test_late_noise_comes_once_before_the_last_quarter(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    monkeypatch.setattr(
        cfw, "add_noise", lambda parameters, sigma, _: calls.append(len(list(parameters)) * sigma)
    )
    given = class_case.problem(budget=2.0)  # 1152 passes: 12 steps of 32
    real = cfw.Descent.__call__

    def spy(self, model, problem, loss, *, steps: int, on_step):  # type: ignore[no-untyped-def]
        def counted(step: int) -> None:
            on_step(step)
            seen.append(len(calls))

        seen: list[int] = []
        real(self, model, problem, loss, steps=steps, on_step=counted)
        # one call for the first noise, the second after 9 of 12 steps
        assert seen == [1] * 8 + [2] * 4
        return model

    monkeypatch.setattr(cfw.Descent, "__call__", spy)
    CFW(sigma=1.0, late_sigma=0.5)(class_case.model(), given)
    assert calls == [1.0, 0.5]  # of the first convolution's weights alone


def test_refill_rounding_and_noise_by_their_laws() -> None:
    net = nn.Sequential(nn.Conv2d(4, 64, 3), nn.Conv2d(64, 16, 1))
    refill(net, 1.0, torch.Generator().manual_seed(1))
    for module, fan_in in ((net[0], 36), (net[1], 64)):
        bound = 1 / math.sqrt(fan_in)
        weight = module.weight.detach()
        assert 0.95 * bound < float(weight.abs().max()) <= bound
        assert 0.7 * bound < float(module.bias.detach().abs().max()) <= bound
        assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.06)
    net = nn.Linear(40, 40)
    before = net.weight.detach().clone()
    round_to_half(net)
    assert ((net.weight - before).abs() <= before.abs() * 2**-11 + 2**-25).all()
    first, second = torch.zeros(50), torch.zeros(50)
    for weight in (first, second):
        add_noise([weight], 2.0, torch.Generator().manual_seed(1))
    assert torch.equal(first, second) and 1.5 < float(first.std()) < 2.5


def test_validation_comes_first_without_its_labels(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phase one must work with labels withheld and the retain set out of reach, phase two without
    validation data.
    """
    seen = watch(monkeypatch, lambda number: number == 0)
    sets = class_case.sets
    given = class_case.problem(retain=poisoned(sets.train), validation=unlabelled(sets.validation))
    KDE(validation_lr=0.001, lr=0.002)(class_case.model(), given)
    assert [phase.lr for phase in seen] == [0.001, 0.002]
    # teacher too
    assert (
        given.meter.spent.forward % 2 == 0
        and given.meter.spent.forward == 2 * given.meter.spent.backward
    )
    with pytest.raises(AssertionError, match="was read"):
        seen.clear()
        KDE()(class_case.model(), class_case.problem(validation=poisoned(sets.validation)))


@pytest.mark.long
def test_the_student_comes_closer_to_the_original(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first phase; in the second the labels outweigh the teacher, whose terms carry no
    factor T^2.
    """
    watch(monkeypatch, lambda number: number == 0)
    torch.manual_seed(0)
    given = class_case.problem(budget=3.0)
    taught = KDE(batch_size=8)(class_case.model(), given)
    watch(monkeypatch, lambda _: False)
    reset = KDE(batch_size=8)(class_case.model(), class_case.problem()).eval()
    image = given.validation.batch(torch.arange(len(given.validation))).image_BCHW
    with torch.no_grad():
        theirs, near, far = (
            model(image)["logits"].softmax(dim=1) for model in (class_case.original, taught, reset)
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
    model = PRMQ(batch_size=16)(class_case.model(), class_case.problem())
    for name, value in model.named_parameters():
        assert value.dtype == torch.float32 and torch.equal(value.half().float(), value), name
    assert not all(
        torch.equal(value.half().float(), value) for value in class_case.original.parameters()
    )


@pytest.mark.long
def test_the_entropy_term_compares_with_the_original(
    class_case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing but the entropy term the repaired student answers as surely as the original did."""
    given = class_case.problem(budget=3.0)
    monkeypatch.setattr(prmq, "weighted_mean", lambda loss_B, weight_B: loss_B.sum() * 0.0)
    model = PRMQ(ratio=0.3, match=1.0, batch_size=8)(class_case.model(), given)
    broken = class_case.model()
    refill(broken, 0.3, torch.Generator().manual_seed(0))
    image = given.retain.batch(torch.arange(32)).image_BCHW
    with torch.no_grad():
        student, teacher, harmed = (
            entropy(net(image)["logits"]) for net in (model, class_case.original, broken)
        )
    assert float((student - teacher).square().mean()) < float((harmed - teacher).square().mean())


def test_choose_tensors_avoids_norms_and_follows_from_the_generator(
    case: Case, class_case: Case
) -> None:
    model = case.model()
    chosen = choose_tensors(model, 9, torch.Generator().manual_seed(0))
    norms = {id(parameter) for parameter in norm_parameters(model)}
    assert len({id(item) for item in chosen}) == 9 and not norms & {id(item) for item in chosen}
    again = choose_tensors(model, 9, torch.Generator().manual_seed(0))
    other = choose_tensors(model, 9, torch.Generator().manual_seed(1))
    assert (
        [id(item) for item in chosen]
        == [id(item) for item in again]
        != [id(item) for item in other]
    )
    everything = choose_tensors(model, 10_000, torch.Generator())
    assert len(everything) + len(norms) == len(list(model.parameters()))
    given = class_case.problem(budget=0.6)  # 345 passes: 7 steps of 16
    RNI(batch_size=16)(class_case.model(), given)
    assert given.meter.spent.forward == 7 * 16


@pytest.mark.long
def test_frozen_tensors_stay_bit_for_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretch by stretch: at most nine tensors and the norms move; noise comes from the second
    stretch on, and never on a tensor that an earlier stretch had chosen.
    """
    model, states, noisy = case.model(), watch(monkeypatch), list[tuple[set[int], float, int]]()

    def spy_noise(parameters: list[Tensor], sigma: float, generator: torch.Generator) -> None:
        noisy.append(({id(item) for item in parameters}, sigma, len(states)))

    monkeypatch.setattr(rni, "add_noise", spy_noise)
    RNI(batch_size=8, sigma=0.04)(model, case.problem(budget=1.0))
    assert [(sigma, stretch) for _, sigma, stretch in noisy] == [
        (0.04, stretch) for stretch in range(1, 5)
    ]
    chosen = [{id(item) for item in phase.how["trainable"]} for phase in states[:5]]
    for disturbed, _, stretch in noisy:
        fresh = chosen[stretch] - set.union(*chosen[:stretch])
        assert disturbed <= fresh and len(disturbed) == min(6, len(fresh))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    everywhere = set(names.values())
    norms = {names[id(parameter)] for parameter in norm_parameters(model)}
    assert len(states) == 6
    for phase in states[:5]:
        allowed = {names[id(parameter)] for parameter in phase.how["trainable"]}
        moved = changed(phase.before, phase.after) & everywhere
        assert phase.how["steps"] >= 1 and moved <= allowed and len(allowed - norms) == 9
        assert moved & norms and moved - norms
    assert (
        states[5].how.get("trainable") is None
        and changed(states[5].before, states[5].after) >= everywhere
    )
    steps = [phase.how["steps"] for phase in states]
    assert sum(steps[:5]) / sum(steps) == pytest.approx(5 / 9, abs=0.1)


def measured(case: Case, noise: ImageBatch) -> float:
    with torch.no_grad():
        return float(
            error(case.model(), case.problem(budget=None), noise.image_BCHW, noise.group_B)
        )


@pytest.mark.parametrize(
    ("world_name", "penalty", "rise"),
    [("class", 0.0, 0.5), ("class", 0.1, 0.5), ("age", 0.0, 3e-4)],
)
def test_noise_raises_the_loss_alone(
    request: pytest.FixtureRequest, world_name: str, penalty: float, rise: float
) -> None:
    """The age model of three epochs hardly looks at its input, so its loss rises little in ten
    steps.
    """
    case: Case = request.getfixturevalue(f"{world_name}_case")
    model, method = case.model(), UNSIR(penalty=penalty)
    before = snapshot(model)
    start, learned = (
        method.learn_noise(model, case.problem(budget=None), 8, steps) for steps in (0, 10)
    )
    assert measured(case, learned) > measured(case, start) + rise
    assert not changed(before, model) and not learned.image_BCHW.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_classes_of_the_forget_set_get_noise_and_the_penalty_keeps_it_short(
    class_case: Case,
) -> None:
    noise = UNSIR().learn_noise(class_case.model(), class_case.problem(budget=None), 5, 0)
    assert noise.group_B.tolist() == [0, 2, 0, 2, 0]

    def length(penalty: float) -> float:
        noise = UNSIR(penalty=penalty).learn_noise(
            class_case.model(), class_case.problem(budget=None), 4, 15
        )
        return float((noise.image_BCHW - 0.5).square().sum(dim=(1, 2, 3)).mean())

    assert length(1.0) < 0.2 * length(0.0)


def test_the_first_noise_step_is_adam_on_the_formula(class_case: Case) -> None:
    """Adam's first step is lr * sign(gradient) of penalty ||n||^2 - CE."""
    model, method = class_case.model(), UNSIR(penalty=0.05, noise_lr=0.01)
    start = method.learn_noise(model, class_case.problem(budget=None), 4, 0)
    after = method.learn_noise(model, class_case.problem(budget=None), 4, 1)
    noise = (start.image_BCHW - 0.5).requires_grad_()
    logits = model(0.5 + noise)["logits"]
    loss = 0.05 * noise.square().sum() / 4 - torch.nn.functional.cross_entropy(
        logits, start.group_B
    )
    (gradient,) = torch.autograd.grad(loss, noise)
    clear = gradient.abs() > 1e-5
    step = after.image_BCHW - start.image_BCHW
    assert (
        torch.allclose(step[clear], -0.01 * gradient[clear].sign(), atol=1e-4)
        and clear.float().mean() > 0.9
    )
