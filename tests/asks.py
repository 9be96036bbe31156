"""Small files that ask for far more memory or time than they hold: what `tests/test_asks.py`
refuses one by one.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BILLION, MILLION = 10**9, 10**6
BASE = Path(__file__).parents[1] / "sdk/weights/unplug_weights/base"
HOSTILE = Path(__file__).parent / "vectors/hostile"
CANNY = BASE.parent / "canny"
Harm = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A file that asks for too much.

    Args:
        what: asks, and for how much.
        make: fills a folder.
        load: opens what lies in it.
    """

    what: str
    make: Harm
    load: Harm


def edited(path: Path, **changes: Any) -> None:
    """A JSON file with other values; of a place that does not exist a new one."""
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(before | changes))


def copied(source: Path, folder: Path) -> None:
    """A folder whose weights are links, and whose other files may be changed."""
    for file in source.rglob("*"):
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".safetensors":
            target.symlink_to(file)
        elif file.is_file():
            shutil.copyfile(file, target)


def of_base(what: str, file: str, **changes: Any) -> Ask:
    """Another number in the configuration of one of a diffusion base's parts."""

    def make(folder: Path) -> None:
        copied(BASE, folder)
        edited(folder / file, **changes)

    return Ask(what=f"base: {what}", make=make, load=load_base)


def load_base(folder: Path) -> object:
    """As `unplug generate --base` opens one."""
    import torch

    from unplug.sdk.drawing.diffusion import load_base as load

    return load(str(folder), device=torch.device("cpu"))


def load_checkpoint(folder: Path) -> object:
    """As every command opens a checkpoint."""
    from unplug.plugins import load_checkpoint as load

    return load(folder)


def of_checkpoint(what: str, source: Path | None, **changes: Any) -> Ask:
    """Another number in a checkpoint's configuration; without a source its weights are zeros, on no
    disk.
    """

    def make(folder: Path) -> None:
        if source is not None:
            copied(source, folder)
        else:
            write_tensors(folder / "model.safetensors", {"x": ("F32", [2**27])})
        (folder / "unplug.json").unlink(missing_ok=True)
        edited(folder / "config.json", **changes)

    return Ask(what=f"checkpoint: {what}", make=make, load=load_checkpoint)


def write_tensors(
    path: Path, tensors: dict[str, tuple[str, list[int]]], metadata: dict[str, str] | None = None
) -> None:
    """A safetensors file of zeros that takes no room on the disk."""
    sizes, header, end = {"F32": 4, "F16": 2}, dict[str, Any](), 0
    for name, (kind, shape) in tensors.items():
        size = sizes[kind]
        for side in shape:
            size *= side
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header | ({"__metadata__": metadata} if metadata else {})).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    os.truncate(path, 8 + len(raw) + end)


def adopted(what: str, factory: str, **arguments: Any) -> Ask:
    """A network of others with an argument of a stranger's choosing."""
    network = {"factory": factory, "arguments": arguments, "mean": [0.5] * 3, "std": [0.5] * 3}
    return of_checkpoint(
        what,
        None,
        model_type="age",
        size="adopted",
        image_size=64,
        age_edges=[0, 18, 30, 100],
        network=network,
    )


def lora(what: str, shapes: dict[str, tuple[str, list[int]]], **metadata: Any) -> Ask:
    """Low-rank updates of one layer of the base."""
    told = {"lora_adapter_metadata": json.dumps(metadata)} if metadata else None

    def load(folder: Path) -> object:
        from unplug.sdk.drawing.device import read_lora

        layers = {"unet": {LAYER: (96, 96)}}
        return read_lora(folder / "l.safetensors", layers, "this base")

    return Ask(
        what=f"LoRA: {what}",
        make=lambda folder: write_tensors(folder / "l.safetensors", shapes, told),
        load=load,
    )


LAYER = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"
FIRST, SECOND = (f"unet.{LAYER}.lora_{side}.weight" for side in "AB")


