"""M networks of one architecture as a single network, by grouped layers.

Shapes: M models, B batch, C channels, F features, G classes, H height, W width. Model m owns the
    channels
[m C, (m + 1) C) of every feature map (B, M C, H, W): convolutions get M times the groups, batch
norms M times the channels, and the first linear layer turns (B, M F) into rows (M B, G), model
after model, so that what comes behind it (softmax, expectation, loss) sees nothing but more
samples. Parameters and buffers keep their names and are concatenated along their first axis, so
weight decay, AdamW and averaging act on each model as if it were alone.

`torch.func.vmap` does the same without knowing the layers; on the CPU its steps took 1.5 to 3 times
as long (`python -m benchmarks.fleet` times both). On a GPU a 1x1 convolution is one batched matrix
product instead of a grouped convolution: a product per model runs on tensor cores, where grouped
weight gradients often do not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.plugins import DepthwiseConv2d

CHANNELWISE = (
    nn.ReLU,
    nn.ReLU6,
    nn.Hardswish,
    nn.SiLU,
    nn.GELU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Hardsigmoid,
    nn.LeakyReLU,
    nn.Identity,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
    nn.Dropout,
)
"""Layers without parameters that treat every channel alike, so that they need no counterpart."""

SAME = 0.05
"""Largest difference to a model's own outputs, as a share of the largest output: reduced precision
on a GPU (TF32) stays below 0.01, a forward pass that mixes models does not.
"""

CHECK_SAMPLES = 4
"""Images for `check_stack`."""


def _place(weight: Tensor) -> dict[str, Any]:
    return {"device": weight.device, "dtype": weight.dtype}


class GroupedConv(nn.Conv2d):
    """M convolutions side by side; 1x1 ones as matrix products where `matmul` is on."""

    def __init__(self, like: Any, models: int, matmul: bool) -> None:
        super().__init__(
            models * like.in_channels,
            models * like.out_channels,
            like.kernel_size,
            like.stride,
            like.padding,
            like.dilation,
            models * like.groups,
            like.bias is not None,
            like.padding_mode,
            **_place(like.weight),
        )
        plain = like.kernel_size == (1, 1) and like.stride == (1, 1) and like.padding == (0, 0)
        self.models, self.matmul = (
            models,
            matmul and plain and like.groups == 1 and like.bias is None,
        )

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not self.matmul:
            return super().forward(x_BCHW)
        batch, _, height, width = x_BCHW.shape
        x_MNC = (
            x_BCHW.permute(0, 2, 3, 1)
            .reshape(batch * height * width, self.models, -1)
            .transpose(0, 1)
        )
        y_MNC = torch.bmm(x_MNC, self.weight.view(self.models, -1, x_MNC.shape[2]).transpose(1, 2))
        return y_MNC.transpose(0, 1).reshape(batch, height, width, -1).permute(0, 3, 1, 2)


class GroupedLinear(nn.Module):
    """M linear layers: (B, M F) or (M B, F) to (M B, G)."""

    def __init__(self, like: nn.Linear, models: int) -> None:
        super().__init__()
        self.models, self.features = models, like.in_features
        rows = models * like.out_features
        self.weight = nn.Parameter(torch.empty(rows, like.in_features, **_place(like.weight)))
        bias: Tensor | None = like.bias  # torch's own annotation leaves the None out
        self.bias = None if bias is None else nn.Parameter(torch.empty(rows, **_place(like.weight)))

    def forward(self, x: Tensor) -> Tensor:
        x_MBF = by_model(x, self.models, self.features)
        weight_MFG = self.weight.view(self.models, -1, self.features).transpose(1, 2)
        if self.bias is None:
            return torch.bmm(x_MBF, weight_MFG).flatten(0, 1)
        return torch.baddbmm(self.bias.view(self.models, 1, -1), x_MBF, weight_MFG).flatten(0, 1)


class MaskedDropout(nn.Module):
    """Dropout with a mask that was drawn before: x mask / (1 - p)."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.mask: Tensor | None = (
            None  # bool (M, B, ...): as the M models would draw it one by one
        )

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        assert self.mask is not None
        rows = self.mask.shape[1]
        mask = self.mask.transpose(0, 1) if len(x) == rows else self.mask
        return x * mask.reshape(x.shape).to(x.dtype).div_(1.0 - self.p)


def by_model(x: Tensor, models: int, features: int) -> Tensor:
    """(B, M F) or (M B, F) as (M, B, F)."""
    if x.shape[1] == features and models > 1:
        return x.view(models, -1, features)
    return x.view(-1, models, features).transpose(0, 1)


def side_by_side(inputs: Sequence[Tensor], models: int) -> tuple[Tensor, ...]:
    """What M models are given (M B, C, H, W), model after model, as inputs (B, M C, H, W) of a
    stacked network.
    """
    return tuple(_side_by_side(image_NCHW, models) for image_NCHW in inputs)


def _side_by_side(image_NCHW: Tensor, models: int) -> Tensor:
    _, channels, height, width = image_NCHW.shape
    x_MBCHW = image_NCHW.reshape(models, -1, channels, height, width)
    return (
        x_MBCHW.transpose(0, 1)
        .reshape(-1, models * channels, height, width)
        .contiguous(memory_format=torch.channels_last)
    )


