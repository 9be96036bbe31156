"""Teachers, what a student learns from them, and how undecided outputs are.

Shapes: B batch, C channels, H = W side, G classes.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import Batch, seeded

from .method import ForgetProblem

# a key of its own: the seed alone would give the very weights that an original starts from
RANDOM_NETWORK = -3


def frozen(model: nn.Module) -> nn.Module:
    """A copy in eval mode that no step changes."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def random_network(problem: ForgetProblem) -> nn.Module:
    """A network of the problem's task with random weights that follow from its seed, in eval mode."""
    with seeded(problem.seed, RANDOM_NETWORK):
        model = problem.task.build(problem.retain)
    return model.to(problem.retain.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload, no-any-return]


def teach(problem: ForgetProblem, teacher: nn.Module, batch: Batch) -> Tensor:
    """Logits (B, G) of a teacher, without gradients; charged as forward passes."""
    with torch.no_grad():
        return problem.logits(teacher, batch)


def divergence(student_BG: Tensor, teacher_BG: Tensor, temperature: float = 1.0) -> Tensor:
    """T^2 KL( softmax(teacher / T) || softmax(student / T) ), (B,).

    T^2 keeps the size of the gradient the same at every temperature.

    Args:
        student_BG, teacher_BG: logits.
        temperature: T, above 0.

    Example:
        >>> value = divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[50.0, 0.0]]))  # ln 2
        >>> round(float(value), 4)
        0.6931

    Reference:
        Hinton et al., Distilling the Knowledge in a Neural Network, 2015, section 2.
    """
    student_log_BG = (student_BG.float() / temperature).log_softmax(dim=1)
    teacher_log_BG = (teacher_BG.float() / temperature).log_softmax(dim=1)
    return temperature**2 * (teacher_log_BG.exp() * (teacher_log_BG - student_log_BG)).sum(dim=1)


def entropy(z_BG: Tensor) -> Tensor:
    """H = -sum_g p_g ln p_g (B,), p = softmax(z).

    Example:
        >>> import torch
        >>> entropy(torch.tensor([[0.0, 0.0], [0.0, 99.0]])).round(decimals=4)
        tensor([0.6931, 0.0000])
    """
    log_BG = z_BG.log_softmax(dim=1)
    return -(log_BG.exp() * log_BG).sum(dim=1)


def not_uniform(z_BG: Tensor) -> Tensor:
    """mean KL(uniform || softmax(z)) = -mean_g ln p_g - ln G.

    Its gradient p - u stays large where the network is sure, as it is of what it memorised; that of
    the reverse, KL(softmax || uniform), goes to zero there.

    Example:
        >>> round(float(not_uniform(torch.tensor([[math.log(3.0), 0.0]]))), 4)  # -(ln 3/4 + ln 1/4) / 2 - ln 2
        0.1438
    """
    return -z_BG.log_softmax(dim=1).mean() - math.log(z_BG.shape[1])
