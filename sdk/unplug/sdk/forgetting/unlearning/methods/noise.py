"""Noise on every weight, then repair: a floor for others."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..descent import Repair
from ..method import ForgetProblem
from ..settings import Stepped, within
from .cfw import add_noise


@dataclass(frozen=True, kw_only=True)
class WeightNoise(Stepped):
    """theta <- theta + sigma n with n standard normal, then theta <- theta - lr grad L(D_r) for as
    long as the budget lasts.

    Every parameter is disturbed alike, those of batch norms too; what batch norms count is not. The
    forget set is never read, so that nothing steers the noise towards what is to be forgotten.

    Args:
        sigma: the standard deviation of the noise, 0 or more. The default scored best of five from
            0.005 to 0.1 on 8 originals of other drawn people, within chance. 0.1 cost 5.7 years of
            error there, which one epoch of repair does not make up for.
        lr: peak of the repair's cosine.

    Raises:
        InputError: a value out of range.

    Example:
        >>> WeightNoise(sigma=0.05).sigma
        0.05

    Reference:
        The noise of the third and seventh places of the NeurIPS 2023 Machine Unlearning Challenge,
        who disturb the first convolution and a few random tensors; here it is on everything. Nobody
        published it as a baseline that we know of.
    """

    sigma: float = within(0.0, 100.0, 0.02)
    lr: float = 2e-3

    needs = ("retain data", "labels")
    name = "noise"

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Disturbs and repairs `model` in place."""
        add_noise(model.parameters(), self.sigma, problem.generator)
        return Repair(batch_size=self.batch_size, lr=self.lr, optimizer=self.optimizer)(
            model, problem
        )
