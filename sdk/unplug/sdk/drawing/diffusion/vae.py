"""The small base's autoencoder: its first weights, and its training on crops.

Most of what it learns is local, and a crop costs a fraction. It starts as an exact linear map that
keeps the colour of every 8x8 block: channels come in pairs (u, -u), and silu(u) - silu(-u) = u, so
that a network of SiLUs is linear until training bends it. 190 steps of 16 crops reached 25.3 dB
from there, where diffusers' own first weights reached 18.2 dB (32 faces, 75 s of one core each).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unplug.core import InputError
from unplug.sdk.learning.data import Dataset
from unplug.sdk.learning.training import seeded

from .recipe import StepRecipe

KL_WEIGHT = 1e-6
RGB = 3
MAX_PIXELS = 2**20
"""The pixels of all pictures of a batch: half a gigabyte a tensor in a Stable Diffusion
autoencoder.
"""


@dataclass(frozen=True, kw_only=True)
class VAERecipe(StepRecipe):
    """How the autoencoder is trained.

    Args:
        steps: optimizer steps; 0 keeps another base's autoencoder as it is.
        crop: side of the training crops in pixels, a multiple of 8.
        channels: the number of a latent's channels.
    """

    steps: int = 3500
    batch_size: int = 16
    lr: float = 1e-3
    weight_decay: float = 0.0
    ema: float = 0.995
    crop: int = 64
    channels: int = 8

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        **StepRecipe.ranges,
        "steps": (0, StepRecipe.ranges["steps"][1]),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crop < 16 or self.crop % 8:
            raise InputError(f"crop {self.crop}", "not a multiple of 8 from 16 on", "Use 64, say")
        if not 1 <= self.channels <= 64:
            raise InputError(f"channels {self.channels}", "out of range", "Use 4, say")


class RandomFeatures(nn.Module):
    """Features of a picture at three scales, from convolutions that are drawn once and never
    trained.

    A frame of glasses is a line of one pixel: wrong by half its contrast it costs little in
    absolute error, and much here. Nothing is fetched or trained on photographs for it.

    Example:
        >>> [tuple(feature.shape) for feature in RandomFeatures()(torch.zeros(1, 3, 32, 32))]
        [(1, 32, 32, 32), (1, 48, 16, 16), (1, 64, 8, 8)]

    Reference:
        Liu et al., Generic Perceptual Loss for Modeling Structured Output Dependencies, 2021,
        section 3 (random weights).
    """

    SEED, CHANNELS = 5, (3, 32, 48, 64)

    def __init__(self) -> None:
        super().__init__()
        with seeded(self.SEED):
            self.layers = nn.ModuleList(
                nn.Conv2d(into, out, 3, stride=1 if into == RGB else 2, padding=1, bias=False)
                for into, out in itertools.pairwise(self.CHANNELS)
            )
            for weight in self.layers.parameters():
                nn.init.kaiming_normal_(weight)
        self.requires_grad_(False)

    def forward(self, image_BCHW: Tensor) -> list[Tensor]:
        """Each layer's answer, from the finest on."""
        features = []
        for layer in self.layers:
            image_BCHW = functional.relu(layer(image_BCHW))
            features.append(image_BCHW)
        return features

    def distance(self, ours_BCHW: Tensor, theirs_BCHW: Tensor) -> Tensor:
        """Mean absolute difference of the features of two batches, over the scales."""
        pairs = zip(self(ours_BCHW), self(theirs_BCHW), strict=True)
        return torch.stack([(a - b).float().abs().mean() for a, b in pairs]).mean()


