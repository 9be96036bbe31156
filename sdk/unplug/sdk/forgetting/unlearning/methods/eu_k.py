"""EU-k: draw the last layers anew, train them on the retain set, leave the rest alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from ..distil import random_network
from ..method import ForgetProblem
from .cf_k import CFk, last


@dataclass(frozen=True, kw_only=True)
class EUk(CFk):
    """theta_last <- theta_init, then theta_last <- theta_last - lr grad L(D_r): exact unlearning of
    the last `k` layers.

    What the frozen layers remember stays. The new weights are drawn as the model family draws those
    of an untrained network; the forget set is never read.

    Args:
        k: convolutions and linear layers, counted from the classifier, with the norms after them.
            Published: 3 of a ResNet-18 in the MUFAC benchmark, trained as the original was.
        lr: peak learning rate of a cosine; higher than for fine-tuning, because these layers start
            from nothing.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Goel et al., Towards Adversarial Evaluations for Inexact Machine Unlearning, 2022 (EU-k).
    """

    lr: float = 3e-3

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Draws the end of `model` anew and trains it, in place."""
        draw_anew(last(model, self.k), model, problem)
        return super().__call__(model, problem)


def draw_anew(kept: Sequence[nn.Module], model: nn.Module, problem: ForgetProblem) -> None:
    """Gives some modules of a model the weights and statistics of an untrained network, in place."""
    fresh = random_network(problem)
    for name, module in model.named_modules():
        if any(module is layer for layer in kept):
            module.load_state_dict(fresh.get_submodule(name).state_dict())
