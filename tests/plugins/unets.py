"""Tiny UNets of every layout, and a plugin that looks trained: what the plugin's tests share."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import UNet2DConditionModel
from torch import Tensor, nn

from unplug.plugins import ConditioningPlugin

CROSS, PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"

FAMILIES: dict[str, dict[str, Any]] = {
    "sd15": {
        "channels": (32, 64, 96, 96),
        "kinds": (CROSS, CROSS, CROSS, PLAIN),
        "scales": (1, 2, 4, 8),
    },
    "sdxl": {"channels": (32, 64, 96), "kinds": (PLAIN, CROSS, CROSS), "scales": (2, 2, 4)},
    "small": {"channels": (32, 64, 96), "kinds": (CROSS, CROSS, PLAIN), "scales": (1, 2, 4)},
    "gap": {
        "channels": (32, 64, 64, 32),
        "kinds": (CROSS, PLAIN, "AttnDownBlock2D", PLAIN),
        "scales": (1, 4, 8, 8),
    },
    "one": {"channels": (32,), "kinds": (PLAIN,), "scales": (1,)},
}
SD = {
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": [CROSS, CROSS, CROSS, PLAIN],
}
REAL: dict[str, dict[str, Any]] = {
    "sd15": {**SD, "sample_size": 64},
    "sd21": {**SD, "sample_size": 96},
    "sdxl": {
        "block_out_channels": [320, 640, 1280],
        "down_block_types": [PLAIN, CROSS, CROSS],
        "sample_size": 128,
    },
    "small": {
        "block_out_channels": (96, 160, 224),
        "down_block_types": (CROSS, CROSS, PLAIN),
        "sample_size": 16,
    },
}


def tiny_unet(family: str = "small", layers: int = 1, size: int = 16) -> UNet2DConditionModel:
    torch.manual_seed(3)
    channels, kinds = FAMILIES[family]["channels"], FAMILIES[family]["kinds"]
    unet = UNet2DConditionModel(
        sample_size=size,
        block_out_channels=channels,
        down_block_types=kinds,
        layers_per_block=layers,
        up_block_types=tuple(
            "CrossAttnUpBlock2D" if kind == CROSS else "UpBlock2D" for kind in reversed(kinds)
        ),
        cross_attention_dim=8,
        attention_head_dim=8,
        norm_num_groups=8,
    )
    return unet.eval().requires_grad_(False)


def trained(config: Any, size: str = "nano", seed: int = 0, **overrides: Any) -> ConditioningPlugin:
    """A plugin with running statistics and projections that are not the initial ones."""
    torch.manual_seed(seed)
    plugin = ConditioningPlugin.for_unet(
        config, **{"condition": "canny", "size": size} | overrides
    ).train()
    with torch.no_grad():
        for projection in plugin.projections:
            nn.init.normal_(projection.weight, std=0.2)
            nn.init.normal_(projection.bias, std=0.2)
        for _ in range(3):
            plugin(torch.rand(2, plugin.config.condition_channels, 64, 64))
    return plugin.eval()


def denoise(unet: UNet2DConditionModel, residuals: list[Tensor] | None, size: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    latents = torch.randn(1, 4, size, size, generator=generator)
    text = torch.randn(1, 5, 8, generator=generator)
    given = None if residuals is None else [residual.clone() for residual in residuals]
    with torch.no_grad():
        out: Tensor = unet(latents, 7, text, down_intrablock_additional_residuals=given).sample
    assert given is None or given == [], "the UNet did not take every residual"
    return out
