"""Bad teacher: the original teaches the retain samples, a network that knows nothing teaches the
forget samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..descent import norms_fixed, plan
from ..distil import divergence, frozen, random_network, teach
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class BadTeacher(Stepped):
    """L = mean over a mixed batch of KL(original || theta) for retain and KL(random || theta) for
    forget samples.

    Labels are not needed. A batch mixes the sets as |D_f| : retain_share |D_r|; forget samples
    leave the running statistics of batch norm alone.

    Args:
        retain_share: the share of the retain set that counts in the mixture, above 0 to 1.
            Published: .3.
        temperature: the temperature of both divergences, above 0. Published: 1.
        lr: peak learning rate of a cosine. Published: Adam at 1e-4, 1 to 3 epochs.
        batch_size: the batch size of the mixture, at least 3.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Chundawat et al., Can Bad Teaching Induce Forgetting?, 2023.
    """

    # two for batch norm, one to forget
    batch_size: int = within(3, 65_536, 32)
    retain_share: float = within(1e-3, 1.0, 0.3)
    temperature: float = within(1e-3, 1e3, 1.0)
    lr: float = 1e-4

    name = "bad-teacher"
    needs = ("retain data", "forget data", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        good, bad = frozen(model), frozen(random_network(problem))
        retain_size, forget_size = self.mixture(len(problem.retain), len(problem.forget))
        retain = problem.batches(problem.retain, retain_size)
        forget = problem.batches(problem.forget, forget_size)

        def loss() -> Tensor:
            kept, gone = next(retain), next(forget)
            student_BG = problem.logits(model, kept)
            kept_B = divergence(student_BG, teach(problem, good, kept), self.temperature)
            with norms_fixed(model):
                student_BG = problem.logits(model, gone)
            gone_B = divergence(student_BG, teach(problem, bad, gone), self.temperature)
            return torch.cat([kept_B, gone_B]).mean()

        steps = plan(problem, 4.0 * (retain_size + forget_size))
        return self.descend(model, problem, loss, steps)

    def mixture(self, retain: int, forget: int) -> tuple[int, int]:
        """How many samples of each set a batch holds: at least two to keep and one to forget."""
        share = forget / (forget + self.retain_share * retain)
        gone = min(max(1, round(self.batch_size * share)), self.batch_size - 2, max(1, forget))
        return min(self.batch_size - gone, retain), gone
