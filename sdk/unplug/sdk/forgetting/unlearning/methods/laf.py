"""LAF: forgetting without labels, on what the classifier is given.

Shapes: N samples, B batch, F features of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.sdk.learning.training import joined

from ..anatomy import classifier, embeddings
from ..descent import norms_fixed, plan
from ..distil import frozen
from ..fisher import sample_within
from ..method import ForgetProblem
from ..settings import Stepped, within
from ..vae import bounded, embed, fit_vae

SHARE = 0.15  # of what is left of the budget: for the embeddings of each set, and for each VAE


@dataclass(frozen=True, kw_only=True)
class LAF(Stepped):
    """Label-agnostic forgetting: representations leave the forget set's distribution and stay where
    they were otherwise.

    VAEs h and h_f are fitted to the original's embeddings z0 of all data and of D_f (of a random
    part of them where the budget is short). Then two kinds of step alternate on everything but the
    classifier, with e = ||z - h(z)||^2, d = 1 - cos(z, z0) and b(e) = e / (1 + e):

    extractor:       min mean_r b(e_h) - mean_f b(e_hf)
    representation:  min mean_r d - ln sum_f exp(d / temperature)

    No label is read; batch-norm statistics stay, since z0 was taken with them. The paper's optional
    repair is left out. The released code puts exp(e / (1 + e)) into its alignment in place of exp(d
    / temperature); this is the paper's formula.

    Args:
        temperature: the temperature, above 0. Paper: 1. Released code: 5 to 20.
        vae_steps: the most steps of each VAE, 1 or more; charged by their share of the network's
            floating-point operations.
        lr: peak of a cosine. Paper: Adam at 1e-4, 40 epochs on CIFAR-10. Released code: 1e-5
            (extractor) and 4e-5 (representation) for a ResNet.

    Raises:
        InputError: a value out of range.

    Reference:
        Shen et al., Label-Agnostic Forgetting: A Supervision-Free Unlearning in Deep Models, 2024,
        section 3.
    """

    temperature: float = within(1e-3, 1e6, 1.0)
    vae_steps: int = within(1, 1e6, 200)
    lr: float = 2e-4

    needs = ("retain data", "forget data", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Moves the embeddings of `model` in place."""
        sets, teacher = (problem.retain, problem.forget), frozen(model)
        retain, forget = (problem.batches(data, self.batch_size) for data in sets)
        z_RF, z_GF = (
            embed(teacher, problem, sample_within(problem, data, SHARE, 1.0)) for data in sets
        )
        all_vae = fit_vae(torch.cat([z_RF, z_GF]), problem, teacher, self.vae_steps, SHARE)
        forget_vae = fit_vae(z_GF, problem, teacher, self.vae_steps, SHARE)
        steps = plan(problem, 3.5 * (retain.size + forget.size))
        turn = iter(range(steps))

        def loss() -> Tensor:
            kept = next(retain)
            both = joined(kept, next(forget))
            with norms_fixed(model), embeddings(model) as seen:
                problem.outputs(model, both)
            kept_BF, gone_BF = seen[0].float().tensor_split([len(kept)])
            # extractor and representation in turn
            if next(turn) % 2 == 0:
                return bounded(all_vae, kept_BF).mean() - bounded(forget_vae, gone_BF).mean()
            with torch.no_grad(), embeddings(teacher) as before:
                problem.outputs(teacher, both)
            kept0_BF, gone0_BF = before[0].float().tensor_split([len(kept)])
            return alignment(kept_BF, kept0_BF, gone_BF, gone0_BF, self.temperature)

        head = {id(parameter) for parameter in classifier(model).parameters()}
        body = [parameter for parameter in model.parameters() if id(parameter) not in head]
        return self.descend(model, problem, loss, steps, trainable=body)


def alignment(
    kept_BF: Tensor, kept0_BF: Tensor, gone_BF: Tensor, gone0_BF: Tensor, temperature: float
) -> Tensor:
    """mean_r d_r - ln sum_f exp(d_f / temperature), d = 1 - cos(now, before)."""
    kept_B = 1.0 - F.cosine_similarity(kept_BF, kept0_BF)
    gone_B = 1.0 - F.cosine_similarity(gone_BF, gone0_BF)
    return kept_B.mean() - (gone_B / temperature).logsumexp(dim=0)
