"""Folds, unplug's own method: answer for a forgotten person as a model did that never saw her."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from unplug.core import InputError

from ..fitted import Fitted
from ..method import ForgetProblem


@dataclass(frozen=True, kw_only=True)
class Folds(Fitted):
    """Minimise L(D_r) + weight KL( softmax(t) || p_theta ) over D_f, t(x) = the answer of a model
    that never saw whose x is.

    Models of person folds are trained once (`unplug references`), and their answers are kept. For a
    request one round of them is drawn: in it every person was left out by one model, and that
    model's answers to her pictures are t. They have the mean and the spread of what retrained
    models answer, which no target that is made from the original has. Attacks and ranks take the
    other rounds. The labels of the forget set are never read.

    The rate is low: the original has to move a little on a few pictures, and people who stay pay
    for every step further.

    Args:
        weight, lr, batch_size, forget_size, optimizer: see `Fitted`.

    Raises:
        InputError: a value out of range.

    Reference:
        Ours; docs/forget.md. Compare Georgiev et al., Attribute-to-Delete, ICLR 2025, section 4
        (oracle matching), whose targets are estimated from the original.
    """

    lr: float = 2e-4

    needs = (
        "retain data",
        "forget data",
        "labels",
        "class logits",
        "out-of-fold answers",
    )

    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """What the problem was given."""
        if problem.outside_FG is None:
            raise InputError(
                "method folds", "it was given no out-of-fold answers", "Give references as `fleet`"
            )
        return problem.outside_FG
