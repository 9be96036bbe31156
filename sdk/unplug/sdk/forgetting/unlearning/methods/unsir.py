"""UNSIR: noise that the model gets as wrong as possible, learned, impairs it; the retain set
repairs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import ImageBatch, labelled, pictures

from ..descent import Descent, norms_fixed, plan_phases
from ..method import ForgetProblem
from ..settings import Stepped, within

NOISE_STEPS, START = 40, 0.1  # the noise's first standard deviation, of the range of a pixel


@dataclass(frozen=True, kw_only=True)
class UNSIR(Stepped):
    """Error-maximising noise for each class of the forget set, then impair, then repair.

    1. noise images X (grey + n, n free), labels y taken in turn from the classes in D_f:
           maximise CE(model(X), y) - penalty ||n||^2          by Adam on n, the model fixed
    2. impair: minimise L(D_r batch) + CE(model(X), y) on noise half as many as retain samples; 3.
        repair: minimise L(D_r)

    The published method forgets a whole class. Here it is the classes in D_f, whose other samples
    suffer too until the repair. Of D_f only the labels are read. Noise leaves batch-norm statistics
    alone.

    Args:
        penalty: weight of the mean squared length of the noise, 0 or more. Published: 0.1.
        noise_lr: the learning rate of Adam on the noise, at most 40 steps. Published: 0.1.
        impair_lr, lr: peaks of the cosines of phases 2 and 3. Published: 0.02 and 0.01, one epoch
            each.

    Raises:
        InputError: a value out of range.

    Reference:
        Tarun et al., Fast Yet Effective Machine Unlearning, 2023, section IV.
    """

    penalty: float = within(0.0, 1e6, 0.1)
    noise_lr: float = within(1e-6, 10.0, 0.1)
    impair_lr: float = 1e-3

    needs = ("retain data", "forget data", "labels", "class logits")

    def __post_init__(self) -> None:
        super().__post_init__()
        Descent(lr=self.impair_lr)

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Impairs and repairs `model` in place."""
        batches = problem.batches(problem.retain, self.batch_size)
        size, half = batches.size, max(1, batches.size // 2)
        noise_steps, impairs, repairs = plan_phases(
            problem, (3.0 * size, 3.0 * (size + half), 3.0 * size), (0.2, 0.4, 0.4)
        )
        noise = self.learn_noise(model, problem, size, min(NOISE_STEPS, noise_steps))

        def impair() -> Tensor:
            order_B = torch.randperm(size, generator=problem.generator)
            index_B = order_B[:half].to(noise.group_B.device)
            kept = problem.loss(model, next(batches))
            with norms_fixed(model):
                wrong = error(model, problem, noise.image_BCHW[index_B], noise.group_B[index_B])
            return (kept * size + wrong * half) / (size + half)

        self.descend(model, problem, impair, impairs, lr=self.impair_lr)
        return self.descend(model, problem, lambda: problem.loss(model, next(batches)), repairs)

    def learn_noise(
        self, model: nn.Module, problem: ForgetProblem, count: int, steps: int
    ) -> ImageBatch:
        """`count` noise images with the labels that they are most wrong about; the model stays as
        it is.
        """
        model.eval()
        classes = labelled(problem.forget).group_N.unique()
        group_B = classes[torch.arange(count, device=classes.device) % len(classes)]
        shape = (count, *pictures(problem.retain).image_NCHW.shape[1:])
        drawn = START * torch.randn(shape, generator=problem.generator)
        noise = drawn.to(classes.device).requires_grad_()
        optimizer = torch.optim.Adam([noise], lr=self.noise_lr)
        for _ in range(steps):
            length = noise.square().sum(dim=(1, 2, 3)).mean()
            loss = self.penalty * length - error(model, problem, 0.5 + noise, group_B)
            # of the noise alone: the model's own gradients stay empty
            noise.grad = torch.autograd.grad(loss, noise)[0]
            optimizer.step()
        return _batch((0.5 + noise).detach(), group_B)


def error(model: nn.Module, problem: ForgetProblem, image_BCHW: Tensor, group_B: Tensor) -> Tensor:
    """Mean cross entropy of images under labels, charged."""
    return -problem.log_prob(model, _batch(image_BCHW, group_B)).mean()


def _batch(image_BCHW: Tensor, group_B: Tensor) -> ImageBatch:
    return ImageBatch(
        image_BCHW=image_BCHW,
        age_B=torch.full_like(group_B, float("nan"), dtype=torch.float32),
        group_B=group_B,
    )
