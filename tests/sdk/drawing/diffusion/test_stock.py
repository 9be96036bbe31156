"""Stock diffusers: plugins in its own pipelines, and LoRA weights, none of which is left out in
silence.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from diffusers import StableDiffusionAdapterPipeline, StableDiffusionPipeline
from numpy.typing import NDArray
from PIL import Image

from unplug.plugins import ConditioningPlugin
from unplug.plugins.conditioning import SD15_BLOCKS, SD15_CHANNELS
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.drawing.diffusion import load_base, load_loras

from .conftest import CPU, SIZE, picture, save_lora, steering_plugin, tiny_pipeline


@pytest.fixture(scope="module")
def image() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def test_a_plugin_steers_stock_diffusers_saved_and_opened(tmp_path: Path) -> None:
    """Four down blocks as in Stable Diffusion 1.5, a fortieth as wide; the plugin is written by
    diffusers' own save_pretrained.
    """
    base, shrunk = tmp_path / "base", tuple(channels // 40 for channels in SD15_CHANNELS)
    tiny_pipeline(tmp_path / "tokenizer", channels=shrunk).save_pretrained(base)
    stock = StableDiffusionPipeline.from_pretrained(base)
    assert tuple(stock.unet.config.down_block_types) == SD15_BLOCKS
    steering_plugin(stock.unet).save_pretrained(tmp_path / "plugin")
    plugin = ConditioningPlugin.from_pretrained(tmp_path / "plugin")
    pipe = StableDiffusionAdapterPipeline.from_pretrained(base, adapter=plugin)
    noise = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    image, strength = Image.fromarray(noise), "adapter_conditioning_scale"
    bare, full = picture(stock), picture(pipe, image=image)
    half = picture(pipe, image=image, **{strength: 0.5})
    other = picture(pipe, image=Image.new("RGB", (SIZE, SIZE)))  # the picture is looked at
    drawn = [bare, full, half, other]
    assert all(far(one, two) for place, one in enumerate(drawn) for two in drawn[:place])
    assert np.array_equal(picture(pipe, image=image, **{strength: 0.0}), bare)
    pipe.save_pretrained(tmp_path / "whole")
    again = StableDiffusionAdapterPipeline.from_pretrained(tmp_path / "whole")
    assert isinstance(again.adapter, ConditioningPlugin)
    assert np.array_equal(picture(again, image=image), full)


@pytest.fixture(scope="module")
def loras(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("lora")
    return save_lora(base_folder, root / "a", 1), save_lora(base_folder, root / "b", 2)


def far(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return float(np.abs(one - other).max()) > 1e-3


@pytest.mark.long
def test_one_two_and_in_any_order(base_folder: Path, loras: tuple[Path, Path]) -> None:
    def styled(*paths: Path) -> NDArray[np.float32]:
        pipe = load_base(str(base_folder), device=CPU)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            load_loras(pipe, paths)
        return picture(pipe)

    a, b = loras
    bare, first, second, both = styled(), styled(a), styled(b / WEIGHTS_NAME), styled(a, b)
    assert all(
        far(one, other)
        for one, other in ((first, bare), (second, bare), (both, first), (both, second))
    )
    np.testing.assert_allclose(styled(b, a), both, atol=1e-4)
