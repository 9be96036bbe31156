"""A base of random weights with two levels, and one comparison on it that is really run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.studies.control import (
    CompareRequest,
    ComparisonReport,
    compare_controls,
    read_comparison,
)
from tests.once import once

from unplug.sdk.drawing.diffusion import ControlRecipe, StepRecipe
from unplug.sdk.drawing.diffusion.small import (
    assemble,
    build_scheduler,
    build_text_encoder,
    build_vae,
)
from unplug.sdk.drawing.diffusion.tokenizer import train_tokenizer
from unplug.sdk.learning.data import load_dataset, make_split, save_split

pytest.importorskip("diffusers")

SPEC, SIZE, PICTURES = "synth:n=40,subjects=20,seed=4", 64, 4
CPU = torch.device("cpu")
QUICK = ControlRecipe(steps=2, batch_size=2, warmup=1, precision="fp32")
Ask = Callable[..., CompareRequest]


def build_base(folder: Path) -> None:
    from diffusers import UNet2DConditionModel

    torch.manual_seed(5)
    words = [
        f"a portrait of {person}, {mood}"
        for person in ("a child", "an adult")
        for mood in ("smiling", "sad")
    ]
    tokenizer = train_tokenizer(words, folder.with_name("tokenizer"), vocabulary=540, length=16)
    text_encoder = build_text_encoder(tokenizer, width=32)
    unet = UNet2DConditionModel(
        sample_size=SIZE // 8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(16, 32),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=2,
        norm_num_groups=8,
    )
    assemble(build_vae(SIZE, 4), text_encoder, tokenizer, unet, build_scheduler()).save_pretrained(
        folder
    )


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "control-base", lambda root: build_base(root / "tiny")) / "tiny"


@pytest.fixture(scope="session")
def split_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "split.json"
    save_split(
        make_split(load_dataset(SPEC, SIZE, show=False), seed=0, validation=0.2, test=0.2), path
    )
    return path


@pytest.fixture(scope="session")
def ask(tiny_base: Path, split_file: Path) -> Ask:
    """The smallest request that goes through every stage."""

    def request(out: Path, **changes: Any) -> CompareRequest:
        asked = CompareRequest(
            base=str(tiny_base),
            spec=SPEC,
            condition="canny",
            out=out,
            recipe=QUICK,
            pictures=PICTURES,
            sampling_steps=2,
            rounds=2,
            judge=StepRecipe(steps=2, batch_size=4, warmup=1, precision="fp32"),
            split=split_file,
        )
        return replace(asked, **changes)

    return request


@dataclass(frozen=True)
class Made:
    """A comparison that was run once; tests must copy its folder before they change it."""

    request: CompareRequest
    out: Path
    report: ComparisonReport


@pytest.fixture(scope="session")
def made(ask: Ask, tmp_path_factory: pytest.TempPathFactory) -> Made:
    def make(root: Path) -> None:
        compare_controls(ask(root / "canny"), device=CPU, show=False)

    out = once(tmp_path_factory, "compare", make) / "canny"
    return Made(ask(out), out, read_comparison(out / "compare.json"))
