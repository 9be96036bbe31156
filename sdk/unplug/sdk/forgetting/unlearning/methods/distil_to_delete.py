"""Distil to delete: what the original knows of the retain set is handed down, what it knows of the
forget set is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import Batch

from ..anatomy import embeddings
from ..descent import norms_fixed, plan
from ..distil import divergence, frozen
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class DistilToDelete(Stepped):
    """L = alpha D(theta_0(x_r), theta(x_r)) + (1 - alpha) D(theta_0(x_s), theta(x_f)), x_s a retain
    sample drawn at random.

    D(teacher, student) = KL of the outputs + `features` times the mean squared error of the
    embeddings. No labels.

    Made for graph networks. What carries over to images: the two weighted losses, of a teacher that
    preserves and one that destroys, each on responses and on features. What does not: edges and the
    neighbourhoods that deletions ripple through. What destroys here is the graph papers'
    consistency of deleted edges: a deleted item should look to the original like a random unrelated
    one, which unlike the outputs of an untrained network are plausible outputs.

    Args:
        alpha: 0 to 1.
        features: weight of the embeddings, 0 to 1000.
        temperature: the temperature of the divergences, above 0.
        lr: peak learning rate of a cosine.
        batch_size: the batch size of the retain batch, at least 2; the forget batch is a quarter of
            it.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Sinha et al., Distill to Delete: Unlearning in Graph Networks with Knowledge Distillation,
        2023 (D2DGN), for the losses; Cheng et al., GNNDelete, 2023, for the random partners.
    """

    alpha: float = within(0.0, 1.0, 0.5)
    features: float = within(0.0, 1e3, 1.0)
    temperature: float = within(1e-3, 1e3, 1.0)
    lr: float = 1e-4

    name = "distil-to-delete"
    needs = ("retain data", "forget data", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        teacher = frozen(model)
        retain = problem.batches(problem.retain, self.batch_size)
        forget = problem.batches(problem.forget, min(max(1, self.batch_size // 4), retain.size))

        def loss() -> Tensor:
            kept_batch, gone_batch = next(retain), next(forget)
            with torch.no_grad():
                taught = run(problem, teacher, kept_batch)
            # The retain batch is in random order, so its first samples are the random partners of
            # the forget batch.
            place_B = torch.arange(len(gone_batch)) % len(kept_batch)
            partner = tuple(value[place_B] for value in taught)
            kept = self.distance(run(problem, model, kept_batch), taught)
            with norms_fixed(model):
                gone = self.distance(run(problem, model, gone_batch), partner)
            return self.alpha * kept + (1.0 - self.alpha) * gone

        steps = plan(problem, 4.0 * retain.size + 3.0 * forget.size)
        return self.descend(model, problem, loss, steps)

    def distance(self, student: tuple[Tensor, ...], teacher: tuple[Tensor, ...]) -> Tensor:
        """D: mean divergence of the logits + `features` times the mean squared error of the
        embeddings.
        """
        response = divergence(student[0], teacher[0], self.temperature).mean()
        return response + self.features * (student[1] - teacher[1]).square().mean()


def run(problem: ForgetProblem, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (B, G) and the embeddings (B, F) that the classifier is given; charged."""
    with embeddings(model) as seen:
        logits_BG = problem.logits(model, batch)
    return logits_BG, seen[0].float()
