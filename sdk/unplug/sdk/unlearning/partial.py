"""Training a part of a network while the rest stays bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from .anatomy import NORMS
from .descent import Descent, Optimizer, plan
from .method import ForgetProblem


def train_only(
    kept: Sequence[nn.Module], model: nn.Module, problem: ForgetProblem, lr: float, batch_size: int, optimizer: Optimizer
) -> nn.Module:
    """Fine-tunes some layers on the retain set with all of the budget; nothing else in the model changes."""
    size = min(batch_size, len(problem.retain))
    batches = problem.batches(problem.retain, size)
    with others_frozen(model, kept):
        return Descent(lr=lr, optimizer=optimizer)(
            model, problem, lambda: problem.loss(model, next(batches)), steps=plan(problem, 3.0 * size),
            trainable=[parameter for module in kept for parameter in module.parameters()],
        )  # fmt: skip


@contextmanager
def others_frozen(model: nn.Module, kept: Sequence[nn.Module]) -> Iterator[None]:
    """Everything but `kept` takes no gradient, and its norms keep their running statistics even in training mode."""
    trained = {id(parameter) for module in kept for parameter in module.parameters()}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in trained]
    norms = [module for module in model.modules() if isinstance(module, NORMS) and not any(module is item for item in kept)]

    def hold(*_: object) -> None:
        for norm in norms:
            norm.eval()

    handle = model.register_forward_pre_hook(hold)  # `Descent` puts the whole model in training mode
    for parameter in rest:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        handle.remove()
        for parameter in rest:
            parameter.requires_grad_(True)
