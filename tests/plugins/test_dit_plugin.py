"""The plugin of a rectified-flow transformer: stock diffusers takes its residuals, and nothing else
is let in.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import SD3Transformer2DModel
from torch import Tensor, nn

from unplug.core import CheckpointError, InputError
from unplug.plugins import ConditioningPlugin, DiTPlugin, load_checkpoint

WEIGHTS = "diffusion_pytorch_model.safetensors"
SD3_MEDIUM = {
    "num_attention_heads": 24,
    "attention_head_dim": 64,
    "num_layers": 24,
    "patch_size": 2,
    "sample_size": 128,
}


def tiny_base(blocks: int = 4, patch: int = 2) -> Any:
    torch.manual_seed(1)
    base = SD3Transformer2DModel(
        sample_size=8,
        patch_size=patch,
        in_channels=4,
        out_channels=4,
        num_layers=blocks,
        attention_head_dim=8,
        num_attention_heads=2,
        caption_projection_dim=16,
        joint_attention_dim=12,
        pooled_projection_dim=12,
        pos_embed_max_size=8,
    )
    return base.eval().requires_grad_(False)


def steering(base: Any, **overrides: Any) -> DiTPlugin:
    torch.manual_seed(2)
    plugin = DiTPlugin.for_transformer(
        base, **{"condition": "canny", "width": 16} | overrides
    ).eval()
    for projection in plugin.projections:
        nn.init.normal_(projection.weight, std=0.5)
    return plugin


def said(base: Any, residuals: list[Tensor] | None) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    latent = torch.randn(1, 4, 8, 8, generator=generator)
    text = torch.randn(1, 5, 12, generator=generator)
    with torch.no_grad():
        answer: Tensor = base(
            latent,
            text,
            text.mean(dim=1),
            torch.tensor([500.0]),
            block_controlnet_hidden_states=residuals,
            return_dict=False,
        )[0]
    return answer


@pytest.mark.parametrize(("blocks", "patch", "residuals"), [(4, 2, 2), (5, 1, 2), (2, 2, 1)])
def test_stock_diffusers_takes_every_residual_at_its_token(
    blocks: int, patch: int, residuals: int
) -> None:
    base = tiny_base(blocks, patch)
    plugin = steering(base, residuals=residuals)
    image = torch.rand(1, 3, 64, 64)
    all_residuals = plugin(image)
    assert [tuple(item.shape) for item in all_residuals] == [
        item.shape for item in plugin.iospec.outputs
    ]
    bare = said(base, None)
    for index in range(residuals):  # each one alone moves the output, so each one arrives
        only = [
            item if place == index else torch.zeros_like(item)
            for place, item in enumerate(all_residuals)
        ]
        assert not torch.allclose(said(base, only), bare, atol=1e-4), f"residual {index} was lost"
    # Rows of tokens are rows of the picture: what changes at the bottom left moves the tokens there
    # most.
    image = torch.rand(1, 3, 128, 128)
    changed = image.clone()
    changed[..., 96:, :32] = 1 - changed[..., 96:, :32]
    side = 16 // patch
    apart = (plugin(changed)[0] - plugin(image)[0]).norm(dim=2).reshape(side, side)
    quarters = apart.reshape(2, side // 2, 2, side // 2).sum(dim=(1, 3))
    assert quarters[1, 0] == quarters.max() and quarters[1, 0] > 2 * quarters[0, 1]


def test_steering_starts_at_the_bare_base_and_learns() -> None:
    base = tiny_base()
    plugin = DiTPlugin.for_transformer(base, condition="canny", width=16).eval()
    residuals = plugin(torch.rand(1, 3, 64, 64))
    assert all(not item.any() for item in residuals)
    torch.testing.assert_close(said(base, residuals), said(base, None), rtol=0, atol=0)
    plugin.train()
    sum(item.sum() for item in plugin(torch.rand(2, 3, 64, 64))).backward()  # type: ignore[union-attr]
    assert all(projection.weight.grad.any() for projection in plugin.projections), (
        "zeros that no gradient reaches"
    )


def test_a_plugin_for_stable_diffusion_3_stays_within_the_budget() -> None:
    with torch.device("meta"):
        plugin = DiTPlugin.for_transformer(SD3_MEDIUM, condition="canny")
    assert sum(item.numel() for item in plugin.parameters()) <= 6_000_000
    assert (plugin.config.inner_dim, plugin.config.residuals, plugin.config.image_size) == (
        1536,
        8,
        1024,
    )
    assert plugin.iospec.outputs[0].shape == (1, 4096, 1536)
    plugin.check_base(SD3_MEDIUM)


def test_it_is_saved_and_opened_to_the_bit(tmp_path: Path) -> None:
    plugin = steering(tiny_base(), condition="depth", input_range=(-1.0, 1.0))
    plugin.save_pretrained(tmp_path / "a")
    again, image = DiTPlugin.from_pretrained(tmp_path / "a"), torch.rand(1, 3, 64, 64)
    assert all(map(torch.equal, again(image), plugin(image)))
    assert again.config.condition == "depth"
    assert load_checkpoint(tmp_path / "a").model_type == "dit-plugin"
    with pytest.raises(CheckpointError, match="model_type 'dit-plugin'"):
        ConditioningPlugin.from_pretrained(tmp_path / "a")
    config, tensors = json.loads((tmp_path / "a/config.json").read_text()), tmp_path / "a" / WEIGHTS
    for number, (changed, words) in enumerate(
        (
            ({"inner_dim": 10**9}, "inner_dim"),
            ({"residuals": 0}, "residuals"),
            ({"residuals": 1}, "does not belong"),
            ({"width": "x"}, "width"),
            ({"stem": []}, "stem"),
            ({"patch_size": 3}, "power of two"),
            ({"kernel": 4}, "even"),
            ({"image_size": 65}, "multiple"),
            ({"width": 1024, "expand": 8, "residuals": 64, "inner_dim": 8192}, "parameters"),
            ({"image_size": 4096, "stem": [512]}, "numbers inside"),
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config | changed))
        shutil.copyfile(tensors, place / WEIGHTS)
        with pytest.raises(CheckpointError, match=words):
            DiTPlugin.from_pretrained(place)


def test_other_bases_and_conditions_are_refused() -> None:
    plugin = steering(tiny_base())
    with pytest.raises(InputError, match=r"made for another base \(inner_dim 16 for 1536\)"):
        plugin.check_base(SD3_MEDIUM)
    with pytest.raises(InputError, match="2 residuals for 3 blocks"):
        plugin.check_base(tiny_base(3))
    for config, words in (
        ({"_class_name": "UNet2DConditionModel"}, "steers a SD3Transformer2DModel"),
        ({}, "no number num_attention_heads"),
        (SD3_MEDIUM | {"patch_size": True}, "no number patch_size"),
        ("x", "no number"),
    ):
        with pytest.raises(InputError, match=words):
            DiTPlugin.for_transformer(config, condition="canny")
    with pytest.raises(InputError, match=r"takes \(batch, 3, height, width\)"):
        plugin(torch.zeros(1, 1, 64, 64))
    with pytest.raises(InputError, match="not multiples of 16"):
        plugin(torch.zeros(1, 3, 72, 64))
