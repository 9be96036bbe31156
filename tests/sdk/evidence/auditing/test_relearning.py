"""Relearn time: how soon fine-tuning on the forget set brings the loss on it back."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from tests.intervals import ends
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.evidence.auditing import forget_loss, relearn
from unplug.sdk.evidence.auditing.relearning import Censored, RelearnTime
from unplug.sdk.forgetting.tasks import ClassTask
from unplug.sdk.learning.training import ImageSet, Recipe


class Tiny(nn.Module):
    """A linear classifier with batch norm in front, so that modes matter."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.norm, self.linear = nn.BatchNorm2d(3), nn.Linear(48, 4)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"logits": self.linear(self.norm(image_BCHW).flatten(1))}


def pictures(count: int = 24, seed: int = 0) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    return ImageSet(
        ids=tuple(str(number) for number in range(count)),
        image_NCHW=torch.randint(0, 256, (count, 3, 4, 4), dtype=torch.uint8, generator=generator),
        age_N=torch.full((count,), float("nan")),
        group_N=torch.randint(0, 4, (count,), generator=generator),
        subject_N=np.arange(count),
    )


FORGET, TASK = pictures(), ClassTask.of(Recipe(size="resnet18", loss="ce"), "abcd")


def run(models: list[nn.Module], target: float, **other: object) -> RelearnTime | Censored:
    settings = {"lr": 0.02, "batch_size": 8, "max_epochs": 40, **other}
    return relearn(models, FORGET, TASK, target_loss=target, **settings)


@pytest.fixture(scope="module")
def original() -> nn.Module:
    """Knows the forget set by heart."""
    model = Tiny(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    batch = FORGET.batch(torch.arange(24))
    for _ in range(60):
        loss = TASK.loss(model, model(batch.image_BCHW), batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def test_forget_loss_and_student_interval_by_hand() -> None:
    model = Tiny(1)
    model.eval()
    batch = FORGET.batch(torch.arange(24))
    by_hand = float(
        nn.functional.cross_entropy(model(batch.image_BCHW)["logits"], FORGET.group_N).detach()
    )
    model.train()
    assert forget_loss(model, FORGET, TASK) == pytest.approx(by_hand, rel=1e-6)
    assert model.training, "the mode is put back"
    # Two models, one seed each: t(.975, 1) = 12.706, cut at 0.
    took = run([Tiny(2), Tiny(3)], 0.6, seeds=(0,))
    assert isinstance(took, RelearnTime)
    one, two = took.passes
    half = 12.7062 * abs(one - two) / math.sqrt(2) / math.sqrt(2)
    by_hand = max(0.0, (one + two) / 2 - half), (one + two) / 2 + half
    assert ends(took.mean) == pytest.approx(by_hand, rel=1e-4)


def test_an_original_needs_nothing_and_a_trace_saves_time(original: nn.Module) -> None:
    target = max(0.2, forget_loss(original, FORGET, TASK))
    stranger, trace = Tiny(5), copy.deepcopy(original)
    with torch.no_grad():
        trace.get_submodule("linear").weight.mul_(0.1)
    at_once, soon, late = (run([model], target) for model in (original, trace, stranger))
    assert at_once.passes == (0, 0, 0)
    assert isinstance(soon, RelearnTime) and isinstance(late, RelearnTime)
    assert 0 < soon.mean.value < late.mean.value
    assert len(late.passes) == 3 and all(passes % 8 == 0 for passes in late.passes)
    low, high = ends(late.mean)
    assert low <= late.mean.value <= high


def test_models_are_left_alone_seeds_repeat_and_bad_settings_are_refused() -> None:
    model = Tiny(2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one, same = (run([model], 0.5, seeds=(1,)) for _ in range(2))
    assert one == same and isinstance(one, RelearnTime)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert one.mean.low is None, "one run has no interval"
    with pytest.raises(InputError, match="no model"):
        run([], 1.0)
    for settings in ({"lr": 0.0}, {"batch_size": 1}, {"max_epochs": 0}):
        with pytest.raises(InputError, match="Give at least 2"):
            run([model], 1.0, **settings)
    with pytest.raises(InputError, match="finite target"):
        run([model], float("nan"))
    with pytest.raises(InputError, match="1 samples"):
        relearn([model], FORGET.subset([0]), TASK, target_loss=1.0)


def test_the_cap_gives_a_reason_instead_of_a_number(original: nn.Module) -> None:
    stopped = run([Tiny(5)], 1e-6, max_epochs=2, seeds=(0, 1))
    assert isinstance(stopped, Censored)
    assert stopped.passes == (None, None) and stopped.cap == 48
    assert "2 of 2 runs" in stopped.reason and "48 sample passes" in stopped.reason
    target = forget_loss(original, FORGET, TASK)
    mixed = run([original, Tiny(5)], target, seeds=(0,), lr=1e-6, max_epochs=1)
    assert isinstance(mixed, Censored) and mixed.passes == (0, None)
