"""Plugins in diffusers' own pipelines, beside a base of Stable Diffusion 1.5's shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionAdapterPipeline, StableDiffusionPipeline
from numpy.typing import NDArray
from PIL import Image

from unplug.plugins import ConditioningPlugin
from unplug.plugins.conditioning import SD15_BLOCKS, SD15_CHANNELS

from .conftest import SIZE, steering_plugin, tiny_pipeline

SHRUNK = tuple(channels // 40 for channels in SD15_CHANNELS)


@pytest.fixture(scope="module")
def sd15(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four down blocks as in Stable Diffusion 1.5, a fortieth as wide."""
    root = tmp_path_factory.mktemp("sd15")
    tiny_pipeline(root / "tokenizer", channels=SHRUNK).save_pretrained(root / "base")
    return root / "base"


@pytest.fixture(scope="module")
def plugin(sd15: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by diffusers' own save_pretrained."""
    root, unet = tmp_path_factory.mktemp("sd15-plugins"), StableDiffusionPipeline.from_pretrained(sd15).unet
    assert (tuple(unet.config.block_out_channels), tuple(unet.config.down_block_types)) == (SHRUNK, SD15_BLOCKS)
    steering_plugin(unet).save_pretrained(root / "a")
    return root / "a"


@pytest.fixture(scope="module")
def image() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def draw(pipe: Any, **more: Any) -> NDArray[np.uint8]:
    pipe.set_progress_bar_config(disable=True)
    given = {"height": SIZE, "width": SIZE} | more
    made = pipe("a child", num_inference_steps=2, generator=torch.Generator().manual_seed(0), **given).images[0]
    return np.asarray(made)


def test_a_plugin_steers_stock_diffusers(sd15: Path, plugin: Path, image: Image.Image) -> None:
    bare = draw(StableDiffusionPipeline.from_pretrained(sd15))
    pipe = StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=ConditioningPlugin.from_pretrained(plugin))
    full = draw(pipe, image=image)
    assert np.abs(full.astype(int) - bare).mean() > 1 and np.array_equal(draw(pipe, image=image), full)
    assert np.array_equal(draw(pipe, image=image, adapter_conditioning_scale=0.0), bare)
    half = draw(pipe, image=image, adapter_conditioning_scale=0.5)
    assert not np.array_equal(half, full) and not np.array_equal(half, bare)
    other = draw(pipe, image=Image.new("RGB", (SIZE, SIZE)))
    assert not np.array_equal(other, full), "the picture is not looked at"


def test_a_pipeline_with_a_plugin_is_saved_and_opened(sd15: Path, plugin: Path, image: Image.Image, tmp_path: Path) -> None:
    pipe = StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=ConditioningPlugin.from_pretrained(plugin))
    pipe.save_pretrained(tmp_path / "whole")
    again = StableDiffusionAdapterPipeline.from_pretrained(tmp_path / "whole")
    assert isinstance(again.adapter, ConditioningPlugin)
    assert np.array_equal(draw(again, image=image), draw(pipe, image=image))
