"""A base of random weights with two levels and 32 px pictures, and a plugin that was trained beside
it for a few steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.plugins import Checkpoint
from unplug.sdk.drawing.diffusion import ControlRecipe, load_base, train_plugin
from unplug.sdk.drawing.diffusion.small import (
    assemble,
    build_scheduler,
    build_text_encoder,
    diffusers,
)
from unplug.sdk.drawing.diffusion.tokenizer import train_tokenizer
from unplug.sdk.forgetting.tasks import PluginTask, task_of
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.learning.training import Sets

pytest.importorskip("diffusers")

SPEC, SIZE = "synth:n=48,subjects=24,seed=4", 32
CPU = torch.device("cpu")
RECIPE = ControlRecipe(
    steps=12, batch_size=4, warmup=2, lr=3e-3, ema=0.5, precision="fp32", timesteps="uniform"
)
SPREAD = 3.0
"""Scale of the latents: a random autoencoder's have a standard deviation of about a third."""


def build_base(folder: Path, seed: int = 5) -> None:
    """Writes a pipeline folder of 0.1 M parameters."""
    library: Any = diffusers()
    torch.manual_seed(seed)
    tokenizer = train_tokenizer(
        ["a portrait of a child, smiling"], folder.with_name("tokenizer"), vocabulary=540, length=8
    )
    unet = library.UNet2DConditionModel(
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
    vae = library.AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        block_out_channels=(8, 8, 16, 16),
        layers_per_block=1,
        norm_num_groups=2,
        sample_size=SIZE,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        mid_block_add_attention=False,
        scaling_factor=SPREAD,
    )
    assemble(
        vae, build_text_encoder(tokenizer, width=32), tokenizer, unet, build_scheduler()
    ).save_pretrained(folder)


@dataclass(frozen=True, kw_only=True)
class PluginWorld:
    """What most tests start from; tests must not write to these files."""

    base: Path
    dataset: Dataset
    split: Split
    forget_ids: tuple[str, ...]
    forget_file: Path
    original: Checkpoint
    task: PluginTask
    sets: Sets

    @property
    def pipe(self) -> Any:
        """The frozen base of `task`."""
        return self.task.frame.base

    @property
    def request(self) -> Split:
        """The split without who is forgotten."""
        return self.split.with_forget(self.forget_ids)

    def without(self, method: str, out: Path, **more: Any) -> Checkpoint:
        """The plugin after the request."""
        original = more.pop("original", self.original)
        more = {"device": CPU, "show": False, **more}
        return forget(original, self.dataset, self.forget_ids, method, out, **more)

    def finetuned(self, out: Path, **more: Any) -> Checkpoint:
        """In a few steps."""
        return self.without("finetune", out, budget=0.9, options={"batch_size": "4"}, **more)


@pytest.fixture(scope="session")
def plugin_world(tmp_path_factory: pytest.TempPathFactory) -> PluginWorld:
    root = tmp_path_factory.mktemp("plugins")
    build_base(root / "base")
    dataset = load_dataset(SPEC, SIZE, show=False)
    split = make_split(dataset, seed=0, validation=0.15, test=0.25)
    original = train_plugin(
        load_base(str(root / "base"), device=CPU),
        str(root / "base"),
        dataset,
        split,
        "canny",
        root / "original",
        RECIPE,
        seed=0,
        device=CPU,
        sample_every=0,
        show=False,
    )
    people = {str(sample.subject) for sample in dataset.samples if sample.id in split.train}
    named = sorted(people)[:5]
    ids = tuple(sample.id for sample in dataset.samples if sample.subject in named)
    (root / "forget.txt").write_text("".join(f"subject:{name}\n" for name in named))
    task = task_of(original, device=CPU)
    return PluginWorld(
        base=root / "base",
        dataset=dataset,
        split=split,
        forget_ids=ids,
        forget_file=root / "forget.txt",
        original=original,
        task=task,
        sets=task.sets(dataset, split.with_forget(ids), CPU),
    )
