"""Blocks: shapes by arithmetic, residuals where they are legal, norms that fold."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unplug.plugins import ConvNormAct, DepthwiseConv2d, InvertedBottleneck, init_weights

FOLD_TOLERANCE = 1e-12  # float64: only the order of additions differs

sides = st.integers(1, 17)
kernels = st.sampled_from([1, 3, 5, 7])
strides = st.sampled_from([1, 2])
channels = st.integers(1, 6)


@settings(max_examples=40)
@given(channels, channels, sides, sides, kernels, strides)
def test_conv_shape_is_the_ceiling_of_side_over_stride(
    c: int, d: int, h: int, w: int, kernel: int, stride: int
) -> None:
    y_BCHW = ConvNormAct(c, d, kernel=kernel, stride=stride).eval()(torch.zeros(2, c, h, w))
    assert y_BCHW.shape == (2, d, -(-h // stride), -(-w // stride))


@settings(max_examples=40)
@given(channels, channels, sides, kernels, strides, st.sampled_from([1, 2, 4]), st.booleans())
def test_bottleneck_has_a_residual_only_where_shapes_allow_one(
    c: int, d: int, side: int, kernel: int, stride: int, expand: int, fused: bool
) -> None:
    how = {"stride": stride, "kernel": kernel, "expand": expand}
    block = InvertedBottleneck(c, d, **how, fused=fused).eval()
    assert any(item.groups > 1 for item in block.modules() if isinstance(item, nn.Conv2d)) != (
        fused or c * expand == 1
    )
    x_BCHW = torch.randn(1, c, side, side)
    y_BCHW = block(x_BCHW)
    assert y_BCHW.shape == (1, d, -(-side // stride), -(-side // stride))
    # the branch is silent now: what is left is the residual
    nn.init.zeros_(block.project[0].weight)
    silent = block(x_BCHW)
    legal = stride == 1 and c == d
    assert torch.equal(silent, x_BCHW if legal else torch.zeros_like(y_BCHW))


def fold(layer: ConvNormAct, x_BCHW: Tensor) -> Tensor:
    """Oracle: w' = w g / sqrt(v + e), b' = b - m g / sqrt(v + e), one convolution, the activation."""
    conv, norm = layer[0], layer[1]
    assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and conv.bias is None
    assert norm.running_mean is not None and norm.running_var is not None
    gain_C = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    y_BCHW = nn.functional.conv2d(
        x_BCHW,
        conv.weight * gain_C[:, None, None, None],
        norm.bias - norm.running_mean * gain_C,
        conv.stride,
        conv.padding,
        groups=conv.groups,
    )
    return y_BCHW.clamp(0.0, 6.0) if len(layer) == 3 else y_BCHW


@settings(max_examples=20)
@given(kernels, strides, st.booleans(), st.booleans(), st.integers(0, 1000))
def test_norms_fold_into_their_convolution(
    kernel: int, stride: int, depthwise: bool, act: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    layer = ConvNormAct(
        4, 4, kernel=kernel, stride=stride, groups=4 if depthwise else 1, act=act
    ).double()
    nn.init.normal_(layer[1].weight)
    nn.init.normal_(layer[1].bias)
    for _ in range(3):
        # running statistics away from 0 and 1
        layer(torch.randn(8, 4, 9, 9, dtype=torch.float64) * 2 + 1)
    x_BCHW = torch.randn(2, 4, 9, 9, dtype=torch.float64)
    assert torch.allclose(layer.eval()(x_BCHW), fold(layer, x_BCHW), rtol=0, atol=FOLD_TOLERANCE)


def test_initial_weights_have_the_scale_of_the_paper() -> None:
    torch.manual_seed(0)
    conv, linear = nn.Conv2d(64, 128, 3), nn.Linear(512, 256)
    net = nn.Sequential(conv, nn.BatchNorm2d(128), linear).apply(init_weights)
    # He: sqrt(2 / fan_out)
    assert abs(conv.weight.std().item() / (2 / (128 * 9)) ** 0.5 - 1) < 0.02
    assert abs(linear.weight.std().item() / 0.01 - 1) < 0.02
    assert conv.bias is not None and not conv.bias.any() and not linear.bias.any()
    assert torch.equal(net[1].weight, torch.ones(128)) and not net[1].bias.any()


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_under_autocast_is_float32_on_the_cpu(stride: int) -> None:
    """Its values and gradients are those without autocast, of the values that bfloat16 hands over."""
    torch.manual_seed(0)
    layer, x = DepthwiseConv2d(6, 5, stride), torch.randn(2, 6, 9, 7).bfloat16()
    computed = []
    for half in (True, False):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            y = layer(x if half else x.float())
        assert y.dtype == torch.float32
        y.square().sum().backward()
        assert layer.weight.grad is not None
        computed.append((y.detach(), layer.weight.grad.clone()))
    assert all(torch.equal(a, b) for a, b in zip(*computed, strict=True))
    assert layer.half()(x.half()).dtype == torch.float16
