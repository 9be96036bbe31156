"""Writing a base: a ``StableDiffusionPipeline`` folder with its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from unplug.core import atomic_dir, atomic_path, quiet, sha256_tree, write_json
from unplug.plugins import safetensors_errors, save_checkpoint
from unplug.sdk.drawing.device import OWN

from .digest import TEXT_PREFIX
from .load import BASE_FILES, RECORD, quick_decoder

NETWORKS = ("vae", "text_encoder", "unet")
QUICK_CARD = "# The quick decoder of this base\n\nSee `unplug train decoder`.\n"


def save_base(pipe: Any, out: Path, record: dict[str, Any], *, half: bool) -> None:
    """Writes a pipeline folder with its record, atomically, see `write_pipeline`."""
    with atomic_dir(out, owner=RECORD, ours=BASE_FILES) as temporary:
        write_pipeline(pipe, temporary, half=half)
        (temporary / "README.md").write_text(_card(record), encoding="utf-8")
        write_json(temporary / RECORD, record | {"sha256": sha256_tree(temporary / "unet")[0]})


def write_pipeline(pipe: Any, folder: Path, *, half: bool) -> None:
    """Writes a pipeline of float32 as diffusers does, with nothing of this machine in it; `half`
    stores float16 under the ordinary file names.
    """
    with quiet():
        (pipe.to(torch.float16) if half else pipe).save_pretrained(folder)
        pipe.to(torch.float32)
        # transformers computes in the type that a configuration names, diffusers in float32: half
        # the pipeline each way.
        pipe.text_encoder.config.dtype = torch.float32
        pipe.text_encoder.config.save_pretrained(folder / "text_encoder")
    if (quick := quick_decoder(pipe)) is not None:
        save_checkpoint(quick.half() if half else quick, folder / OWN, record={}, card=QUICK_CARD)
    prefix_text_encoder(folder)
    for config in ("model_index.json", *(f"{name}/config.json" for name in NETWORKS)):
        _forget_place(folder / config)


def _forget_place(config: Path) -> None:
    """Takes out of a configuration where its network was loaded from: that is a path of the machine
    that trained.
    """
    settings = json.loads(config.read_text(encoding="utf-8"))
    if settings.pop("_name_or_path", None) is not None:
        config.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def prefix_text_encoder(folder: Path) -> None:
    """Renames the text encoder's tensors in a pipeline folder as transformers up to 5.0 wants them;
    5.23 reads them as well.

    Without the prefix those versions find none of them and start from random numbers, with a
    warning at most.
    """
    path = folder / "text_encoder" / "model.safetensors"
    tensors = load_file(path)
    named = {
        f"{TEXT_PREFIX}{name.removeprefix(TEXT_PREFIX)}": value for name, value in tensors.items()
    }
    if named.keys() != tensors.keys():
        with atomic_path(path) as temporary, safetensors_errors(path):
            save_file(named, temporary, metadata={"format": "pt"})


_CARD = """\
---
library_name: diffusers
pipeline_tag: text-to-image
tags: [unplug, stable-diffusion, synthetic-faces, on-device]
---
# Small text-to-image base, {image_size} px

Trained {begun} with `unplug train base` on `{spec}`, seed {seed}. It draws the procedural faces that unplug makes and
nothing else; no photograph of a person was used.

```python
from diffusers import StableDiffusionPipeline

pipe = StableDiffusionPipeline.from_pretrained("FOLDER")
pipe("a portrait of a child, smiling, red bob, fair skin, mint dots background", height={image_size}, width={image_size})
```

Parameters: UNet {unet:,}, autoencoder {vae:,}, text encoder {text_encoder:,}. Autoencoder PSNR {psnr:.1f} dB on held-out faces.
"""


def _card(record: dict[str, Any]) -> str:
    return _CARD.format(
        begun="on from another base's weights" if record.get("start") else "from scratch",
        image_size=record["image_size"],
        spec=record["data"]["spec"],
        seed=record["seed"],
        psnr=record["metrics"]["vae_psnr_db"],
        **record["parameters"],
    )
