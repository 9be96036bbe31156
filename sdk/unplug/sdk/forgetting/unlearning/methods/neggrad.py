"""NegGrad: gradient ascent on the forget set, as far as chance level."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from unplug.sdk.learning.training import Batch

from ..descent import norms_fixed, plan
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class NegGrad(Stepped):
    """theta <- theta + lr grad mean_{D_f} min( -ln p_y, ceiling ln G ): no retain data is needed.

    The published ascent has no end: it stops where somebody stops it, else at weights that are not
    numbers. Here a sample that is predicted as badly as by a uniform guess (`ceiling` 1) pushes no
    further, though momentum carries the weights on for a while. Batch norm uses its running
    statistics and leaves them alone. A poor baseline: nothing holds the rest of the model in place.

    Args:
        lr: peak learning rate of a cosine. Published: .01 with SGD, 5 to 10 epochs over the forget
            set.
        ceiling: the ceiling in units of ln G, above 0; infinity is the published ascent.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Golatkar et al., Eternal Sunshine of the Spotless Net, 2020, section 5 ("negative
        gradient").
    """

    lr: float = 2e-5
    ceiling: float = within(1e-3, math.inf, 1.0)

    needs = ("forget data", "labels")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        batches = problem.batches(problem.forget, self.batch_size)

        def loss() -> Tensor:
            return -bounded_loss(model, problem, next(batches), self.ceiling)

        steps = plan(problem, 3.0 * max(1, batches.size))
        return self.descend(model, problem, loss, steps)


def bounded_loss(model: nn.Module, problem: ForgetProblem, batch: Batch, ceiling: float) -> Tensor:
    """mean_B min( -ln p_y, ceiling ln G ); samples at the ceiling have no gradient. Batch norm is
    held fixed.
    """
    with norms_fixed(model):
        loss_B = -problem.log_prob(model, batch)
    return loss_B.clamp(max=ceiling * problem.ignorance).mean()
