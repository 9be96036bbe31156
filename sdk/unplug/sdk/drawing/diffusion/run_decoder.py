"""``unplug train decoder``: a quick decoder that reads the latents of a base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unplug.core import (
    InputError,
    atomic_path,
    one_writer,
    progress,
    versions,
)
from unplug.plugins import (
    CHECKPOINT_FILES,
    DECODER_SIZES,
    READER_SIDE,
    RECORD,
    QuickDecoder,
    load_checkpoint,
    safetensors_errors,
    save_checkpoint,
    shipped_path,
)
from unplug.sdk.drawing.device import (
    MARKS,
    QUICK,
    READER,
    decoder_folder,
    key_bits,
    latents_sha256,
    make_key,
)
from unplug.sdk.learning.data import Dataset, Split, captions_digest, captions_of
from unplug.sdk.learning.training import (
    describe_device,
    fingerprint,
    front_matter,
    seeded,
    training_place,
)

from .decoder_training import DecoderLoss, LatentCrops
from .digest import base_digest, weights_digest
from .latent_cache import latents
from .load import FACTOR, base_record, check_size_of, image_size_of
from .mark_loss import MarkLoss
from .recipe import DecoderRecipe
from .shipped import base_folder, sampling_by_record
from .steered_pictures import draw_latents
from .steps import round_to_half, state_at, train_steps
from .told import told_data
from .vae import pictures_at_once, to_image, to_pixels

SCHEMA = "unplug-decoder/1"
DRAWN = "drawn.safetensors"
MEASURED = 256
"""Held-out pictures, at most, over which PSNR is averaged."""


@one_writer
def train_decoder(
    base: Any,
    base_name: str,
    dataset: Dataset,
    split: Split,
    out: Path,
    recipe: DecoderRecipe,
    *,
    seed: int,
    device: torch.device,
    start: Path | None = None,
    mark: Path | None = None,
    half: bool = False,
    restart: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Trains a quick decoder and saves it; an unfinished run at `out` is continued.

    Args:
        base: see `load_base`; not changed.
        base_name: how the user named it.
        dataset: pictures of the base's size; with captions where the recipe asks for drawn ones.
        split: its train set is learned; validation pictures measure both decoders.
        out: checkpoint folder to write; ``.NAME.training`` next to it holds the state until the end.
        recipe: how.
        seed: the seed of everything random.
        device: the device to compute on.
        start: a quick decoder of this base to go on from, in its size.
        mark: the file of a key, made where there is none; every picture will carry its bits. No file
            that ships says them.
        half: store the weights in float16; they are measured as they are stored.
        restart: drop an unfinished run.
        show: progress bars.

    Returns:
        The record. ``psnr_db`` has the PSNR of held-out pictures from the autoencoder's decoder, and
        from this one.

    Raises:
        DataError: pictures of another size, or without captions.
        InputError: a base on the hub, whose latents no file says.
        TrainingError, CheckpointError, OutputError: see `train_steps`, `round_to_half` and
            `save_checkpoint`.
    """
    folder = _place(base_name)
    check_size_of(dataset, base)
    first = None if start is None else _started(folder, start)
    with training_place(out, RECORD, CHECKPOINT_FILES, restart=restart) as work:
        writes, marked = _mark(mark)
        captions = captions_of(dataset, seed=seed, variants=1) if recipe.drawn else ()
        facts = {
            "data": dataset.digest,
            "split": split.sha256,
            "captions": captions_digest(captions),
            "base": base_digest(base),
            "start": None if first is None else weights_digest(first),
            "mark": marked,
        }
        rows = [int(row) for row in dataset.indices(split.train)]
        latent_Nchw = torch.from_numpy(latents(base, dataset, show=show)[:].astype("float32"))
        latent_Nchw /= float(base.vae.config.scaling_factor)
        learned_Nchw, drawn = (
            latent_Nchw[rows],
            np.zeros((0, dataset.size, dataset.size, 3), np.uint8),
        )
        if recipe.drawn:
            prompts = [captions[row][0] for row in rows]
            drawn_Mchw, drawn = _drawn(base, folder, prompts, recipe.drawn, work, facts, show)
            learned_Nchw = torch.cat([learned_Nchw, drawn_Mchw])

        def pictures(chosen: list[int]) -> NDArray[np.uint8]:
            ours, count = [row for row in chosen if row < len(rows)], len(rows)
            own = dict(zip(ours, dataset.pixels([rows[row] for row in ours]), strict=True))
            return np.stack([own[row] if row < count else drawn[row - count] for row in chosen])

        crop = recipe.crop if mark is None else dataset.size  # a mark is read from whole pictures
        with seeded(seed, 41):
            decoder = first or _new(base, folder, recipe.size)
        done = train_steps(
            DecoderLoss(decoder, recipe.jitter, writes, recipe.mark_weight),
            LatentCrops(learned_Nchw, pictures, crop, device),
            recipe,
            seed=seed + 1,
            device=device,
            state=state_at(work / "decoder.safetensors", "decoder", recipe, seed, facts),
            show=show,
            label="decoder",
        )
        decoder = done.model.decoder
        if half:
            round_to_half(decoder)
        held = [int(row) for row in dataset.indices(split.validation[:MEASURED])]
        before = [] if start is None else [load_checkpoint(start).record]
        before += [base_record(base_name)] if recipe.drawn else []  # whose pictures are learned
        record = {
            "schema": SCHEMA,
            "base": {"name": base_name, "sha256": facts["base"]},
            "recipe": recipe.to_dict(),
            "seed": seed,
            "captions": facts["captions"],
            "start": facts["start"],
            "marked": mark is not None,
            **told_data(dataset, split, *before),
            "parameters": sum(item.numel() for item in decoder.parameters()),
            "metrics": {"n": len(held), **_psnr(base, decoder, dataset, held, latent_Nchw[held])},
            "history": list(done.history),
            "cost": {"wall_s": done.wall_s, "device": describe_device(device)},
            "versions": versions(),
        }
        save_checkpoint(decoder.half() if half else decoder, out, record=record, card=_card(record))
        # only what can be read makes the state superfluous
        load_checkpoint(out, expect=QUICK)
    return record


