"""CFW, third in the 2023 challenge: noise on the first convolution, then a repair that weighs
classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import labelled

from ..anatomy import first_convolution
from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class CFW(Stepped):
    """Noise, class-weighted repair, a little noise before the last quarter.

    W_first <- W_first + sigma n;  minimise sum_b w_y L_b / sum_b w_y on D_r with w_c ~ 1 / count_c;  after three quarters
    of the steps W_first <- W_first + late_sigma n (W_first: the first convolution's weights; n standard normal). The forget
    set is never read. The released code multiplies a batch's mean loss by the mean weight of its samples, by which no class
    counts more than another; the weight of each sample, which was meant, is used here.

    Args:
        sigma: the standard deviation of the first noise, 0 or more. Published: 0.6 with 4 epochs of
            repair; one epoch (5 % of retraining) does not make up for that.
        late_sigma: the standard deviation of the second noise, 0 or more. Published: 0.005 before
            the last of 4 epochs.
        lr: peak of the repair's cosine. Published: SGD at 7e-4.

    Raises:
        InputError: a value out of range.

    Reference:
        Third place of the NeurIPS 2023 Machine Unlearning Challenge.
    """

    sigma: float = within(0.0, 100.0, 0.05)
    late_sigma: float = within(0.0, 100.0, 0.005)

    needs = ("retain data", "labels", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Harms and repairs `model` in place."""
        batches = problem.batches(problem.retain, self.batch_size)
        steps = plan(problem, 3.0 * batches.size)
        weight_G = class_weights(labelled(problem.retain).group_N, problem.classes, power=1.0)
        add_noise([first_convolution(model).weight], self.sigma, problem.generator)

        def late(step: int) -> None:
            if step + 1 == steps - max(1, steps // 4):
                add_noise([first_convolution(model).weight], self.late_sigma, problem.generator)

        def loss() -> Tensor:
            batch = next(batches)
            return weighted_mean(problem.losses(model, batch), weight_G[labelled(batch).group_B])

        return self.descend(model, problem, loss, steps, on_step=late)


@torch.no_grad()
def add_noise(parameters: Iterable[Tensor], sigma: float, generator: torch.Generator) -> None:
    """W <- W + sigma n, n standard normal, in place."""
    for parameter in parameters:
        parameter.add_(
            torch.randn(parameter.shape, generator=generator).to(parameter.device), alpha=sigma
        )


def class_weights(group_N: Tensor, classes: int, power: float) -> Tensor:
    """w_c = count_c^-power (G,), 0 for classes without a sample."""
    count_G = torch.bincount(group_N, minlength=classes).float()
    return torch.where(count_G > 0, count_G.clamp(min=1.0).pow(-power), 0.0)


def weighted_mean(loss_B: Tensor, weight_B: Tensor) -> Tensor:
    """sum w L / sum w."""
    return (weight_B * loss_B).sum() / weight_B.sum()
