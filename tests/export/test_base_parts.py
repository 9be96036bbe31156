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

CROSS, PLAIN, UP = "CrossAttnDownBlock2D", "DownBlock2D", "UpDecoderBlock2D"
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
    "up_block_types": (UP,) * 2,
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


def inputs_of(model: Any) -> dict[str, torch.Tensor]:
    arrays = random_inputs(model.iospec, 1, seed=0)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


TEXT_INPUTS = ["sample", "timestep", "encoder_hidden_states"]
RESIDUALS = ["adapter_res_samples_00", "adapter_res_samples_01"]


@torch.inference_mode()
def test_the_unet_is_diffusers_own_and_a_plugin_fits_it(base: Path) -> None:
    mine = load_checkpoint(base / "unet").model
    theirs = UNet2DConditionModel.from_pretrained(base / "unet").eval()
    given = inputs_of(mine)
    assert list(given) == TEXT_INPUTS + RESIDUALS
    assert given["encoder_hidden_states"].shape == (1, 12, 24)
    plugin = ConditioningPlugin.for_unet(theirs.config, condition="canny", size="nano")
    shapes = [tensor.shape for tensor in mine.iospec.inputs[3:]]
    assert [tensor.shape for tensor in plugin.iospec.outputs] == shapes
    before = [value.clone() for value in given.values()]
    (noise,) = mine(*given.values())
    assert all(map(torch.equal, given.values(), before)), "an input was changed"
    asked = [given[name] for name in TEXT_INPUTS]
    residuals = [given[name].clone() for name in RESIDUALS]
    assert torch.equal(noise, theirs(*asked, down_intrablock_additional_residuals=residuals).sample)
    bare, zeros = theirs(*asked).sample, map(torch.zeros_like, residuals)
    assert torch.equal(mine(*asked, *zeros)[0], bare) and not torch.equal(noise, bare)


@torch.inference_mode()
def test_the_guided_unet_asks_both_questions_at_once(base: Path) -> None:
    plain, both = load_checkpoint(base / "unet"), load_checkpoint(base / "unet", view="guided_unet")
    assert (plain.model_type, both.model_type, both.sha256) == ("unet", "guided_unet", plain.sha256)
    given = inputs_of(both.model)
    assert list(given)[:4] == [*TEXT_INPUTS, "negative_hidden_states"]
    sample, timestep, told, untold, *residuals = given.values()
    noise = both.model.iospec.name_outputs(both.model(*given.values()))
    assert list(noise) == ["noise_pred", "noise_pred_negative"]
    for text, made in zip((told, untold), noise.values(), strict=True):
        assert torch.allclose(made, plain.model(sample, timestep, text, *residuals)[0], atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("renamed", [False, True])
def test_the_decoder_is_diffusers_own(tmp_path: Path, renamed: bool) -> None:
    """Also with attention under its name of 2022, as in Stable Diffusion 1's published file."""
    torch.manual_seed(1)
    vae = AutoencoderKL(**{**VAE, "mid_block_add_attention": renamed}).eval()
    vae.save_pretrained(tmp_path)
    if renamed:
        tensors, older = load_file(tmp_path / DIFFUSERS_WEIGHTS), {}
        for name, value in tensors.items():
            for new, was in (("q", "query"), ("k", "key"), ("v", "value"), ("out.0", "proj_attn")):
                name = name.replace(f".to_{new}.", f".{was}.")
            older[name] = value
        assert len(older.keys() - tensors.keys()) == 16
        save_file(older, tmp_path / DIFFUSERS_WEIGHTS)
    mine = load_checkpoint(tmp_path)
    given = inputs_of(mine.model)["latents"]
    wanted = (vae.decode(given / vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
    assert mine.model_type == "decoder" and torch.equal(mine.model(given)[0], wanted)
    assert mine.model.iospec.outputs[0].shape == wanted.shape == (1, 3, 16, 16)


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_without_a_text_encoder_beside_it_prompts_have_77_tokens(
    base: Path, tmp_path: Path
) -> None:
    (tmp_path / "unet").symlink_to(base / "unet")
    assert load_checkpoint(tmp_path / "unet").model.iospec.inputs[2].shape == (1, 77, 24)
    shutil.copytree(base / "text_encoder", tmp_path / "text_encoder")
    change(tmp_path / "text_encoder/config.json", max_position_embeddings=10**6)
    with pytest.raises(CheckpointError, match="text_tokens 1000000: out of range"):
        load_checkpoint(tmp_path / "unet")


def test_a_view_is_of_one_kind_of_checkpoint(base: Path) -> None:
    with pytest.raises(CheckpointError, match="model_type 'decoder'"):
        load_checkpoint(base / "vae", view="guided_unet")


BROKEN: dict[str, list[tuple[dict[str, Any], str]]] = {
    "unet": [
        ({"model_type": "guided_unet"}, "model_type 'guided_unet'"),
        ({"layers_per_block": 10**9}, "layers_per_block 1000000000: out of range"),
        ({"cross_attention_dim": [8, 8]}, "cross_attention_dim"),
        ({"block_out_channels": [10**9, 8]}, "out of range"),
        ({"down_block_types": ["KDownBlock2D", PLAIN]}, "adds no residual to it"),
        ({"unknown_word": 3}, "unknown_word"),
        ({"num_class_embeds": 10**6}, "it asks for [0-9,]+ parameters"),
        ({"time_embedding_dim": 10**6}, "it asks for"),
        ({"conv_in_kernel": 100_001}, "conv_in_kernel 100001: out of range"),
        ({"up_block_types": ["UpBlock2D"] * 1000}, "config.json"),
        ({"attention_head_dim": 0}, "config.json"),
        ({"norm_num_groups": 0}, "config.json"),
        ({"act_fn": 5}, "config.json"),
        ({"time_embedding_dim": -2}, "config.json"),
        ({"sample_size": None}, "sample_size None: out of range"),
        ({"sample_size": 4096, "block_out_channels": [64, 128]}, "would be"),
        ({"downsample_padding": 10**9}, "downsample_padding 1000000000: out of range"),
        ({"reverse_transformer_layers_per_block": [10**9, 1]}, "reverse_transformer_layers_per"),
        ({"up_block_types": ["NoSuchBlock", "UpBlock2D"]}, "NoSuchBlock"),
    ],
    "vae": [
        ({"block_out_channels": [8, 10**8]}, "out of range"),
        ({"sample_size": "big"}, "sample_size big: out of range"),
        ({"block_out_channels": [8, 32]}, "has shape"),
        ({"norm_num_groups": 10**6}, "divisible"),
        ({"block_out_channels": []}, "0 block_out_channels: out of range"),
        ({"block_out_channels": [8] * 40, "up_block_types": [UP] * 40}, "40 block_out_channels"),
        ({"sample_size": 1}, "sample_size 1: no multiple of 2"),
        ({"scaling_factor": 0}, "scaling_factor 0: latents cannot be scaled by it"),
        ({"scaling_factor": "x"}, "scaling_factor x"),
        ({"up_block_types": UP, "layers_per_block": 16}, "config.json"),
    ],
}


@pytest.mark.parametrize(
    ("part", "values", "words"), [(part, *row) for part, rows in BROKEN.items() for row in rows]
)
def test_broken_configurations(
    base: Path, tmp_path: Path, part: str, values: dict[str, Any], words: str
) -> None:
    shutil.copytree(base / part, tmp_path / part)
    change(tmp_path / part / "config.json", **values)
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path / part)
