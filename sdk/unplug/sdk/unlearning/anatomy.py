"""Parts of a network that methods address: its kernels in order, its classifier, what the classifier eats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from unplug.core import InputError

Layer = nn.Conv2d | nn.Linear
NORMS = (nn.BatchNorm2d,)


def layers(model: nn.Module) -> tuple[tuple[str, Layer], ...]:
    """Convolutions and linear layers with their names, from the image to the classifier."""
    return tuple((name, module) for name, module in model.named_modules() if isinstance(module, (nn.Conv2d, nn.Linear)))


def convolutions(model: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    """Every convolution with its name."""
    return ((name, module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d))


def first_convolution(model: nn.Module) -> nn.Conv2d:
    """The convolution that sees the image."""
    return next(module for _, module in convolutions(model))


def classifier(model: nn.Module) -> nn.Linear:
    """The last linear layer, whose outputs are the logits.

    Raises:
        InputError: the model has none.
    """
    found = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not found:
        raise InputError(type(model).__name__, "it has no linear classifier", "Choose another method")
    return found[-1]


def last_layers(model: nn.Module, count: int) -> tuple[nn.Module, ...]:
    """The last `count` convolutions and linear layers, and the norms behind the first of them."""
    kept: list[nn.Module] = []
    left = count
    for module in reversed([item for item in model.modules() if isinstance(item, (nn.Conv2d, nn.Linear, *NORMS))]):
        if left == 0:
            break
        kept.append(module)
        left -= isinstance(module, (nn.Conv2d, nn.Linear))
    return tuple(reversed(kept))


def reset(module: nn.Module) -> None:
    """Draws a layer's parameters anew (torch's global generator), as its class does when it is built."""
    module.reset_parameters()  # type: ignore[operator]


@contextmanager
def embeddings(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collects what the classifier is given (B, F) in each forward pass while the context is open.

    Example:
        >>> import torch
        >>> from unplug.plugins.age import AgePredictor
        >>> model = AgePredictor(size="nano", image_size=32).eval()
        >>> with embeddings(model) as seen:
        ...     _ = model(torch.zeros(2, 3, 32, 32))
        >>> seen[0].shape
        torch.Size([2, 384])
    """
    seen: list[Tensor] = []
    handle = classifier(model).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        handle.remove()
