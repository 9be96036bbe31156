"""Bits that are read from a marked decoder's pictures, from its files' and from others.

Shapes: N pictures, R readings, K bits, c latent channels, h and w of a latent.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from torch import Tensor

from unplug.core import progress, temporary_folder
from unplug.export import Session, export_checkpoint
from unplug.plugins import QuickDecoder, load_checkpoint, shipped_path
from unplug.sdk.drawing.device import MARKS, READER, key_bits, read_key
from unplug.sdk.drawing.device.mark import BITS, CHANCE, DEMONSTRATION, chance_of, readings_of
from unplug.sdk.drawing.diffusion import DecoderRecipe, to_image, train_steps
from unplug.sdk.drawing.diffusion.decoder_training import DecoderLoss, LatentCrops
from unplug.sdk.evidence.statistics import mean_estimate
from unplug.sdk.learning.data import captions_of, load_dataset

from .shared import (
    CPU,
    HELD,
    Pixels,
    base_and_its_own,
    decode,
    drawn,
    encoded,
    keep,
    quick_of,
    quick_option,
    said,
)

FORMS = {
    "litert": ["fp32", "fp16", "int8-static"],
    "onnx": ["fp32", "int8-static"],
    "coreml": ["fp32"],
}
"""Precisions whose pictures are read, by target."""


@click.command()
@quick_option
@click.option("--pictures", default=40)
def files(quick: Path, pictures: int) -> None:
    """Parity and bits of the pictures that each exported file makes."""
    key = read_key(shipped_path("small", MARKS) / DEMONSTRATION)
    base, _ = base_and_its_own()
    decoder = quick_of(quick).decode
    faces = load_dataset(HELD.format(n=pictures + 64), 128).pixels(range(pictures + 64))
    coded_Nchw = encoded(base, to_image(faces, CPU))
    scaled = (coded_Nchw * float(base.vae.config.scaling_factor)).numpy()
    wanted = decode(decoder, coded_Nchw[:pictures]).astype(float)
    rows = []
    with temporary_folder("unplug-decoders-") as out:
        calibration = {"latents": scaled[pictures:]}
        made_of = [
            item
            for target, precisions in FORMS.items()
            for item in export_checkpoint(
                quick,
                targets=[target],
                precisions=precisions,
                calibration=calibration,
                out=out / target,
            )
        ]
        for artifact in made_of:
            with Session(artifact) as session:
                made = [
                    session.run_channels_first({"latents": one[None]})["image"][0]
                    for one in scaled[:pictures]
                ]
            pixels = (np.stack(made).transpose(0, 2, 3, 1) * 255).round().astype(np.uint8)
            db = 10 * np.log10(255**2 / max(1e-9, float(np.square(pixels - wanted).mean())))
            card = artifact.card
            named = [card.target, card.precision, f"{card.bytes:,}", f"{db:.1f}"]
            rows.append([*named, *_told("", _agree(_read(pixels), key))[1:]])
    keep("files", ["target", "precision", "bytes", "dB", "pictures", "bits right", "marked"], rows)


def _read(pictures: Pixels | Sequence[Path]) -> NDArray[np.bool_]:
    """Bits (N, R, K) of pictures in each of R readings, as `unplug detect` lays them."""
    reader = load_checkpoint(shipped_path("small", MARKS) / READER, expect="mark_reader").model
    found = []
    with (
        temporary_folder("unplug-read-") as folder,
        torch.no_grad(),
        progress(total=len(pictures), label="read", show=True) as bar,
    ):
        for one in pictures:
            path = one if isinstance(one, Path) else folder / "a.png"
            if not isinstance(one, Path):
                Image.fromarray(one).save(path)
            found.append((reader(torch.from_numpy(readings_of(path)))["bits"] > 0).numpy())
            bar.update(1)
    return np.stack(found)


def _agree(bits_NRK: NDArray[np.bool_], key: str) -> NDArray[np.int64]:
    """Bits (N,) of the better reading that are a key's."""
    agree_N: NDArray[np.int64] = (bits_NRK == key_bits(key).astype(bool)).sum(-1).max(-1)
    return agree_N


def _told(name: str, agree_N: NDArray[np.int64]) -> list[str]:
    marked = np.array([chance_of(int(agree)) <= CHANCE for agree in agree_N])
    accuracy = mean_estimate(agree_N / BITS, np.arange(len(agree_N)), 0)
    return [name, str(len(agree_N)), said(accuracy, 3), f"{int(marked.sum())}"]


