"""SSD with labels and without, against its formula and a loop over samples; LAF's losses and VAEs
by hand.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.forgetting.unlearning.anatomy import classifier
from unplug.sdk.forgetting.unlearning.fisher import Measure, importance, sample_within
from unplug.sdk.forgetting.unlearning.methods.laf import LAF, alignment
from unplug.sdk.forgetting.unlearning.methods.ssd import SSD, dampen, forget_and_all
from unplug.sdk.forgetting.unlearning.methods.ssd_label_free import LabelFreeSSD
from unplug.sdk.forgetting.unlearning.vae import LATENT, VAE, bounded, embed, fit_vae, vae_cost

from .conftest import Case, changed, coloured, snapshot, unlabelled, whole_batch

TOLERANCE = 1e-4  # float32 sums of squares in another order, relative to the largest


def loss_of(case: Case) -> Measure:
    return lambda outputs, batch: -case.task.log_prob(outputs, batch)


@pytest.mark.parametrize(
    ("weights", "forget", "everything", "dampening", "expected"),
    [
        # 1 * 2/8, kept, -4 * 1/5
        ([1.0, 2.0, -4.0], [8.0, 1.0, 5.0], [2.0, 1.0, 1.0], 1.0, [0.25, 2.0, -0.8]),
        # lambda F / F_f = 5/3 is held at 1; 0 > 0 is not selected
        ([1.0, 2.0], [3.0, 0.0], [1.0, 0.0], 5.0, [1.0, 2.0]),
    ],
)
def test_dampening_golden(
    weights: list[float],
    forget: list[float],
    everything: list[float],
    dampening: float,
    expected: list[float],
) -> None:
    net = nn.Linear(len(weights), 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([weights]))
    sizes = ({"weight": torch.tensor([values])} for values in (forget, everything))
    assert dampen(net, *sizes, alpha=2.0, dampening=dampening) == len(weights) - 1
    assert net.weight[0].tolist() == pytest.approx(expected)


def test_fisher_equals_a_loop_over_samples(case: Case) -> None:
    data, measure = case.sets.forget.subset(range(5)), loss_of(case)
    model, given = case.model(), case.problem()
    fast = importance(model, given, data, measure, power=2.0)
    named = dict(model.named_parameters())
    slow = {name: torch.zeros_like(value) for name, value in named.items()}
    for index in range(5):
        batch = data.batch(torch.tensor([index]))
        loss = measure(model(batch.image_BCHW), batch)[0]
        gradients = torch.autograd.grad(loss, list(named.values()))
        for name, gradient in zip(named, gradients, strict=True):
            slow[name] += gradient.square() / 5
    for name, value in slow.items():
        assert (fast[name] - value).abs().max() <= TOLERANCE * value.abs().max(), name
    assert max(float(value.max()) for value in slow.values()) > 0
    assert not changed(case.original, model)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (5, 5)


class Linear(nn.Module):
    """z = W mean_pixels(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(3, 2, bias=False)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"logits": self.classifier(image_BCHW.mean(dim=(2, 3)))}


def test_importance_without_labels_in_closed_form(class_case: Case) -> None:
    """d ||W x||^2 / dW = 2 (W x) x^T."""
    model, data = Linear(), unlabelled(coloured(6, seed=4))

    def size(outputs: dict[str, Tensor], _: object) -> Tensor:
        return outputs["logits"].square().sum(dim=1)

    sizes = importance(model, class_case.problem(), data, size, power=1.0)
    x_N3 = whole_batch(data).image_BCHW.mean(dim=(2, 3))
    z_N2 = x_N3 @ model.classifier.weight.T
    expected = (2 * z_N2[:, :, None] * x_N3[:, None, :]).abs().mean(dim=0)
    assert torch.allclose(sizes["classifier.weight"], expected, rtol=1e-4)


def test_importance_over_all_data_comes_from_one_pass_over_each_set(class_case: Case) -> None:
    """F = (n_r F_r + n_f F_f) / n."""
    forget, retain = class_case.sets.forget.subset(range(4)), class_case.sets.train.subset(range(6))
    measure = loss_of(class_case)
    given = class_case.problem(forget=forget, retain=retain, budget=None)
    _, everything = forget_and_all(class_case.model(), given, measure, power=2.0)
    kept, gone = (importance(class_case.model(), given, data, measure) for data in (retain, forget))
    for name, value in everything.items():
        mean = (6 * kept[name] + 4 * gone[name]) / 10
        assert torch.allclose(value, mean, rtol=1e-4, atol=1e-9), name


@pytest.mark.parametrize("method", [SSD(alpha=1e9), LabelFreeSSD(alpha=1e9)])
def test_an_alpha_that_selects_nothing_is_refused(
    class_case: Case, method: SSD | LabelFreeSSD
) -> None:
    """The model would be handed back as it came; the advice is an alpha that selects something."""
    with pytest.raises(InputError, match="nothing would be forgotten") as refusal:
        method(class_case.model(), class_case.problem(budget=None))
    advised = replace(method, alpha=0.95 * float(refusal.value.fix.rpartition(" ")[2]))
    model = advised(class_case.model(), class_case.problem(budget=None))
    assert changed(class_case.original, model)