def of_pipeline(what: str, change: Callable[[dict[str, Any]], object]) -> Ask:
    """Another number in a ``pipeline.json``."""

    def make(folder: Path) -> None:
        pipeline = json.loads((HOSTILE.parent / "app/variants/pipeline.json").read_text())
        change(pipeline)
        (folder / "pipeline.json").write_text(json.dumps(pipeline))

    def load(folder: Path) -> object:
        from unplug.sdk.drawing.device import load_pipeline, sampling_table

        return sampling_table(load_pipeline(folder).schedule, 4)

    return Ask(what=f"pipeline.json: {what}", make=make, load=load)


def served(what: str, name: str, side: int | None = None) -> Ask:
    """A file that `unplug serve` is told to answer with."""

    def make(folder: Path) -> None:
        for file in (f"{name}.onnx", f"{name}.onnx.json"):
            shutil.copyfile(HOSTILE / file, folder / file)
        if side is not None:
            card = json.loads((folder / f"{name}.onnx.json").read_text())
            card["iospec"]["inputs"][0]["shape"] = [1, 3, side, side]
            (folder / f"{name}.onnx.json").write_text(json.dumps(card))

    def load(folder: Path) -> object:
        from unplug.sdk.drawing.inference.embedded import load_embedded

        return load_embedded(folder / f"{name}.onnx")

    return Ask(what=f"serve: {what}", make=make, load=load)


def sparse(what: str, file: str) -> Ask:
    """A file of the base that claims a terabyte."""

    def make(folder: Path) -> None:
        copied(BASE, folder)
        os.truncate(folder / file, 2**40)

    return Ask(what=f"base: {what}", make=make, load=load_base)


