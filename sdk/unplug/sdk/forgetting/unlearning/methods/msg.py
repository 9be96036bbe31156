"""MSG, second in the 2023 challenge: re-initialise the weights that forget and retain agree on
least to keep, then repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import Need

from ..anatomy import convolutions
from ..descent import Repair
from ..method import ForgetProblem


@dataclass(frozen=True, kw_only=True)
class MSG:
    """Gradient-guided re-initialisation.

    g = grad [ CE(sample of D_r, as large as D_f) - CE(D_f) ]; per convolution the share `ratio` of
    weights with the smallest |g| is drawn anew (Kaiming, fan-out); then fine-tuning on D_r with the
    steps of all other convolution weights times `keep`, the rate rising and falling linearly.

    Args:
        ratio: 0 to 1. Published: 0.3 with five epochs of repair.
        lr: peak learning rate of the repair. Published: SGD at 1e-3.
        keep: step scale of weights that were not re-initialised, 0 to 1. Published: 0.1. AdamW is
            blind to the size of a gradient, so the step is scaled.

    `ratio` differs from the published setting because 5 % of retraining is one epoch of repair, not
    five: with 0.3 the network does not recover from it (numbers: docs/data/forget-sweep.json).

    Reference:
        Second place of the NeurIPS 2023 Machine Unlearning Challenge ("masked small gradients").
    """

    ratio: float = 0.05
    lr: float = 3e-3
    keep: float = 0.1
    batch_size: int = 32

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __post_init__(self) -> None:
        if not (0.0 < self.ratio < 1.0 and 0.0 <= self.keep <= 1.0):
            raise InputError(
                f"msg ratio={self.ratio} keep={self.keep}",
                "out of range",
                "Use 0 < ratio < 1, 0 <= keep <= 1",
            )

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Re-initialises and repairs `model` in place."""
        gradients = difference_gradient(model, problem)
        scale = reinitialise(model, gradients, self.ratio, self.keep, problem.generator)
        return Repair(batch_size=self.batch_size, lr=self.lr, shape="up-down")(
            model, problem, scale
        )


def difference_gradient(model: nn.Module, problem: ForgetProblem) -> dict[str, Tensor]:
    """grad [ mean CE(retain sample) - mean CE(forget) ] per convolution weight, in eval mode (batch
    norm stays as it is).
    """
    model.eval()
    model.zero_grad(set_to_none=True)
    # the published sample: the mean over all that is kept would cost a pass over it
    size = min(len(problem.forget), len(problem.retain))
    retain_S = torch.randperm(len(problem.retain), generator=problem.generator)[:size].to(
        problem.retain.device
    )
    forget_F = torch.arange(len(problem.forget), device=problem.retain.device)
    for data, index_N, sign in ((problem.retain, retain_S, 1.0), (problem.forget, forget_F, -1.0)):
        for index_B in index_N.split(problem.recipe.batch_size):
            loss = -problem.log_prob(model, data.batch(index_B)).sum() * (sign / len(index_N))
            loss.backward()
    gradients = {
        f"{name}.weight": module.weight.grad.detach().clone()
        for name, module in convolutions(model)
        if module.weight.grad is not None  # frozen: nothing was learned there
    }
    model.zero_grad(set_to_none=True)
    return gradients


@torch.no_grad()
def reinitialise(
    model: nn.Module,
    gradients: dict[str, Tensor],
    ratio: float,
    keep: float,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """Draws the weights with the smallest |gradient| anew; returns the step scale of the repair (1
    or `keep`).
    """
    scale: dict[str, Tensor] = {}
    for name, module in convolutions(model):
        if f"{name}.weight" not in gradients:
            continue
        weight, size = module.weight, gradients[f"{name}.weight"].abs()
        count = round(ratio * weight.numel())
        chosen = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
        # exactly so many: a threshold would take all of several equal ones
        chosen[size.reshape(-1).topk(count, largest=False).indices] = True
        mask = chosen.view(weight.shape)
        fresh = torch.empty(weight.shape)
        nn.init.kaiming_normal_(fresh, mode="fan_out", nonlinearity="relu", generator=generator)
        weight.copy_(torch.where(mask, fresh.to(weight.device), weight))
        scale[f"{name}.weight"] = torch.where(mask, 1.0, keep)
    return scale
