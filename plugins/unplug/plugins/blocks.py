"""The building blocks of every network that ships: MobileNetV2's inverted bottleneck.

Shapes: B batch, C channels, H height, W width. Norms are batch norms directly after a convolution
without bias, so that every exporter can fold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from unplug.core import count


class DepthwiseConv2d(nn.Conv2d):
    """One filter a channel; under autocast on a CPU it computes in float32.

    There the gradients of bfloat16 depthwise convolutions were measured up to 14 times slower than
    float32's (stride 2, or 5 x 5), and half of the time of training a plugin.

    Args:
        channels: C of input and output.
        kernel: odd side of the filters; padding keeps H and W at stride 1.
        stride: 1 or 2.

    Example:
        >>> DepthwiseConv2d(8, 3)(torch.zeros(1, 8, 4, 4)).shape
        torch.Size([1, 8, 4, 4])
    """

    def __init__(self, channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            channels, channels, kernel, stride, kernel // 2, groups=channels, bias=False
        )

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Convolves every channel (B, C, H, W) with its own kernel."""
        if x_BCHW.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                return super().forward(x_BCHW.float())
        return super().forward(x_BCHW)


class ConvNormAct(nn.Sequential):
    """Convolution, batch norm and, unless `act` is False, ReLU6.

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        kernel: odd side of the square kernel; padding keeps H and W at stride 1.
        stride: 1 or 2.
        groups: `in_channels` makes it depthwise.
        act: False for a linear projection.

    Example:
        >>> ConvNormAct(3, 16, stride=2)(torch.zeros(1, 3, 64, 64)).shape
        torch.Size([1, 16, 32, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        act: bool = True,
    ) -> None:
        if groups == in_channels == out_channels > 1:
            conv: nn.Conv2d = DepthwiseConv2d(in_channels, kernel, stride)
        else:
            conv = nn.Conv2d(
                in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False
            )
        # No bias in front of a norm, which has one: exporters fold both into one convolution.
        layers: list[nn.Module] = [conv, nn.BatchNorm2d(out_channels)]
        if act:
            layers.append(nn.ReLU6())
        super().__init__(*layers)


class InvertedBottleneck(nn.Module):
    """Expand (1x1), depthwise (k x k), project (1x1), with a residual where the shapes allow one.

    y = x + P(D(E(x))) if stride is 1 and C_in = C_out, else P(D(E(x))).

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        stride: 1 or 2, of the depthwise convolution.
        expand: width of the middle as a multiple of `in_channels`; 1 leaves the expansion out.
        kernel: odd side of the depthwise kernel.
        fused: a plain convolution in the place of expansion and depthwise, which accelerators may
            run faster: y = x + P(F(x)).

    Example:
        >>> InvertedBottleneck(16, 24, stride=2)(torch.zeros(1, 16, 8, 8)).shape
        torch.Size([1, 24, 4, 4])

    Reference:
        Sandler et al., MobileNetV2, 2018, section 3; Xiong et al., MobileDets, 2021, section 3.1
        (fused).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        expand: int = 4,
        kernel: int = 3,
        fused: bool = False,
    ) -> None:
        super().__init__()
        # The wide tensor lies between two narrow ones; the projection stays linear, for a rectifier
        # on few channels loses what it cuts off (the paper's section 3.2).
        middle = in_channels * expand
        self.expand: nn.Module = nn.Identity()
        if fused:
            self.depthwise = ConvNormAct(in_channels, middle, kernel=kernel, stride=stride)
        else:
            if expand != 1:
                self.expand = ConvNormAct(in_channels, middle, kernel=1)
            self.depthwise = ConvNormAct(
                middle, middle, kernel=kernel, stride=stride, groups=middle
            )
        self.project = ConvNormAct(middle, out_channels, kernel=1, act=False)
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x_BCHW: Tensor) -> Tensor:
        y_BCHW: Tensor = self.project(self.depthwise(self.expand(x_BCHW)))
        return x_BCHW + y_BCHW if self.residual else y_BCHW


def halving_stem(
    in_channels: int, widths: Sequence[int], *, stride: int = 2, expand: int = 1
) -> nn.Sequential:
    """A convolution and inverted bottlenecks, each of which halves height and width.

    Args:
        in_channels: C of the input.
        widths: C after each of them.
        stride: 1 or 2, of the convolution.
        expand: see `InvertedBottleneck`.

    Example:
        >>> halving_stem(3, (8, 16))(torch.zeros(1, 3, 8, 8)).shape
        torch.Size([1, 16, 2, 2])
    """
    return nn.Sequential(
        ConvNormAct(in_channels, widths[0], stride=stride),
        *(InvertedBottleneck(a, b, stride=2, expand=expand) for a, b in pairwise(widths)),
    )


def bottleneck_stage(
    in_channels: int,
    out_channels: int,
    blocks: int,
    *,
    halvings: int = 1,
    expand: int = 4,
    kernel: int = 3,
) -> nn.Sequential:
    """A run of inverted bottlenecks, of which the first ones halve height and width.

    Args:
        in_channels: C of the input.
        out_channels: C after the first block and all others.
        blocks: how many; where they are fewer than `halvings`, as many as those.
        halvings: blocks of stride 2.
        expand, kernel: see `InvertedBottleneck`.

    Example:
        >>> bottleneck_stage(16, 24, 3)(torch.zeros(1, 16, 8, 8)).shape
        torch.Size([1, 24, 4, 4])
    """
    return nn.Sequential(
        *(
            InvertedBottleneck(
                out_channels if index else in_channels,
                out_channels,
                stride=2 if index < halvings else 1,
                expand=expand,
                kernel=kernel,
            )
            for index in range(max(blocks, halvings))
        )
    )


def init_weights(module: nn.Module) -> None:
    """Kaiming (fan-out) convolutions, unit norms, small linear layers; use with
    ``net.apply(init_weights)``.

    Reference:
        He et al., Delving Deep into Rectifiers, 2015, section 2.2.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
        nn.init.zeros_(module.bias)


def network_line(network: nn.Module, what: str) -> str:
    """How a network prints, in one line, with its parameters counted.

    Example:
        >>> network_line(nn.Linear(999, 1), "ages")
        'Linear(ages, 1,000 parameters)'
    """
    total = sum(item.numel() for item in network.parameters())
    return f"{type(network).__name__}({what}, {count(total)} parameters)"
