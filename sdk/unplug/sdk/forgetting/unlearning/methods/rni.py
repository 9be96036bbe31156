"""RNI, seventh in the 2023 challenge: a new classifier, then stretches in which only a few noisy
tensors learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from unplug.sdk.forgetting.tasks import Need

from ..anatomy import NORMS, classifier, reset
from ..descent import Descent, plan
from ..method import ForgetProblem
from ..settings import Stepped, check_range
from .cfw import add_noise


@dataclass(frozen=True, kw_only=True)
class RNI(Stepped):
    """Reset, noise injection.

    The classifier is drawn anew. The steps are split into `stretches` equal parts, all on D_r with
    the training loss: in each of the first `noisy` parts only `chosen` random tensors and the batch
    norms learn, and from the second part on `disturbed` of those tensors are given N(0, sigma^2)
    noise first, but none that an earlier part had chosen, so that nothing that was just repaired is
    spoilt again; in the remaining parts everything learns. The forget set is never read. Where
    there are fewer steps than stretches, some stretches are empty.

    Args:
        stretches, noisy: published: 9 epochs, 5 of them with few tensors.
        chosen, disturbed: published: 9 tensors, noise on 6 of them.
        sigma: 0 or more. Published: 0.04.
        lr: constant while few tensors learn, the peak of a cosine afterwards. Published: SGD at
            2e-4.

    Raises:
        InputError: a value out of range.

    Reference:
        Seventh place of the NeurIPS 2023 Machine Unlearning Challenge.
    """

    stretches: int = 9
    noisy: int = 5
    chosen: int = 9
    disturbed: int = 6
    sigma: float = 0.02
    lr: float = 3e-3

    needs: ClassVar[tuple[Need, ...]] = ("retain data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("rni", 1, 1000, stretches=self.stretches, chosen=self.chosen)
        check_range("rni", 0, self.stretches - 1, noisy=self.noisy)
        check_range("rni", 0, self.chosen, disturbed=self.disturbed)
        check_range("rni", 0.0, 100.0, sigma=self.sigma)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Resets, disturbs and repairs `model` in place."""
        size = min(self.batch_size, len(problem.retain))
        steps, batches = plan(problem, 3.0 * size), problem.batches(problem.retain, size)
        reset(classifier(model))
        done, before = 0, set[int]()
        for stretch in range(self.noisy):
            count = steps * (stretch + 1) // self.stretches - done
            done += count
            learning = choose_tensors(model, self.chosen, problem.generator)
            if stretch > 0:
                add_noise(
                    [item for item in learning if id(item) not in before][: self.disturbed],
                    self.sigma,
                    problem.generator,
                )
            before |= {id(item) for item in learning}
            if count > 0:
                Descent(lr=self.lr, shape="constant", optimizer=self.optimizer)(
                    model,
                    problem,
                    lambda: problem.loss(model, next(batches)),
                    steps=count,
                    trainable=[*learning, *norm_parameters(model)],
                )
        return Descent(lr=self.lr, optimizer=self.optimizer)(
            model, problem, lambda: problem.loss(model, next(batches)), steps=steps - done
        )


def norm_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Scales and shifts of the batch norms."""
    return [
        parameter
        for module in model.modules()
        if isinstance(module, NORMS)
        for parameter in module.parameters()
    ]


def choose_tensors(model: nn.Module, count: int, generator: torch.Generator) -> list[nn.Parameter]:
    """Random parameter tensors that belong to no batch norm, all of them where there are fewer than
    `count`.
    """
    norms = {id(parameter) for parameter in norm_parameters(model)}
    others = [parameter for parameter in model.parameters() if id(parameter) not in norms]
    return [
        others[position]
        for position in torch.randperm(len(others), generator=generator)[:count].tolist()
    ]
