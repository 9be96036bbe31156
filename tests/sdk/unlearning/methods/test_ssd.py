"""SSD with labels and without, against its formula and a loop over samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError
from unplug.sdk.unlearning.fisher import importance, sample_within
from unplug.sdk.unlearning.methods.ssd import SSD, dampen, forget_and_all
from unplug.sdk.unlearning.methods.ssd_label_free import LabelFreeSSD

from .conftest import Case, changed, coloured, snapshot, unlabelled

TOLERANCE = 1e-4  # float32 sums of squares in another order, relative to the largest


def loss_of(case: Case):  # type: ignore[no-untyped-def]
    task = case.family.task(case.original)
    return lambda outputs, batch: -task.log_prob(outputs, batch)


def test_dampening_golden() -> None:
    net = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 2.0, -4.0]]))
    forget, everything = {"weight": torch.tensor([[8.0, 1.0, 5.0]])}, {"weight": torch.tensor([[2.0, 1.0, 1.0]])}
    assert dampen(net, forget, everything, alpha=2.0, dampening=1.0) == 2
    assert net.weight.tolist() == [[0.25, 2.0, pytest.approx(-0.8)]]  # 1 * 2/8, kept, -4 * 1/5
    net = nn.Linear(2, 1, bias=False)
    before = net.weight.detach().clone()
    forget, everything = {"weight": torch.tensor([[3.0, 0.0]])}, {"weight": torch.tensor([[1.0, 0.0]])}
    dampen(net, forget, everything, alpha=2.0, dampening=5.0)  # lambda F / F_f = 5/3 is held at 1; 0 > 0 is not selected
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
        gradients = torch.autograd.grad(measure(model(batch.image_BCHW), batch)[0], list(named.values()))
        for name, gradient in zip(named, gradients, strict=True):
            slow[name] += gradient.square() / 5
    for name, value in slow.items():
        assert (fast[name] - value).abs().max() <= TOLERANCE * value.abs().max(), name
    assert max(float(value.max()) for value in slow.values()) > 0
    assert not changed(before, model)
    assert (given.meter.spent.forward, given.meter.spent.backward) == (5, 5)


def test_the_importance_of_all_data_is_the_mean_over_all_data(class_case: Case) -> None:
    """F = (n_r F_r + n_f F_f) / n, from one pass over each set."""
    forget, retain = class_case.sets.forget.subset(range(4)), class_case.sets.train.subset(range(6))
    union = class_case.sets.train.subset(range(6))
    measure = loss_of(class_case)
    given = class_case.problem(forget=forget, retain=retain, budget=None)
    _, everything = forget_and_all(class_case.model(), given, measure, power=2.0)
    parts = [importance(class_case.model(), given, data, measure) for data in (union, forget)]
    for name, value in everything.items():
        assert torch.allclose(value, (6 * parts[0][name] + 4 * parts[1][name]) / 10, rtol=1e-4, atol=1e-9), name


@pytest.mark.parametrize("method", [SSD(alpha=1e9), LabelFreeSSD(alpha=1e9)])
def test_an_alpha_that_selects_nothing_is_refused(class_case: Case, method: SSD | LabelFreeSSD) -> None:
    """The model would be handed back as it came; the advice is an alpha that selects something."""
    with pytest.raises(InputError, match="nothing would be forgotten") as refusal:
        method(class_case.model(), class_case.problem(budget=None))
    most = float(refusal.value.fix.rpartition(" ")[2])
    changing = replace(method, alpha=0.95 * most)(class_case.model(), class_case.problem(budget=None))
    assert changed(snapshot(class_case.original), changing)


def test_smaller_alphas_shrink_more(class_case: Case) -> None:
    before = snapshot(class_case.original)
    shrunk = SSD(alpha=1.0)(class_case.model(), class_case.problem(budget=None))
    moved = changed(before, shrunk)
    assert moved and moved <= {name for name, _ in shrunk.named_parameters()}  # no buffer
    assert all(bool((value.abs() <= before[name].abs()).all()) for name, value in shrunk.named_parameters())
    given = class_case.problem(budget=None)
    forget, everything = forget_and_all(class_case.model(), given, loss_of(class_case), power=2.0)
    counts = [dampen(class_case.model(), forget, everything, alpha, 1.0) for alpha in (1.0, 2.0, 4.0, 6.01)]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[2]
    assert counts[3] == 0  # n / n_f = 96 / 16 = 6 cannot be exceeded


def test_a_random_part_of_a_set_is_read_where_the_budget_is_short(class_case: Case) -> None:
    given = class_case.problem(budget=0.1)  # 0.1 * 0.8 * 3 epochs * 80 samples * 3 = 57.6 passes
    assert sample_within(given, class_case.sets.train, 1.0, 3.0).ids != class_case.sets.train.ids[:19]
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


def test_importance_closed_form_on_a_linear_model(class_case: Case) -> None:
    """d ||W x||^2 / dW = 2 (W x) x^T."""
    model, data = Linear(), unlabelled(coloured(6, seed=4))
    given = class_case.problem()
    found = importance(model, given, data, lambda outputs, _: outputs["logits"].square().sum(dim=1), power=1.0)
    x_N3 = (data.image_NCHW.float() / 255).mean(dim=(2, 3))
    expected = torch.stack([(2 * (model.classifier.weight @ x)[:, None] * x[None, :]).abs() for x in x_N3]).mean(dim=0)
    assert torch.allclose(found["classifier.weight"], expected, rtol=1e-4)
