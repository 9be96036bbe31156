"""Fitting the forget set to answers that somebody else gave, while the retain set holds the rest in
place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass

from torch import Tensor, nn

from unplug.sdk.learning.training import Batch

from .descent import norms_fixed, plan
from .distil import divergence
from .method import ForgetProblem
from .settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class Fitted(Stepped, ABC):
    """Minimise L(D_r) + weight KL( softmax(t) || p_theta ) over D_f for logits t that a method
    names.

    Batch norm stays as it is, or the network learns to answer differently in its two modes. Forget
    labels are never read.

    Args:
        weight: the weight of the forget term, 0 to 100.
        forget_size: the size of the forget batches, at least 1.
        lr, batch_size, optimizer: see `Stepped`; of the retain set.

    Raises:
        InputError: a value out of range.
    """

    weight: float = within(0.0, 100.0, 1.0)
    lr: float = 7e-4
    batch_size: int = 24
    forget_size: int = within(1, 65_536, 8)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        target_FG, size = self.targets(model, problem), min(self.forget_size, len(problem.forget))
        retain = problem.batches(problem.retain, self.batch_size)
        order = problem.orders(problem.forget, size)

        def loss() -> Tensor:
            with self.norms(model):
                kept, index_B = self.kept(model, problem, next(retain)), next(order)
                says_BG = problem.logits(model, problem.view(problem.forget.batch(index_B)))
            return kept + self.weight * divergence(says_BG, target_FG[index_B]).mean()

        return self.descend(model, problem, loss, plan(problem, 3.0 * (retain.size + size)))

    @abstractmethod
    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """Logits (F, G) that the forget set is fitted to."""

    def norms(self, model: nn.Module) -> AbstractContextManager[None]:
        """How batch norm is held."""
        return norms_fixed(model)

    def kept(self, model: nn.Module, problem: ForgetProblem, batch: Batch) -> Tensor:
        """The loss term that holds the answers on the retain set."""
        return problem.loss(model, batch)
