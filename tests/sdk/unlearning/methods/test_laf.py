"""LAF: its two losses by hand, its VAEs against what they must do, its honesty about cost."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from unplug.sdk.unlearning.anatomy import classifier
from unplug.sdk.unlearning.methods.laf import LAF, alignment
from unplug.sdk.unlearning.vae import LATENT, VAE, bounded, embed, fit_vae, vae_cost

from .conftest import Case, changed


def test_goldens() -> None:
    kept, kept0 = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 3.0]])  # cos = 1 / sqrt 2
    gone, gone0 = torch.eye(2), torch.tensor([[2.0, 0.0], [5.0, 0.0]])  # cos = 1 and 0, so d = 0 and 1
    expected = (1 - 0.5**0.5) - math.log(1 + math.exp(1 / 0.5))
    assert float(alignment(kept, kept0, gone, gone0, 0.5)) == pytest.approx(expected, rel=1e-5)
    vae = VAE(3)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()  # reconstructs 0
    assert bounded(vae, torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).tolist() == [0.0, 0.75]
    # mu = 0, log var = 2 for every latent and a decoder of zeros: ||z||^2 + 0.025 * LATENT * (e^2 - 1 - 2) / 2.
    vae = VAE(4)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.zero_()
        last = vae.encoder[-1]
        assert isinstance(last, nn.Linear)
        last.bias[LATENT:] = 2.0
    value = vae.loss(torch.tensor([[1.0, 2.0, 0.0, 0.0]]), torch.ones(1, LATENT))
    assert value.item() == pytest.approx(5.0 + 0.025 * LATENT * 0.5 * (math.e**2 - 3.0), rel=1e-5)


def test_a_vae_knows_what_it_was_fitted_to(class_case: Case) -> None:
    draw = torch.Generator().manual_seed(0)
    basis = torch.randn(2, 20, generator=draw)
    seen, other = torch.randn(200, 2, generator=draw) @ basis, 3 * torch.randn(200, 20, generator=draw)
    torch.manual_seed(0)
    vae = fit_vae(seen, class_case.problem(budget=None), class_case.model(), 200, 1.0)
    assert not any(parameter.requires_grad for parameter in vae.parameters())
    assert float(bounded(vae, seen).mean()) < float(bounded(vae, other).mean()) - 0.02
    assert float((seen - vae.reconstruct(seen)).square().sum()) < 0.5 * float(seen.square().sum())


def test_embeddings_are_what_the_classifier_is_given(case: Case) -> None:
    model, given = case.model(), case.problem(budget=None)
    z_NF = embed(model, given, given.forget)
    batch = given.forget.batch(torch.arange(len(given.forget)))
    with torch.no_grad():
        logits = given.task.logits(model(batch.image_BCHW))
        assert torch.allclose(classifier(model)(z_NF), logits, atol=1e-4)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (len(given.forget), 0)


def test_the_vae_is_charged_by_its_operations(class_case: Case) -> None:
    model, given = class_case.model(), class_case.problem(budget=None)
    macs = 0

    def count(module: nn.Module, _: object, output: torch.Tensor) -> None:
        nonlocal macs
        assert isinstance(module, (nn.Conv2d, nn.Linear))
        macs += output[0].numel() * module.weight[0].numel()

    handles = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
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


@pytest.mark.long
def test_classifier_and_statistics_stay_and_forget_embeddings_move_most(class_case: Case) -> None:
    given = class_case.problem(budget=3.0)
    torch.manual_seed(0)
    model = LAF(batch_size=8, lr=1e-3)(class_case.model(), given)
    moved = changed(class_case.original, model)
    assert not any(name.startswith("classifier") or "running" in name for name in moved) and len(moved) > 30
    distance = {}
    for name in ("retain", "forget"):
        now, before = (
            embed(net, class_case.problem(budget=None), getattr(given, name)) for net in (model, class_case.original)
        )
        distance[name] = float((1 - torch.cosine_similarity(now, before)).mean())
    assert distance["forget"] > distance["retain"]
