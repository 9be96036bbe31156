"""NegGrad+: down on the retain set and up on the forget set in one step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped, within
from .neggrad import bounded_loss


@dataclass(frozen=True, kw_only=True)
class NegGradPlus(Stepped):
    """theta <- theta - lr grad [ alpha L(D_r) - (1 - alpha) mean_{D_f} min( -ln p_y, ceiling ln G )
    ].

    L is the training loss, on which the repair stands; the ascent is on the cross entropy, held at
    `ceiling` as in `NegGrad`. alpha = 1 is fine-tuning, bit for bit. Forget batches leave the
    running statistics of batch norm alone.

    Args:
        alpha: 0 to 1. Published: .95, SGD at .01 for 10 epochs.
        lr: peak learning rate of a cosine.
        ceiling: the ceiling in units of ln G, above 0; infinity is the published ascent.
        batch_size: the batch size of each of the two batches of a step, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Kurmanji et al., Towards Unbounded Machine Unlearning, 2023, section 4 (baseline NegGrad+).
    """

    alpha: float = within(0.0, 1.0, 0.99)
    ceiling: float = within(1e-3, math.inf, 1.0)

    name = "neggrad+"
    needs = ("retain data", "forget data", "labels")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns and repairs in place."""
        retain, forget = (
            problem.batches(data, self.batch_size) for data in (problem.retain, problem.forget)
        )
        ascends = self.alpha < 1.0  # a term with weight 0 costs nothing

        def loss() -> Tensor:
            value = self.alpha * problem.loss(model, next(retain))
            if not ascends:
                return value
            up = bounded_loss(model, problem, next(forget), self.ceiling)
            return value - (1.0 - self.alpha) * up

        steps = plan(problem, 3.0 * (retain.size + ascends * forget.size))
        return self.descend(model, problem, loss, steps)
