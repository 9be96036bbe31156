"""SalUn: random labels for the forget set, learned by the weights that the forget set speaks to
most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import Batch, LabelledSet, labelled, steps_per_epoch

from ..descent import norms_fixed, plan
from ..method import ForgetProblem
from ..settings import Stepped, within
from .iau import mean_gradient


@dataclass(frozen=True, kw_only=True)
class SalUn(Stepped):
    """theta <- theta - lr m * grad [ L(D_f, random labels) + alpha L(D_r) ], m = the top share of
    |sum grad L(D_f)|.

    A weight with m = 0 stays bit for bit: weight decay and optimizer momentum do not move it either
    (in the released code decay did). m covers every parameter, norms and biases included; running
    statistics are no parameters and follow the retain batches. Each pass over the forget set draws
    its labels anew, uniformly, the true one included, as the released code does; an age becomes the
    middle of a random group.

    Args:
        ratio: share of all parameters that may change, above 0 to 1. Published: .5.
        alpha: weight of the retain set, 0 to 100. Published: 1.
        lr: peak learning rate of a cosine. Published: SGD at .013, 10 epochs.
        batch_size: the batch size of each of the two batches of a step, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Fan et al., SalUn: Empowering Machine Unlearning via Gradient-based Weight Saliency, 2024,
        equations 3 to 5.
    """

    ratio: float = within(1e-6, 1.0, 0.5)
    alpha: float = within(0.0, 100.0, 1.0)
    lr: float = 1e-4

    needs = ("retain data", "forget data", "labels", "class logits")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Unlearns in place."""
        mask = top_share(saliency(model, problem), self.ratio)
        retain = problem.batches(problem.retain, self.batch_size)
        forget_size = min(self.batch_size, len(problem.forget))
        forget = relabelled_passes(problem, forget_size)

        def loss() -> Tensor:
            kept = problem.loss(model, next(retain))
            with norms_fixed(model):
                wrong = problem.loss(model, next(forget))
            return wrong + self.alpha * kept

        steps = plan(problem, 3.0 * (retain.size + forget_size))
        return self.descend(model, problem, loss, steps, step_scale=mask)


def saliency(model: nn.Module, problem: ForgetProblem) -> dict[str, Tensor]:
    """|grad mean L(D_f)| per parameter, in eval mode and without augmentation: summed over samples,
    then made absolute.
    """
    gradients = mean_gradient(model.eval(), problem, problem.forget)
    return {name: gradient.abs() for name, gradient in gradients.items()}


def top_share(size: dict[str, Tensor], ratio: float) -> dict[str, Tensor]:
    """1 for the share `ratio` of all numbers that are largest, over all tensors together, and 0 for
    the rest.

    Example:
        >>> top_share({"a": torch.tensor([3.0, 1.0]), "b": torch.tensor([[2.0], [4.0]])}, 0.5)
        {'a': tensor([1., 0.]), 'b': tensor([[0.],
                [1.]])}
    """
    flat = torch.cat([value.reshape(-1) for value in size.values()])
    mask = torch.zeros_like(flat)
    mask[flat.topk(max(1, round(ratio * len(flat)))).indices] = 1.0
    parts = mask.split([value.numel() for value in size.values()])
    return {
        name: part.view(value.shape)
        for (name, value), part in zip(size.items(), parts, strict=True)
    }


def relabelled_passes(problem: ForgetProblem, size: int) -> Iterator[Batch]:
    """Batches of the forget set for ever, with other random labels in each pass over it."""
    data = labelled(problem.forget)
    while True:
        drawn = random_labels(data, problem.task.edges, problem.generator)
        yield from islice(problem.batches(drawn, size), steps_per_epoch(len(data), size))


def random_labels(
    data: LabelledSet, edges: tuple[float, ...], generator: torch.Generator
) -> LabelledSet:
    """Each sample with a class drawn from all, alike; known ages become the middle of that class."""
    group_N = torch.randint(0, len(edges) - 1, (len(data),), generator=generator)
    return data.relabelled(group_N.to(data.group_N.device), edges)