LEVELS = {
    "block_out_channels": [8] * 8,
    "down_block_types": ["CrossAttnDownBlock2D"] * 8,
    "up_block_types": ["CrossAttnUpBlock2D"] * 8,
    "norm_num_groups": 8,
    "attention_head_dim": 8,
}
LONG = {
    "block_out_channels": [96] * 10**5,
    "down_block_types": ["DownEncoderBlock2D"] * 10**5,
    "up_block_types": ["UpDecoderBlock2D"] * 10**5,
}
UNET, VAE, TEXT = (f"{part}/config.json" for part in ("unet", "vae", "text_encoder"))
SCHEDULER = "scheduler/scheduler_config.json"
ASKS = (
    of_base("10^9 noise levels", SCHEDULER, num_train_timesteps=BILLION),
    of_base(
        "10^7 noise levels in a loop",
        SCHEDULER,
        num_train_timesteps=10**7,
        beta_schedule="squaredcos_cap_v2",
    ),
    of_base(
        "10^6 trained betas", SCHEDULER, trained_betas=[0.5] * MILLION, num_train_timesteps=MILLION
    ),
    of_base(
        "a solver of order 10^9",
        SCHEDULER,
        _class_name="DPMSolverMultistepScheduler",
        solver_order=BILLION,
    ),
    of_base("10^6 layers a block", UNET, layers_per_block=MILLION),
    of_base("10^6 layers a transformer", UNET, transformer_layers_per_block=MILLION),
    of_base("10^6 layers of one block of three", UNET, layers_per_block=[1, 1, MILLION]),
    of_base(
        "16 x 16 layers in eight blocks",
        UNET,
        layers_per_block=16,
        transformer_layers_per_block=16,
        **LEVELS,
    ),
    of_base("10^9 classes", UNET, num_class_embeds=BILLION),
    of_base("words of 10^9 numbers", UNET, cross_attention_dim=BILLION),
    of_base("a time of 10^9 numbers", UNET, time_embedding_dim=BILLION),
    of_base("kernels of 10^5 squared", UNET, conv_in_kernel=10**5 + 1),
    of_base("10^6 layers of the autoencoder", VAE, layers_per_block=MILLION),
    of_base("10^5 blocks of the autoencoder", VAE, **LONG),
    of_base("10^9 latent channels", VAE, latent_channels=BILLION),
    of_base("10^6 layers of the text encoder", TEXT, num_hidden_layers=MILLION),
    of_base("10^9 words", TEXT, vocab_size=BILLION),
    of_base("10^8 words", TEXT, vocab_size=10**8),
    of_base("prompts of 10^9 tokens", TEXT, max_position_embeddings=BILLION),
    of_base("10^9 labels", TEXT, num_labels=BILLION),
    of_base("10^7 labels", TEXT, num_labels=10**7),
    sparse("a configuration of a terabyte", UNET),
    sparse("a vocabulary of a terabyte", "tokenizer/tokenizer.json"),
    of_checkpoint(
        "16 x 16 layers in eight blocks",
        BASE / "unet",
        layers_per_block=16,
        transformer_layers_per_block=16,
        **LEVELS,
    ),
    of_checkpoint("10^9 classes of a UNet", BASE / "unet", num_class_embeds=BILLION),
    of_checkpoint("10^6 layers of a decoder", BASE / "vae", layers_per_block=MILLION),
    of_checkpoint(
        "10^6 words of 8,192 numbers", BASE / "text_encoder", vocab_size=2**20, hidden_size=8192
    ),
    of_checkpoint("10^9 channels of a plugin", CANNY, widths=[BILLION] * 3),
    of_checkpoint("10^6 blocks of a plugin", CANNY, depths=[MILLION] * 3),
    of_checkpoint("10^5 plugins in one", None, model_type="multi-plugin", plugins=[{}] * 10**5),
    of_checkpoint(
        "10^9 parts of a transformer's plugin", None, model_type="dit-plugin", residuals=BILLION
    ),
    of_checkpoint("10^9 random features", None, model_type="age", random_features=BILLION),
    of_checkpoint("10^5 age groups", None, model_type="age", age_edges=list(range(10**5))),
    adopted(
        "a network of timm for pictures of 16,384 pixels",
        "timm:swin_tiny_patch4_window7_224",
        img_size=16384,
    ),
    adopted("the same at 4,096 pixels", "timm:swin_tiny_patch4_window7_224", img_size=4096),
    adopted("one whose pictures are a text", "timm:vit_tiny_patch16_224", img_size="9" * 4000),
    adopted(
        "a network of torchvision 10^5 times as wide", "torchvision:mobilenet_v2", width_mult=1e5
    ),
    adopted(
        "a factory of the operator's, with other arguments",
        "tests.networks:small",
        groups=3,
        width=MILLION,
    ),
    adopted("a factory of the operator's, with buffers", "tests.networks:buffered", side=40_000),
    lora("rank 10^6", {FIRST: ("F16", [MILLION, 96]), SECOND: ("F16", [96, MILLION])}),
    lora(
        "a gigabyte that fits no layer", {FIRST: ("F16", [2, 2**27]), SECOND: ("F16", [2**26, 2])}
    ),
    lora(
        "10^4 layers",
        {
            f"unet.down_blocks.{n}.lora_{side}.weight": ("F16", [64, 96])
            for n in range(10**4)
            for side in "AB"
        },
    ),
    of_pipeline("10^9 ranks", lambda found: found["lora"].update(rank=BILLION)),
    of_pipeline(
        "10^6 noise levels", lambda found: found["schedule"].update(alphas_cumprod=[0.5] * MILLION)
    ),
    of_pipeline(
        "a latent of 10^6 squared", lambda found: found.update(latent_shape=[4, MILLION, MILLION])
    ),
    of_pipeline("10^7 tokens", lambda found: found["tokenizer"].update(length=10**7)),
    served("a loop that does not end", "loop"),
    served("memory without end", "memory"),
    served("pictures of 9,400 pixels", "memory", side=9400),
)
