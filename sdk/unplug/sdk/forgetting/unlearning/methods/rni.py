"""RNI, seventh in the 2023 challenge: a new classifier, then stretches in which only a few noisy
tensors learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..anatomy import NORMS, classifier, reset
from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped, check_range, within
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

    stretches: int = within(1, 1000, 9)
    noisy: int = 5
    chosen: int = within(1, 1000, 9)
    disturbed: int = 6
    sigma: float = within(0.0, 100.0, 0.02)
    lr: float = 3e-3

    needs = ("retain data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("rni", 0, self.stretches - 1, noisy=self.noisy)
        check_range("rni", 0, self.chosen, disturbed=self.disturbed)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Resets, disturbs and repairs `model` in place."""
        batches = problem.batches(problem.retain, self.batch_size)
        steps = plan(problem, 3.0 * batches.size)

        def loss() -> Tensor:
            return problem.loss(model, next(batches))

        reset(classifier(model))
        done, before = 0, set[int]()
        for stretch in range(self.noisy):
            count = steps * (stretch + 1) // self.stretches - done
            done += count
            learning = choose_tensors(model, self.chosen, problem.generator)
            if stretch > 0:
                fresh = [tensor for tensor in learning if id(tensor) not in before]
                add_noise(fresh[: self.disturbed], self.sigma, problem.generator)
            before |= {id(tensor) for tensor in learning}
            if count > 0:
                few = [*learning, *norm_parameters(model)]
                self.descend(model, problem, loss, count, shape="constant", trainable=few)
        return self.descend(model, problem, loss, steps - done)


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
    chosen = torch.randperm(len(others), generator=generator)[:count]
    return [others[position] for position in chosen.tolist()]
