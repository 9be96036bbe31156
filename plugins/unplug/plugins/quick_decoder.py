"""A decoder that is trained to stand in for an autoencoder's, at a fifth of its milliseconds.

Shapes: B batch, C latent channels, h and w of the latent, H and W of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import IOSpec, write_json

from .base_parts import decoder_spec
from .blocks import network_line
from .checkpoint import WEIGHTS
from .decoder_sizes import DECODER_SIZES, LATENTS, check_quick_decoder


class QuickDecoder(nn.Module):
    """Latents to an image: x = clip((D(z / s + shift) + 1) / 2, 0, 1), with D of plain convolutions.

    Residual blocks x + W(relu(V(x))) of 3x3 convolutions at each side, and transposed convolutions
    between them. No norm, which no runtime could fold where it divides by each picture's own; no
    resize, which the delegates of XNNPACK and WebGPU leave to others; no depthwise convolution, for
    whose gradient a processor takes twice as long.

    Args:
        image_size: H and W of the picture in pixels.
        latent_channels: C.
        widths: channels at each side, which doubles between two of them, and once more after the last.
        blocks: residual blocks at each side.
        scaling_factor, shift_factor: s and shift, of the autoencoder whose latents these are.
        latents_sha256: the base that the latents are of; empty where nobody says.

    Raises:
        InputError: a number out of range.

    Example:
        >>> decoder = QuickDecoder(image_size=32, widths=(8, 8, 8), blocks=(1, 1, 1))
        >>> decoder(torch.zeros(1, 8, 4, 4))[0].shape
        torch.Size([1, 3, 32, 32])

    Reference:
        Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel
        Convolutional Neural Network, 2016, section 3 (a transposed convolution in place of a
        resize); Zhang et al., Fixup Initialization, 2019, section 3 (branches that start at zero).
    """

    def __init__(
        self,
        image_size: int = 128,
        latent_channels: int = 8,
        widths: Sequence[int] = DECODER_SIZES["small"]["widths"],
        blocks: Sequence[int] = DECODER_SIZES["small"]["blocks"],
        scaling_factor: float = 1.0,
        shift_factor: float = 0.0,
        latents_sha256: str = "",
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "image_size": image_size,
            "latent_channels": latent_channels,
            "widths": list(widths),
            "blocks": list(blocks),
            "scaling_factor": scaling_factor,
            "shift_factor": shift_factor,
            LATENTS: latents_sha256,
        }
        check_quick_decoder(self.config)
        layers: list[nn.Module] = [nn.Conv2d(latent_channels, widths[0], 3, padding=1), nn.ReLU()]
        for width, depth, after in zip(widths, blocks, [*widths[1:], None], strict=True):
            layers += [_Residual(width) for _ in range(depth)]
            layers.append(nn.ReLU())
            if after is not None:
                layers.append(nn.ConvTranspose2d(width, after, 2, stride=2))
        layers.append(nn.ConvTranspose2d(widths[-1], 3, 4, stride=2, padding=1))
        self.layers = nn.Sequential(*layers)

    def __repr__(self) -> str:
        """One line: its side, its widths and its parameters."""
        widths = "-".join(map(str, self.config["widths"]))
        return network_line(self, f"{self.config['image_size']} px, {widths}")

    def decode(self, z_BChw: Tensor) -> Tensor:
        """Images (B, 3, H, W), about in [-1, 1], of latents that are not scaled."""
        image_BCHW: Tensor = self.layers(z_BChw)
        return image_BCHW

    def forward(self, z_BChw: Tensor) -> tuple[Tensor]:
        """Images (B, 3, H, W) in [0, 1] of scaled latents, as the last step of denoising leaves them."""
        z_BChw = z_BChw / self.config["scaling_factor"] + self.config["shift_factor"]
        shown_BCHW = self.decode(z_BChw) / 2 + 0.5
        # LiteRT's GPU delegate has no kernel of a clamp, nor of a transposed convolution that a ReLU
        # follows: its converter makes the two one
        return (torch.relu(shown_BCHW - torch.relu(shown_BCHW - 1)),)

    @property
    def iospec(self) -> IOSpec:
        """The named tensors, with a batch of one; those of the decoder that it stands in for."""
        side = self.config["image_size"]
        small = side // 2 ** len(self.config["widths"])
        return decoder_spec(self.config["latent_channels"], small, 3, side)

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Writes ``config.json`` and ``model.safetensors`` into an existing folder, for
        `save_checkpoint`.
        """
        from safetensors.torch import save_file

        folder = Path(save_directory)
        write_json(folder / "config.json", {"model_type": "quick_decoder", **self.config})
        tensors = {name: value.contiguous() for name, value in self.state_dict().items()}
        save_file(tensors, folder / WEIGHTS)


class _Residual(nn.Module):
    """x + W(relu(V(x))), with W = 0 at first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        assert self.second.bias is not None
        nn.init.zeros_(self.second.bias)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        y_BCHW: Tensor = self.second(torch.relu(self.first(x_BCHW)))
        return x_BCHW + y_BCHW
