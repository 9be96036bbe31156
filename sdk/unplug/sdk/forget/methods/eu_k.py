"""EU-k: draw the last layers anew, train them on the retain set, leave the rest alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unplug.plugins.errors import InputError

from ..descent import Optimizer
from ..distil import random_network
from ..method import ForgetProblem, Need
from ..partial import train_only
from ..settings import check_descent
from .cf_k import last


@dataclass(frozen=True, kw_only=True)
class EUk:
    """theta_last <- theta_init, then theta_last <- theta_last - lr grad L(D_r): exact unlearning of the last `k` layers.

    What the frozen layers remember stays. The new weights are drawn as the model family draws those of an untrained
    network; the forget set is never read.

    Args:
        k: convolutions and linear layers, counted from the classifier, with the norms behind them. Published: 3 of a
            ResNet-18 in the MUFAC benchmark, trained as the original was.
        lr: peak learning rate of a cosine; higher than for fine-tuning, because these layers start from nothing.
        batch_size: at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Goel et al., Towards Adversarial Evaluations for Inexact Machine Unlearning, 2022 (EU-k).
    """

    k: int = 3
    lr: float = 3e-3
    batch_size: int = 32
    optimizer: Optimizer = "adamw"

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        check_descent(self.lr, self.batch_size, self.optimizer)
        if self.k < 1:
            raise InputError(f"eu-k k={self.k}", "out of range", "Use 1 or more layers")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Draws the end of `model` anew and trains it, in place."""
        kept = last(model, self.k)
        draw_anew(kept, model, problem)
        return train_only(kept, model, problem, self.lr, self.batch_size, self.optimizer)


def draw_anew(kept: Sequence[nn.Module], model: nn.Module, problem: ForgetProblem) -> None:
    """Gives some modules of a model the weights and statistics of an untrained network, in place."""
    fresh = random_network(problem)
    for name, module in model.named_modules():
        if any(module is item for item in kept):
            module.load_state_dict(fresh.get_submodule(name).state_dict())
