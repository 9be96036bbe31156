"""Augmentation of a whole batch at once, on the device.

Shapes: B batch, C channels, H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .recipe import Augment

MAX_ROTATION = math.radians(8.0)
MAX_SHIFT = 0.08  # of half the side
SCALE = 0.08
BRIGHTNESS, CONTRAST = 0.1, 0.15


def augment(image_BCHW: Tensor, kind: Augment, generator: torch.Generator) -> Tensor:
    """Random views of a batch.

    Args:
        image_BCHW: values in [0, 1].
        kind: "none"; "flip" (left-right); "standard" (flip, rotation to 8 degrees, shift and scale
            to 8 %, brightness and contrast).
        generator: a CPU generator, so that the same seed gives the same views on any device.

    Returns:
        (B, C, H, W), values in [0, 1].
    """
    if kind == "none":
        return image_BCHW
    return augment_as_drawn(image_BCHW, kind, draw_augment(len(image_BCHW), generator))


def draw_augment(batch: int, generator: torch.Generator) -> Tensor:
    """The random numbers (B, 7) in [0, 1) that decide the views of a batch, on the CPU."""
    return torch.rand(batch, 7, generator=generator)


def augment_as_drawn(image_BCHW: Tensor, kind: Augment, draw_B7: Tensor) -> Tensor:
    """The views that `draw_augment` decided; `kind` is not "none"."""
    batch, device = len(image_BCHW), image_BCHW.device
    draw = draw_B7.to(device)
    sign_B = torch.where(draw[:, 0] < 0.5, -1.0, 1.0)
    if kind == "flip":
        return torch.where(sign_B[:, None, None, None] < 0, image_BCHW.flip(3), image_BCHW)
    angle_B, scale_B = (draw[:, 1] * 2 - 1) * MAX_ROTATION, 1 + (draw[:, 2] * 2 - 1) * SCALE
    shift_B2 = (draw[:, 3:5] * 2 - 1) * MAX_SHIFT
    cos_B, sin_B = angle_B.cos() * scale_B, angle_B.sin() * scale_B
    theta_B23 = torch.stack(
        [cos_B * sign_B, -sin_B, shift_B2[:, 0], sin_B * sign_B, cos_B, shift_B2[:, 1]], dim=1
    ).view(batch, 2, 3)
    grid = F.affine_grid(theta_B23, list(image_BCHW.shape), align_corners=False)
    moved = F.grid_sample(image_BCHW, grid, padding_mode="reflection", align_corners=False)
    gain_B = 1 + (draw[:, 5] * 2 - 1) * CONTRAST
    bias_B = (draw[:, 6] * 2 - 1) * BRIGHTNESS
    lit = (moved - 0.5) * gain_B[:, None, None, None] + 0.5 + bias_B[:, None, None, None]
    return lit.clamp_(0.0, 1.0).contiguous(memory_format=torch.channels_last)


def through(image_BCHW: Tensor, draws: Sequence[Tensor]) -> Tensor:
    """One "standard" change after the other: a draw (B, 7) each, or (1, 7) for every image the
    same; see `draw_augment`.
    """
    for draw in draws:
        image_BCHW = augment_as_drawn(image_BCHW, "standard", draw.expand(len(image_BCHW), -1))
    return image_BCHW
