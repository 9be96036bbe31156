"""``unplug train base``: autoencoder, then UNet and text encoder, then a
``StableDiffusionPipeline`` folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from unplug.core import (
    DataError,
    InputError,
    atomic_dir,
    atomic_path,
    check_replaceable,
    make_folder,
    one_writer,
    progress,
    quiet,
    sha256_tree,
    versions,
    write_json,
)
from unplug.plugins import safetensors_errors, save_checkpoint
from unplug.sdk.drawing.device import OWN
from unplug.sdk.learning.data import Dataset, Split, captions_digest, captions_of
from unplug.sdk.learning.training import (
    StateFile,
    describe_device,
    fingerprint,
    seeded,
    training_dir,
)

from .base_training import BaseLoss, fit_base
from .digest import TEXT_PREFIX, weights_digest
from .grid import image_grid
from .load import BASE_FILES, RECORD, attach_quick, load_base, quick_decoder
from .measure import LEVELS, batch_losses
from .recipe import BaseRecipe
from .shipped import OURS
from .small import TOKENS, VOCABULARY, assemble, build_scheduler, build_vae
from .steered_pictures import generate
from .steps import Trained, processes, round_to_half, train_steps
from .tokenizer import encode, open_tokenizer, spelled_words, teach_words, train_tokenizer
from .vae import (
    Crops,
    VAELoss,
    VAERecipe,
    encode_all,
    pictures_at_once,
    psnr,
    scaling_factor,
    to_image,
    to_pixels,
)

RECORD_SCHEMA = "unplug-base/1"
PREVIEWS = 8
MEASURED = 256
"""Validation pictures, at most, over which the record's numbers are averaged."""
NETWORKS = ("vae", "text_encoder", "unet")
QUICK_CARD = "# The quick decoder of this base\n\nSee `unplug train decoder`.\n"


@one_writer
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
    start: Any = None,
    start_record: Mapping[str, Any] = MappingProxyType({}),
    words: Sequence[str] = (),
    sample_every: int = 1000,
    half: bool = False,
    show: bool = True,
) -> Path:
    """Trains a small base, from scratch or from another; an unfinished run at `out` is continued.

    Args:
        dataset: pictures with captions; the side a multiple of 8.
        split: its train set is learned; validation pictures measure the autoencoder.
        out: pipeline folder; ``.NAME.training`` next to it holds state and sampling grids until the
            end.
        vae_recipe, recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        restart: drop an unfinished run.
        start: a pipeline from `load_base`, changed here, whose weights and tokenizer are gone on
            from. Its encoder stays as it is, and with it what a latent means: only the decoder
            learns more, and nothing of it where the recipe has no steps.
        start_record: its record, see `base_record`.
        words: words that each become a token of their own if `start` would spell them.
        sample_every: steps between two sampling grids.
        half: store the weights in float16; they are measured as they are stored.
        show: progress bars.

    Returns:
        `out`.

    Raises:
        DataError: no captions, or a side that is not a multiple of 8.
        InputError: several processes; words, or no steps of an autoencoder, without a start.
        TrainingError, CheckpointError, OutputError: see `train_steps`, `round_to_half` and
            `StateFile`.
    """
    _refuse(dataset, split, device)
    if start is None and (words or not vae_recipe.steps):
        what = "`words`" if words else "`vae_steps` 0"
        raise InputError(what, "nothing is there to go on from", "Name a base in `start`")
    check_replaceable(out, RECORD, BASE_FILES)
    work = training_dir(out)
    if restart:
        shutil.rmtree(work, ignore_errors=True)
    make_folder(work, 0o700)
    captions = captions_of(dataset, seed=seed, variants=recipe.captions)
    rows = [int(index) for index in dataset.indices(split.train)]
    prompts = [captions[row] for row in rows]
    facts = {
        "data": dataset.digest,
        "split": split.sha256,
        "captions": captions_digest(captions),
        "vae": vae_recipe.to_dict(),
        "start": {}
        if start is None
        else {name: weights_digest(getattr(start, name)) for name in NETWORKS},
    }
    if start is not None and (taught := spelled_words(start.tokenizer, words)):
        facts["words"] = list(taught)
        start.tokenizer = teach_words(start.tokenizer, start.text_encoder, taught)
    vae, vae_run = _autoencoder(
        dataset, split, rows, vae_recipe, work, facts, start, seed=seed, device=device, show=show
    )
    latent_Nchw = _latents(vae, dataset, rows, work, device)
    if start is None:
        # The noise has unit variance: latents must meet it at the same scale.
        vae.register_to_config(scaling_factor=scaling_factor(latent_Nchw))
    tokenizer = _tokenizer(work / "tokenizer", prompts) if start is None else start.tokenizer

    def assembled(model: BaseLoss) -> Any:
        return assemble(vae, model.text_encoder, tokenizer, model.unet, build_scheduler())

    def preview(model: BaseLoss, step: int) -> None:
        prompts = [
            captions[int(index)][0] for index in dataset.indices(split.validation[:PREVIEWS])
        ]
        pictures = generate(
            assembled(model),
            prompts,
            seeds=list(range(len(prompts))),
            size=dataset.size,
            schedule=OURS.schedule,
        )
        image_grid([pictures]).save(work / f"sample-{step:07d}.png")

    networks = None if start is None else (start.unet, start.text_encoder)
    done = fit_base(
        latent_Nchw * float(vae.config.scaling_factor),
        prompts,
        tokenizer,
        recipe,
        seed=seed,
        device=device,
        state_path=work / "unet.safetensors",
        facts=facts,
        networks=networks,
        on_sample=preview,
        sample_every=sample_every,
        show=show,
    )
    pipe = assembled(done.model)
    if half:
        for name in NETWORKS:
            round_to_half(getattr(pipe, name))
    told = told_data(dataset, split, *(() if start is None else (start_record,)))
    record = _record(dataset, told, vae_run, done, device) | {
        "captions": facts["captions"],
        "start": facts["start"],
        **{name: facts[name] for name in ("words",) if name in facts},
        "seed": seed,
        "recipe": {"vae": vae_recipe.to_dict(), "base": recipe.to_dict()},
        "metrics": base_metrics(pipe, dataset, split, captions, show=show),
        "parameters": {name: _count(getattr(pipe, name)) for name in NETWORKS},
    }
    save_base(pipe, out, record, half=half)
    # only what can be read makes the state superfluous
    load_base(str(out), device=torch.device("cpu"))
    shutil.rmtree(work, ignore_errors=True)
    return out


