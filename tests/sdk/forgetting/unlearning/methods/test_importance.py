"""SSD with labels and without, against its formula and a loop over samples; LAF's losses and VAEs
by hand.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.forgetting.unlearning.anatomy import classifier
from unplug.sdk.forgetting.unlearning.fisher import importance, sample_within
from unplug.sdk.forgetting.unlearning.methods.laf import LAF, alignment
from unplug.sdk.forgetting.unlearning.methods.ssd import SSD, dampen, forget_and_all
from unplug.sdk.forgetting.unlearning.methods.ssd_label_free import LabelFreeSSD
from unplug.sdk.forgetting.unlearning.vae import LATENT, VAE, bounded, embed, fit_vae, vae_cost

from .conftest import Case, changed, coloured, snapshot, unlabelled

TOLERANCE = 1e-4  # float32 sums of squares in another order, relative to the largest


def loss_of(case: Case):  # type: ignore[no-untyped-def]
    task = case.task
    return lambda outputs, batch: -task.log_prob(outputs, batch)


def test_dampening_golden() -> None:
    net = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 2.0, -4.0]]))
    forget, everything = (
        {"weight": torch.tensor([[8.0, 1.0, 5.0]])},
        {"weight": torch.tensor([[2.0, 1.0, 1.0]])},
    )
    assert dampen(net, forget, everything, alpha=2.0, dampening=1.0) == 2
    assert net.weight.tolist() == [[0.25, 2.0, pytest.approx(-0.8)]]  # 1 * 2/8, kept, -4 * 1/5
    net = nn.Linear(2, 1, bias=False)
    before = net.weight.detach().clone()
    forget, everything = (
        {"weight": torch.tensor([[3.0, 0.0]])},
        {"weight": torch.tensor([[1.0, 0.0]])},
    )
    # lambda F / F_f = 5/3 is held at 1; 0 > 0 is not selected
    dampen(net, forget, everything, alpha=2.0, dampening=5.0)
    assert torch.equal(net.weight, before)


def test_fisher_equals_a_loop_over_samples(case: Case) -> None:
    data, measure = case.sets.forget.subset(range(5)), loss_of(case)
    model, given = case.model(), case.problem()
    before = snapshot(model)
    fast = importance(model, given, data, measure, power=2.0)
    named = dict(model.named_parameters())
    slow = {name: torch.zeros_like(value) for name, value in named.items()}
    for index in range(5):
        batch = data.batch(torch.tensor([index]))
        gradients = torch.autograd.grad(
            measure(model(batch.image_BCHW), batch)[0], list(named.values())
        )
        for name, gradient in zip(named, gradients, strict=True):
            slow[name] += gradient.square() / 5
    for name, value in slow.items():
        assert (fast[name] - value).abs().max() <= TOLERANCE * value.abs().max(), name
    assert max(float(value.max()) for value in slow.values()) > 0
    assert not changed(before, model)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (5, 5)


def test_importance_closed_form_and_over_all_data(class_case: Case) -> None:
    # d ||W x||^2 / dW = 2 (W x) x^T.
    model, data = Linear(), unlabelled(coloured(6, seed=4))
    given = class_case.problem()
    found = importance(
        model, given, data, lambda outputs, _: outputs["logits"].square().sum(dim=1), power=1.0
    )
    x_N3 = (data.image_NCHW.float() / 255).mean(dim=(2, 3))
    expected = torch.stack(
        [(2 * (model.classifier.weight @ x)[:, None] * x[None, :]).abs() for x in x_N3]
    ).mean(dim=0)
    assert torch.allclose(found["classifier.weight"], expected, rtol=1e-4)
    # F = (n_r F_r + n_f F_f) / n, from one pass over each set.
    forget, retain = class_case.sets.forget.subset(range(4)), class_case.sets.train.subset(range(6))
    union = class_case.sets.train.subset(range(6))
    measure = loss_of(class_case)
    given = class_case.problem(forget=forget, retain=retain, budget=None)
    _, everything = forget_and_all(class_case.model(), given, measure, power=2.0)
    parts = [importance(class_case.model(), given, data, measure) for data in (union, forget)]
    for name, value in everything.items():
        assert torch.allclose(
            value, (6 * parts[0][name] + 4 * parts[1][name]) / 10, rtol=1e-4, atol=1e-9
        ), name


@pytest.mark.parametrize("method", [SSD(alpha=1e9), LabelFreeSSD(alpha=1e9)])
def test_an_alpha_that_selects_nothing_is_refused(
    class_case: Case, method: SSD | LabelFreeSSD
) -> None:
    """The model would be handed back as it came; the advice is an alpha that selects something."""
    with pytest.raises(InputError, match="nothing would be forgotten") as refusal:
        method(class_case.model(), class_case.problem(budget=None))
    most = float(refusal.value.fix.rpartition(" ")[2])
    changing = replace(method, alpha=0.95 * most)(
        class_case.model(), class_case.problem(budget=None)
    )
    assert changed(snapshot(class_case.original), changing)


def test_smaller_alphas_shrink_more_and_short_budgets_read_less(class_case: Case) -> None:
    before = snapshot(class_case.original)
    shrunk = SSD(alpha=1.0)(class_case.model(), class_case.problem(budget=None))
    moved = changed(before, shrunk)
    assert moved and moved <= {name for name, _ in shrunk.named_parameters()}  # no buffer
    assert all(
        bool((value.abs() <= before[name].abs()).all()) for name, value in shrunk.named_parameters()
    )
    given = class_case.problem(budget=None)
    forget, everything = forget_and_all(class_case.model(), given, loss_of(class_case), power=2.0)
    counts = [
        dampen(class_case.model(), forget, everything, alpha, 1.0)
        for alpha in (1.0, 2.0, 4.0, 6.01)
    ]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[2]
    assert counts[3] == 0  # n / n_f = 96 / 16 = 6 cannot be exceeded
    given = class_case.problem(budget=0.1)  # 0.1 * 0.8 * 3 epochs * 80 samples * 3 = 57.6 passes
    assert (
        sample_within(given, class_case.sets.train, 1.0, 3.0).ids != class_case.sets.train.ids[:19]
    )
    assert len(sample_within(given, class_case.sets.train, 1.0, 3.0)) == 19
    assert len(sample_within(given, class_case.sets.train, 0.5, 3.0)) == 9
    assert len(sample_within(given, class_case.sets.train, 1.0, 0.1)) == 80
    with pytest.raises(BudgetExceeded):
        sample_within(given, class_case.sets.train, 0.01, 3.0)


class Linear(nn.Module):
    """z = W mean_pixels(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(3, 2, bias=False)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"logits": self.classifier(image_BCHW.mean(dim=(2, 3)))}


