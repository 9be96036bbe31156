"""ACU: frozen features under a ridge classifier, from which samples are taken out in closed form;
exact for the head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.drawing.inference import RIDGES
from unplug.sdk.forgetting.tasks import Need
from unplug.sdk.learning.training import SampleSet

from ..anatomy import classifier, embeddings
from ..method import ForgetProblem
from ..ridge import RidgeHead, best_scale, soft_targets
from ..settings import check_settings, within


@dataclass(frozen=True, kw_only=True)
class ACU:
    """Analytic class unlearning: G <- G - X_f^T X_f, C <- C - X_f^T Y_f, (W, b) = (G + lam I')^-1
    C; then z = s (W x + b).

    The head equals the one fitted without the forget set; the features under it were trained with
    it and stay as they are, so what they remember stays too. Each retain and forget sample is run
    once, without gradients: 1 / (3 epochs) of retraining. lam = `ridge` times the number of retain
    samples. s has the least cross entropy of the leave-one-out scores on the retain set (closed
    form on features that are there already, then a convex search in one number; fitted scores would
    be far too sure). Both depend on the retain set alone, and nothing is random: the seed does
    nothing.

    Args:
        ridge: penalty per retain sample, 1e-9 to 1e6.
        batch_size: the batch size of the forward passes.

    Reference:
        Zhuang et al., ACIL: Analytic class-incremental learning, 2022, theorem 1, with the sign of
        the update turned.
    """

    ridge: float = within(*RIDGES, 1e-2)
    batch_size: int = within(1, math.inf, 256)

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "forget data", "labels", "class logits")
    default_budget: ClassVar[float | None] = 0.05
    trains: ClassVar[bool] = False  # no gradients, for the memory estimate

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Replaces the classifier's weights of `model` in place."""
        layer = classifier(model.eval())
        if layer.bias is None:
            raise InputError(
                type(model).__name__, "its classifier has no bias", "Choose another method"
            )
        # refused before the first pass
        problem.meter.charge(forward=len(problem.retain) + len(problem.forget), backward=0)
        retain_NF, forget_MF = (
            features(model, data, self.batch_size) for data in (problem.retain, problem.forget)
        )
        retain_NG, forget_MG = (
            soft_targets(problem.task, model, data) for data in (problem.retain, problem.forget)
        )
        lam = self.ridge * len(problem.retain)
        head = RidgeHead.fit(
            torch.cat([retain_NF, forget_MF]), torch.cat([retain_NG, forget_MG]), lam
        )
        head.remove(forget_MF, forget_MG)
        weight_GF, bias_G = head.weights()
        scale = best_scale(head.left_out(retain_NF, retain_NG), retain_NG)
        with torch.no_grad():
            layer.weight.copy_(scale * weight_GF)
            layer.bias.copy_(scale * bias_G)
        return model


@torch.no_grad()
def features(model: nn.Module, data: SampleSet, batch_size: int) -> Tensor:
    """What the classifier is given for each sample (N, F), in full precision, unaugmented: as the
    model will be used.
    """
    with embeddings(model) as seen:
        for batch in data.in_order(batch_size):
            model(*batch.inputs)
    return torch.cat(seen)
