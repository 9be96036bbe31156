"""The repair that most methods end with: fine-tuning on the retain set for as long as the budget lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from unplug.core import InputError

from .descent import Descent, Optimizer, Shape, plan
from .method import ForgetProblem


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Descent on the retain set with the recipe's loss, weight decay and augmentation.

    Published settings use SGD for several epochs; within 5 % of retraining there are one or two, and AdamW, with
    which the original was trained, gets further in them (`python -m benchmarks.forget_sweep`).

    Args:
        lr: peak learning rate.
        shape: see `Descent`.
        batch_size: of the repair. Half of the recipe's: the budget counts samples, so smaller batches are more steps.
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
        size = min(self.batch_size, len(problem.retain))
        batches = problem.batches(problem.retain, size)
        return Descent(lr=self.lr, shape=self.shape, optimizer=self.optimizer)(
            model, problem, lambda: problem.loss(model, next(batches)),
            steps=plan(problem, 3.0 * size, share), trainable=trainable, step_scale=step_scale,
        )  # fmt: skip