def test_goldens() -> None:
    kept, kept0 = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 3.0]])  # cos = 1 / sqrt 2
    # cos = 1 and 0, so d = 0 and 1
    gone, gone0 = (
        torch.eye(2),
        torch.tensor([[2.0, 0.0], [5.0, 0.0]]),
    )
    expected = (1 - 0.5**0.5) - math.log(1 + math.exp(1 / 0.5))
    assert float(alignment(kept, kept0, gone, gone0, 0.5)) == pytest.approx(expected, rel=1e-5)
    vae = VAE(3)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()  # reconstructs 0
    assert bounded(vae, torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).tolist() == [0.0, 0.75]
    # mu = 0, log var = 2 for every latent and a decoder of zeros: ||z||^2 + 0.025 * LATENT * (e^2 -
    # 1 - 2) / 2.
    vae = VAE(4)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()
        last = vae.encoder[-1]
        assert isinstance(last, nn.Linear)
        last.bias[LATENT:] = 2.0
    value = vae.loss(torch.tensor([[1.0, 2.0, 0.0, 0.0]]), torch.ones(1, LATENT))
    assert value.item() == pytest.approx(5.0 + 0.025 * LATENT * 0.5 * (math.e**2 - 3.0), rel=1e-5)


def test_a_vae_knows_what_it_was_fitted_to_and_is_charged_by_operations(class_case: Case) -> None:
    draw = torch.Generator().manual_seed(0)
    basis = torch.randn(2, 20, generator=draw)
    seen, other = (
        torch.randn(200, 2, generator=draw) @ basis,
        3 * torch.randn(200, 20, generator=draw),
    )
    torch.manual_seed(0)
    vae = fit_vae(seen, class_case.problem(budget=None), class_case.model(), 200, 1.0)
    assert not any(parameter.requires_grad for parameter in vae.parameters())
    assert float(bounded(vae, seen).mean()) < float(bounded(vae, other).mean()) - 0.02
    assert float((seen - vae.reconstruct(seen)).square().sum()) < 0.5 * float(seen.square().sum())
    model, given = class_case.model(), class_case.problem(budget=None)
    macs = 0

    def count(module: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal macs
        assert isinstance(module, (nn.Conv2d, nn.Linear))
        macs += output[0].numel() * module.weight[0].numel()

    handles = [
        m.register_forward_hook(count)
        for m in model.modules()
        if isinstance(m, (nn.Conv2d, nn.Linear))
    ]
    with torch.no_grad():
        model(torch.zeros(1, 3, 32, 32))
    for handle in handles:
        handle.remove()
    weights = 64 * 64 + 64 * 32 + 16 * 64 + 64 * 64  # 64 features at width 8
    assert vae_cost(VAE(64), given, model) == pytest.approx(weights / macs, rel=1e-6)
    before = given.meter.spent
    fit_vae(torch.randn(100, 64), given, model, 10, 1.0)
    trained = given.meter.spent.backward - before.backward
    assert trained == math.ceil(10 * 64 * weights / macs)


def test_embeddings_are_what_the_classifier_is_given(case: Case) -> None:
    model, given = case.model(), case.problem(budget=None)
    z_NF = embed(model, given, given.forget)
    batch = given.forget.batch(torch.arange(len(given.forget)))
    with torch.no_grad():
        logits = given.task.logits(model(batch.image_BCHW))
        assert torch.allclose(classifier(model)(z_NF), logits, atol=1e-4)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (len(given.forget), 0)


@pytest.mark.long
def test_classifier_and_statistics_stay_and_forget_embeddings_move_most(class_case: Case) -> None:
    given = class_case.problem(budget=3.0)
    torch.manual_seed(0)
    model = LAF(batch_size=8, lr=1e-3)(class_case.model(), given)
    moved = changed(class_case.original, model)
    assert (
        not any(name.startswith("classifier") or "running" in name for name in moved)
        and len(moved) > 30
    )
    distance = {}
    for name in ("retain", "forget"):
        now, before = (
            embed(net, class_case.problem(budget=None), getattr(given, name))
            for net in (model, class_case.original)
        )
        distance[name] = float((1 - torch.cosine_similarity(now, before)).mean())
    assert distance["forget"] > distance["retain"]
