"""KDE, sixth in the 2023 challenge: reset both ends, distil on validation data, then on the retain
set.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..anatomy import classifier, first_convolution, reset
from ..descent import Descent, plan_phases
from ..distil import divergence, frozen, teach
from ..method import ForgetProblem
from ..settings import Stepped, within


@dataclass(frozen=True, kw_only=True)
class KDE(Stepped):
    """Distillation through data that was never trained on.

    1. the first convolution and the classifier are drawn anew;
    2. on validation images (labels unread):  min KL_T(teacher || student)                   (teacher: the original)
    3. on D_r:                                min L + CE_T(student, teacher) + KL_T(teacher || student)

    KL_T and CE_T compare softmax(z / T) and carry no factor T^2: the label loss L outweighs them,
    as in the released code.

    The forget set is never read; what the teacher knows of it can pass on only through other
    images.

    Args:
        temperature: T, above 0. Published: 5.
        validation_share: the share of the budget that phase 2 takes, 0 to 1. Published: 3 epochs of
            each, on a smaller validation set.
        validation_lr: peak of the cosine of phase 2. Published: SGD at 9e-4.
        lr: peak of the cosine of phase 3. Published: SGD at 1e-3.

    Raises:
        InputError: a value out of range.

    Reference:
        Sixth place of the NeurIPS 2023 Machine Unlearning Challenge; Hinton et al., Distilling the
        Knowledge in a Neural Network, 2015, section 2.
    """

    temperature: float = within(1e-3, 1e6, 5.0)
    validation_share: float = within(0.01, 0.99, 0.3)
    validation_lr: float = 3e-3
    lr: float = 3e-3

    needs = ("retain data", "labels", "validation data", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        Descent(lr=self.validation_lr)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Resets and distils `model` in place."""
        validation, retain = (
            problem.batches(data, self.batch_size) for data in (problem.validation, problem.retain)
        )
        first, second = plan_phases(
            problem,
            (4.0 * validation.size, 4.0 * retain.size),
            (self.validation_share, 1.0 - self.validation_share),
        )
        teacher = frozen(model)
        # the teacher was copied before
        reset(first_convolution(model))
        reset(classifier(model))

        def mimic() -> Tensor:
            batch = next(validation)
            theirs_BG = teach(problem, teacher, batch) / self.temperature
            return divergence(problem.logits(model, batch) / self.temperature, theirs_BG).mean()

        def learn() -> Tensor:
            batch = next(retain)
            theirs_BG = teach(problem, teacher, batch) / self.temperature
            outputs = problem.outputs(model, batch)
            ours_BG = problem.task.logits(outputs) / self.temperature
            loss = problem.task.loss(model, outputs, batch).mean()
            return loss + soft_ce(ours_BG, theirs_BG) + divergence(ours_BG, theirs_BG).mean()

        self.descend(model, problem, mimic, first, lr=self.validation_lr)
        return self.descend(model, problem, learn, second)


def soft_ce(ours_BG: Tensor, theirs_BG: Tensor) -> Tensor:
    """mean_b -sum_g softmax(theirs)_g ln softmax(ours)_g."""
    return -(theirs_BG.softmax(dim=1) * ours_BG.log_softmax(dim=1)).sum(dim=1).mean()
