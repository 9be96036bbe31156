"""CT, fifth in the 2023 challenge: transpose every kernel, then repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from unplug.sdk.forgetting.tasks import Need

from ..descent import Repair
from ..method import ForgetProblem


@dataclass(frozen=True, kw_only=True)
class CT:
    """W_{oihw} <- W_{oiwh} for every convolution, then fine-tuning on the retain set; the forget
    set is never read.

    A 1x1 kernel is its own transpose, so in an inverted bottleneck the depthwise kernels are what
    changes.

    Args:
        lr: peak learning rate of the repair's cosine. Published: 3 epochs of SGD at 1e-3.

    Reference:
        Fifth place of the NeurIPS 2023 Machine Unlearning Challenge ("convolution transpose").
    """

    lr: float = 3e-3
    batch_size: int = 32

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels")
    default_budget: ClassVar[float | None] = 0.05

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Transposes and repairs `model` in place."""
        transpose_kernels(model)
        return Repair(batch_size=self.batch_size, lr=self.lr)(model, problem)


@torch.no_grad()
def transpose_kernels(model: nn.Module) -> None:
    """Swaps height and width of every square convolution kernel, in place."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.kernel_size[0] == module.kernel_size[1]:
            module.weight.copy_(module.weight.transpose(2, 3).clone())
