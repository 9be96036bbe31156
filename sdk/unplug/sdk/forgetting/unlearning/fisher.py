"""How much each weight matters for some data: powers of per-sample gradients, averaged.

Shapes: N samples, B batch, C channels, H = W side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils._pytree import tree_map

from unplug.core import BudgetExceeded
from unplug.sdk.learning.training import Batch, SampleSet, autocast

from .method import ForgetProblem

Measure = Callable[[Mapping[str, Tensor], Batch], Tensor]
"""(outputs, batch) -> (B,), what is differentiated."""

CHUNK_FLOATS = 2**25
"""Per-sample gradients take B times the weights: at most 128 MiB of them at once."""

SLOWNESS = 2.0
"""Per-sample gradients took 1.7 to 3 times the wall time of a training pass on one CPU core (nano
to small), which the pass count does not show; so plans take each sample for this many.
"""


def importance(
    model: nn.Module, problem: ForgetProblem, data: SampleSet, measure: Measure, power: float = 2.0
) -> dict[str, Tensor]:
    """I_j = 1/N sum_n |d measure(x_n) / d theta_j|^power, per sample, in eval mode and without
    augmentation.

    With measure = -log p(y|x) and power 2 this is the diagonal of the empirical Fisher information.

    Args:
        model: its weights, mode and gradients stay as they are.
        problem: its meter is charged one forward and one backward pass a sample.
        data: N samples.
        measure: a measure of one sample at a time.
        power: 1 or 2.

    Returns:
        Parameter name to a tensor of its shape.
    """
    was_training = model.training
    model.eval()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def of_one(weights: dict[str, Tensor], sample: Batch) -> Tensor:
        batch: Batch = tree_map(lambda value: value[None], sample)
        return measure(functional_call(model, (weights, buffers), batch.inputs), batch)[0]

    # one gradient a sample: squares of a batch's gradient are something else
    of_each = vmap(grad(of_one), in_dims=(None, 0))
    total = {name: torch.zeros_like(value) for name, value in weights.items()}
    chunk = max(1, min(16, CHUNK_FLOATS // sum(value.numel() for value in weights.values())))
    for batch in data.in_order(chunk):
        problem.meter.charge(forward=len(batch), backward=len(batch))
        with autocast(batch.device):
            gradients = of_each(weights, batch)
        # summed as it comes: the gradients of one chunk are all that is held
        for name, gradient in gradients.items():
            total[name] += gradient.abs().pow(power).sum(dim=0)
    model.train(was_training)
    return {name: value / len(data) for name, value in total.items()}


def sample_within(
    problem: ForgetProblem, data: SampleSet, share: float, per_sample: float
) -> SampleSet:
    """The whole set, or as many random samples of it as a share of the remaining budget pays for.

    Args:
        problem: its meter knows what is left.
        data: N samples.
        share: 0 to 1, of what is left.
        per_sample: cost of one, in forward passes.

    Raises:
        BudgetExceeded: not one sample fits.
    """
    count = int(share * problem.meter.left() / per_sample)
    if count >= len(data):
        return data
    if count < 1:
        raise BudgetExceeded(
            "forget step", "the budget does not cover one gradient", "Give a larger `budget`"
        )
    return data.subset(torch.randperm(len(data), generator=problem.generator)[:count])