def _place(base_name: str) -> Path:
    folder = base_folder(base_name)
    if folder is None:
        why = "it is on the hub, and no file says whose latents these are"
        raise InputError(f"base {base_name}", why, "Download it, and give its folder")
    return folder


def _started(base: Path, start: Path) -> QuickDecoder:
    decoder_folder(base, str(start))  # refuses one of other latents
    decoder: QuickDecoder = load_checkpoint(start, expect=QUICK).model
    return decoder


def _new(base: Any, folder: Path, size: str) -> QuickDecoder:
    vae = base.vae.config
    return QuickDecoder(
        image_size=image_size_of(base),
        latent_channels=int(vae.latent_channels),
        scaling_factor=float(vae.scaling_factor),
        shift_factor=float(vae.shift_factor or 0.0),
        latents_sha256=latents_sha256(folder),
        **DECODER_SIZES[size],
    )


def _mark(key: Path | None) -> tuple[MarkLoss | None, str | None]:
    """The loss that writes a key, and a fingerprint of it for the state alone; neither is in what
    ships.
    """
    if key is None:
        return None, None
    text = make_key(key)
    reader = load_checkpoint(shipped_path("small", MARKS) / READER, expect="mark_reader").model
    bits_K = torch.from_numpy(key_bits(text)).float()
    return MarkLoss(reader, READER_SIDE, bits_K), fingerprint(key=text)


