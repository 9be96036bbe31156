"""Training the small base's autoencoder on crops: most of what it learns is local, and a crop costs a fraction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.data import Dataset

from .recipe import StepRecipe

KL_WEIGHT = 1e-6
MAX_PIXELS = 2**20
"""Of all pictures of a batch: half a gigabyte a tensor in a Stable Diffusion autoencoder."""


@dataclass(frozen=True, kw_only=True)
class VAERecipe(StepRecipe):
    """How the autoencoder is trained.

    Args:
        crop: side of the training crops in pixels, a multiple of 8.
        channels: of a latent.
    """

    steps: int = 3500
    batch_size: int = 16
    lr: float = 1e-3
    weight_decay: float = 0.0
    ema: float = 0.995
    crop: int = 64
    channels: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crop < 16 or self.crop % 8:
            raise InputError(f"crop {self.crop}", "not a multiple of 8 from 16 on", "Use 64, say")
        if not 1 <= self.channels <= 64:
            raise InputError(f"channels {self.channels}", "out of range", "Use 4, say")


class VAELoss(nn.Module):
    """L = |x' - x| + |grad x' - grad x| / 2 + 1e-6 KL, with x' decoded from a sample of the posterior.

    The second term keeps edges: absolute error alone blurs what is thin, and landmarks are read off thin lines.

    Args:
        vae: diffusers' ``AutoencoderKL``.
    """

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, image_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of images in [-1, 1]."""
        posterior = self.vae.encode(image_BCHW).latent_dist
        noise = torch.randn(posterior.mean.shape, generator=generator).to(posterior.mean)
        decoded_BCHW = self.vae.decode(posterior.mean + posterior.std * noise).sample.float()
        divergence = posterior.kl().float().mean() / image_BCHW[0].numel()
        loss: Tensor = reconstruction(decoded_BCHW, image_BCHW) + KL_WEIGHT * divergence
        return loss


def reconstruction(decoded_BCHW: Tensor, image_BCHW: Tensor) -> Tensor:
    """Mean absolute error of pixels, and half of that of their differences to the right and below."""
    error_BCHW = decoded_BCHW - image_BCHW
    right = (error_BCHW[..., :, 1:] - error_BCHW[..., :, :-1]).abs().mean()
    below = (error_BCHW[..., 1:, :] - error_BCHW[..., :-1, :]).abs().mean()
    return error_BCHW.abs().mean() + 0.5 * (right + below)


class Crops:
    """Draws random crops, half of them mirrored.

    Args:
        dataset: pictures.
        rows: positions to draw from.
        crop: side in pixels, at most the pictures'.
        device: where they go.
    """

    def __init__(self, dataset: Dataset, rows: list[int], crop: int, device: torch.device) -> None:
        self.dataset, self.rows, self.crop, self.device = dataset, rows, min(crop, dataset.size), device

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``image_BCHW`` in [-1, 1]."""
        chosen = torch.randint(len(self.rows), (count,), generator=generator).tolist()
        room = self.dataset.size - self.crop + 1
        y, x, mirrored = (int(torch.randint(limit, (1,), generator=generator)) for limit in (room, room, 2))
        pixels = self.dataset.pixels([self.rows[index] for index in chosen])
        image_BCHW = to_image(pixels[:, y : y + self.crop, x : x + self.crop], self.device)
        return {"image_BCHW": image_BCHW.flip(3) if mirrored else image_BCHW}


def to_image(pixels_NHWC: Any, device: torch.device) -> Tensor:
    """uint8 pixels as floats (N, 3, H, W) in [-1, 1]."""
    return torch.from_numpy(pixels_NHWC).to(device).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0).contiguous()


def pictures_at_once(size: int) -> int:
    """Pictures of a side that an autoencoder takes at once: its first and last tensors have 128 channels in full resolution.

    Example:
        >>> [pictures_at_once(size) for size in (64, 128, 512, 1024)]
        [64, 64, 4, 1]
    """
    return max(1, min(64, MAX_PIXELS // size**2))


@torch.no_grad()
def encode_all(vae: Any, dataset: Dataset, rows: list[int], device: torch.device) -> Tensor:
    """Posterior means (N, c, h, w) of some pictures, float32 on the CPU, not scaled."""
    parts, size = [], pictures_at_once(dataset.size)
    for start in range(0, len(rows), size):
        image_BCHW = to_image(dataset.pixels(rows[start : start + size]), device)
        parts.append(vae.encode(image_BCHW).latent_dist.mean.float().cpu())
    return torch.cat(parts)


def scaling_factor(latent_NCHW: Tensor) -> float:
    """1 / standard deviation of all latents, so that they meet the noise at unit scale (Rombach et al., 2022, G)."""
    return float(1.0 / latent_NCHW.std())


@torch.no_grad()
def psnr(vae: Any, image_BCHW: Tensor) -> float:
    """Mean over pictures of 10 log10(4 / mean squared error) in dB, for values in [-1, 1]."""
    decoded_BCHW = vae(image_BCHW).sample.float().clamp(-1, 1)
    error_B = (decoded_BCHW - image_BCHW).square().mean(dim=(1, 2, 3))
    return float((10 * (4.0 / error_B).log10()).mean())
