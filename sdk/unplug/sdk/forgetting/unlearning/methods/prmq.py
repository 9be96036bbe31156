"""PRMQ, fourth in the 2023 challenge: prune, refill at random, repair with matched entropies,
round.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.learning.training import labelled

from ..anatomy import layers
from ..descent import plan
from ..distil import entropy, frozen, teach
from ..method import ForgetProblem
from ..settings import Stepped, within
from .cfw import class_weights, weighted_mean


@dataclass(frozen=True, kw_only=True)
class PRMQ(Stepped):
    """Prune, re-initialise, match, quantize.

    1. of all weights and biases of convolutions and linear layers together, the share `ratio` with
       the smallest |w| is drawn anew from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), fan_in that of their
       layer;
    2. on D_r: minimise sum w_y L / sum w_y + match * mean (H(student) - H(original))^2, w_c =
       count_c^-0.1, H the entropy of the outputs;
    3. every weight is rounded to fp16.

    The forget set is never read.

    Args:
        ratio: 0 to 1. Published: 0.99, with 3.2 epochs of repair; the one epoch that 5 % of
            retraining pays for does not bring a network of a million weights back from that, so the
            default is far smaller.
        match: weight of the entropy term, 0 or more. Published: 1.
        lr: peak of the repair's cosine. Published: SGD at 5e-4.

    Raises:
        InputError: a value out of range.

    Reference:
        Fourth place of the NeurIPS 2023 Machine Unlearning Challenge.
    """

    ratio: float = within(0.0, 1.0, 0.02)
    match: float = within(0.0, 1e6, 1.0)

    needs = ("retain data", "labels", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Prunes, repairs and rounds `model` in place."""
        batches, teacher = problem.batches(problem.retain, self.batch_size), frozen(model)
        steps = plan(problem, 4.0 * batches.size)
        weight_G = class_weights(labelled(problem.retain).group_N, problem.classes, power=0.1)
        refill(model, self.ratio, problem.generator)

        def loss() -> Tensor:
            batch = next(batches)
            theirs_B = entropy(teach(problem, teacher, batch))
            outputs = problem.outputs(model, batch)
            apart = F.mse_loss(entropy(problem.task.logits(outputs)), theirs_B)
            weight_B = weight_G[labelled(batch).group_B]
            down = weighted_mean(problem.task.loss(model, outputs, batch), weight_B)
            return down + self.match * apart

        self.descend(model, problem, loss, steps)
        round_to_half(model)
        return model


@torch.no_grad()
def refill(model: nn.Module, ratio: float, generator: torch.Generator) -> None:
    """Draws the smallest of all weights and biases anew, in place."""
    drawn = [
        (value, module.weight[0].numel() ** -0.5)
        for _, module in layers(model)
        for value in module.parameters()
    ]
    size_W = torch.cat([value.abs().flatten() for value, _ in drawn])
    mask_W = torch.zeros_like(size_W, dtype=torch.bool)
    mask_W[size_W.topk(round(ratio * len(size_W)), largest=False).indices] = True
    for (value, bound), mask in zip(
        drawn, mask_W.split([value.numel() for value, _ in drawn]), strict=True
    ):
        fresh = (torch.rand(value.shape, generator=generator) * 2 - 1) * bound
        value.copy_(torch.where(mask.view(value.shape), fresh.to(mask.device), value))


@torch.no_grad()
def round_to_half(model: nn.Module) -> None:
    """Every parameter to the nearest fp16 number, kept as float32."""
    for parameter in model.parameters():
        parameter.copy_(parameter.half().to(parameter.dtype))