def test_smaller_alphas_shrink_more(class_case: Case) -> None:
    before = snapshot(class_case.original)
    shrunk = SSD(alpha=1.0)(class_case.model(), class_case.problem(budget=None))
    named = dict(shrunk.named_parameters())
    assert set() < changed(before, shrunk) <= set(named)  # no buffer
    assert all(bool((value.abs() <= before[name].abs()).all()) for name, value in named.items())
    given = class_case.problem(budget=None)
    sizes = forget_and_all(class_case.model(), given, loss_of(class_case), power=2.0)
    counts = [dampen(class_case.model(), *sizes, alpha, 1.0) for alpha in (1.0, 2.0, 4.0, 6.01)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[2]
    assert counts[3] == 0  # n / n_f = 96 / 16 = 6 cannot be exceeded


def test_short_budgets_read_random_samples(class_case: Case) -> None:
    train = class_case.sets.train
    given = class_case.problem(budget=0.1)  # 0.1 * 0.8 * 3 epochs * 80 samples * 3 = 57.6 passes
    assert sample_within(given, train, 1.0, 3.0).ids != train.ids[:19]
    counts = [
        len(sample_within(given, train, *price)) for price in ((1.0, 3.0), (0.5, 3.0), (1.0, 0.1))
    ]
    assert counts == [19, 9, 80]
    with pytest.raises(BudgetExceeded):
        sample_within(given, train, 0.01, 3.0)


def zeros(features: int) -> VAE:
    """A VAE that reconstructs 0."""
    vae = VAE(features)
    nn.utils.vector_to_parameters(
        torch.zeros(sum(value.numel() for value in vae.parameters())), vae.parameters()
    )
    return vae


def test_goldens_of_the_alignment_and_the_vae() -> None:
    kept, kept0 = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 3.0]])  # cos = 1 / sqrt 2
    # cos = 1 and 0, so d = 0 and 1
    gone, gone0 = torch.eye(2), torch.tensor([[2.0, 0.0], [5.0, 0.0]])
    expected = (1 - 0.5**0.5) - math.log(1 + math.exp(1 / 0.5))
    assert float(alignment(kept, kept0, gone, gone0, 0.5)) == pytest.approx(expected, rel=1e-5)
    assert bounded(zeros(3), torch.tensor([[0.0] * 3, [1.0] * 3])).tolist() == [0.0, 0.75]
    # mu = 0, log var = 2 for every latent and a decoder of zeros: ||z||^2 + 0.025 * LATENT * (e^2 -
    # 1 - 2) / 2.
    vae = zeros(4)
    with torch.no_grad():
        vae.encoder[-1].bias[LATENT:] = 2.0
    value = vae.loss(torch.tensor([[1.0, 2.0, 0.0, 0.0]]), torch.ones(1, LATENT))
    assert value.item() == pytest.approx(5.0 + 0.025 * LATENT * 0.5 * (math.e**2 - 3.0), rel=1e-5)


def test_a_vae_knows_what_it_was_fitted_to(class_case: Case) -> None:
    draw = torch.Generator().manual_seed(0)
    basis = torch.randn(2, 20, generator=draw)
    seen = torch.randn(200, 2, generator=draw) @ basis
    other = 3 * torch.randn(200, 20, generator=draw)
    torch.manual_seed(0)
    vae = fit_vae(seen, class_case.problem(budget=None), class_case.model(), 200, 1.0)
    assert not any(parameter.requires_grad for parameter in vae.parameters())
    assert float(bounded(vae, seen).mean()) < float(bounded(vae, other).mean()) - 0.02
    assert float((seen - vae.reconstruct(seen)).square().sum()) < 0.5 * float(seen.square().sum())


def test_a_vae_is_charged_by_operations(class_case: Case) -> None:
    model, given = class_case.model(), class_case.problem(budget=None)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 32, 32))
    weights = 64 * 64 + 64 * 32 + 16 * 64 + 64 * 64  # 64 features at width 8
    share = 2 * weights / counter.get_total_flops()
    assert vae_cost(VAE(64), given, model) == pytest.approx(share, rel=1e-6)
    before = given.meter.spent
    fit_vae(torch.randn(100, 64), given, model, 10, 1.0)
    assert given.meter.spent.backward - before.backward == math.ceil(10 * 64 * share)


def test_embeddings_are_what_the_classifier_is_given(case: Case) -> None:
    model, given = case.model(), case.problem(budget=None)
    z_NF = embed(model, given, given.forget)
    with torch.no_grad():
        logits = given.task.logits(model(whole_batch(case.sets.forget).image_BCHW))
        assert torch.allclose(classifier(model)(z_NF), logits, atol=1e-4)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (len(given.forget), 0)


@pytest.mark.long
def test_classifier_and_statistics_stay_and_forget_embeddings_move_most(class_case: Case) -> None:
    torch.manual_seed(0)
    model = LAF(batch_size=8, lr=1e-3)(class_case.model(), class_case.problem(budget=3.0))
    moved = changed(class_case.original, model)
    assert len(moved) > 30
    assert not any(name.startswith("classifier") or "running" in name for name in moved)

    def distance(data: str) -> float:
        given = class_case.problem(budget=None)
        now, before = (
            embed(network, given, getattr(given, data)) for network in (model, class_case.model())
        )
        return float((1 - torch.cosine_similarity(now, before)).mean())

    assert distance("forget") > distance("retain")
