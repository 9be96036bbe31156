"""The repair that most methods end with: fine-tuning on the retain set for as long as the budget lasts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from tqdm import tqdm

from unplug.plugins.age import AgePredictor
from unplug.plugins.errors import BudgetExceeded, InputError, TrainingError
from unplug.sdk.train.augment import augment
from unplug.sdk.train.device import autocast
from unplug.sdk.train.loop import decay_groups
from unplug.sdk.train.recipe import learning_rate
from unplug.sdk.train.task import finite

from .method import ForgetProblem

Shape = Literal["cosine", "up-down"]
MAX_LR = 10.0  # as in `Recipe`


@dataclass(frozen=True, kw_only=True)
class Repair:
    """AdamW on the retain set with the recipe's loss, weight decay and augmentation.

    Published settings use SGD for several epochs; within 5 % of retraining there are one or two, and AdamW, with
    which the original was trained, gets further in them (`python -m benchmarks.forget_sweep`).

    Args:
        lr: peak learning rate.
        shape: "cosine" (down) or "up-down" (linear up over the first half, linear down).
        batch_size: of the repair. Half of the recipe's: the budget counts samples, so smaller batches are more steps.

    Raises:
        InputError: a value out of range.
    """

    lr: float
    shape: Shape = "cosine"
    batch_size: int = 32

    def __post_init__(self) -> None:
        if not 0.0 < self.lr <= MAX_LR:
            raise InputError(f"lr {self.lr}", "out of range", f"Use a learning rate above 0 and up to {MAX_LR:g}")
        if self.batch_size < 2:  # batch norm
            raise InputError(f"batch_size {self.batch_size}", "out of range", "Use 2 or more")

    def __call__(
        self, model: AgePredictor, problem: ForgetProblem, step_scale: Mapping[str, Tensor] | None = None
    ) -> AgePredictor:
        """Fine-tunes in place.

        Args:
            model: on the device.
            problem: retain data, task, meter.
            step_scale: parameter name to a tensor in [0, 1] that its steps are multiplied with.

        Raises:
            BudgetExceeded: the budget does not cover one step.
            TrainingError: the loss is not finite.
        """
        batch_size = min(self.batch_size, len(problem.retain))
        steps = problem.meter.training_passes() // batch_size
        if steps < 1:
            raise BudgetExceeded("forget step", "the budget does not cover one step of repair", "Give a larger --budget")
        optimizer = torch.optim.AdamW(decay_groups(model, problem.recipe.weight_decay), lr=self.lr)
        scales = {dict(model.named_parameters())[name]: scale for name, scale in (step_scale or {}).items()}
        model.train()
        step = 0
        with tqdm(total=steps, desc="forget", unit="step", disable=not problem.show, leave=False) as bar:
            while step < steps:
                for index_B in problem.retain.shuffled(batch_size, problem.generator):
                    if step == steps:
                        break
                    for group in optimizer.param_groups:
                        group["lr"] = _SHAPES[self.shape](step, steps, self.lr)
                    _step(model, problem, index_B, optimizer, scales)
                    step += 1
                    bar.update(1)
        return model.eval()


def _up_down(step: int, steps: int, peak: float) -> float:
    return peak * (1.0 - abs(2.0 * (step + 0.5) / steps - 1.0))


def _cosine(step: int, steps: int, peak: float) -> float:
    return learning_rate(step, steps, peak, "cosine")


_SHAPES: dict[Shape, Callable[[int, int, float], float]] = {"cosine": _cosine, "up-down": _up_down}


def _step(
    model: AgePredictor,
    problem: ForgetProblem,
    index_B: Tensor,
    optimizer: torch.optim.Optimizer,
    scales: Mapping[torch.nn.Parameter, Tensor],
) -> None:
    problem.meter.charge(forward=len(index_B), backward=len(index_B))
    batch = problem.retain.batch(index_B)
    view_BCHW = augment(batch.image_BCHW, problem.recipe.augment, problem.generator)
    with autocast(view_BCHW.device):
        outputs = model(view_BCHW)
    loss = problem.task.loss(outputs, batch).mean()
    if not finite(loss.detach()):
        raise TrainingError("forget step", "the loss is not a number", "Lower the method's lr with --set lr=...")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    before = {parameter: parameter.detach().clone() for parameter in scales}
    optimizer.step()
    with torch.no_grad():
        for parameter, scale in scales.items():
            # AdamW is blind to the size of a gradient, so the step itself is scaled; with SGD both are the same.
            parameter.copy_(torch.lerp(before[parameter], parameter, scale))
