"""What is computed once, and what a base is told by: every weight, setting and word that decides
numbers, and nothing else.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unplug.core import DataError
from unplug.sdk.drawing.diffusion import load_base, to_image, vae
from unplug.sdk.drawing.diffusion.digest import base_digest, weights_digest
from unplug.sdk.drawing.diffusion.latent_cache import cached_array, latents, text_embeddings
from unplug.sdk.drawing.diffusion.small import diffusers
from unplug.sdk.drawing.diffusion.tokenizer import encode, train_tokenizer
from unplug.sdk.drawing.diffusion.vae import encode_all
from unplug.sdk.learning.data import Dataset

from .conftest import CPU, TOKENS, WORDS

FACTS, SHAPE = {"kind": "test", "of": "a"}, (5, 2)
HALF = 2.0**-11
"""Largest relative error of rounding to float16; below 2^-14 numbers are 2^-24 apart."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path))
    return tmp_path / "diffusion"


def blocks(start: float = 0.0) -> Iterator[Any]:
    for low in (0, 2, 4):
        yield np.arange(start + 2 * low, start + 2 * min(low + 2, 5)).reshape(-1, 2)


def untouched() -> Iterator[Any]:
    pytest.fail("it was computed again")
    yield


VALUES = np.arange(10.0).reshape(5, 2).tolist()


def test_the_first_time_writes_and_the_second_reads(place: Path) -> None:
    made = cached_array(FACTS, SHAPE, "float16", blocks())
    assert made.tolist() == VALUES and made.dtype == np.float16
    again = cached_array(dict(reversed(FACTS.items())), SHAPE, "float16", untouched())
    assert isinstance(again, np.memmap) and not again.flags.writeable
    assert again.tolist() == VALUES and len(list(place.iterdir())) == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda raw: raw[:-1],
        lambda raw: raw[:40],
        lambda raw: b"",
        lambda raw: b"x" * len(raw),
        lambda raw: raw.replace(b"(5, 2)", b"(2, 5)"),
    ],
    ids=["cut", "half a header", "empty", "noise", "other shape"],
)
def test_a_broken_file_is_computed_again(place: Path, harm: Callable[[bytes], bytes]) -> None:
    cached_array(FACTS, SHAPE, "float32", blocks())
    (file,) = place.iterdir()
    whole = file.read_bytes()
    file.write_bytes(harm(whole))
    assert cached_array(FACTS, SHAPE, "float32", blocks()).tolist() == VALUES
    assert file.read_bytes() == whole and list(place.iterdir()) == [file]


@pytest.mark.parametrize(
    ("facts", "shape", "dtype"),
    [
        ({**FACTS, "of": "b"}, SHAPE, "float32"),
        ({**FACTS, "kind": "other"}, SHAPE, "float32"),
        (FACTS, (10,), "float32"),
        (FACTS, SHAPE, "float16"),
    ],
)
def test_other_facts_are_another_file(
    place: Path, facts: dict[str, Any], shape: tuple[int, ...], dtype: str
) -> None:
    cached_array(FACTS, SHAPE, "float32", blocks())
    others = (block.reshape(-1, *shape[1:]) for block in blocks(100.0))
    other = cached_array(facts, shape, dtype, others)
    assert float(other.flatten()[0]) == 100.0 and len(list(place.iterdir())) == 2
    assert cached_array(FACTS, SHAPE, "float32", untouched()).tolist() == VALUES


def test_a_failure_leaves_nothing(place: Path) -> None:
    def fails() -> Iterator[Any]:
        yield from list(blocks())[:1]
        raise DataError("picture", "gone")

    with pytest.raises(DataError):
        cached_array(FACTS, SHAPE, "float32", fails())
    assert list(place.iterdir()) == []


def test_digests_are_of_values_words_and_names(
    base: Any, tmp_path: Path, base_folder: Path
) -> None:
    unet, half = base.unet, copy.deepcopy(base.unet).half()
    digest = weights_digest(unet)
    assert weights_digest(copy.deepcopy(unet)) == digest
    assert weights_digest(unet, base.vae) not in (weights_digest(base.vae, unet), digest)
    assert weights_digest(half.float()) == weights_digest(copy.deepcopy(half).half()) != digest
    renamed = nn.ModuleDict({"a": nn.Linear(1, 1)})
    assert weights_digest(renamed) != weights_digest(nn.ModuleDict({"b": renamed["a"]}))
    assert base_digest(other_words(base, tmp_path)) != base_digest(base)
    wrapped = nn.Module()
    wrapped.text_model = base.text_encoder
    assert next(iter(wrapped.state_dict())).startswith("text_model.")
    assert weights_digest(wrapped) == weights_digest(base.text_encoder)
    # A folder written before these settings were there, and one written after.
    shutil.copytree(base_folder, tmp_path / "base")
    path = tmp_path / "base/unet/config.json"
    raw = json.loads(path.read_text())
    del raw["resnet_skip_time_act"], raw["conv_in_kernel"]
    path.write_text(json.dumps(raw | {"_diffusers_version": "0.20.0"}))
    assert base_digest(load_base(str(tmp_path / "base"), device=CPU)) == base_digest(base)


def other_words(base: Any, folder: Path) -> Any:
    """A copy with another tokenizer of as many words."""
    made, size = twin(base), len(base.tokenizer)
    place = folder / "other"
    made.tokenizer = train_tokenizer(["smiling"], place, vocabulary=size, length=TOKENS)
    return made


