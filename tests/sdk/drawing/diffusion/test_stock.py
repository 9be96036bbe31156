"""Stock diffusers: plugins in its own pipelines, and LoRA weights, none of which is left out in
silence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionAdapterPipeline, StableDiffusionPipeline
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError
from unplug.plugins import ConditioningPlugin
from unplug.plugins.conditioning import SD15_BLOCKS, SD15_CHANNELS
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.drawing.diffusion import load_base, load_loras

from .conftest import CPU, SIZE, picture, save_lora, steering_plugin, tiny_pipeline

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
    root, unet = (
        tmp_path_factory.mktemp("sd15-plugins"),
        StableDiffusionPipeline.from_pretrained(sd15).unet,
    )
    assert (tuple(unet.config.block_out_channels), tuple(unet.config.down_block_types)) == (
        SHRUNK,
        SD15_BLOCKS,
    )
    steering_plugin(unet).save_pretrained(root / "a")
    return root / "a"


@pytest.fixture(scope="module")
def image() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def test_a_plugin_steers_stock_diffusers_saved_and_opened(
    sd15: Path, plugin: Path, image: Image.Image, tmp_path: Path
) -> None:
    bare = picture(StableDiffusionPipeline.from_pretrained(sd15))
    pipe = StableDiffusionAdapterPipeline.from_pretrained(
        sd15, adapter=ConditioningPlugin.from_pretrained(plugin)
    )
    full, half = (
        picture(pipe, image=image),
        picture(pipe, image=image, adapter_conditioning_scale=0.5),
    )
    other = picture(pipe, image=Image.new("RGB", (SIZE, SIZE)))  # the picture is looked at
    drawn = [bare, full, half, other]
    assert all(far(one, two) for place, one in enumerate(drawn) for two in drawn[:place])
    assert np.array_equal(picture(pipe, image=image, adapter_conditioning_scale=0.0), bare)
    pipe.save_pretrained(tmp_path / "whole")
    again = StableDiffusionAdapterPipeline.from_pretrained(tmp_path / "whole")
    assert isinstance(again.adapter, ConditioningPlugin)
    assert np.array_equal(picture(again, image=image), full)


Tensors = dict[str, torch.Tensor]


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


def test_a_text_encoder_in_the_names_of_older_diffusers(base_folder: Path, tmp_path: Path) -> None:
    """``lora_linear_layer``, as diffusers wrote them before it used peft."""
    generator = torch.Generator().manual_seed(4)
    found, width = (
        dict[str, torch.Tensor](),
        load_base(str(base_folder), device=CPU).text_encoder.config.hidden_size,
    )
    for layer in range(3):
        for which in ("q_proj", "v_proj"):
            name = f"text_encoder.text_model.encoder.layers.{layer}.self_attn.{which}.lora_linear_layer"
            found[f"{name}.down.weight"] = torch.randn(2, width, generator=generator)
            found[f"{name}.up.weight"] = torch.randn(width, 2, generator=generator)
    save_file(found, tmp_path / "old.safetensors")
    pipe = load_base(str(base_folder), device=CPU)
    bare = picture(pipe)
    load_loras(pipe, [tmp_path / "old.safetensors"])
    assert far(picture(pipe), bare)


def test_beside_a_plugin_both_act(base_folder: Path, base: Any, loras: tuple[Path, Path]) -> None:
    from diffusers import StableDiffusionAdapterPipeline

    from unplug.sdk.drawing.diffusion.control import parts_of

    own, image = (
        load_base(str(base_folder), device=CPU),
        torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3)),
    )
    pipe = StableDiffusionAdapterPipeline(adapter=steering_plugin(base.unet), **parts_of(own))
    steered, bare = (
        picture(pipe, image=image),
        picture(pipe, image=image, adapter_conditioning_scale=0.0),
    )
    load_loras(own, loras[:1])
    both, styled = (
        picture(pipe, image=image),
        picture(pipe, image=image, adapter_conditioning_scale=0.0),
    )
    drawn = [bare, steered, styled, both]
    assert all(far(one, other) for place, one in enumerate(drawn) for other in drawn[:place])


def rename(old: str, new: str) -> Callable[[Tensors], Tensors]:
    return lambda found: {key.replace(old, new): value for key, value in found.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (rename("down_blocks.0", "down_blocks.7"), r"\d+ of its 16 low-rank updates fit this base"),
        (rename("unet.", "transformer."), "it is a LoRA of a transformer, not of a UNet"),
        (
            lambda found: {key: value[..., :-1].contiguous() for key, value in found.items()},
            "its update of",
        ),
        (lambda _: {"weight": torch.zeros(1)}, "'weight' is no factor of a low-rank update"),
        (
            lambda _: {"unet.nowhere.lora.down.weight": torch.zeros(2, 16)},
            "0 of its 1 low-rank updates fit this base",
        ),
    ],
    ids=["another depth", "another network", "another width", "no LoRA", "half a pair"],
)
def test_refused_loras(
    base_folder: Path,
    loras: tuple[Path, Path],
    tmp_path: Path,
    change: Callable[[Tensors], Tensors],
    words: str,
) -> None:
    save_file(change(load_file(loras[0] / WEIGHTS_NAME)), tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match=words) as caught:
        load_loras(load_base(str(base_folder), device=CPU), [tmp_path / "other.safetensors"])
    assert "\n" not in str(caught.value)


def test_files_that_are_none(base: Any, tmp_path: Path) -> None:
    (tmp_path / "pickle.bin").write_bytes(b"\x80\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"\x80\0")
    for path, words in (
        (tmp_path, f"{WEIGHTS_NAME}: no such file"),
        (tmp_path / "gone.safetensors", "no such file"),
        (tmp_path / "pickle.bin", "a pickle can run code"),
        (tmp_path / "cut.safetensors", "it cannot be read"),
    ):
        with pytest.raises(CheckpointError, match=words):
            load_loras(base, [path])
    load_loras(base, [])