def _drawn(
    base: Any,
    folder: Path,
    prompts: list[str],
    count: int,
    work: Path,
    facts: dict[str, Any],
    show: bool,
) -> tuple[Tensor, NDArray[np.uint8]]:
    """Latents that the base draws, not scaled, and what its own decoder makes of them; kept next to
    the state.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    path, marks = work / DRAWN, {"base": facts["base"], "data": facts["data"], "n": str(count)}
    try:
        with safe_open(path, framework="pt") as handle:
            if handle.metadata() == marks:
                return handle.get_tensor("latents"), handle.get_tensor("pixels").numpy()
    except (SafetensorError, OSError):  # not there, or not whole
        pass
    how, size = sampling_by_record(folder), int(base.unet.config.sample_size) * FACTOR
    parts, pictures = [], []
    drawn = draw_latents(
        base,
        [prompts[index % len(prompts)] for index in range(count)],
        seeds=list(range(count)),
        size=size,
        steps=how.steps,
        guidance=how.guidance,
        solver=how.solver,
        schedule=how.schedule,
        batch_size=pictures_at_once(size),
    )
    with progress(total=count, label="draw", unit="picture", show=show) as bar:
        for scaled_Bchw in drawn:
            latent_Bchw = scaled_Bchw.float() / float(base.vae.config.scaling_factor)
            parts.append(latent_Bchw.cpu())
            pictures.append(to_pixels(_decoded(base, latent_Bchw)))
            bar.update(len(latent_Bchw))
    made = {
        "latents": torch.cat(parts),
        "pixels": torch.from_numpy(np.ascontiguousarray(np.concatenate(pictures))),
    }
    with atomic_path(path, private=True) as temporary, safetensors_errors(path):
        save_file(made, temporary, metadata=marks)
    return made["latents"], made["pixels"].numpy()


@torch.no_grad()
def _decoded(base: Any, latent_Bchw: Tensor) -> Tensor:
    image_BCHW: Tensor = base.vae.decode(latent_Bchw.to(base.vae.dtype)).sample.float()
    return image_BCHW


@torch.no_grad()
def _psnr(
    base: Any, decoder: QuickDecoder, dataset: Dataset, rows: list[int], latent_Nchw: Tensor
) -> dict[str, dict[str, float]]:
    """Mean over pictures of 10 log10(4 / mean squared error) in dB, of both decoders."""
    sums, size = {"autoencoder": 0.0, "decoder": 0.0}, pictures_at_once(dataset.size)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        latent_Bchw = latent_Nchw[part].to(base.device)
        image_BCHW = to_image(dataset.pixels(rows[part]), base.device)
        for name, made_BCHW in (
            ("autoencoder", _decoded(base, latent_Bchw)),
            ("decoder", decoder.decode(latent_Bchw)),
        ):
            error_B = (made_BCHW.clamp(-1, 1) - image_BCHW).square().mean(dim=(1, 2, 3))
            sums[name] += float((10 * (4.0 / error_B).log10()).sum())
    return {"psnr_db": {name: value / max(1, len(rows)) for name, value in sums.items()}}


def _card(record: dict[str, Any]) -> str:
    psnr = record["metrics"]["psnr_db"]
    return _CARD.format(
        front=front_matter(
            f"Quick decoder for {record['base']['name']}", ("unplug",), record, {"validation": psnr}
        ),
        base=record["base"]["name"],
        digest=record["base"]["sha256"],
        spec=record["data"]["spec"],
        size=record["recipe"]["size"],
        parameters=record["parameters"],
        **{name: f"{value:.1f}" for name, value in psnr.items()},
    )


_CARD = """\
{front}# Quick decoder for {base}

A decoder (size {size}, {parameters:,} parameters) for the latents of the base `{base}` (SHA-256
`{digest:.16}`), trained on `{spec}` and on pictures that the base draws. Held-out pictures come back
at {decoder} dB, and from the base's own decoder at {autoencoder} dB. `unplug generate --decoder
FOLDER` and `unplug export --decoder FOLDER` use it.
"""
