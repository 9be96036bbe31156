"""Bases as people have them, in shards and as variants, are read by every door, or the line says
what is wrong with them.
"""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import StableDiffusionAdapterPipeline, StableDiffusionPipeline

from unplug.core import CheckpointError
from unplug.plugins import ConditioningPlugin, load_checkpoint, weights_bytes, weights_sha256
from unplug.sdk.drawing.device import GeneratorSource, check_source
from unplug.sdk.drawing.diffusion import base_digest, load_base, shipped_folder

from ...cli.calls import fail
from .conftest import CPU, SIZE, picture, steering_plugin

CASE = Path(__file__).parents[3] / "cases" / "base-fp16-variant" / "make.py"
PARTS = {"unet": "unet", "vae": "decoder", "text_encoder": "text_encoder"}
FILE, INDEX = (
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
)


def saved(**how: Any) -> Callable[[Path, Path], None]:
    """As ``save_pretrained`` writes a base with these settings."""

    def make(base_folder: Path, folder: Path) -> None:
        StableDiffusionPipeline.from_pretrained(base_folder, safety_checker=None).save_pretrained(
            folder, **how
        )

    return make


def renamed(base_folder: Path, folder: Path) -> None:
    """Of one part alone, as Stable Diffusion 1.5 came."""
    unet = Path(shutil.copytree(base_folder, folder)) / "unet"
    (unet / FILE).rename(unet / FILE.replace(".", ".non_ema."))


def two(base_folder: Path, folder: Path) -> None:
    """A variant that all parts have, and one that one part has beside it, of other numbers."""
    saved(variant="fp16")(base_folder, folder)
    (folder / "unet" / FILE.replace(".", ".non_ema.")).write_bytes(b"others")


@pytest.mark.parametrize(
    "make",
    [
        saved(max_shard_size="100KB"),
        saved(variant="fp16"),
        saved(variant="fp16", max_shard_size="100KB"),
        renamed,
        two,
    ],
    ids=["shards", "variant", "variant in shards", "non_ema", "two variants"],
)
def test_every_reader_reads_it(
    base: Any, base_folder: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    folder = tmp_path / "base"
    make(base_folder, folder)
    assert not (folder / "unet" / FILE).exists()
    assert base_digest(load_base(str(folder), device=CPU)) == base_digest(base)
    check_source(GeneratorSource(name="x", folder=folder))
    for part, kind in PARTS.items():
        found, wanted = (
            load_checkpoint(place / part, expect=kind) for place in (folder, base_folder)
        )
        ours, theirs = found.model.state_dict(), wanted.model.state_dict()
        assert ours.keys() == theirs.keys() and all(
            bool((ours[name] == theirs[name]).all()) for name in ours
        )
        assert found.sha256 == weights_sha256(folder / part) and weights_bytes(folder / part) > 1000


def without_a_shard(folder: Path) -> None:
    next((folder / "unet").glob("*-00001-*.safetensors")).unlink()


def index_says(weight_map: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "unet" / INDEX).write_text(json.dumps({"weight_map": weight_map}))

    return change


def other_variants(folder: Path) -> None:
    for file in (folder / "unet").glob("*model*"):
        file.unlink()
    for name in ("ema", "non_ema"):
        (folder / "unet" / FILE.replace(".", f".{name}.")).write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_a_shard, "it names the shard 'diffusion_pytorch_model-00001-of-"),
        (
            index_says({"a": "../../elsewhere.safetensors"}),
            "it names the shard '../../elsewhere.safetensors', which is not next to it",
        ),
        (index_says({"a": "config.json"}), "it names the shard 'config.json'"),
        (index_says([]), "it names no shard"),
        (
            other_variants,
            "it holds the variants ema, non_ema, and no weights without one. Keep one of them.",
        ),
    ],
    ids=["a lost shard", "a path out", "no safetensors", "no map", "variants that nobody chose"],
)
def test_refused_by_every_reader_in_the_same_words(
    base_folder: Path, tmp_path: Path, change: Callable[[Path], None], why: str
) -> None:
    folder = tmp_path / "base"
    saved(max_shard_size="100KB")(base_folder, folder)
    change(folder)
    assert (
        why in fail("generate", "--base", folder, "--prompt", "a", "--out", tmp_path / "x.png").line
    )
    assert why in fail("export", folder, "--to", "onnx", "--out", tmp_path / "out").line
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder / "unet")
    assert why in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base"]


def test_shards_have_another_hash_when_one_is_another(base_folder: Path, tmp_path: Path) -> None:
    saved(max_shard_size="100KB")(base_folder, tmp_path / "base")
    unet, before = tmp_path / "base" / "unet", weights_sha256(tmp_path / "base" / "unet")
    shard = next(unet.glob("*-00002-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    assert weights_sha256(unet) != before


def test_a_pipeline_with_a_plugin_is_saved_as_a_variant(
    base: Any, base_folder: Path, tmp_path: Path
) -> None:
    plugin = steering_plugin(base.unet)
    pipe = StableDiffusionAdapterPipeline.from_pretrained(
        base_folder, adapter=plugin, safety_checker=None
    )
    image = torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))
    drawn = picture(pipe, image=image)
    pipe.save_pretrained(tmp_path / "whole", variant="fp16")
    again = StableDiffusionAdapterPipeline.from_pretrained(
        tmp_path / "whole", variant="fp16", safety_checker=None
    )
    assert isinstance(again.adapter, ConditioningPlugin)
    assert np.array_equal(picture(again, image=image), drawn)
    assert load_checkpoint(tmp_path / "whole" / "adapter", expect="plugin").model_type == "plugin"


@pytest.mark.long
def test_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["make.py", str(shipped_folder("small"))])
    runpy.run_path(str(CASE))
    wanted = base_digest(load_base("small", device=CPU))
    for name in ("sharded", "variant"):
        assert base_digest(load_base(name, device=CPU)) == wanted
        check_source(GeneratorSource(name="x", folder=tmp_path / name))
        for part, kind in PARTS.items():
            load_checkpoint(tmp_path / name / part, expect=kind)
