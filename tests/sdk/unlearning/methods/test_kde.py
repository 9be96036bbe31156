"""KDE: what is reset, what is read in which phase, the soft loss by hand."""

from __future__ import annotations

import math

import pytest
import torch

from unplug.sdk.unlearning.anatomy import classifier, first_convolution
from unplug.sdk.unlearning.methods import kde
from unplug.sdk.unlearning.methods.kde import KDE, soft_ce

from .conftest import Case, changed, poisoned, unlabelled


def test_both_ends_are_reset_and_nothing_else(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kde.Descent, "__call__", lambda self, model, *_, **__: model)
    torch.manual_seed(0)
    model = KDE()(case.model(), case.problem())
    ends = {id(parameter) for end in (first_convolution(model), classifier(model)) for parameter in end.parameters()}
    assert changed(case.original, model) == {name for name, value in model.named_parameters() if id(value) in ends}


def test_validation_comes_first_without_its_labels(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phase one must work with labels withheld and the retain set out of reach, phase two without validation data."""
    lr_seen: list[float] = []
    real = kde.Descent.__call__

    def first_alone(self, model, problem, loss, *, steps):  # type: ignore[no-untyped-def]
        lr_seen.append(self.lr)
        return real(self, model, problem, loss, steps=steps) if len(lr_seen) == 1 else model

    monkeypatch.setattr(kde.Descent, "__call__", first_alone)
    sets = class_case.sets
    given = class_case.problem(retain=poisoned(sets.train), validation=unlabelled(sets.validation))
    KDE(validation_lr=0.001, lr=0.002)(class_case.model(), given)
    assert lr_seen == [0.001, 0.002]
    assert given.meter.spent.forward % 2 == 0 and given.meter.spent.forward == 2 * given.meter.spent.backward  # teacher too
    with pytest.raises(AssertionError, match="was read"):
        lr_seen.clear()
        KDE()(class_case.model(), class_case.problem(validation=poisoned(sets.validation)))


def test_soft_ce_golden() -> None:
    theirs, ours = torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[0.0, math.log(4.0)]])
    expected = -(0.75 * math.log(0.2) + 0.25 * math.log(0.8))
    assert float(soft_ce(ours, theirs)) == pytest.approx(expected, rel=1e-6)
    sure = torch.tensor([[60.0, 0.0], [0.0, 60.0]])  # a sure teacher gives the cross entropy
    logits = torch.tensor([[1.0, -1.0], [0.5, 0.2]])
    assert float(soft_ce(logits, sure)) == pytest.approx(float(torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1]))))


def test_the_student_comes_closer_to_the_original(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    given = class_case.problem(budget=3.0)
    taught = KDE(batch_size=8)(class_case.model(), given)
    monkeypatch.setattr(kde.Descent, "__call__", lambda self, model, *_, **__: model)
    reset = KDE(batch_size=8)(class_case.model(), class_case.problem()).eval()
    image = given.validation.batch(torch.arange(len(given.validation))).image_BCHW
    with torch.no_grad():
        theirs, near, far = (model(image)["logits"].softmax(dim=1) for model in (class_case.original, taught, reset))
    assert (near - theirs).abs().mean() < (far - theirs).abs().mean()
