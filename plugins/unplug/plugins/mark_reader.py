"""Reads the bits that a marked decoder leaves in every picture.

Shapes: B batch, K bits, H = W = 128.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unplug.core import IOSpec, TensorSpec, write_json

from .blocks import ConvNormAct, network_line
from .bounds import check_whole
from .checkpoint import WEIGHTS
from .picture_model import picture_spec

MARK_BITS = 48
READER_SIDE = 128
"""Pixels of the pictures that it looks at; larger and smaller ones are resized."""
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in brightness, as JPEG has them."""
WIDTHS = (24, 48, 64, 96, 96, 128)
STRIDES = (2, 1, 2, 1, 2, 1)


class MarkReader(nn.Module):
    """Picture to one logit a bit; bit k is 1 where logit k > 0.

    It sees brightness alone: JPEG stores colours coarsely, and a mark in colours is seen. The first
    layer averages 2x2 pixels: what lives in single pixels is lost by the first resize. The last one
    averages over the picture, so that the place of a texture does not matter.

    Args:
        bits: K.

    Raises:
        InputError: K is out of range.

    Example:
        >>> import torch
        >>> MarkReader().eval()(torch.zeros(2, 3, 128, 128))["bits"].shape
        torch.Size([2, 48])

    Reference:
        Zhu et al., HiDDeN: Hiding Data With Deep Networks, 2018, section 3 (the extractor);
        Fernandez et al., The Stable Signature, 2023, section 4.1 (its bits whitened afterwards).
    """

    def __init__(self, bits: int = MARK_BITS) -> None:
        super().__init__()
        check_whole("bits", bits, 8, 256)
        self.bits = bits
        into, layers = 1, list[nn.Module]()
        for width, stride in zip(WIDTHS, STRIDES, strict=True):
            layers.append(ConvNormAct(into, width, stride=stride))
            into = width
        self.body = nn.Sequential(nn.AvgPool2d(2), *layers)
        self.head = nn.Linear(into, bits)

    def __repr__(self) -> str:
        """One line: its bits and its parameters."""
        return network_line(self, f"{self.bits} bits")

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """``bits`` (B, K), logits, of RGB images in [0, 1]."""
        red, green, blue = LUMA
        luma_B1HW = image_BCHW[:, :1] * red + image_BCHW[:, 1:2] * green + image_BCHW[:, 2:] * blue
        x_BCHW = self.body(luma_B1HW * 2.0 - 1.0)
        return {"bits": self.head(nn.functional.adaptive_avg_pool2d(x_BCHW, 1).flatten(1))}

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one."""
        bits = TensorSpec(
            name="bits", shape=(1, self.bits), layout="NC", description="One logit per bit"
        )
        image = picture_spec(READER_SIDE, "A picture, resized to a square")
        return IOSpec(inputs=(image,), outputs=(bits,))

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Writes ``config.json`` and ``model.safetensors`` into an existing folder, for
        `save_checkpoint`.
        """
        from safetensors.torch import save_file

        folder = Path(save_directory)
        config: dict[str, Any] = {"model_type": "mark_reader", "bits": self.bits}
        write_json(folder / "config.json", config)
        tensors = {name: value.contiguous() for name, value in self.state_dict().items()}
        save_file(tensors, folder / WEIGHTS)
