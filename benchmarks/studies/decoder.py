"""What a quick decoder costs a picture, and what its mark survives.

Run ``python -m benchmarks.studies.decoder quality|speed|mark``. Each part writes its table into
docs/data/decoder.json and keeps those of the others. Prompts and faces are of seeds that no training
saw.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from torch import Tensor

from unplug.core import Estimate, git_revision, progress, read_json, temporary_folder, write_json
from unplug.export import Session, export_checkpoint
from unplug.plugins import QuickDecoder, load_checkpoint, shipped_path
from unplug.sdk.drawing.device import MARKS, READER, key_bits, read_key
from unplug.sdk.drawing.device.mark import BITS, CHANCE, DEMONSTRATION, chance_of, readings_of
from unplug.sdk.drawing.diffusion import (
    DecoderRecipe,
    base_digest,
    draw_latents,
    load_base,
    sampling_of,
    shipped_folder,
    to_image,
    to_pixels,
    train_steps,
)
from unplug.sdk.drawing.diffusion.decoder_training import DecoderLoss, LatentCrops
from unplug.sdk.drawing.diffusion.latent_cache import cached_array
from unplug.sdk.evidence.statistics import (
    Gaussian,
    fit_gaussian,
    frechet_distance,
    mean_estimate,
    projection,
)
from unplug.sdk.learning.data import captions_of, load_dataset

from .control.judge import agreement, examine, named_words, train_judge, words_of
from .control.setup import JUDGE_RECIPE
from .race import race

Pixels = NDArray[np.uint8]
OUT = Path("docs/data/decoder.json")
LEARNED, HELD = "synth:n=6000,subjects=6000,seed=4", "synth:n={n},subjects={n},seed=977"
CPU, AT_ONCE = torch.device("cpu"), 32
ROUNDS = 40
FORMS = {
    "litert": ["fp32", "fp16", "int8-static"],
    "onnx": ["fp32", "int8-static"],
    "coreml": ["fp32"],
}
"""Precisions whose pictures are read, by target."""


def _keep(part: str, head: Sequence[str], rows: Sequence[Sequence[str]], **facts: Any) -> None:
    """Writes one table, and keeps the others."""
    told = read_json(OUT) if OUT.is_file() else {"tables": []}
    others = [table for table in told["tables"] if table["part"] != part]
    made = {
        "part": part,
        "head": list(head),
        "rows": [list(row) for row in rows],
        **facts,
    }
    tables = sorted([*others, made], key=lambda table: str(table["part"]))
    command = "python -m benchmarks.studies.decoder files|mark|quality|speed"
    write_json(
        OUT,
        {
            "command": command,
            "commit": str(git_revision()).removesuffix("-dirty"),
            "tables": tables,
        },
    )
    for row in [head, *rows]:
        print(" | ".join(row))


def _said(one: Estimate, digits: int) -> str:
    low, high = one.ends or (one.value, one.value)
    return f"{one.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


@torch.no_grad()
def _decode(decode: Callable[[Tensor], Tensor], latent_Nchw: Tensor) -> Pixels:
    parts = [to_pixels(decode(part).float()) for part in latent_Nchw.split(AT_ONCE)]
    return np.concatenate(parts)


def _decoders(quick: Path) -> tuple[Any, dict[str, Callable[[Tensor], Tensor]]]:
    base = load_base("small", device=CPU, decoder="autoencoder")
    decoder = load_checkpoint(quick, expect="quick_decoder").model
    return base, {
        "autoencoder's": lambda z: torch.as_tensor(base.vae.decode(z).sample),
        "quick": decoder.decode,
    }


def _drawn(base: Any, prompts: Sequence[str]) -> Tensor:
    """Latents (N, c, h, w), not scaled, that the base draws for prompts; kept in the cache."""
    how = sampling_of("small")
    drawn = draw_latents(
        base,
        prompts,
        seeds=list(range(7000, 7000 + len(prompts))),
        size=128,
        steps=how.steps,
        guidance=how.guidance,
        solver=how.solver,
        schedule=how.schedule,
        batch_size=AT_ONCE,
    )

    def blocks() -> Iterable[NDArray[Any]]:
        with progress(total=len(prompts), label="draw", show=True) as bar:
            for latent_Bchw in drawn:
                yield (latent_Bchw.float() / float(base.vae.config.scaling_factor)).numpy()
                bar.update(len(latent_Bchw))

    facts = {"kind": "drawn", "base": base_digest(base), "prompts": list(prompts), "how": str(how)}
    shape = (len(prompts), int(base.vae.config.latent_channels), 16, 16)
    return torch.from_numpy(np.array(cached_array(facts, shape, "float32", blocks())))


@torch.no_grad()
def _encoded(base: Any, image_NCHW: Tensor) -> Tensor:
    parts = [base.vae.encode(part).latent_dist.mean for part in image_NCHW.split(AT_ONCE)]
    return torch.cat(parts)


@click.group()
def main() -> None:
    """Measure the quick decoder."""


quick_option = click.option(
    "--quick",
    type=click.Path(path_type=Path),
    default=lambda: shipped_folder("small") / "decoder",
    help="The decoder.",
)


@main.command()
@quick_option
@click.option("--pictures", default=400, help="Prompts; a half more real faces.")
def quality(quick: Path, pictures: int) -> None:
    """PSNR, Fréchet distance and prompts kept, of the same latents by both decoders."""
    base, decoders = _decoders(quick)
    learned = load_dataset(LEARNED, 128)
    judge = train_judge(
        learned, words_of(learned) or (), learned.ids, JUDGE_RECIPE, device=CPU
    ).judge
    held = load_dataset(HELD.format(n=2 * pictures), 128)
    wanted = [named_words(one) for one in (words_of(held) or ())][:pictures]
    prompts = [own[0] for own in captions_of(held, seed=0, variants=1)][:pictures]
    faces, others = held.pixels(range(pictures)), held.pixels(range(pictures, 2 * pictures))
    drawn_Nchw, face_NCHW = _drawn(base, prompts), to_image(faces, CPU)
    coded_Nchw = _encoded(base, face_NCHW)
    real_ND = examine(judge, others, CPU)[0]
    reduce = projection(real_ND, pictures)
    real, rows, kept, seen = fit_gaussian(reduce(real_ND)), [], {}, {}
    for name, decode in decoders.items():
        pixels = _decode(decode, drawn_Nchw)
        features_ND, read = examine(judge, pixels, CPU)
        seen[name] = reduce(features_ND)
        apart = frechet_distance(fit_gaussian(seen[name]), real)
        right = np.stack(list(agreement(read, wanted).values()))
        kept[name] = np.nanmean(right, axis=0)
        back = _decode(decode, coded_Nchw).astype(float) - faces
        db_N = 10 * np.log10(255**2 / np.square(back).mean(axis=(1, 2, 3)))
        psnr = mean_estimate(db_N, np.arange(pictures), 0)
        share = mean_estimate(kept[name], np.arange(pictures), 0)
        rows.append([name, _said(psnr, 1), f"{apart:.2f}", _said(share, 3)])
    gap = mean_estimate(kept["quick"] - kept["autoencoder's"], np.arange(pictures), 0)
    _keep(
        "quality",
        ["decoder", "PSNR of unseen faces, dB", "Fréchet distance", "prompt kept"],
        rows,
        pictures=pictures,
        prompt_kept_difference=_said(gap, 3),
        frechet_ratio=_ratio(seen["quick"], seen["autoencoder's"], real),
    )
    shown = [faces[:8], *(_decode(decode, coded_Nchw[:8]) for decode in decoders.values())]
    sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in shown])
    Image.fromarray(sheet).save("docs/images/decoders.webp", quality=90, method=6)


def _ratio(one_NK: NDArray[Any], other_NK: NDArray[Any], real: Gaussian) -> str:
    """Of two distances, over pictures drawn again together."""
    rng, ratios = np.random.default_rng(0), []
    for turn in range(201):
        rows = rng.integers(len(one_NK), size=len(one_NK)) if turn else np.arange(len(one_NK))
        apart = [frechet_distance(fit_gaussian(own[rows]), real) for own in (one_NK, other_NK)]
        ratios.append(apart[0] / apart[1])
    low, high = np.percentile(ratios[1:], [2.5, 97.5])
    return f"{ratios[0]:.3f} ({low:.3f} to {high:.3f})"


@main.command()
@quick_option
def speed(quick: Path) -> None:
    """Milliseconds of both decoders in turn, on one and two threads, in LiteRT and ONNX Runtime."""
    rows = []
    with temporary_folder("unplug-decoders-") as out:
        made = {
            name: export_checkpoint(
                folder, targets=["litert", "onnx"], precisions=["fp32"], out=out / name
            )
            for name, folder in (("vae", shipped_folder("small/vae")), ("quick", quick))
        }
        for target in ("litert", "onnx"):
            for threads in (1, 2):
                rows.append(_raced(made, target, threads))
    head = ["runtime", "threads", "autoencoder's, ms", "quick, ms", "times as fast (quartiles)"]
    _keep("speed", head, rows)


@main.command()
@quick_option
@click.option("--pictures", default=40)
def files(quick: Path, pictures: int) -> None:
    """Parity and bits of the pictures that each exported file makes."""
    key = read_key(shipped_path("small", MARKS) / DEMONSTRATION)
    base, decoders = _decoders(quick)
    faces = load_dataset(HELD.format(n=pictures + 64), 128).pixels(range(pictures + 64))
    coded_Nchw = _encoded(base, to_image(faces, CPU))
    scaled = (coded_Nchw * float(base.vae.config.scaling_factor)).numpy()
    wanted = _decode(decoders["quick"], coded_Nchw[:pictures]).astype(float)
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
    _keep("files", ["target", "precision", "bytes", "dB", "pictures", "bits right", "marked"], rows)


def _raced(made: dict[str, list[Any]], target: str, threads: int) -> list[str]:
    files = {
        name: next(item for item in items if item.card.target == target)
        for name, items in made.items()
    }
    paths = {name: str(item.path) for name, item in files.items()}
    # what a decoder takes, and not what carrying its picture to another process does
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        seconds = alone.submit(race, paths, target, threads, (1, 8, 16, 16), ROUNDS).result()
    ratios = [a / b for a, b in zip(seconds["vae"], seconds["quick"], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    own = [f"{1000 * statistics.median(seconds[name]):.1f}" for name in ("vae", "quick")]
    return [target, str(threads), *own, f"{middle:.1f} ({low:.1f} to {high:.1f})"]


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
    return [name, str(len(agree_N)), _said(accuracy, 3), f"{int(marked.sum())}"]


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


@main.command()
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
    base, decoders = _decoders(quick)
    held = load_dataset(HELD.format(n=others), 128)
    prompts = [own[0] for own in captions_of(held, seed=0, variants=1)][: pictures // 2]
    coded_Nchw = _encoded(base, to_image(held.pixels(range(others)), CPU))
    latent_Nchw = torch.cat([_drawn(base, prompts), coded_Nchw[: pictures - len(prompts)]])
    pixels = _decode(decoders["quick"], latent_Nchw)
    rows = [_told(name, _agree(_read(one), key)) for name, one in _weathers(pixels).items()]
    again = _decode(decoders["autoencoder's"], _encoded(base, to_image(pixels, CPU)))
    rows.append(_told("through the autoencoder", _agree(_read(again), key)))
    for steps in (20, 100):
        plain = _trained_on(quick, base, coded_Nchw, held.pixels(range(1000)), steps)
        rows.append(
            _told(f"{steps} steps on, without it", _agree(_read(_decode(plain, latent_Nchw)), key))
        )
    photos = sorted(photographs.rglob("*.jpg"))[:others]
    free = load_checkpoint(unmarked, expect="quick_decoder").model
    spreads = {}
    for name, bits_NRK in (
        ("photographs", _read(photos)),
        ("pictures of the decoder before", _read(_decode(free.decode, coded_Nchw))),
    ):
        rows.append(_told(name, _agree(bits_NRK, key)))
        one_N = (bits_NRK[:, 0] == key_bits(key).astype(bool)).sum(-1)
        spreads[name] = {
            "mean": float(one_N.mean()),
            "variance": float(one_N.var()),
            "most": int(_agree(bits_NRK, key).max()),
        }
    head = ["pictures", "number", "bits right", "called marked"]
    _keep(
        "mark", head, rows, fair_bits={"mean": BITS / 2, "variance": BITS / 4}, one_reading=spreads
    )


def _trained_on(
    quick: Path, base: Any, coded_Nchw: Tensor, pixels: Pixels, steps: int
) -> Callable[[Tensor], Tensor]:
    """The decoder after more steps without a mark, by whoever holds the weights."""
    decoder = load_checkpoint(quick, expect="quick_decoder").model
    recipe = DecoderRecipe(steps=steps, batch_size=16, lr=5e-4, warmup=5, ema=0.9, precision="fp32")
    draw = LatentCrops(coded_Nchw[: len(pixels)], lambda rows: pixels[rows], recipe.crop, CPU)
    done = train_steps(DecoderLoss(decoder, recipe.jitter), draw, recipe, seed=9, device=CPU)
    trained: QuickDecoder = done.model.decoder
    return trained.decode


if __name__ == "__main__":
    main()
