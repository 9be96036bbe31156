"""Networks as other people build them, with which a converter, a quantizer or half precision has
trouble; those of cases.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as fn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

CASES = Path(__file__).parent / "cases"


def of_case(name: str, network: str = "Net") -> nn.Module:
    """The network of a case."""
    spec = spec_from_file_location(f"case_{name.replace('-', '_')}", CASES / name / "net.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made: nn.Module = getattr(module, network)()
    return made


class Standardized(nn.Conv2d):
    """A kernel whose output channels have mean 0 and spread 1, as timm's StdConv2d computes it in
    each forward.
    """

    def forward(self, x: Tensor) -> Tensor:
        flat = self.weight.reshape(1, self.out_channels, -1)
        kernel = fn.batch_norm(flat, None, None, training=True, momentum=0.0, eps=1e-6).reshape_as(
            self.weight
        )
        return fn.conv2d(
            x, kernel, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class Layered(nn.Module):
    """Three convolutions, the last one grouped, of one kind and with one kind of norm."""

    def __init__(self, conv: Any = nn.Conv2d, wrap: Any = None, norm: Any = nn.BatchNorm2d) -> None:
        super().__init__()
        given = wrap or (lambda layer: layer)
        self.a = nn.Sequential(given(conv(3, 16, 3, 2, 1)), norm(16), nn.ReLU())
        self.b = nn.Sequential(given(conv(16, 24, 3, 2, 1)), norm(24), nn.ReLU())
        self.c, self.fc = given(conv(24, 24, 3, 1, 1, groups=4)), nn.Linear(24, 13)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.fc(fn.relu(self.c(self.b(self.a(x)))).mean((2, 3)))
        return answer


class Functional(nn.Module):
    """A kernel that two calls of a function share."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.kernel = (
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.Parameter(torch.randn(16, 16, 3, 3) * 0.1),
        )
        self.fc = nn.Linear(16, 13)

    def forward(self, x: Tensor) -> Tensor:
        x = fn.relu(fn.conv2d(fn.relu(self.a(x)), self.kernel, padding=1))
        answer: Tensor = self.fc(fn.relu(fn.conv2d(x, self.kernel, padding=1)).mean((2, 3)))
        return answer


class Tapped(nn.Module):
    """What a convolution gives is used beside its norm."""

    def __init__(self) -> None:
        super().__init__()
        self.s, self.fc = (
            nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
            nn.Linear(32, 13),
        )

    def forward(self, x: Tensor) -> Tensor:
        tap = self.s[0](x)
        answer: Tensor = self.fc(
            torch.cat([tap.mean((2, 3)), self.s[2](self.s[1](tap)).mean((2, 3))], 1)
        )
        return answer


class Upward(nn.Module):
    """A transposed convolution between two others."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.up, self.b = (
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.ConvTranspose2d(8, 8, 2, 2, groups=2),
            nn.Conv2d(8, 8, 3, 2, 1),
        )
        self.fc = nn.Linear(8, 13)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.fc(fn.relu(self.b(fn.relu(self.up(fn.relu(self.a(x)))))).mean((2, 3)))
        return answer


NOT_PLAIN = "its kernel is not a parameter of a plain convolution"
KERNELS: dict[str, tuple[Any, int, tuple[str, ...]]] = {
    "shared": (lambda: of_case("int8-shared-conv"), 1, ("c: its kernel is used 3 times",)),
    "weight norm": (lambda: Layered(wrap=weight_norm), 3, ()),
    "spectral norm": (lambda: Layered(wrap=spectral_norm), 3, ()),
    "standardized": (
        lambda: Layered(Standardized),
        0,
        tuple(f"{name}: {NOT_PLAIN}" for name in ("a.0", "b.0", "c")),
    ),
    "norm without statistics": (
        lambda: Layered(norm=lambda width: nn.InstanceNorm2d(width, affine=True)),
        3,
        (),
    ),
    "batch statistics": (
        lambda: Layered(norm=lambda width: nn.BatchNorm2d(width, track_running_stats=False)),
        3,
        (),
    ),
    "function": (Functional, 1, ("the model: its kernel is used 2 times",)),
    "tapped": (Tapped, 1, ()),
    "transposed": (Upward, 2, (f"up: {NOT_PLAIN}",)),
}
"""A network, how many of its convolutions get a new bias, and what is said of the others."""


class Asks(nn.Module):
    """A convolution, a function of what it gives, and a classifier of the means."""

    def __init__(
        self, function: Any, width: int = 16, gain: float = 1.0, norm: bool = False
    ) -> None:
        super().__init__()
        self.conv, self.body = nn.Conv2d(3, 16, 3, 2, 1), Function(function)
        self.norm = nn.BatchNorm2d(16) if norm else nn.Identity()
        self.fc = nn.Linear(width, 13)
        with torch.no_grad():
            self.conv.weight.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.fc(self.body(self.norm(self.conv(x))).mean((2, 3)))
        return answer


class Function(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.function(x)
        return found


def _attends(x: Tensor) -> Tensor:
    flat = x.flatten(2).mT.unsqueeze(1)
    return fn.scaled_dot_product_attention(flat, flat, flat).squeeze(1).mT.unsqueeze(-1)


def _masked(x: Tensor) -> Tensor:
    return x.masked_fill(x < x.mean(1, keepdim=True), -1e9).softmax(1)


HALVES: dict[str, tuple[Any, str | None]] = {
    "sum of pixels": (
        lambda: Asks(lambda x: x.abs().sum((2, 3), keepdim=True) / 256, gain=900),
        "sum in body",
    ),
    "attention": (lambda: Asks(_attends, gain=900), "bmm in body"),
    "variance": (lambda: Asks(lambda x: x / x.std(1, keepdim=True), gain=900), "std in body"),
    "epsilon": (
        lambda: Asks(lambda x: x.relu() / (x.relu().sum(1, keepdim=True) * 0 + 1e-12) * 1e-12),
        "div in body",
    ),
    "mask": (lambda: Asks(_masked), None),
    "folded norm": (lambda: Asks(fn.relu, gain=3e5, norm=True), None),
}
"""A network, and the operator and the layer at which half precision ends; None where it does not.
"""
