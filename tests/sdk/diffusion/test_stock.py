"""Plugins and the small base in diffusers' own pipelines: Stable Diffusion 1.5's shape, compositions, image to image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    AutoPipelineForInpainting,
    ControlNetModel,
    MultiAdapter,
    StableDiffusionAdapterPipeline,
    StableDiffusionControlNetPipeline,
    StableDiffusionImg2ImgPipeline,
    StableDiffusionPipeline,
)
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
def plugins(sd15: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two, written by diffusers' own save_pretrained."""
    root, unet = tmp_path_factory.mktemp("sd15-plugins"), StableDiffusionPipeline.from_pretrained(sd15).unet
    assert (tuple(unet.config.block_out_channels), tuple(unet.config.down_block_types)) == (SHRUNK, SD15_BLOCKS)
    for seed, name in enumerate(("a", "b")):
        steering_plugin(unet, seed, condition=("canny", "face_landmark")[seed]).save_pretrained(root / name)
    return root / "a", root / "b"


@pytest.fixture(scope="module")
def image() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def draw(pipe: Any, **more: Any) -> NDArray[np.uint8]:
    pipe.set_progress_bar_config(disable=True)
    given = {"height": SIZE, "width": SIZE} | more
    made = pipe("a child", num_inference_steps=2, generator=torch.Generator().manual_seed(0), **given).images[0]
    return np.asarray(made)


def test_a_plugin_steers_stock_diffusers(sd15: Path, plugins: tuple[Path, Path], image: Image.Image) -> None:
    bare = draw(StableDiffusionPipeline.from_pretrained(sd15))
    pipe = StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=ConditioningPlugin.from_pretrained(plugins[0]))
    full = draw(pipe, image=image)
    assert np.abs(full.astype(int) - bare).mean() > 1 and np.array_equal(draw(pipe, image=image), full)
    assert np.array_equal(draw(pipe, image=image, adapter_conditioning_scale=0.0), bare)
    half = draw(pipe, image=image, adapter_conditioning_scale=0.5)
    assert not np.array_equal(half, full) and not np.array_equal(half, bare)
    other = draw(pipe, image=Image.new("RGB", (SIZE, SIZE)))
    assert not np.array_equal(other, full), "the picture is not looked at"


def test_several_plugins_with_weights(sd15: Path, plugins: tuple[Path, Path], image: Image.Image) -> None:
    loaded = [ConditioningPlugin.from_pretrained(folder) for folder in plugins]
    alone = [
        draw(StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=plugin), image=image, adapter_conditioning_scale=0.7)
        for plugin in loaded
    ]
    pipe = StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=MultiAdapter(loaded))
    flipped = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for weights, expected in (((0.7, 0.0), alone[0]), ((0.0, 0.7), alone[1])):
        images = [image, flipped] if weights[0] else [flipped, image]
        assert np.abs(draw(pipe, image=images, adapter_conditioning_scale=weights).astype(int) - expected).max() <= 1
    mixed = draw(pipe, image=[image, flipped], adapter_conditioning_scale=(0.7, 0.7))
    assert all(np.abs(mixed.astype(int) - one).max() > 3 for one in alone)
    bare = draw(StableDiffusionPipeline.from_pretrained(sd15))
    assert np.array_equal(draw(pipe, image=[image, flipped], adapter_conditioning_scale=(0.0, 0.0)), bare)


def test_a_pipeline_with_a_plugin_is_saved_and_opened(
    sd15: Path, plugins: tuple[Path, Path], image: Image.Image, tmp_path: Path
) -> None:
    pipe = StableDiffusionAdapterPipeline.from_pretrained(sd15, adapter=ConditioningPlugin.from_pretrained(plugins[0]))
    pipe.save_pretrained(tmp_path / "whole")
    again = StableDiffusionAdapterPipeline.from_pretrained(tmp_path / "whole")
    assert isinstance(again.adapter, ConditioningPlugin)
    assert np.array_equal(draw(again, image=image), draw(pipe, image=image))


def test_image_to_image_on_the_small_base(base_folder: Path, image: Image.Image) -> None:
    pipe = StableDiffusionImg2ImgPipeline.from_pretrained(base_folder)
    made = [draw(pipe, image=image, strength=strength, height=None, width=None) for strength in (0.5, 1.0)]
    assert made[0].shape == (SIZE, SIZE, 3) and not np.array_equal(*made)


def test_inpainting_on_the_small_base(base_folder: Path, image: Image.Image) -> None:
    pipe = AutoPipelineForInpainting.from_pretrained(base_folder)
    made = [draw(pipe, image=image, mask_image=Image.new("L", (SIZE, SIZE), grey)) for grey in (0, 255)]
    assert not np.array_equal(*made)


def test_controlnet_on_the_small_base(base_folder: Path, image: Image.Image) -> None:
    bare = StableDiffusionPipeline.from_pretrained(base_folder)
    network = ControlNetModel.from_unet(bare.unet)
    pipe = StableDiffusionControlNetPipeline.from_pretrained(base_folder, controlnet=network)
    assert np.array_equal(draw(pipe, image=image), draw(bare))  # zero convolutions
    with torch.no_grad():
        network.controlnet_mid_block.weight.fill_(0.3)
    assert not np.array_equal(draw(pipe, image=image), draw(bare))
