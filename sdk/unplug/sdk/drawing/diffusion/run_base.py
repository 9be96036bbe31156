"""``unplug train base``: autoencoder, then UNet and text encoder, then a
``StableDiffusionPipeline`` folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from unplug.core import (
    DataError,
    InputError,
    atomic_dir,
    atomic_path,
    one_writer,
    progress,
    versions,
)
from unplug.plugins import safetensors_errors
from unplug.sdk.learning.data import Dataset, Split, captions_digest, captions_of
from unplug.sdk.learning.training import (
    StateFile,
    describe_device,
    fingerprint,
    seeded,
    training_place,
)

from .base_files import NETWORKS, save_base
from .base_training import BaseLoss, fit_base
from .digest import weights_digest
from .grid import image_grid
from .load import BASE_FILES, RECORD, attach_quick, load_base
from .measure import LEVELS, batch_losses
from .recipe import BaseRecipe
from .shipped import OURS
from .small import TOKENS, VOCABULARY, assemble, build_scheduler, build_vae
from .steered_pictures import generate
from .steps import Trained, processes, round_to_half, train_steps
from .tokenizer import encode, open_tokenizer, spelled_words, teach_words, train_tokenizer
from .told import told_data
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
    with training_place(out, RECORD, BASE_FILES, restart=restart) as work:
        captions = captions_of(dataset, seed=seed, variants=recipe.captions)
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
        order = _BaseOrder(
            dataset=dataset,
            split=split,
            captions=captions,
            work=work,
            facts=facts,
            start=start,
            seed=seed,
            device=device,
            show=show,
        )
        vae, vae_run = _autoencoder(order, vae_recipe)
        pipe, done = _networks(order, vae, recipe, sample_every)
        if half:
            for name in NETWORKS:
                round_to_half(getattr(pipe, name))
        record = {
            "schema": RECORD_SCHEMA,
            **told_data(dataset, split, *(() if start is None else (start_record,))),
            "image_size": dataset.size,
            "cost": {"wall_s": vae_run.wall_s + done.wall_s, "device": describe_device(device)},
            "history": {"vae": list(vae_run.history), "base": list(done.history)},
            "versions": versions(),
            "captions": facts["captions"],
            "start": facts["start"],
            **{name: facts[name] for name in ("words",) if name in facts},
            "seed": seed,
            "recipe": {"vae": vae_recipe.to_dict(), "base": recipe.to_dict()},
            "metrics": base_metrics(pipe, dataset, split, captions, show=show),
            "parameters": {
                name: sum(item.numel() for item in getattr(pipe, name).parameters())
                for name in NETWORKS
            },
        }
        save_base(pipe, out, record, half=half)
        # only what can be read makes the state superfluous
        load_base(str(out), device=torch.device("cpu"))
    return out


@dataclass(frozen=True, kw_only=True)
class _BaseOrder:
    """What both trainings of a base share; `facts` are what their states must agree on."""

    dataset: Dataset
    split: Split
    captions: Sequence[Sequence[str]]
    work: Path
    facts: dict[str, Any]
    start: Any
    seed: int
    device: torch.device
    show: bool

    @property
    def rows(self) -> list[int]:
        """The training pictures' places in the data."""
        return [int(row) for row in self.dataset.indices(self.split.train)]

    @property
    def shown(self) -> list[int]:
        """The places of the validation pictures that previews show."""
        return [int(row) for row in self.dataset.indices(self.split.validation[:PREVIEWS])]


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


def _autoencoder(order: _BaseOrder, recipe: VAERecipe) -> tuple[Any, Trained]:
    before, dataset, device = order.start, order.dataset, order.device
    if not recipe.steps:
        return before.vae.to(device), Trained(model=before.vae, history=(), wall_s=0.0, samples=0)
    if before is not None:
        attach_quick(before, None)  # it stands in for the decoder that is trained now
    with seeded(order.seed, 11):
        model = VAELoss(
            build_vae(dataset.size, recipe.channels) if before is None else before.vae,
            encoder=before is None,
        )
    marks = fingerprint(kind="vae", seed=order.seed, torch=torch.__version__, **order.facts)
    shown = to_image(dataset.pixels(order.shown), device)

    def preview(averaged: VAELoss, step: int) -> None:
        with torch.no_grad():
            decoded = averaged.vae(shown).sample
        image_grid([_pictures(shown), _pictures(decoded)]).save(order.work / f"vae-{step:07d}.png")

    done = train_steps(
        model,
        Crops(dataset, order.rows, recipe.crop, device),
        recipe,
        seed=order.seed,
        device=device,
        state=StateFile(path=order.work / "vae.safetensors", fingerprint=marks),
        on_sample=preview,
        sample_every=500,
        show=order.show,
        label="autoencoder",
    )
    return done.model.vae, done


def _networks(
    order: _BaseOrder, vae: Any, recipe: BaseRecipe, sample_every: int
) -> tuple[Any, Trained]:
    """UNet and text encoder over the autoencoder's latents, as a pipeline."""
    start, work, captions = order.start, order.work, order.captions
    prompts = [captions[row] for row in order.rows]
    latent_Nchw = _latents(vae, order)
    if start is None:
        # The noise has unit variance: latents must meet it at the same scale.
        vae.register_to_config(scaling_factor=scaling_factor(latent_Nchw))
    tokenizer = _tokenizer(work / "tokenizer", prompts) if start is None else start.tokenizer

    def assembled(model: BaseLoss) -> Any:
        return assemble(vae, model.text_encoder, tokenizer, model.unet, build_scheduler())

    def preview(model: BaseLoss, step: int) -> None:
        texts = [captions[row][0] for row in order.shown]
        pictures = generate(
            assembled(model),
            texts,
            seeds=list(range(len(texts))),
            size=order.dataset.size,
            schedule=OURS.schedule,
        )
        image_grid([pictures]).save(work / f"sample-{step:07d}.png")

    done = fit_base(
        latent_Nchw * float(vae.config.scaling_factor),
        prompts,
        tokenizer,
        recipe,
        seed=order.seed,
        device=order.device,
        state_path=work / "unet.safetensors",
        facts=order.facts,
        networks=None if start is None else (start.unet, start.text_encoder),
        on_sample=preview,
        sample_every=sample_every,
        show=order.show,
    )
    return assembled(done.model), done


def _latents(vae: Any, order: _BaseOrder) -> torch.Tensor:
    """`encode_all`, kept next to the state: a run that goes on after a kill need not encode
    everything again.
    """
    path, rows = order.work / "latents.safetensors", order.rows
    marks = {"vae": weights_digest(vae), "rows": str(len(rows))}
    try:
        with safe_open(path, framework="pt") as handle:
            if handle.metadata() == marks:
                kept: torch.Tensor = handle.get_tensor("latents")
                return kept
    except (SafetensorError, OSError):  # not there, or not whole
        pass
    latent_Nchw = encode_all(vae, order.dataset, rows, order.device)
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
