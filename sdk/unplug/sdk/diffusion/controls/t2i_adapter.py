"""T2I-Adapter (Mou et al., 2023): once a picture, residuals inside the encoder's blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from ..control import parts_of
from ..small import diffusers
from .plugin import PluginControl


class AdapterControl(PluginControl):
    """diffusers' ``T2IAdapter``, the full kind, at the base's widths."""

    label: ClassVar[str] = "T2I-Adapter"

    def build(self, unet: Any, *, condition: str, image_size: int) -> nn.Module:
        """Random weights, as published: it has no zero projections."""
        adapter: nn.Module = diffusers().T2IAdapter(
            in_channels=3, channels=list(unet.config.block_out_channels), num_res_blocks=2, downscale_factor=8,
            adapter_type="full_adapter",
        )  # fmt: skip
        return adapter

    def pipeline(self, base: Any, network: Any) -> Any:
        """``StableDiffusionAdapterPipeline``."""
        return diffusers().StableDiffusionAdapterPipeline(adapter=network, **parts_of(base))
