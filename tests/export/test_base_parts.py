"""The UNet and the decoder of a diffusion base: diffusers' own numbers, with plugins' residuals as
inputs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from safetensors.torch import load_file, save_file

from unplug.core import CheckpointError
from unplug.export import random_inputs
from unplug.plugins import ConditioningPlugin, load_checkpoint
from unplug.plugins.checkpoint import DIFFUSERS_WEIGHTS

CROSS, PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
UNET = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 1,
    "block_out_channels": (16, 32),
    "norm_num_groups": 4,
    "down_block_types": (CROSS, PLAIN),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 24,
    "attention_head_dim": 4,
}
VAE = {
    "sample_size": 16,
    "latent_channels": 4,
    "block_out_channels": (8, 16),
    "norm_num_groups": 2,
    "layers_per_block": 1,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a pipeline, as diffusers writes them."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("base")
    UNet2DConditionModel(**UNET).save_pretrained(root / "unet")
    AutoencoderKL(**VAE).save_pretrained(root / "vae")
    (root / "text_encoder").mkdir()
    (root / "text_encoder/config.json").write_text(json.dumps({"max_position_embeddings": 12}))
    return root


def inputs_of(model: Any, seed: int = 0) -> dict[str, torch.Tensor]:
    return {
        name: torch.from_numpy(array)
        for name, array in random_inputs(model.iospec, 1, seed).items()
    }


@torch.inference_mode()
def test_the_unet_is_diffusers_own_and_a_plugin_fits_it(base: Path) -> None:
    mine, theirs = (
        load_checkpoint(base / "unet").model,
        UNet2DConditionModel.from_pretrained(base / "unet").eval(),
    )
    names = [
        "sample",
        "timestep",
        "encoder_hidden_states",
        "adapter_res_samples_00",
        "adapter_res_samples_01",
    ]
    given = inputs_of(mine)
    assert list(given) == names and given["encoder_hidden_states"].shape == (1, 12, 24)
    plugin = ConditioningPlugin.for_unet(theirs.config, condition="canny", size="nano")
    assert [item.shape for item in plugin.iospec.outputs] == [
        item.shape for item in mine.iospec.inputs[3:]
    ]
    before = [value.clone() for value in given.values()]
    (said,) = mine(*given.values())
    assert all(
        torch.equal(value, old) for value, old in zip(given.values(), before, strict=True)
    ), "an input was changed"
    text, residuals = given["encoder_hidden_states"], [given[name].clone() for name in names[3:]]
    wanted = theirs(
        given["sample"], given["timestep"], text, down_intrablock_additional_residuals=residuals
    ).sample
    assert torch.equal(said, wanted)
    zeros = [torch.zeros_like(given[name]) for name in names[3:]]
    bare = theirs(given["sample"], given["timestep"], text).sample
    assert torch.equal(
        mine(*(given[name] for name in names[:3]), *zeros)[0], bare
    ) and not torch.equal(said, bare)


@torch.inference_mode()
def test_the_guided_unet_asks_both_questions_at_once(base: Path) -> None:
    plain, both = load_checkpoint(base / "unet"), load_checkpoint(base / "unet", view="guided_unet")
    assert (plain.model_type, both.model_type, both.sha256) == ("unet", "guided_unet", plain.sha256)
    given = inputs_of(both.model)
    assert list(given)[:4] == [
        "sample",
        "timestep",
        "encoder_hidden_states",
        "negative_hidden_states",
    ]
    sample, timestep, told, untold, *residuals = given.values()
    said = both.model.iospec.name_outputs(both.model(*given.values()))
    assert list(said) == ["noise_pred", "noise_pred_negative"]
    for text, found in zip((told, untold), said.values(), strict=True):
        assert torch.allclose(found, plain.model(sample, timestep, text, *residuals)[0], atol=1e-5)


def test_a_view_is_of_one_kind_of_checkpoint_and_no_kind_of_its_own(
    base: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="model_type 'decoder'"):
        load_checkpoint(base / "vae", view="guided_unet")
    shutil.copytree(base / "unet", tmp_path / "unet")
    change(tmp_path / "unet/config.json", model_type="guided_unet")
    with pytest.raises(CheckpointError, match="model_type 'guided_unet'"):
        load_checkpoint(tmp_path / "unet")


@torch.inference_mode()
def test_the_decoder_is_diffusers_own(base: Path) -> None:
    mine, theirs = load_checkpoint(base / "vae"), AutoencoderKL.from_pretrained(base / "vae").eval()
    assert mine.model_type == "decoder"
    given = inputs_of(mine.model)["latents"]
    wanted = (theirs.decode(given / theirs.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
    assert torch.equal(mine.model(given)[0], wanted)
    assert mine.model.iospec.outputs[0].shape == wanted.shape == (1, 3, 16, 16)


@torch.inference_mode()
def test_attention_under_its_name_of_2022(tmp_path: Path) -> None:
    """As the autoencoder of Stable Diffusion 1 has it in its published file."""
    torch.manual_seed(1)
    vae = AutoencoderKL(**{**VAE, "mid_block_add_attention": True}).eval()
    vae.save_pretrained(tmp_path / "vae")
    file = tmp_path / "vae" / DIFFUSERS_WEIGHTS
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    tensors = load_file(file)
    renamed = {
        next(
            (
                name.replace(f".{new}.", f".{was}.")
                for new, was in old.items()
                if f".{new}." in name
            ),
            name,
        ): value
        for name, value in tensors.items()
    }
    assert len(renamed.keys() - tensors.keys()) == 16
    save_file(renamed, file)
    given = torch.randn(1, 4, 8, 8)
    wanted = (vae.decode(given / vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
    assert torch.equal(load_checkpoint(tmp_path / "vae").model(given)[0], wanted)


def test_without_a_text_encoder_beside_it_prompts_have_77_tokens(
    base: Path, tmp_path: Path
) -> None:
    (tmp_path / "unet").symlink_to(base / "unet")
    assert load_checkpoint(tmp_path / "unet").model.iospec.inputs[2].shape == (1, 77, 24)


def change(path: Path, **values: Any) -> None:
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, **values}))


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("unet", {"layers_per_block": 10**9}, "layers_per_block 1000000000: out of range"),
        ("unet", {"cross_attention_dim": [8, 8]}, "cross_attention_dim"),
        ("unet", {"block_out_channels": [10**9, 8]}, "out of range"),
        ("unet", {"down_block_types": ["KDownBlock2D", PLAIN]}, "adds no residual to it"),
        ("vae", {"block_out_channels": [8, 10**8]}, "out of range"),
        ("vae", {"sample_size": "big"}, "sample_size big: out of range"),
        ("vae", {"block_out_channels": [8, 32]}, "has shape"),
        ("unet", {"unknown_word": 3}, "unknown_word"),
        ("unet", {"num_class_embeds": 10**6}, "it asks for [0-9,]+ parameters"),
        ("unet", {"time_embedding_dim": 10**6}, "it asks for"),
        ("unet", {"conv_in_kernel": 100_001}, "conv_in_kernel 100001: out of range"),
        ("vae", {"norm_num_groups": 10**6}, "divisible"),
        ("unet", {"up_block_types": ["UpBlock2D"] * 1000}, "config.json"),
        ("unet", {"attention_head_dim": 0}, "config.json"),
        ("unet", {"norm_num_groups": 0}, "config.json"),
        ("unet", {"act_fn": 5}, "config.json"),
        ("unet", {"time_embedding_dim": -2}, "config.json"),
        ("unet", {"sample_size": None}, "sample_size None: out of range"),
        ("unet", {"sample_size": 4096, "block_out_channels": [64, 128]}, "would be"),
        ("unet", {"downsample_padding": 10**9}, "downsample_padding 1000000000: out of range"),
        (
            "unet",
            {"reverse_transformer_layers_per_block": [10**9, 1]},
            "reverse_transformer_layers_per_block",
        ),
        ("vae", {"block_out_channels": []}, "0 block_out_channels: out of range"),
        (
            "vae",
            {"block_out_channels": [8] * 40, "up_block_types": ["UpDecoderBlock2D"] * 40},
            "40 block_out_channels",
        ),
        ("vae", {"sample_size": 1}, "sample_size 1: no multiple of 2"),
        ("vae", {"scaling_factor": 0}, "scaling_factor 0: latents cannot be scaled by it"),
        ("vae", {"scaling_factor": "x"}, "scaling_factor x"),
        ("unet", {"up_block_types": ["NoSuchBlock", "UpBlock2D"]}, "NoSuchBlock"),
        ("vae", {"up_block_types": "UpDecoderBlock2D", "layers_per_block": 16}, "config.json"),
    ],
)
def test_broken_configurations(
    base: Path, tmp_path: Path, part: str, values: dict[str, Any], words: str
) -> None:
    shutil.copytree(base / part, tmp_path / part)
    change(tmp_path / part / "config.json", **values)
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path / part)


def test_a_text_encoder_of_a_million_tokens(base: Path, tmp_path: Path) -> None:
    (tmp_path / "unet").symlink_to(base / "unet")
    (tmp_path / "text_encoder").mkdir()
    (tmp_path / "text_encoder/config.json").write_text(
        json.dumps({"max_position_embeddings": 10**6})
    )
    with pytest.raises(CheckpointError, match="text_tokens 1000000: out of range"):
        load_checkpoint(tmp_path / "unet")