def _refuse(dataset: Dataset, split: Split, device: torch.device) -> None:
    if dataset.size % 8:
        raise DataError(
            f"data {dataset.spec}",
            f"{dataset.size} px is not a multiple of 8",
            "Load it at 128, say",
        )
    if not (split.train and split.validation):
        raise DataError(
            "split", "it has no training or no validation samples", "Use a split that has both"
        )
    if processes(device).num_processes > 1:
        raise InputError(
            "train base", "it runs in one process", "Start it without accelerate launch"
        )


def told_data(dataset: Dataset, split: Split | None, *before: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the pictures that weights have learned, so that a search finds whose they
    are.

    Args:
        dataset: the data.
        split: the samples of this training; None says that it learned all of them.
        before: the records of the weights that it went on from or learned from, empty where they
            have none.

    Returns:
        ``data``, ``split`` and ``earlier``: the splits of the trainings before, the newest first. A
        training whose record lists nobody stands there with its ``data``.
    """
    earlier = []
    for record in before:
        own, more = record.get("split"), record.get("earlier")
        listed = isinstance(own, dict) and "schema" in own
        earlier += [own if listed else {"data": record.get("data")}]
        earlier += more if isinstance(more, list) else []
    data = {"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset)}
    if split is None:
        split = Split(
            data_digest=dataset.digest,
            seed=0,
            subject_disjoint=True,
            train=dataset.ids,
            validation=(),
            test=(),
        )
    return {"data": data, "split": split.to_dict(), "earlier": earlier}


def _record(
    dataset: Dataset, told: dict[str, Any], vae_run: Trained, done: Trained, device: torch.device
) -> dict[str, Any]:
    return {
        "schema": RECORD_SCHEMA,
        **told,
        "image_size": dataset.size,
        "cost": {"wall_s": vae_run.wall_s + done.wall_s, "device": describe_device(device)},
        "history": {"vae": list(vae_run.history), "base": list(done.history)},
        "versions": versions(),
    }


@torch.no_grad()
def base_metrics(
    pipe: Any,
    dataset: Dataset,
    split: Split,
    captions: Sequence[Sequence[str]],
    *,
    show: bool = False,
) -> dict[str, Any]:
    """The autoencoder's PSNR, and the loss at fixed noise with the first prompts, on `n` validation
    pictures at most.
    """
    size, quality, loss = pictures_at_once(dataset.size), 0.0, 0.0
    rows = [int(row) for row in dataset.indices(split.validation[:MEASURED])]
    with progress(total=len(rows), label="measure", show=show) as bar:
        for part in (rows[start : start + size] for start in range(0, len(rows), size)):
            image_BCHW = to_image(dataset.pixels(part), pipe.vae.device)
            latent_Bchw = (
                pipe.vae.encode(image_BCHW).latent_dist.mean * pipe.vae.config.scaling_factor
            )
            ids_BL = encode(pipe.tokenizer, [captions[row][0] for row in part])
            batch = {
                "latent_Bchw": latent_Bchw,
                "text_BLD": pipe.text_encoder(ids_BL.to(pipe.device))[0],
            }
            quality += psnr(pipe.vae, image_BCHW) * len(part)
            loss += float(batch_losses(None, None, pipe, batch, LEVELS, 0).mean()) * len(part)
            bar.update(len(part))
    return {"n": len(rows), "vae_psnr_db": quality / len(rows), "loss": loss / len(rows)}


def _autoencoder(
    dataset: Dataset,
    split: Split,
    rows: list[int],
    recipe: VAERecipe,
    work: Path,
    facts: dict[str, Any],
    before: Any,
    *,
    seed: int,
    device: torch.device,
    show: bool,
) -> tuple[Any, Trained]:
    if not recipe.steps:
        return before.vae.to(device), Trained(model=before.vae, history=(), wall_s=0.0, samples=0)
    if before is not None:
        attach_quick(before, None)  # it stands in for the decoder that is trained now
    with seeded(seed, 11):
        model = VAELoss(
            build_vae(dataset.size, recipe.channels) if before is None else before.vae,
            encoder=before is None,
        )
    marks = fingerprint(kind="vae", seed=seed, torch=torch.__version__, **facts)
    state = StateFile(path=work / "vae.safetensors", fingerprint=marks)
    shown = to_image(dataset.pixels(dataset.indices(split.validation[:PREVIEWS])), device)

    def preview(averaged: VAELoss, step: int) -> None:
        with torch.no_grad():
            decoded = averaged.vae(shown).sample
        image_grid([_pictures(shown), _pictures(decoded)]).save(work / f"vae-{step:07d}.png")

    done = train_steps(
        model,
        Crops(dataset, rows, recipe.crop, device),
        recipe,
        seed=seed,
        device=device,
        state=state,
        on_sample=preview,
        sample_every=500,
        show=show,
        label="autoencoder",
    )
    return done.model.vae, done


def _latents(
    vae: Any, dataset: Dataset, rows: list[int], work: Path, device: torch.device
) -> torch.Tensor:
    """`encode_all`, kept next to the state: a run that goes on after a kill need not encode
    everything again.
    """
    path, marks = work / "latents.safetensors", {"vae": weights_digest(vae), "rows": str(len(rows))}
    try:
        with safe_open(path, framework="pt") as handle:
            if handle.metadata() == marks:
                kept: torch.Tensor = handle.get_tensor("latents")
                return kept
    except (SafetensorError, OSError):  # not there, or not whole
        pass
    latent_Nchw = encode_all(vae, dataset, rows, device)
    with atomic_path(path, private=True) as temporary, safetensors_errors(path):
        save_file({"latents": latent_Nchw}, temporary, metadata=marks)
    return latent_Nchw


def _tokenizer(folder: Path, captions: Sequence[Sequence[str]]) -> Any:
    """An unfinished run goes on with its own: other token ids would be other words to the text
    encoder.
    """
    if not folder.is_dir():
        with atomic_dir(folder) as temporary:
            prompts = (text for texts in captions for text in texts)
            train_tokenizer(prompts, temporary, vocabulary=VOCABULARY, length=TOKENS)
    return open_tokenizer(folder)


def _pictures(image_BCHW: torch.Tensor) -> list[Image.Image]:
    return [Image.fromarray(item) for item in to_pixels(image_BCHW)]


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


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
