"""``unplug train base``: autoencoder, then UNet and text encoder, then a ``StableDiffusionPipeline`` folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from unplug.plugins.checkpoint import safetensors_errors
from unplug.plugins.errors import DataError, InputError
from unplug.plugins.files import atomic_dir, atomic_path, check_replaceable, sha256_tree, write_json
from unplug.sdk.data import Dataset, Split, captions_digest, captions_of
from unplug.sdk.train.device import describe_device
from unplug.sdk.train.loop import seeded
from unplug.sdk.train.run import training_dir
from unplug.sdk.train.state import StateFile, fingerprint
from unplug.sdk.versions import versions

from .base import BaseLoss, BaseRecipe, fit_base
from .cache import weights_digest
from .grid import image_grid
from .load import OURS, RECORD
from .processes import processes
from .sample import generate
from .small import TOKENS, VOCABULARY, assemble, build_scheduler, build_vae
from .steps import Trained, train_steps
from .tokenizer import open_tokenizer, train_tokenizer
from .vae import Crops, VAELoss, VAERecipe, encode_all, psnr, scaling_factor, to_image

RECORD_SCHEMA = "unplug-base/1"
PREVIEWS = 8


def train_base(
    dataset: Dataset,
    split: Split,
    out: Path,
    vae_recipe: VAERecipe,
    recipe: BaseRecipe,
    *,
    seed: int,
    device: torch.device,
    restart: bool = False,
    sample_every: int = 1000,
    half: bool = False,
    show: bool = True,
) -> Path:
    """Trains a small base from scratch; an unfinished run at `out` is continued.

    Args:
        dataset: pictures with captions; the side a multiple of 8.
        split: its train set is learned; validation pictures measure the autoencoder.
        out: pipeline folder; ``.NAME.training`` beside it holds state and sampling grids until the end.
        vae_recipe, recipe: how.
        seed: of everything random.
        device: where to compute.
        restart: drop an unfinished run.
        sample_every: steps between two sampling grids.
        half: store the weights in float16.
        show: progress bars.

    Returns:
        `out`.

    Raises:
        DataError: no captions, or a side that is no multiple of 8.
        InputError: several processes.
        TrainingError, CheckpointError, OutputError: see `train_steps` and `StateFile`.
    """
    if dataset.size % 8:
        raise DataError(f"data {dataset.spec}", f"{dataset.size} px is no multiple of 8", "Load it at 128, say")
    if not (split.train and split.validation):
        raise DataError("split", "it has no training or no validation samples", "Make the split again")
    if processes(device).num_processes > 1:
        raise InputError("train base", "it runs in one process", "Start it without accelerate launch")
    check_replaceable(out, RECORD, OURS)
    work = training_dir(out)
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    captions = captions_of(dataset, seed=seed, variants=recipe.captions)
    rows = [int(index) for index in dataset.indices(split.train)]
    own = [captions[row] for row in rows]
    facts = {"data": dataset.digest, "split": split.sha256, "captions": captions_digest(captions), "vae": vae_recipe.to_dict()}
    vae, vae_run, quality = _autoencoder(dataset, split, rows, vae_recipe, work, facts, seed=seed, device=device, show=show)
    latent_Nchw = _latents(vae, dataset, rows, work, device)
    vae.register_to_config(scaling_factor=scaling_factor(latent_Nchw))
    tokenizer = _tokenizer(work / "tokenizer", own)

    def preview(model: BaseLoss, step: int) -> None:
        pipe = assemble(vae, model.text_encoder, tokenizer, model.unet, build_scheduler())
        prompts = [captions[int(index)][0] for index in dataset.indices(split.validation[:PREVIEWS])]
        pictures = generate(pipe, prompts, seeds=list(range(len(prompts))), size=dataset.size)
        image_grid([pictures]).save(work / f"sample-{step:07d}.png")

    done = fit_base(
        latent_Nchw * float(vae.config.scaling_factor), own, tokenizer, recipe, seed=seed, device=device,
        state_path=work / "unet.safetensors", facts=facts, on_sample=preview, sample_every=sample_every, show=show,
    )  # fmt: skip
    pipe = assemble(vae, done.model.text_encoder, tokenizer, done.model.unet, build_scheduler())
    record = {
        "schema": RECORD_SCHEMA,
        "data": {"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset)},
        "split": {"sha256": split.sha256, "seed": split.seed, "train": len(split.train), "validation": len(split.validation)},
        "captions": facts["captions"],
        "image_size": dataset.size,
        "seed": seed,
        "recipe": {"vae": vae_recipe.to_dict(), "base": recipe.to_dict()},
        "cost": {"wall_s": vae_run.wall_s + done.wall_s, "device": describe_device(device)},
        "metrics": {"vae_psnr_db": quality, "loss": done.history[-1]["loss"]},
        "history": {"vae": list(vae_run.history), "base": list(done.history)},
        "parameters": {name: _count(getattr(pipe, name)) for name in ("vae", "text_encoder", "unet")},
        "versions": versions(),
    }
    save_base(pipe, out, record, half=half)
    shutil.rmtree(work, ignore_errors=True)
    return out


def save_base(pipe: Any, out: Path, record: dict[str, Any], *, half: bool) -> None:
    """Writes a pipeline folder with its record, atomically; `half` stores float16 under the ordinary file names."""
    with atomic_dir(out, owner=RECORD, ours=OURS) as temporary:
        (pipe.to(torch.float16) if half else pipe).save_pretrained(temporary)
        pipe.to(torch.float32)
        # transformers computes in the type that a configuration names, diffusers in float32: half the pipeline each way.
        pipe.text_encoder.config.dtype = torch.float32
        pipe.text_encoder.config.save_pretrained(temporary / "text_encoder")
        (temporary / "README.md").write_text(_card(record), encoding="utf-8")
        write_json(temporary / RECORD, record | {"sha256": sha256_tree(temporary / "unet")[0]})


def _autoencoder(
    dataset: Dataset, split: Split, rows: list[int], recipe: VAERecipe, work: Path, facts: dict[str, Any],
    *, seed: int, device: torch.device, show: bool,
) -> tuple[Any, Trained, float]:  # fmt: skip
    with seeded(seed, 11):
        model = VAELoss(build_vae(dataset.size, recipe.channels))
    marks = fingerprint(kind="vae", seed=seed, torch=torch.__version__, **facts)
    state = StateFile(path=work / "vae.safetensors", fingerprint=marks)
    shown = to_image(dataset.pixels(dataset.indices(split.validation[:64])), device)

    def preview(averaged: VAELoss, step: int) -> None:
        with torch.no_grad():
            decoded = averaged.vae(shown[:PREVIEWS]).sample
        image_grid([_pictures(shown[:PREVIEWS]), _pictures(decoded)]).save(work / f"vae-{step:07d}.png")

    done = train_steps(
        model, Crops(dataset, rows, recipe.crop, device), recipe, seed=seed, device=device, state=state,
        on_sample=preview, sample_every=500, show=show, label="autoencoder",
    )  # fmt: skip
    vae = done.model.vae
    return vae, done, psnr(vae, shown)


def _latents(vae: Any, dataset: Dataset, rows: list[int], work: Path, device: torch.device) -> torch.Tensor:
    """`encode_all`, kept beside the state: a run that goes on after a kill need not encode everything again."""
    path, marks = work / "latents.safetensors", {"vae": weights_digest(vae), "rows": str(len(rows))}
    try:
        with safe_open(path, framework="pt") as handle:
            if handle.metadata() == marks:
                kept: torch.Tensor = handle.get_tensor("latents")
                return kept
    except (SafetensorError, OSError):  # not there, or not whole
        pass
    latent_Nchw = encode_all(vae, dataset, rows, device)
    with atomic_path(path) as temporary, safetensors_errors(path):
        save_file({"latents": latent_Nchw}, temporary, metadata=marks)
    return latent_Nchw


def _tokenizer(folder: Path, captions: Sequence[Sequence[str]]) -> Any:
    """An unfinished run goes on with its own: other token ids would be other words to the text encoder."""
    if not folder.is_dir():
        with atomic_dir(folder) as temporary:
            prompts = (text for texts in captions for text in texts)
            train_tokenizer(prompts, temporary, vocabulary=VOCABULARY, length=TOKENS)
    return open_tokenizer(folder)


def _pictures(image_BCHW: torch.Tensor) -> list[Image.Image]:
    pixels = ((image_BCHW.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return [Image.fromarray(item) for item in pixels]


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


_CARD = """\
---
library_name: diffusers
pipeline_tag: text-to-image
tags: [unplug, stable-diffusion, synthetic-faces, on-device]
---
# Small text-to-image base, {image_size} px

Trained from scratch with `unplug train base` on `{spec}`, seed {seed}. It draws the procedural faces that unplug makes and
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
        image_size=record["image_size"], spec=record["data"]["spec"], seed=record["seed"],
        psnr=record["metrics"]["vae_psnr_db"], **record["parameters"],
    )  # fmt: skip
