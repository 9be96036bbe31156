"""A base of random weights with two levels and 64 px pictures, a plugin that looks trained, and a
few faces.

Made once a session: tests must not write to these files, nor change the loaded base.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from unplug.plugins import ConditioningPlugin, save_checkpoint
from unplug.sdk.drawing.diffusion import ControlSet, load_base, load_control_set, run_base, steps
from unplug.sdk.drawing.diffusion import base_training as base_parts
from unplug.sdk.drawing.diffusion.small import (
    assemble,
    build_scheduler,
    build_text_encoder,
    diffusers,
)
from unplug.sdk.drawing.diffusion.tokenizer import train_tokenizer
from unplug.sdk.learning.data import Dataset, load_dataset

SPEC, SIZE, TOKENS = "synth:n=20,subjects=10,seed=4", 64, 16
CPU = torch.device("cpu")
CROSS, PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
WORDS = [
    f"a portrait of {person}, {mood}"
    for person in ("a child", "an adult")
    for mood in ("smiling", "sad")
]


def tiny_vae(image_size: int = SIZE, latent_channels: int = 4) -> Any:
    return diffusers().AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=latent_channels,
        block_out_channels=(8, 8, 16, 16),
        layers_per_block=1,
        norm_num_groups=2,
        sample_size=image_size,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        mid_block_add_attention=False,
    )


def tiny_unet(
    latent_size: int = SIZE // 8,
    latent_channels: int = 4,
    text_width: int = 32,
    channels: tuple[int, ...] = (16, 32),
) -> Any:
    """As many down blocks as channels; the last without attention, as in Stable Diffusion 1.5."""
    kinds = [CROSS] * (len(channels) - 1) + [PLAIN]
    return diffusers().UNet2DConditionModel(
        sample_size=latent_size,
        in_channels=latent_channels,
        out_channels=latent_channels,
        block_out_channels=channels,
        down_block_types=kinds,
        up_block_types=[kind.replace("Down", "Up") for kind in reversed(kinds)],
        layers_per_block=1,
        cross_attention_dim=text_width,
        attention_head_dim=2,
        norm_num_groups=8,
    )


def tiny_pipeline(folder: Path, *, channels: tuple[int, ...] = (16, 32), seed: int = 5) -> Any:
    """A pipeline of about 0.1 M random parameters; the tokenizer is written into `folder`."""
    tokenizer = train_tokenizer(WORDS, folder, vocabulary=540, length=TOKENS)
    torch.manual_seed(seed)
    parts = (
        tiny_vae(),
        build_text_encoder(tokenizer, width=32),
        tokenizer,
        tiny_unet(channels=channels),
        build_scheduler(),
    )
    return assemble(*parts)


def steering_plugin(unet: Any, seed: int = 0, **overrides: Any) -> ConditioningPlugin:
    """A plugin whose projections are not the zeros that it starts with."""
    torch.manual_seed(seed)
    plugin = ConditioningPlugin.for_unet(
        unet, **{"condition": "canny", "size": "nano"} | overrides
    ).eval()
    with torch.no_grad():
        for projection in plugin.projections:
            nn.init.normal_(projection.weight, std=0.5)
            nn.init.normal_(projection.bias, std=0.5)
    return plugin


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Networks of a hundredth of the size, a state after every step, previews of one step."""
    draw = run_base.generate
    patch.setattr(run_base, "generate", lambda *given, **how: draw(*given, steps=1, **how))
    patch.setattr(run_base, "build_vae", tiny_vae)
    patch.setattr(base_parts, "build_unet", tiny_unet)
    patch.setattr(
        base_parts, "build_text_encoder", lambda tokenizer: build_text_encoder(tokenizer, width=32)
    )
    patch.setattr(steps, "SAVE_EVERY_S", 0.0)
    patch.setattr(steps, "LOG_EVERY", 1)


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("diffusion")
    tiny_pipeline(root / "tokenizer").save_pretrained(root / "base")
    return root / "base"


@pytest.fixture(scope="session")
def base(base_folder: Path) -> Any:
    return load_base(str(base_folder), device=CPU)


@pytest.fixture(scope="session")
def faces() -> Dataset:
    return load_dataset(SPEC, SIZE, show=False)


@pytest.fixture(scope="session")
def control_set(base: Any, faces: Dataset) -> ControlSet:
    return load_control_set(base, faces, "canny", show=False)[0]


@pytest.fixture(scope="session")
def plugin_folder(base: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins") / "canny"
    save_checkpoint(steering_plugin(base.unet), folder, record={}, card="# Card\n")
    return folder


class Killed(BaseException):
    """What a killed process looks like from inside: nothing of ours catches it."""


def kill_after(patch: pytest.MonkeyPatch, drawer: type, count: int) -> None:
    """The process dies as this class is asked for batches once more than that."""
    drawn, calls = drawer.__call__, list[int]()

    def stops(self: Any, generator: torch.Generator, size: int) -> Any:
        calls.append(size)
        if len(calls) > count:
            raise Killed
        return drawn(self, generator, size)

    patch.setattr(drawer, "__call__", stops)


def save_lora(base_folder: Path, folder: Path, seed: int) -> Path:
    """Random low-rank updates of attention, written as diffusers writes them."""
    from diffusers import StableDiffusionPipeline
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    unet = load_base(str(base_folder), device=CPU).unet
    torch.manual_seed(seed)
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    StableDiffusionPipeline.save_lora_weights(
        folder, unet_lora_layers=get_peft_model_state_dict(unet)
    )
    return folder


def picture(pipe: Any, **more: Any) -> NDArray[np.float32]:
    """What two steps draw, as latents where nothing else is asked for."""
    pipe.set_progress_bar_config(disable=True)
    how = {"height": SIZE, "width": SIZE, "num_inference_steps": 2, "output_type": "latent"} | more
    return np.asarray(pipe("a child", generator=torch.Generator().manual_seed(0), **how).images)
