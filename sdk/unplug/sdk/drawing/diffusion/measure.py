"""The loss of each sample at fixed noise and fixed noise levels: what a control is judged and
attacked by.

Shapes: N samples, T noise levels, B batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unplug.core import progress
from unplug.sdk.learning.training import seeded

from .control import Control, predict_noise
from .control_set import ControlSet
from .noise import add_noise, level_weight, sample_loss
from .recipe import Weighting

LEVELS = 8
"""T, spread evenly over the scheduler's steps."""
BATCH = 64
MAX_POSITIONS = 2**14
"""Latent positions of a batch: 64 samples of 16x16, 4 of 64x64. Attention without a fused kernel
takes their square.
"""


def batch_size_of(base: Any) -> int:
    """Samples at once, by the size of the base's latents.

    Example:
        >>> from types import SimpleNamespace as Of
        >>> [batch_size_of(Of(unet=Of(config=Of(sample_size=side)))) for side in (8, 32, 64, 1024)]
        [64, 16, 4, 1]
    """
    return max(1, min(BATCH, MAX_POSITIONS // int(base.unet.config.sample_size) ** 2))


def fixed_steps(total: int, levels: int = LEVELS) -> list[int]:
    """The middles of T equal stretches of [0, total).

    Example:
        >>> fixed_steps(1000, 4)
        [125, 375, 625, 875]
    """
    return [int(total * (index + 0.5) / levels) for index in range(levels)]


def fixed_noise(shape: torch.Size, seed: int, level: int) -> Tensor:
    """The noise of one sample at one level: the same for every model, sample order and batch size."""
    with seeded(seed, level) as generator:
        return torch.randn(shape, generator=generator)


@torch.no_grad()
def losses(
    control: Control | None,
    network: nn.Module | None,
    base: Any,
    data: ControlSet,
    *,
    device: torch.device,
    levels: int = LEVELS,
    seed: int = 0,
    batch_size: int | None = None,
    show: bool = False,
) -> Tensor:
    """Squared error of the predicted noise, at each level, for each sample (N, T), float32 on the
    CPU.

    l_nt = mean |e_t - e'(sqrt(a_t) x_n + sqrt(1 - a_t) e_t, t, c_n; control(condition_n))|^2

    Every sample meets the same noise e_t, so that differences between samples and between models
    are not its doing.

    Args:
        control: kind of the network; None measures the bare base.
        network: the network; it runs in eval mode and then returns to its mode.
        base: the frozen pipeline.
        data: N samples; the first prompt of each is used.
        device: the device to compute on.
        levels: T.
        seed: the seed of the noise.
        batch_size: samples at once; None is `batch_size_of` the base.
        show: progress bar.

    Reference:
        Matsumoto et al., Membership Inference Attacks against Diffusion Models, 2023, section III
        (loss at a timestep).
    """
    mode = network is not None and network.training
    if network is not None:
        network.to(device).eval()
    rows, size = [], batch_size or batch_size_of(base)
    with progress(total=len(data), label="measure", show=show) as bar:
        for start in range(0, len(data), size):
            index_B = torch.arange(start, min(start + size, len(data)))
            batch = data.batch(index_B, device)
            rows.append(batch_losses(control, network, base, batch, levels, seed))
            bar.update(len(index_B))
    if network is not None:
        network.train(mode)
    return torch.cat(rows) if rows else torch.zeros(0, levels)


def batch_losses(
    control: Control | None,
    network: nn.Module | None,
    base: Any,
    batch: dict[str, Tensor],
    levels: int,
    seed: int,
) -> Tensor:
    """`losses` of one batch (B, T); without a control it needs no condition."""
    latent_Bchw, text_BLD, condition_BCHW = (
        batch["latent_Bchw"],
        batch["text_BLD"],
        batch.get("condition_BCHW"),
    )
    columns = []
    for level, step in enumerate(
        fixed_steps(int(base.scheduler.config.num_train_timesteps), levels)
    ):
        noise_Bchw = (
            fixed_noise(latent_Bchw.shape[1:], seed, level).to(latent_Bchw).expand_as(latent_Bchw)
        )
        step_B = torch.full((len(latent_Bchw),), step, device=latent_Bchw.device)
        noised = add_noise(base.scheduler, latent_Bchw, step_B, noise_Bchw)

        def predict(noisy_Bchw: Tensor, at_B: Tensor) -> Tensor:
            return predict_noise(
                control, network, base.unet, noisy_Bchw, at_B, text_BLD, condition_BCHW
            )

        columns.append(sample_loss(predict, noised).cpu())
    return torch.stack(columns, dim=1)


def level_mean(loss_NT: Tensor, base: Any, weighting: Weighting) -> Tensor:
    """What training takes of a sample: the mean (N,) of `losses` over levels, weighted by
    `level_weight`.
    """
    steps = fixed_steps(int(base.scheduler.config.num_train_timesteps), loss_NT.shape[1])
    return (loss_NT * level_weight(base.scheduler, torch.tensor(steps), weighting)).mean(dim=1)


def mean_loss(
    control: Control | None,
    network: nn.Module | None,
    base: Any,
    data: ControlSet,
    *,
    weighting: Weighting,
    device: torch.device,
    most: int = 512,
    show: bool = False,
) -> float:
    """Mean of `level_mean` over the first `most` samples; of the bare base without a control."""
    part = data.subset(data.ids[:most])
    loss_NT = losses(control, network, base, part, device=device, show=show)
    return float(level_mean(loss_NT, base, weighting).mean())
