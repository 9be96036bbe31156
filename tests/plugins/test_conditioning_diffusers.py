"""The conditioning plugin in stock diffusers: live UNets, the adapter pipeline, compositions, LoRA."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    MultiAdapter,
    StableDiffusionAdapterPipeline,
    T2IAdapter,
    UNet2DConditionModel,
)
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from peft import LoraConfig
from torch import Tensor

from unplug.plugins import ConditioningPlugin
from unplug.plugins.unet_levels import read_base

from .unets import FAMILIES, denoise, tiny_unet, trained


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_live_unet_takes_every_residual(family: str, layers: int) -> None:
    unet = tiny_unet(family, layers)
    plugin = trained(unet)
    condition = torch.rand(1, 3, 128, 128)
    residuals = plugin(condition)
    assert [level.scale for level in plugin.levels] == list(FAMILIES[family]["scales"])
    assert [tuple(r.shape) for r in residuals] == [spec.shape for spec in plugin.iospec.outputs]
    bare = denoise(unet, None)
    for index, residual in enumerate(
        residuals
    ):  # each one alone moves the output, so each one arrives
        only = [
            residual if place == index else torch.zeros_like(residual)
            for place, residual in enumerate(residuals)
        ]
        assert not torch.allclose(denoise(unet, only), bare, atol=1e-5), (
            f"residual {index} was lost"
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_levels_against_what_the_blocks_compute(family: str) -> None:
    """The oracle: shapes recorded inside the UNet, where each kind of block adds."""
    unet, shapes = tiny_unet(family), []
    for block in unet.down_blocks:
        if getattr(block, "has_cross_attention", False):
            block.attentions[-1].register_forward_hook(
                lambda _m, _i, out: shapes.append(tuple(out[0].shape))
            )
        else:
            block.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out[0].shape)))
    denoise(unet, None)
    base = read_base(unet)
    assert shapes == [
        (1, level.channels, 16 // level.scale, 16 // level.scale) for level in base.levels
    ]


def test_steering_starts_at_the_bare_base() -> None:
    unet = tiny_unet()
    plugin = ConditioningPlugin.for_unet(unet, condition="canny", size="nano").eval()
    residuals = plugin(torch.rand(1, 3, 128, 128))
    assert all(not residual.any() for residual in residuals)
    torch.testing.assert_close(denoise(unet, residuals), denoise(unet, None), rtol=0, atol=0)
    plugin.train()
    sum(residual.sum() for residual in plugin(torch.rand(2, 3, 64, 64))).backward()  # type: ignore[union-attr]
    assert all(projection.weight.grad.any() for projection in plugin.projections), (
        "zeros that no gradient reaches"
    )


def pipeline(unet: UNet2DConditionModel, adapter: Any) -> StableDiffusionAdapterPipeline:
    torch.manual_seed(5)
    blocks = 4
    vae = AutoencoderKL(
        block_out_channels=(8,) * blocks,
        down_block_types=("DownEncoderBlock2D",) * blocks,
        latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        norm_num_groups=4,
        layers_per_block=1,
    )
    made = StableDiffusionAdapterPipeline(
        vae=vae.eval(),
        text_encoder=None,
        tokenizer=None,
        unet=unet,
        adapter=adapter,
        scheduler=DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def generate(pipe: StableDiffusionAdapterPipeline, image: Any, scale: Any = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    text, empty = torch.randn(1, 5, 8, generator=generator), torch.zeros(1, 5, 8)
    out: Tensor = pipe(
        prompt_embeds=text,
        negative_prompt_embeds=empty,
        image=image,
        num_inference_steps=2,
        height=64,
        width=64,
        generator=generator,
        adapter_conditioning_scale=scale,
        output_type="latent",
    ).images
    return out


def test_stock_pipeline_strength_and_lists() -> None:
    unet = tiny_unet(size=8)
    plugin, other = trained(unet), trained(unet, seed=9, condition="face_landmark")
    image, second = torch.rand(1, 3, 64, 64), torch.rand(1, 3, 64, 64)
    single = pipeline(unet, plugin)
    bare, full = generate(single, image, 0.0), generate(single, image)
    untrained = ConditioningPlugin.for_unet(unet, condition="canny", size="nano").eval()
    torch.testing.assert_close(generate(pipeline(unet, untrained), image), bare, rtol=0, atol=0)
    assert (full - bare).abs().max() > 1e-2
    assert not torch.equal(generate(single, image, 0.5), full)
    both = pipeline(unet, [plugin, other])
    assert isinstance(both.adapter, MultiAdapter)
    torch.testing.assert_close(
        generate(both, [image, second], [1.0, 0.0]), full, rtol=1e-5, atol=1e-5
    )
    mixed = generate(both, [image, second], [0.5, 0.5])
    assert (mixed - full).abs().max() > 1e-3


def test_multi_adapter_mixes_plugins_and_t2i_adapters() -> None:
    unet = tiny_unet("sd15")
    plugin = trained(unet)
    channels = list(FAMILIES["sd15"]["channels"])
    t2i = T2IAdapter(channels=channels, num_res_blocks=1).eval()
    assert (plugin.downscale_factor, plugin.total_downscale_factor) == (
        t2i.downscale_factor,
        t2i.total_downscale_factor,
    )
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        mixed = MultiAdapter([plugin, t2i])([image, image], [0.25, 2.0])
        for got, a, b in zip(mixed, plugin(image), t2i(image), strict=True):
            torch.testing.assert_close(got, 0.25 * a + 2.0 * b, rtol=1e-5, atol=1e-5)
        again = plugin(image)
        again[0].mul_(0.0)  # as MultiAdapter does
        assert plugin(image)[0].any(), "the plugin hands out tensors that it keeps"


def test_lora_on_the_base_keeps_working() -> None:
    unet = tiny_unet()
    plugin = trained(unet)
    residuals = plugin(torch.rand(1, 3, 128, 128))
    bare, steered = denoise(unet, None), denoise(unet, residuals)
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    plugin.check_base(unet)
    styled, both = denoise(unet, None), denoise(unet, residuals)
    assert (styled - bare).abs().max() > 1e-3 and (both - styled).abs().max() > 1e-3
    unet.disable_adapters()
    torch.testing.assert_close(denoise(unet, residuals), steered, rtol=0, atol=0)
