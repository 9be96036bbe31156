"""Parts of a network that methods address: its kernels in order, its classifier, what the
classifier eats.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.plugins import PictureModel

Layer = nn.Conv2d | nn.Linear
NORMS = (nn.BatchNorm2d,)


def _answering(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """All modules with their names; of a network of others those alone that its answers depend on.

    What stands last there may be a head for an auxiliary loss, which nobody asks and nothing here
    trains.
    """
    named = list(model.named_modules())
    # our own networks have no part that does not lead to the answer
    if not isinstance(model, PictureModel) or model.network is None:
        return named
    training = model.training
    # gradients are asked of frozen weights too: they are part of the answer
    frozen = [weight for weight in model.parameters() if not weight.requires_grad]
    weights, side = list(model.requires_grad_().parameters()), model.image_size
    image_BCHW = torch.zeros(1, 3, side, side, device=weights[0].device)
    with torch.enable_grad():
        logits_BG = model.eval().network(image_BCHW)  # type: ignore[misc]
        gradients = torch.autograd.grad(logits_BG.sum(), weights, allow_unused=True)
    model.train(training)
    for weight in frozen:
        weight.requires_grad_(False)
    pairs = zip(weights, gradients, strict=True)
    reached = {id(weight) for weight, gradient in pairs if gradient is not None}
    return [
        (name, module)
        for name, module in named
        if reached & {id(weight) for weight in module.parameters(recurse=False)}
    ]


def layers(model: nn.Module) -> tuple[tuple[str, Layer], ...]:
    """Convolutions and linear layers with their names, from the image to the classifier."""
    return tuple((name, module) for name, module in _answering(model) if isinstance(module, Layer))


def convolutions(model: nn.Module) -> Iterator[tuple[str, nn.Conv2d]]:
    """Every convolution with its name."""
    return ((name, module) for name, module in layers(model) if isinstance(module, nn.Conv2d))


def first_convolution(model: nn.Module) -> nn.Conv2d:
    """The convolution that sees the image."""
    return next(module for _, module in convolutions(model))


def classifier(model: nn.Module) -> nn.Linear:
    """The last linear layer, whose outputs are the logits.

    Raises:
        InputError: the model has none.
    """
    linear = [module for _, module in layers(model) if isinstance(module, nn.Linear)]
    if not linear:
        name = type(model).__name__
        raise InputError(name, "it has no linear classifier", "Choose another method")
    return linear[-1]


def last_layers(model: nn.Module, count: int) -> tuple[nn.Module, ...]:
    """The last `count` convolutions and linear layers, and the norms after the first of them."""
    kept = [module for _, module in _answering(model) if isinstance(module, (Layer, *NORMS))]
    places = [place for place, module in enumerate(kept) if isinstance(module, Layer)]
    return tuple(kept[places[-count] :])


def reset(module: nn.Module) -> None:
    """Draws a layer's parameters anew (torch's global generator), as its class does when it is
    built.
    """
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
