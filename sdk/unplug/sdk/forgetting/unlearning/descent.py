"""Gradient steps on a loss that a method writes down, for as long as its share of the budget lasts;
the repair on the retain set that most methods end with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from unplug.core import BudgetExceeded, InputError, TrainingError
from unplug.sdk.learning.training import decay_groups, finite, learning_rate

from .method import ForgetProblem

Shape = Literal["cosine", "up-down", "constant"]
Optimizer = Literal["adamw", "sgd"]
MAX_LR = 10.0  # as in `Recipe`
MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class Descent:
    """theta <- theta - lr_t step(grad loss), with the recipe's weight decay.

    Args:
        lr: peak learning rate.
        shape: "cosine" (down), "up-down" (linear up over the first half, linear down) or
            "constant".
        optimizer: "adamw", with which the original was trained, or "sgd" (momentum 0.9) as
            published settings have it.

    Raises:
        InputError: a value out of range.
    """

    lr: float
    shape: Shape = "cosine"
    optimizer: Optimizer = "adamw"

    def __post_init__(self) -> None:
        if not 0.0 < self.lr <= MAX_LR:
            fix = f"Use a learning rate above 0 and up to {MAX_LR:g}"
            raise InputError(f"lr {self.lr}", "out of range", fix)
        if self.optimizer not in get_args(Optimizer):  # it may come from --set, as text
            fix = f"Use one of {', '.join(get_args(Optimizer))}"
            raise InputError(f"optimizer {self.optimizer!r}", "no such choice", fix)

    def __call__(
        self,
        model: nn.Module,
        problem: ForgetProblem,
        loss: Callable[[], Tensor],
        *,
        steps: int,
        trainable: Iterable[nn.Parameter] | None = None,
        step_scale: Mapping[str, Tensor] | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> nn.Module:
        """Takes `steps` steps in place, in training mode.

        Args:
            model: a model on the device.
            problem: seeds, meter, recipe.
            loss: called once a step; runs the model through `ForgetProblem.outputs` and returns a
                scalar.
            steps: see `plan`.
            trainable: parameters that may change; None is all. The others stay bit for bit, weight
                decay included.
            step_scale: parameter name to a tensor in [0, 1] that its steps are multiplied with.
            on_step: called after each step with its number.

        Returns:
            The model in eval mode.

        Raises:
            TrainingError: the loss is not finite.
        """
        groups = decay_groups(model, problem.recipe.weight_decay)
        if trainable is not None:
            chosen = {id(parameter) for parameter in trainable}
            for group in groups:
                group["params"] = [value for value in group["params"] if id(value) in chosen]
        groups = [group for group in groups if group["params"]]
        optimizer = (
            torch.optim.AdamW(groups, lr=self.lr)
            if self.optimizer == "adamw"
            else torch.optim.SGD(groups, lr=self.lr, momentum=MOMENTUM)
        )
        named = dict(model.named_parameters(remove_duplicate=False))
        scales = {named[name]: scale for name, scale in (step_scale or {}).items()}
        model.train()
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = _rate(self.shape, step, steps, self.lr)
            value = loss()
            if not finite(value.detach()):
                raise TrainingError(
                    "forget step", "the loss is not a number", "Lower the method's `lr=...`"
                )
            model.zero_grad(set_to_none=True)
            value.backward()
            _scaled_step(optimizer, scales)
            if on_step is not None:
                on_step(step)
        model.zero_grad(set_to_none=True)
        return model.eval()


def plan(problem: ForgetProblem, passes_per_step: float, share: float = 1.0) -> int:
    """How many steps fit in a share of what is left of the budget.

    Args:
        problem: its meter knows what is left.
        passes_per_step: the cost of one step, in forward sample passes: 3 for each sample trained
            on, 1 for each that is only run.
        share: 0 to 1, of what is left.

    Raises:
        BudgetExceeded: not one step fits.
    """
    return check_step(share * problem.meter.left(), passes_per_step)


def check_step(left: float, passes_per_step: float) -> int:
    """How many steps fit in so many forward passes; `BudgetExceeded` where not one does."""
    steps = int(left / passes_per_step)
    if steps < 1:
        raise BudgetExceeded(
            "forget step",
            "the budget does not cover one step of repair",
            "Give a larger `budget` or a smaller `batch_size`",
        )
    return steps


@contextmanager
def norms_fixed(model: nn.Module) -> Iterator[None]:
    """Batch norm uses its running statistics and leaves them alone: for batches that must not count
    as training data.
    """
    norms = [
        module
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d) and module.training
    ]
    for module in norms:
        module.eval()
    try:
        yield
    finally:
        for module in norms:
            module.train()


def _scaled_step(optimizer: torch.optim.Optimizer, scales: Mapping[nn.Parameter, Tensor]) -> None:
    before = {parameter: parameter.detach().clone() for parameter in scales}
    optimizer.step()
    with torch.no_grad():
        for parameter, scale in scales.items():
            # AdamW is blind to the size of a gradient, so the step itself is scaled; with SGD both
            # are the same.
            parameter.copy_(torch.lerp(before[parameter], parameter, scale))


def _rate(shape: Shape, step: int, steps: int, peak: float) -> float:
    if shape == "up-down":
        return peak * (1.0 - abs(2.0 * (step + 0.5) / steps - 1.0))
    return learning_rate(step, steps, peak, shape)


def plan_phases(
    problem: ForgetProblem, costs: Sequence[float], shares: Sequence[float], share: float = 1.0
) -> list[int]:
    """Steps of each phase: one of each, and what is then left split by shares.

    steps_i = 1 + floor(shares_i (left - sum costs) / costs_i)

    Args:
        problem: its meter knows what is left.
        costs: the costs of one step of each phase, as in `plan`.
        shares: the shares of the phases, summing to at most 1.
        share: 0 to 1, of what is left, for all phases together.

    Raises:
        BudgetExceeded: one step of each phase does not fit.
    """
    plan(problem, sum(costs), share)
    rest = share * problem.meter.left() - sum(costs)
    return [1 + int(part * rest / cost) for cost, part in zip(costs, shares, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Descent on the retain set with the recipe's loss, weight decay and augmentation.

    Published settings use SGD for several epochs; within 5 % of retraining there are one or two,
    and AdamW, with which the original was trained, gets further in them.

    Args:
        lr: peak learning rate.
        shape: see `Descent`.
        batch_size: the batch size of the repair. Half of the recipe's: the budget counts samples,
            so smaller batches are more steps.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.
    """

    lr: float
    shape: Shape = "cosine"
    batch_size: int = 32
    optimizer: Optimizer = "adamw"

    def __post_init__(self) -> None:
        Descent(lr=self.lr, shape=self.shape, optimizer=self.optimizer)
        if self.batch_size < 2:  # batch norm
            raise InputError(f"batch_size {self.batch_size}", "out of range", "Use 2 or more")

    def __call__(
        self,
        model: nn.Module,
        problem: ForgetProblem,
        step_scale: Mapping[str, Tensor] | None = None,
        *,
        trainable: Iterable[nn.Parameter] | None = None,
        share: float = 1.0,
    ) -> nn.Module:
        """Fine-tunes in place on a share of what is left of the budget.

        Raises:
            BudgetExceeded: the budget does not cover one step.
            TrainingError: the loss is not finite.
        """
        batches = problem.batches(problem.retain, self.batch_size)
        return Descent(lr=self.lr, shape=self.shape, optimizer=self.optimizer)(
            model,
            problem,
            lambda: problem.loss(model, next(batches)),
            steps=plan(problem, 3.0 * batches.size, share),
            trainable=trainable,
            step_scale=step_scale,
        )
