"""Low-rank updates of a UNet as peft trains them and diffusers' LoRA loaders read them: what
students and packs are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from unplug.core import atomic_dir, quiet, sha256_file, sha256_tree, write_json
from unplug.plugins import describe_weights
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.learning.training import seeded

from .load import RECORD
from .small import diffusers

ADAPTER = "low_rank"
LOW_RANK_FILES = (RECORD, WEIGHTS_NAME, "README.md")


def add_low_rank(unet: Any, rank: int, layers: Sequence[str], seed: int) -> None:
    """Adds an update W' = W + B A of some layers, with B zero and A drawn: at first it changes
    nothing.

    Args:
        unet: frozen; its updates are what is trained.
        rank: rows of A.
        layers: ends of the names of the layers that get one.
        seed: the seed of A.
    """
    from peft import LoraConfig

    with seeded(seed, 41):
        config = LoraConfig(
            r=rank, lora_alpha=rank, target_modules=list(layers), init_lora_weights=True
        )
        unet.add_adapter(config, ADAPTER)


def updates_of(unet: Any) -> dict[str, Tensor]:
    """W' - W of every layer that has an update, see `add_low_rank`, by the layer's name."""
    return {
        name: layer.get_delta_weight(ADAPTER).detach()
        for name, layer in unet.named_modules()
        if ADAPTER in getattr(layer, "lora_A", ())
    }


def save_low_rank(
    unet: Any,
    out: Path,
    record: dict[str, Any],
    card: str,
    *,
    half: bool,
    title: str,
    **header: str,
) -> None:
    """Writes the updates as diffusers writes LoRA weights, with their record and a card.

    Args:
        unet: a UNet with updates, see `add_low_rank`.
        out: a folder, replaced as a whole.
        record: gets the hashes of the weights and of the folder.
        card: Markdown.
        half: store them in float16.
        title, header: keys of the file's own metadata, see `describe_weights`.

    Raises:
        OutputError: see `atomic_dir`.
    """
    from peft import get_peft_model_state_dict

    layers = get_peft_model_state_dict(unet, adapter_name=ADAPTER)
    if half:
        layers = {name: value.half() for name, value in layers.items()}
    with atomic_dir(out, owner=RECORD, ours=LOW_RANK_FILES) as temporary, quiet():
        diffusers().StableDiffusionPipeline.save_lora_weights(
            temporary, unet_lora_layers=layers, safe_serialization=True
        )
        describe_weights(temporary / WEIGHTS_NAME, architecture="unet-lora", title=title, **header)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        hashes = {
            "weights_sha256": sha256_file(temporary / WEIGHTS_NAME),
            "sha256": sha256_tree(temporary)[0],
        }
        write_json(temporary / RECORD, {**record, **hashes})
