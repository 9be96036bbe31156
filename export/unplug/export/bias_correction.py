"""Bias correction: rounded kernels shift the mean of every channel after them, and a bias shifts
it back.

Shapes: N calibration samples, C output channels. Imported in child processes only: it needs torch.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize
from torch.nn.utils.fusion import fuse_conv_bn_eval

from unplug.core import counted
from unplug.plugins import DepthwiseConv2d

from .watching import watched

LEVELS = 127
"""The levels of an int8 kernel on either side of zero, but for a target that has ``kernel_levels``
of its own.
"""
PLAIN = (nn.Conv2d, DepthwiseConv2d)
"""Kinds of layers that convolve with the kernel that they hold."""
SMALLEST = 1e-30
"""The smallest sum of squares to divide by: an untrained plugin gives zeros."""
Key = int | str
"""A kernel: its address, or the path of the module in which it is computed."""
CONVOLUTION, TRANSPOSED = torch.ops.aten.convolution.default, 6
"""The operator that every convolution ends in, and the place of the argument that says whether it
is transposed.
"""


def folded(model: nn.Module) -> nn.Module:
    """A copy in eval mode whose batch norms are folded into the convolutions in front of them.

    Args:
        model: any module; norms are found where a Sequential has them directly after a
            convolution. One without running statistics stays.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 1, bias=False), nn.BatchNorm2d(4)).eval()
        >>> [type(layer).__name__ for layer in folded(net)]
        ['Conv2d', 'Identity']
    """
    twin = plain(copy.deepcopy(model).eval())
    for layers in [module for module in twin.modules() if isinstance(module, nn.Sequential)]:
        for index in range(len(layers) - 1):
            first, second = layers[index], layers[index + 1]
            fits = (
                type(first) in PLAIN
                and isinstance(second, nn.BatchNorm2d)
                and second.running_mean is not None
            )
            if fits and "weight" in first._parameters:
                layers[index], layers[index + 1] = _fused(first, second), nn.Identity()
    return twin


def _fused(first: Any, second: Any) -> nn.Module:
    fused: nn.Module = fuse_conv_bn_eval(first, second)
    return fused


def plain(model: nn.Module) -> nn.Module:
    """The model, whose parametrized tensors (weight norm, spectral norm) become the numbers that
    come out of them.

    A converter would else compute them in each run, and find no kernel to store in fewer bits.

    Args:
        model: it is changed.

    Example:
        >>> net = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 1, bias=False))
        >>> [name for name, _ in plain(net).named_parameters()]
        ['weight']
    """
    for module in [item for item in model.modules() if parametrize.is_parametrized(item)]:
        for name in list(getattr(module, "parametrizations", ())):
            parametrize.remove_parametrizations(module, name)
    return model


def rounded(weight: Tensor, levels: int = LEVELS) -> Tensor:
    """A kernel on its int8 grid: symmetric, one scale per output channel.

    w_c = s_c round(w_c / s_c), s_c = max|w_c| / levels

    A factor of each channel, such as that of a batch norm after it, changes nothing but the
    scales.

    Args:
        weight: output channels first.
        levels: the number of levels on either side of zero.

    Example:
        >>> rounded(torch.tensor([[127.0, 0.6], [0.0, 0.0]])).tolist()
        [[127.0, 1.0], [0.0, 0.0]]
    """
    peak = weight.abs().flatten(1).amax(dim=1).view(-1, *[1] * (weight.ndim - 1))
    scale = torch.where(peak > 0, peak, torch.ones_like(peak)) / levels
    return torch.round(weight / scale) * scale


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """What `corrected` makes.

    Args:
        model: a copy with new biases, or the model itself where they made nothing better.
        layers: paths of the convolutions whose biases are new.
        left: the others that ran, each with the reason.
    """

    model: nn.Module
    layers: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(kw_only=True)
class _Seen:
    """What the convolutions of one forward did, by their kernels: how often each was used, where
    first, the mean after it.
    """

    uses: Counter[Key] = field(default_factory=Counter)
    paths: dict[Key, str] = field(default_factory=dict)
    means: dict[Key, Tensor] = field(default_factory=dict)


@torch.no_grad()
def corrected(model: nn.Module, inputs: Sequence[Tensor], levels: int = LEVELS) -> Corrected:
    """A copy whose biases make up for what rounding the kernels to int8 will do to the means of
    channels.

    b_c <- b_c - (E[y'_c] - E[y_c]), layer by layer in the order in which they run, with y' after
    all layers rounded so far.

    The kernels themselves stay as they are: the target rounds those of convolutions, to the same
    grid. Only a convolution that runs once with a kernel of its own has one mean to put back; one
    that is shared, or whose kernel is computed in the forward (standardized weights, functions), is
    rounded here as the target does, and left alone. The biases are kept where the outputs of the
    rounded network come nearer to the exact ones for it.

    Args:
        model: a model in eval mode, with a forward over `inputs`; any norms.
        inputs: calibration samples, N of each, in the order of the forward.
        levels: the levels of the target's kernels, see `rounded`.

    Reference:
        Nagel et al., Data-Free Quantization through Weight Equalization and Bias Correction, 2019,
        section 4.2 (the empirical kind).
    """
    seen = _Seen()

    def note(key: Key, path: str, output: Tensor) -> Tensor:
        seen.uses[key] += 1
        seen.paths.setdefault(key, path)
        seen.means[key] = _means(output)
        return output

    exact, owners = _run(model, inputs, note), _owners(model)
    once = {key for key, count in seen.uses.items() if count == 1 and key in owners}
    shifts: dict[Key, Tensor] = {}

    def shift(key: Key, _path: str, output: Tensor) -> Tensor:
        if key in once:
            shifts[key] = seen.means[key] - _means(output)
            output = output + shifts[key].view(-1, *[1] * (output.ndim - 2))
        return output

    _run(model, inputs, shift, levels)
    twin = copy.deepcopy(model)
    for key, shift_C in shifts.items():
        layer: Any = twin.get_submodule(owners[key])
        layer.bias = nn.Parameter(shift_C if layer.bias is None else layer.bias + shift_C)
    left = tuple(
        f"{path}: {_reason(seen.uses[key])}" for key, path in seen.paths.items() if key not in once
    )
    if shifts and not _distance(_run(twin, inputs, None, levels), exact) < _distance(
        _run(model, inputs, None, levels), exact
    ):
        why = (
            f"{counted(len(shifts), 'convolution')}: the outputs on the samples came no nearer for "
            "it"
        )
        return Corrected(model=model, layers=(), left=(*left, why))
    return Corrected(model=twin, layers=tuple(owners[key] for key in shifts), left=left)


def _owners(model: nn.Module) -> dict[Key, str]:
    """Addresses of kernels to the path of the convolution whose parameter each is, where that is
    only one.
    """
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _ConvNd) and not layer.transposed
    }
    kernels = {
        name: layer.weight.data_ptr()
        for name, layer in layers.items()
        if "weight" in layer._parameters
    }
    uses = Counter(kernels.values())
    return {address: name for name, address in kernels.items() if uses[address] == 1}


def _reason(uses: int) -> str:
    return (
        f"its kernel is used {uses} times"
        if uses > 1
        else "its kernel is not a parameter of a plain convolution"
    )


def _means(output_NC: Tensor) -> Tensor:
    return output_NC.transpose(0, 1).flatten(1).mean(dim=1)


def _run(
    model: nn.Module,
    inputs: Sequence[Tensor],
    see: Callable[[Key, str, Tensor], Tensor] | None,
    levels: int | None = None,
) -> list[Tensor]:
    """The outputs, with kernels rounded to `levels` where they are given; what `see` gives of each
    output goes on.
    """
    kept = {item.data_ptr() for item in model.parameters()}

    def compute(path: str, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if func is not CONVOLUTION:
            return func(*args, **kwargs)
        image, kernel, *rest = args
        # A transposed one is rounded by some targets only, and along other axes.
        output = func(
            image, kernel if args[TRANSPOSED] or levels is None else rounded(kernel, levels), *rest
        )
        address = kernel.data_ptr()
        owned = address in kept and not args[TRANSPOSED]
        return output if see is None else see(address if owned else path, path, output)

    made = watched(model, inputs, compute)
    parts = (
        made.values() if isinstance(made, Mapping) else [made] if isinstance(made, Tensor) else made
    )
    return list(parts)


def _distance(outputs: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """Sum over outputs of ||y' - y||^2 / ||y||^2."""
    pairs = zip(outputs, exact, strict=True)
    return sum(
        float((one - two).square().sum() / two.square().sum().clamp_min(SMALLEST))
        for one, two in pairs
    )