@torch.no_grad()
def stack(models: Sequence[nn.Module], *, matmul: bool) -> nn.Module:
    """One network that computes what `models` compute.

    Args:
        models: of one architecture, on one device.
        matmul: 1x1 convolutions as batched matrix products.

    Raises:
        InputError: a layer without a grouped counterpart, or models that differ in more than their
            weights.
    """
    stacked = copy.deepcopy(models[0])
    for name, module in list(stacked.named_modules()):
        if (twin := _counterpart(name, module, len(models), matmul)) is not None:
            owner, _, attribute = name.rpartition(".")
            setattr(stacked.get_submodule(owner), attribute, twin)
    stacked.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    states = [model.state_dict() for model in models]
    for name, value in stacked.state_dict().items():
        parts = [state[name] for state in states]
        if value.shape == parts[0].shape and len(models) > 1:
            if not all(torch.equal(part, parts[0]) for part in parts):
                raise InputError(
                    f"stack of models: {name}", "it differs between them", "Use another backend"
                )
            value.copy_(parts[0])
        else:
            value.copy_(torch.cat(parts) if value.ndim else parts[0])
    return stacked


@torch.no_grad()
def unstack(stacked: nn.Module, models: Sequence[nn.Module]) -> None:
    """Copies the weights and buffers of a stacked network back into its models."""
    states = [model.state_dict() for model in models]
    for name, value in stacked.state_dict().items():
        shared = value.shape == states[0][name].shape
        parts = [value] * len(models) if shared else value.chunk(len(models))
        for state, part in zip(states, parts, strict=True):
            state[name].copy_(part)


@torch.no_grad()
def check_stack(stacked: nn.Module, models: Sequence[nn.Module], inputs: Sequence[Tensor]) -> None:
    """Refuses a stack whose outputs are not those of its models, as of a forward pass that mixes
    channels.

    Raises:
        InputError: the architecture cannot be stacked.
    """
    outputs = _in_eval(
        stacked,
        side_by_side(
            [image_BCHW.repeat(len(models), 1, 1, 1) for image_BCHW in inputs], len(models)
        ),
    )
    own = [_in_eval(model, inputs) for model in models]
    for key, value in outputs.items():
        wanted = torch.cat([output[key] for output in own])
        limit = SAME * float(wanted.abs().max()) + 1e-6  # all zeros are right as well
        if value.shape != wanted.shape or not float((value - wanted).abs().max()) <= limit:
            name = type(models[0]).__name__
            raise InputError(
                f"stack of {name}", f"its {key} are not those of the models", "Use another backend"
            )


def _in_eval(model: nn.Module, inputs: Sequence[Tensor]) -> Mapping[str, Tensor]:
    was_training = model.training
    outputs: Mapping[str, Tensor] = model.eval()(*inputs)
    model.train(was_training)
    return outputs


def _counterpart(name: str, module: nn.Module, models: int, matmul: bool) -> nn.Module | None:
    make: Callable[..., Any] | None = _COUNTERPARTS.get(type(module))
    if make is not None:
        twin: nn.Module = make(module, models, matmul)
        return twin.train(module.training)
    leaf = next(module.children(), None) is None
    if (leaf and not isinstance(module, CHANNELWISE)) or next(
        module.parameters(recurse=False), None
    ) is not None:
        kind = type(module).__name__
        raise InputError(
            f"layer {name or 'model'} ({kind})", "it cannot be stacked", "Use another backend"
        )
    return None


def _grouped_norm(like: nn.BatchNorm2d, models: int, matmul: bool) -> nn.Module:
    return nn.BatchNorm2d(
        models * like.num_features,
        like.eps,
        like.momentum,
        like.affine,
        like.track_running_stats,
        **({} if like.weight is None else _place(like.weight)),
    )


_COUNTERPARTS: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Conv2d: GroupedConv,
    DepthwiseConv2d: GroupedConv,
    nn.BatchNorm2d: _grouped_norm,
    nn.Linear: lambda like, models, matmul: GroupedLinear(like, models),
    nn.Dropout: lambda like, models, matmul: MaskedDropout(like.p),
}


def dropouts(
    model: nn.Module, inputs: Sequence[Tensor]
) -> list[tuple[str, tuple[int, ...], torch.dtype, float]]:
    """Name, shape behind the batch, precision and p of every dropout that a model runs through, in
    order.
    """
    found: list[tuple[str, tuple[int, ...], torch.dtype, float]] = []
    handles = [
        module.register_forward_pre_hook(
            lambda own, given, name=name: found.append(
                (name, tuple(given[0].shape[1:]), given[0].dtype, own.p)
            )
        )
        for name, module in model.named_modules()
        if isinstance(module, nn.Dropout) and module.p > 0.0
    ]
    try:
        with torch.no_grad():
            _in_eval(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def draw_mask(
    batch: int, shape: tuple[int, ...], dtype: torch.dtype, p: float, device: torch.device
) -> Tensor:
    """Where dropout keeps (B, ...), by the very operation that the model itself would run, on ones."""
    return F.dropout(torch.ones(batch, *shape, dtype=dtype, device=device), p, True) != 0
