"""Bias correction: rounded kernels shift the mean of every channel behind them, and a bias shifts it back.

Shapes: N calibration samples. Imported in child processes only: it needs torch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

LEVELS = 127
"""Of an int8 kernel on either side of zero, in every target."""


def folded(model: nn.Module) -> nn.Module:
    """A copy in eval mode whose batch norms are folded into the convolutions in front of them.

    Args:
        model: any module; norms are found where a Sequential has them directly behind a convolution.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4)).eval()
        >>> [type(layer).__name__ for layer in folded(net)]
        ['Conv2d', 'Identity']
    """
    twin = copy.deepcopy(model).eval()
    for layers in [module for module in twin.modules() if isinstance(module, nn.Sequential)]:
        for index in range(len(layers) - 1):
            first, second = layers[index], layers[index + 1]
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                layers[index], layers[index + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return twin


def rounded(weight: Tensor) -> Tensor:
    """A kernel on its int8 grid: symmetric, one scale per output channel.

    w_c = s_c round(w_c / s_c), s_c = max|w_c| / 127

    Args:
        weight: output channels first.

    Example:
        >>> rounded(torch.tensor([[127.0, 0.6], [0.0, 0.0]])).tolist()
        [[127.0, 1.0], [0.0, 0.0]]
    """
    peak = weight.abs().flatten(1).amax(dim=1).view(-1, *[1] * (weight.ndim - 1))
    scale = torch.where(peak > 0, peak, torch.ones_like(peak)) / LEVELS
    return torch.round(weight / scale) * scale


@torch.no_grad()
def corrected(model: nn.Module, inputs: Sequence[Tensor]) -> nn.Module:
    """A folded copy whose biases make up for what rounding the kernels to int8 will do to the means of channels.

    b_c <- b_c - (E[y'_c] - E[y_c]), layer by layer in the order in which they run, with y' behind all layers rounded so far.

    The kernels themselves stay as they are: the target rounds those of convolutions, to the same grid.

    Args:
        model: with a forward over `inputs`.
        inputs: calibration samples, N of each, in the order of the forward.

    Reference:
        Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction, 2019, section 4.2 (the empirical
        kind).
    """
    exact = folded(model)
    wanted: dict[str, Tensor] = {}

    def note(name: str) -> Any:
        return lambda _layer, _given, output: wanted.__setitem__(name, _means(output))

    layers = {name: layer for name, layer in exact.named_modules() if isinstance(layer, nn.Conv2d)}
    _run(exact, inputs, {name: note(name) for name in layers})
    crude, shifts = copy.deepcopy(exact), dict[str, Tensor]()

    def shift(name: str) -> Any:
        def hook(_layer: nn.Module, _given: Any, output: Tensor) -> Tensor:
            shifts[name] = wanted[name] - _means(output)
            return output + shifts[name].view(-1, 1, 1)

        return hook

    for name, layer in crude.named_modules():
        if name in layers:
            layer.weight.copy_(rounded(layer.weight))
    _run(crude, inputs, {name: shift(name) for name in layers})
    for name, shift_C in shifts.items():  # what the forward does not use has none
        before: Any = layers[name].bias
        layers[name].bias = nn.Parameter(shift_C if before is None else before + shift_C)
    return exact


def _means(output_NCHW: Tensor) -> Tensor:
    return output_NCHW.mean(dim=(0, 2, 3))


def _run(model: nn.Module, inputs: Sequence[Tensor], hooks: dict[str, Any]) -> None:
    handles = [model.get_submodule(name).register_forward_hook(hook) for name, hook in hooks.items()]
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
