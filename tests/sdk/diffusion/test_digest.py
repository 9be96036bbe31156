"""What a base is told by: every weight, setting and word that decides numbers, and nothing else."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unplug.sdk.diffusion import load_base
from unplug.sdk.diffusion.digest import base_digest, settings_of, weights_digest, words_of
from unplug.sdk.diffusion.small import diffusers
from unplug.sdk.diffusion.tokenizer import train_tokenizer

from .conftest import CPU, TOKENS


def twin(base: Any) -> Any:
    """A copy to change."""
    made = copy.copy(base)
    for name in ("unet", "vae", "text_encoder", "scheduler", "tokenizer"):
        setattr(made, name, copy.deepcopy(getattr(base, name)))
    return made


def heavier(pipe: Any) -> None:
    pipe.vae.decoder.conv_out.bias.data += 1


def heads(pipe: Any) -> None:
    pipe.text_encoder.config.num_attention_heads = 2


def sampler(pipe: Any) -> None:
    pipe.scheduler = diffusers().EulerDiscreteScheduler.from_config(pipe.scheduler.config)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a weight": heavier,
    "noise": lambda pipe: pipe.scheduler.register_to_config(beta_end=0.02),
    "prediction": lambda pipe: pipe.scheduler.register_to_config(prediction_type="v_prediction"),
    "steps": lambda pipe: pipe.scheduler.register_to_config(num_train_timesteps=500),
    "scale": lambda pipe: pipe.vae.register_to_config(scaling_factor=0.5),
    "UNet": lambda pipe: pipe.unet.register_to_config(attention_head_dim=4),
    "text encoder": heads,
    "length": lambda pipe: setattr(pipe.tokenizer, "model_max_length", 12),
}
SAME: dict[str, Callable[[Any], object]] = {
    "place": lambda pipe: pipe.unet.register_to_config(_name_or_path="elsewhere"),
    "version": lambda pipe: pipe.vae.register_to_config(_diffusers_version="0.1"),
    "transformers": lambda pipe: setattr(pipe.text_encoder.config, "transformers_version", "4.57.0"),
    "type": lambda pipe: setattr(pipe.text_encoder.config, "dtype", torch.float16),
    "a default": lambda pipe: pipe.scheduler.register_to_config(rescale_betas_zero_snr=False),
    "sampler": sampler,
}


def test_what_makes_another_base_and_what_leaves_it_as_it_is(base: Any) -> None:
    own = base_digest(base)
    for name, change in (CHANGES | SAME).items():
        other = twin(base)
        change(other)
        assert (base_digest(other) != own) == (name in CHANGES), name


def test_words_count_and_the_names_of_older_transformers_do_not(base: Any, tmp_path: Path) -> None:
    other = twin(base)
    other.tokenizer = train_tokenizer(["smiling"], tmp_path / "other", vocabulary=len(base.tokenizer), length=TOKENS)
    assert base_digest(other) != base_digest(base)
    words = words_of(base.tokenizer)
    assert len(words["vocabulary"]) == len(base.tokenizer) and len(words["merges"]) == len(base.tokenizer) - 514
    assert json.loads(json.dumps(words))["length"] == TOKENS
    wrapped = nn.Module()
    wrapped.text_model = base.text_encoder
    assert next(iter(wrapped.state_dict())).startswith("text_model.")
    assert weights_digest(wrapped) == weights_digest(base.text_encoder)


def test_settings_that_a_newer_version_adds_change_nothing(base_folder: Path, base: Any, tmp_path: Path) -> None:
    """A folder written before they were there, and one written after."""
    shutil.copytree(base_folder, tmp_path / "base")
    path = tmp_path / "base/unet/config.json"
    raw = json.loads(path.read_text())
    del raw["resnet_skip_time_act"], raw["conv_in_kernel"]
    path.write_text(json.dumps(raw | {"_diffusers_version": "0.20.0"}))
    assert base_digest(load_base(str(tmp_path / "base"), device=CPU)) == base_digest(base)
    assert settings_of(base.unet)["class"] == "UNet2DConditionModel" and "conv_in_kernel" not in settings_of(base.unet)