class VAELoss(nn.Module):
    """L = |x' - x| + |grad x' - grad x| / 2 + |f(x') - f(x)| / 2 + 1e-6 KL, with x' decoded from a
    sample of the posterior.

    The second term keeps edges and the third, in `RandomFeatures`, small shapes: absolute error
    alone blurs what is thin, and landmarks are read off thin lines.

    Args:
        vae: diffusers' ``AutoencoderKL``.
        encoder: whether the encoder is trained as well; without it, latents stay what they are.
    """

    def __init__(self, vae: Any, *, encoder: bool = True) -> None:
        super().__init__()
        self.vae, self.features = vae.requires_grad_(True), RandomFeatures()
        for part in (vae.encoder, vae.quant_conv):
            part.requires_grad_(encoder)

    def forward(self, image_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """The mean loss of images in [-1, 1]."""
        posterior = self.vae.encode(image_BCHW).latent_dist
        noise = torch.randn(posterior.mean.shape, generator=generator).to(posterior.mean)
        decoded_BCHW = self.vae.decode(posterior.mean + posterior.std * noise).sample.float()
        divergence = posterior.kl().float().mean() / image_BCHW[0].numel()
        loss: Tensor = reconstruction(decoded_BCHW, image_BCHW) + KL_WEIGHT * divergence
        return loss + 0.5 * self.features.distance(decoded_BCHW, image_BCHW)


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
        device: the device for the crops.
    """

    def __init__(self, dataset: Dataset, rows: list[int], crop: int, device: torch.device) -> None:
        self.dataset, self.rows, self.crop, self.device = (
            dataset,
            rows,
            min(crop, dataset.size),
            device,
        )

    def __call__(self, generator: torch.Generator, count: int) -> dict[str, Tensor]:
        """``image_BCHW`` in [-1, 1]."""
        chosen = torch.randint(len(self.rows), (count,), generator=generator).tolist()
        room = self.dataset.size - self.crop + 1
        y, x, mirrored = (
            int(torch.randint(limit, (1,), generator=generator)) for limit in (room, room, 2)
        )
        pixels = self.dataset.pixels([self.rows[index] for index in chosen])
        image_BCHW = to_image(pixels[:, y : y + self.crop, x : x + self.crop], self.device)
        return {"image_BCHW": image_BCHW.flip(3) if mirrored else image_BCHW}


def to_image(pixels_NHWC: Any, device: torch.device) -> Tensor:
    """uint8 pixels as floats (N, 3, H, W) in [-1, 1]."""
    return (
        torch.from_numpy(pixels_NHWC)
        .to(device)
        .permute(0, 3, 1, 2)
        .float()
        .div_(127.5)
        .sub_(1.0)
        .contiguous()
    )


def to_pixels(image_BCHW: Tensor) -> NDArray[np.uint8]:
    """The inverse of `to_image`: (B, H, W, 3); values beyond [-1, 1] are cut."""
    pixels: NDArray[np.uint8] = (
        ((image_BCHW.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    )
    return pixels


def pictures_at_once(size: int) -> int:
    """Pictures of a side that an autoencoder takes at once: its first and last tensors have 128
    channels in full resolution.

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
    """1 / standard deviation of all latents, so that they meet the noise at unit scale (Rombach et
    al., 2022, G).
    """
    return float(1.0 / latent_NCHW.std())


@torch.no_grad()
def psnr(vae: Any, image_BCHW: Tensor) -> float:
    """Mean over pictures of 10 log10(4 / mean squared error) in dB, for values in [-1, 1]."""
    decoded_BCHW = vae(image_BCHW).sample.float().clamp(-1, 1)
    error_B = (decoded_BCHW - image_BCHW).square().mean(dim=(1, 2, 3))
    return float((10 * (4.0 / error_B).log10()).mean())


LOG_VARIANCE = -6.0
"""The variance of the posterior at the start: noise of a twentieth. By default it drowns what is
learned first.
"""
OTHERS = 0.3
"""The share of the default weights that channels without a part in the linear map keep; a third of
it where they meet an output.
"""


@torch.no_grad()
def init_vae(vae: Any) -> None:
    """Residual branches at zero, resampling as averages and copies, first channels red, green,
    blue, the last constant.

    The constant channel carries the scale through the norms, which divide by each picture's own.

    Args:
        vae: diffusers' ``AutoencoderKL`` with even channels and at least four latent channels,
            changed in place; the weights besides the linear map are what torch's global generator
            drew.

    Reference:
        Balduzzi et al., The Shattered Gradients Problem, 2017, section 4 (looks-linear
        initialization); Zhang et al., Fixup Initialization, 2019, section 3 (residual branches that
        start at zero).
    """
    from diffusers.models.downsampling import Downsample2D
    from diffusers.models.resnet import ResnetBlock2D
    from diffusers.models.upsampling import Upsample2D

    for module in vae.modules():
        if isinstance(module, ResnetBlock2D):
            nn.init.zeros_(module.conv2.weight)
            nn.init.zeros_(_bias(module.conv2))
            if module.conv_shortcut is not None:
                _carry(module.conv_shortcut, _tap(1), OTHERS)
        elif isinstance(module, Downsample2D):
            _carry(module.conv, _mean_of_four(), 0.0)
        elif isinstance(module, Upsample2D):
            copying: Any = module.conv
            _carry(copying, _tap(3), 0.0)
    latents = int(vae.config.latent_channels)
    first, constant = vae.encoder.conv_in, vae.encoder.conv_in.out_channels // 2 - 1
    _split(first, {index: index for index in range(RGB)}, 1.0)
    first.weight[[constant, 2 * constant + 1]] = 0.0
    _bias(first)[[constant, 2 * constant + 1]] = torch.tensor([1.0, -1.0])
    _join(
        vae.encoder.conv_out,
        {index: index for index in range(latents - 1)} | {latents - 1: constant},
    )
    _bias(vae.encoder.conv_out)[latents:] = LOG_VARIANCE
    for between in (vae.quant_conv, vae.post_quant_conv):
        between.weight.copy_(torch.eye(between.out_channels)[:, :, None, None])
        nn.init.zeros_(_bias(between))
    _split(vae.decoder.conv_in, {index: index for index in range(latents)}, OTHERS)
    _join(vae.decoder.conv_out, {index: index for index in range(RGB)})


def _bias(convolution: nn.Conv2d) -> Tensor:
    assert convolution.bias is not None
    return convolution.bias


def _tap(side: int) -> Tensor:
    kernel = torch.zeros(side, side)
    kernel[side // 2, side // 2] = 1.0
    return kernel


def _mean_of_four() -> Tensor:
    kernel = torch.zeros(3, 3)
    kernel[:2, :2] = 0.25  # diffusers pads a row and a column at the end
    return kernel


def _carry(convolution: nn.Conv2d, kernel: Tensor, others: float) -> None:
    """(u, -u) to (A u, -A u), with A u = the first channels of u through `kernel`, and `others` of
    what was there.
    """
    out, into = convolution.out_channels // 2, convolution.in_channels // 2
    half = others * convolution.weight[:out, :into].clone()
    for channel in range(min(out, into)):
        half[channel, channel] += kernel
    nn.init.zeros_(convolution.weight)
    convolution.weight[:out, :into] = half
    convolution.weight[out:, into:] = half
    nn.init.zeros_(_bias(convolution))


def _split(convolution: nn.Conv2d, copies: dict[int, int], others: float) -> None:
    """x to (A x, -A x): channel `out` of A is channel `into` of x for each of `copies`, the rest
    `others` of what was there.
    """
    out = convolution.out_channels // 2
    half = others * convolution.weight[:out].clone()
    for target, source in copies.items():
        half[target] = 0.0
        half[target, source] = _tap(convolution.kernel_size[0])
    convolution.weight.copy_(torch.cat([half, -half]))
    nn.init.zeros_(_bias(convolution))


def _join(convolution: nn.Conv2d, copies: dict[int, int]) -> None:
    """(u, -u) to B u, after a SiLU: row `out` of B takes channel `into` of u for each of `copies`."""
    into = convolution.in_channels // 2
    half = OTHERS / 3 * convolution.weight[:, :into].clone()
    for target, source in copies.items():
        half[target] = 0.0
        half[target, source] = _tap(convolution.kernel_size[0])
    convolution.weight.copy_(torch.cat([half, -half], dim=1))
    nn.init.zeros_(_bias(convolution))
