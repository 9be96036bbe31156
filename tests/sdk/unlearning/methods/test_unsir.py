"""UNSIR: noise that the model gets wrong, of the classes in the forget set; of that set nothing else is read."""

from __future__ import annotations

import pytest
import torch

from unplug.sdk.training import ImageBatch
from unplug.sdk.unlearning.methods.unsir import UNSIR, error

from .conftest import Case, changed, snapshot, watch


def measured(case: Case, noise: ImageBatch) -> float:
    with torch.no_grad():
        return float(error(case.model(), case.problem(budget=None), noise.image_BCHW, noise.group_B))


@pytest.mark.parametrize(("world_name", "penalty", "rise"), [("class", 0.0, 0.5), ("class", 0.1, 0.5), ("age", 0.0, 1e-3)])
def test_noise_raises_the_loss_alone(request: pytest.FixtureRequest, world_name: str, penalty: float, rise: float) -> None:
    """The age model of three epochs hardly looks at its input, so its loss rises little in ten steps."""
    case: Case = request.getfixturevalue(f"{world_name}_case")
    model, method = case.model(), UNSIR(penalty=penalty)
    before = snapshot(model)
    start, learned = (method.learn_noise(model, case.problem(budget=None), 8, steps) for steps in (0, 10))
    assert measured(case, learned) > measured(case, start) + rise
    assert not changed(before, model) and not learned.image_BCHW.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


def test_only_classes_of_the_forget_set_get_noise_and_the_penalty_keeps_it_short(class_case: Case) -> None:
    noise = UNSIR().learn_noise(class_case.model(), class_case.problem(budget=None), 5, 0)
    assert noise.group_B.tolist() == [0, 2, 0, 2, 0]

    def length(penalty: float) -> float:
        noise = UNSIR(penalty=penalty).learn_noise(class_case.model(), class_case.problem(budget=None), 4, 15)
        return float((noise.image_BCHW - 0.5).square().sum(dim=(1, 2, 3)).mean())

    assert length(1.0) < 0.2 * length(0.0)


def test_the_first_noise_step_is_adam_on_the_formula(class_case: Case) -> None:
    """Adam's first step is lr * sign(gradient) of penalty ||n||^2 - CE."""
    model, method = class_case.model(), UNSIR(penalty=0.05, noise_lr=0.01)
    start = method.learn_noise(model, class_case.problem(budget=None), 4, 0)
    after = method.learn_noise(model, class_case.problem(budget=None), 4, 1)
    noise = (start.image_BCHW - 0.5).requires_grad_()
    logits = model(0.5 + noise)["logits"]
    loss = 0.05 * noise.square().sum() / 4 - torch.nn.functional.cross_entropy(logits, start.group_B)
    (gradient,) = torch.autograd.grad(loss, noise)
    clear = gradient.abs() > 1e-5
    step = after.image_BCHW - start.image_BCHW
    assert torch.allclose(step[clear], -0.01 * gradient[clear].sign(), atol=1e-4) and clear.float().mean() > 0.9


def test_impair_comes_before_repair(class_case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The impairing steps alone make the classes of the noise worse than the repaired model has them."""
    seen = watch(monkeypatch)
    given = class_case.problem(budget=1.0)
    UNSIR(batch_size=8, impair_lr=0.002, lr=0.001)(class_case.model(), given)
    assert [phase.lr for phase in seen] == [0.002, 0.001]
