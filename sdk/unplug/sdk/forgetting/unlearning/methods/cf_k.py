"""CF-k: fine-tune the last layers and leave the rest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from unplug.core import InputError

from ..anatomy import NORMS, last_layers, layers
from ..descent import plan
from ..method import ForgetProblem
from ..settings import Stepped


@dataclass(frozen=True, kw_only=True)
class CFk(Stepped):
    """theta_last <- theta_last - lr grad L(D_r): catastrophic forgetting of the last `k` layers.

    The other layers stay bit for bit, the running statistics of their batch norms included; the
    forget set is never read.

    Args:
        k: convolutions and linear layers, counted from the classifier; the norms after them train
            too. Published: 3 of a ResNet-18 in the MUFAC benchmark, for 2 to 5 epochs of SGD.
        lr: peak learning rate of a cosine.
        batch_size: the batch size, at least 2.
        optimizer: see `Descent`.

    Raises:
        InputError: a value out of range.

    Reference:
        Goel et al., Towards Adversarial Evaluations for Inexact Machine Unlearning, 2022 (CF-k).
    """

    k: int = 3
    lr: float = 1e-2

    needs = ("retain data", "labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise InputError(f"k={self.k}", "out of range", "Use 1 or more layers")

    def __call__(self, model: nn.Module, problem: ForgetProblem) -> nn.Module:
        """Fine-tunes the end of `model` in place."""
        kept, batches = last(model, self.k), problem.batches(problem.retain, self.batch_size)
        with others_frozen(model, kept):
            return self.descend(
                model,
                problem,
                lambda: problem.loss(model, next(batches)),
                plan(problem, 3.0 * batches.size),
                trainable=[parameter for module in kept for parameter in module.parameters()],
            )


def last(model: nn.Module, k: int) -> tuple[nn.Module, ...]:
    """The last `k` layers of a model that has that many.

    Raises:
        InputError: the model has fewer layers.
    """
    there = len(layers(model))
    if k > there:
        raise InputError(f"k={k}", f"the network has {there} layers", f"Use 1 to {there}")
    return last_layers(model, k)


@contextmanager
def others_frozen(model: nn.Module, kept: Sequence[nn.Module]) -> Iterator[None]:
    """Everything but `kept` takes no gradient, and its norms keep their running statistics even in
    training mode.
    """
    trained = {id(parameter) for module in kept for parameter in module.parameters()}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in trained]
    norms = [
        module
        for module in model.modules()
        if isinstance(module, NORMS) and not any(module is layer for layer in kept)
    ]

    def hold(*_: object) -> None:
        for norm in norms:
            norm.eval()

    # `Descent` puts the whole model in training mode
    handle = model.register_forward_pre_hook(hold)
    for parameter in rest:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        handle.remove()
        for parameter in rest:
            parameter.requires_grad_(True)