def test_latents_are_scaled_means_in_half_precision(base: Any, faces: Dataset, place: Path) -> None:
    cached = latents(base, faces, show=False)
    with torch.no_grad():
        mean = base.vae.encode(to_image(faces.pixels([3, 7]), CPU)).latent_dist.mean
    wanted = mean.double().numpy() * base.vae.config.scaling_factor
    assert cached.shape == (len(faces), 4, 8, 8) and cached.dtype == np.float16
    error = np.abs(cached[[3, 7]].astype(np.float64) - wanted)
    # 1e-6: batches differ
    assert (error <= HALF * np.abs(wanted) + 2.0**-24 + 1e-6).all() and error.max() > 0
    latents(base, faces, show=False)
    assert len(list(place.glob("*.npy"))) == 1


def test_latents_follow_weights_settings_and_data(base: Any, faces: Dataset, place: Path) -> None:
    few = replace(faces, samples=faces.samples[:2], rows=faces.rows[:2])
    first = latents(base, few, show=False)
    other, scaled, grouped = twin(base), twin(base), twin(base)
    with torch.no_grad():
        other.vae.encoder.conv_in.bias += 0.1
    assert not np.array_equal(latents(other, few, show=False), first)
    scaled.vae.register_to_config(scaling_factor=2 * base.vae.config.scaling_factor)
    np.testing.assert_allclose(latents(scaled, few, show=False), 2 * first, rtol=2e-3)
    grouped.vae.register_to_config(norm_num_groups=4, _name_or_path="elsewhere")
    latents(grouped, few, show=False)
    latents(base, replace(few, content="other pictures"), show=False)
    assert len(list(place.glob("*.npy"))) == 5


def test_pictures_are_encoded_a_few_at_a_time(
    base: Any, faces: Dataset, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_, sizes = base.vae.encode, list[int]()

    def watched(image_BCHW: Any) -> Any:
        sizes.append(len(image_BCHW))
        return encode_(image_BCHW)

    monkeypatch.setattr(base.vae, "encode", watched)
    monkeypatch.setattr(vae, "MAX_PIXELS", 8 * faces.size**2)
    latents(base, faces, show=False)
    encode_all(base.vae, faces, [0, 1, 2], CPU)
    assert sizes == [8, 8, 4, 3]
    monkeypatch.undo()
    monkeypatch.setattr(vae, "MAX_PIXELS", 8 * 512**2)
    assert vae.pictures_at_once(512) == 8 and vae.pictures_at_once(4096) == 1


def test_text_is_what_cross_attention_sees(base: Any, place: Path) -> None:
    prompts = ["", *WORDS]
    cached = text_embeddings(base, prompts, show=False)
    assert cached.shape == (5, TOKENS, 32) and cached.dtype == np.float16
    with torch.no_grad():
        # as diffusers' own pipelines make them
        states = base.encode_prompt(prompts, CPU, 1, False)[0].double().numpy()
    assert (np.abs(cached - states) <= HALF * np.abs(states) + 2.0**-24 + 1e-6).all()
    assert np.array_equal(text_embeddings(base, prompts, show=False), cached)
    assert len(list(place.iterdir())) == 1


def test_text_follows_prompts_tokenizer_and_encoder(base: Any, tmp_path: Path, place: Path) -> None:
    other, changed, set_otherwise = other_words(base, tmp_path), twin(base), twin(base)
    assert encode(other.tokenizer, WORDS).tolist() != encode(base.tokenizer, WORDS).tolist()
    with torch.no_grad():
        next(changed.text_encoder.parameters())[0] += 0.5
    heads(set_otherwise)
    text_embeddings(base, WORDS[::-1], show=False)
    for pipe in (base, other, changed, set_otherwise):
        text_embeddings(pipe, WORDS, show=False)
    assert len(list(place.iterdir())) == 5


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
    "prediction": lambda pipe: pipe.scheduler.register_to_config(prediction_type="epsilon"),
    "last level": lambda pipe: pipe.scheduler.register_to_config(rescale_betas_zero_snr=False),
    "steps": lambda pipe: pipe.scheduler.register_to_config(num_train_timesteps=500),
    "scale": lambda pipe: pipe.vae.register_to_config(scaling_factor=0.5),
    "UNet": lambda pipe: pipe.unet.register_to_config(attention_head_dim=4),
    "text encoder": heads,
    "length": lambda pipe: setattr(pipe.tokenizer, "model_max_length", 12),
}
SAME: dict[str, Callable[[Any], object]] = {
    "place": lambda pipe: pipe.unet.register_to_config(_name_or_path="elsewhere"),
    "version": lambda pipe: pipe.vae.register_to_config(_diffusers_version="0.1"),
    "transformers": lambda pipe: setattr(
        pipe.text_encoder.config, "transformers_version", "4.57.0"
    ),
    "type": lambda pipe: setattr(pipe.text_encoder.config, "dtype", torch.float16),
    "a default": lambda pipe: pipe.scheduler.register_to_config(thresholding=False),
    "sampler": sampler,
}


def test_what_makes_another_base_and_what_leaves_it_as_it_is(base: Any) -> None:
    digest = base_digest(base)
    for name, change in (CHANGES | SAME).items():
        other = twin(base)
        change(other)
        assert (base_digest(other) != digest) == (name in CHANGES), name