def _weathers(pixels: Pixels) -> dict[str, Pixels]:
    """The pictures after one thing each, by Pillow, as a stranger would do it."""

    def each(change: Callable[[Image.Image], Image.Image]) -> Pixels:
        return np.stack([np.asarray(change(Image.fromarray(one))) for one in pixels])

    def jpeg(quality: int) -> Callable[[Image.Image], Image.Image]:
        def change(one: Image.Image) -> Image.Image:
            memory = io.BytesIO()
            one.save(memory, "JPEG", quality=quality)
            return Image.open(memory).convert("RGB")

        return change

    def noise(spread: float) -> Callable[[Image.Image], Image.Image]:
        rng = np.random.default_rng(0)

        def change(one: Image.Image) -> Image.Image:
            more = rng.normal(0, spread, (*one.size[::-1], 3))
            return Image.fromarray((np.asarray(one) + more).clip(0, 255).round().astype(np.uint8))

        return change

    return {
        "clean": pixels,
        "JPEG 80": each(jpeg(80)),
        "JPEG 50": each(jpeg(50)),
        "half the side": each(lambda one: one.resize((64, 64), Image.Resampling.BILINEAR)),
        "crop to 80 %": each(lambda one: one.crop((13, 13, 115, 115))),
        "brightness +30 %": each(lambda one: ImageEnhance.Brightness(one).enhance(1.3)),
        "brightness -30 %": each(lambda one: ImageEnhance.Brightness(one).enhance(0.7)),
        "noise of 8 of 255": each(noise(8)),
        "noise of 32 of 255": each(noise(32)),
    }


@click.command()
@quick_option
@click.option(
    "--unmarked", type=click.Path(path_type=Path), required=True, help="As it was before."
)
@click.option("--photographs", type=click.Path(path_type=Path), required=True, help="Folder.")
@click.option("--pictures", default=300, help="Marked ones.")
@click.option("--others", default=5000, help="Unmarked ones of each kind.")
def mark(quick: Path, unmarked: Path, photographs: Path, pictures: int, others: int) -> None:
    """Bits read after what happens to pictures, from unmarked pictures, and after training on."""
    key = read_key(shipped_path("small", MARKS) / DEMONSTRATION)
    base, own = base_and_its_own()
    decoder = quick_of(quick).decode
    held = load_dataset(HELD.format(n=others), 128)
    prompts = [own[0] for own in captions_of(held, seed=0, variants=1)][: pictures // 2]
    coded_Nchw = encoded(base, to_image(held.pixels(range(others)), CPU))
    latent_Nchw = torch.cat([drawn(base, prompts), coded_Nchw[: pictures - len(prompts)]])
    pixels = decode(decoder, latent_Nchw)
    rows = [_told(name, _agree(_read(one), key)) for name, one in _weathers(pixels).items()]
    again = decode(own, encoded(base, to_image(pixels, CPU)))
    rows.append(_told("through the autoencoder", _agree(_read(again), key)))
    for steps in (20, 100):
        plain = _trained_on(quick, base, coded_Nchw, held.pixels(range(1000)), steps)
        rows.append(
            _told(f"{steps} steps on, without it", _agree(_read(decode(plain, latent_Nchw)), key))
        )
    photos = sorted(photographs.rglob("*.jpg"))[:others]
    free = quick_of(unmarked)
    spreads = {}
    for name, bits_NRK in (
        ("photographs", _read(photos)),
        ("pictures of the decoder before", _read(decode(free.decode, coded_Nchw))),
    ):
        rows.append(_told(name, _agree(bits_NRK, key)))
        one_N = (bits_NRK[:, 0] == key_bits(key).astype(bool)).sum(-1)
        spreads[name] = {
            "mean": float(one_N.mean()),
            "variance": float(one_N.var()),
            "most": int(_agree(bits_NRK, key).max()),
        }
    head = ["pictures", "number", "bits right", "called marked"]
    keep(
        "mark", head, rows, fair_bits={"mean": BITS / 2, "variance": BITS / 4}, one_reading=spreads
    )


def _trained_on(
    quick: Path, base: Any, coded_Nchw: Tensor, pixels: Pixels, steps: int
) -> Callable[[Tensor], Tensor]:
    """The decoder after more steps without a mark, by whoever holds the weights."""
    decoder = quick_of(quick)
    recipe = DecoderRecipe(steps=steps, batch_size=16, lr=5e-4, warmup=5, ema=0.9, precision="fp32")
    draw = LatentCrops(coded_Nchw[: len(pixels)], lambda rows: pixels[rows], recipe.crop, CPU)
    done = train_steps(DecoderLoss(decoder, recipe.jitter), draw, recipe, seed=9, device=CPU)
    trained: QuickDecoder = done.model.decoder
    return trained.decode
