"""``python -m benchmarks.base_quality``: whether the base that ships draws what its prompts say, at 25, 6, 4 and 2 steps.

Colours: every word with every seed, how far pictures differ between words and between seeds (`unplug.sdk.studies.words`).
Prompts kept: a judge that never saw these faces reads the attributes off pictures that were drawn by full prompts, and off the
same faces through the autoencoder, which no base can beat. Fréchet: the distance of both from other real faces, in the judge's
features. JSON goes to OUT, grids of words and seeds to SHEETS; docs/plugins.md shows the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from PIL import Image

from unplug.core import InputError, git_revision, installed_versions, read_json, sha256_file, write_json
from unplug.plugins import RECORD
from unplug.sdk.data import captions_of, load_dataset
from unplug.sdk.device import lora_file
from unplug.sdk.diffusion import (
    Sampling,
    Solver,
    base_digest,
    generate,
    image_grid,
    load_base,
    load_loras,
    sampling_by_record,
    sampling_of,
    to_image,
    to_pixels,
)
from unplug.sdk.studies.control import (
    JUDGE_RECIPE,
    agreement,
    examine,
    frechet_rows,
    named_words,
    projection,
    train_judge,
    words_of,
)
from unplug.sdk.studies.words import ATTRIBUTES, bound, listen

SCHEMA = "unplug-base-quality/1"
SETTINGS: tuple[tuple[int, Solver], ...] = ((25, "ddim"), (6, "dpm++"), (4, "dpm++"), (2, "dpm++"))
LEARNED, HELD_OUT, OTHERS = "synth:n=12000,subjects=12000,seed=4", 977, 1200
CPU = torch.device("cpu")


class Drawer:
    """Prompts and seeds to pictures (N, S, S, 3), with one number of steps and one solver."""

    def __init__(self, way: Way) -> None:
        self.base, self.seconds, self.drawn = way.base, 0.0, 0
        self.how = asdict(way.how)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> Any:
        started = time.perf_counter()
        size = int(self.base.vae.config.sample_size)
        pictures = generate(self.base, prompts, seeds=list(seeds), size=size, **self.how)
        self.seconds += time.perf_counter() - started
        self.drawn += len(pictures)
        return np.stack([np.asarray(picture) for picture in pictures])


def through_autoencoder(base: Any, pixels_NHWC: Any) -> Any:
    """The same pictures, encoded and decoded again."""
    parts = []
    with torch.no_grad():
        for start in range(0, len(pixels_NHWC), 32):
            parts.append(to_pixels(base.vae(to_image(pixels_NHWC[start : start + 32], CPU)).sample))
    return np.concatenate(parts)


def kept(read: Any, named: Any) -> dict[str, float]:
    """Share of prompts whose attribute is read as named: of each attribute, and of all."""
    right = {name: values[~np.isnan(values)] for name, values in agreement(read, named).items()}
    return {name: float(values.mean()) for name, values in right.items() if len(values)} | {
        "all": float(np.concatenate(list(right.values())).mean())
    }


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to draw: a pipeline and how it is drawn with, under a name."""

    name: str
    base: Any
    how: Sampling


def ways_of(base_name: str, guidance: float | None, only: Sequence[int], students: Sequence[Path]) -> list[Way]:
    """The base in each of `SETTINGS`; behind it students, each in its own way: bases, and LoRA folders on the base.

    Raises:
        InputError: two students of one name.
    """
    base, usual = load_base(base_name, device=CPU), sampling_of(base_name)
    strength = usual.guidance if guidance is None else guidance
    ways = [
        Way(name=f"{steps} {solver}", base=base, how=replace(usual, steps=steps, solver=solver, guidance=strength))
        for steps, solver in SETTINGS
        if not only or steps in only
    ]
    for folder in students:
        how = sampling_by_record(folder)
        if lora := lora_file(folder).is_file():
            own = load_base(base_name, device=CPU)
            load_loras(own, [folder])
        else:
            own = load_base(str(folder), device=CPU)
        distillation = read_json(folder / RECORD)["student"].get("distillation", "progressive")  # as older records mean
        name = f"{how.steps} {'LoRA' if lora else 'student'} {distillation}"
        ways.append(Way(name=name, base=own, how=replace(how, solver=how.solver or "ddim")))
    if len({way.name for way in ways}) < len(ways):
        raise InputError("--student", "two of them draw in as many steps and were distilled alike", "Measure them one by one")
    return ways


BINDING = "a portrait of an adult, {} plain background, {} clothes"


def measure(ways: Sequence[Way], pictures: int, sheets: Path | None, held_out: int = HELD_OUT) -> dict[str, Any]:
    """Everything, for each way to draw; prompts and real faces are of the seed `held_out`."""
    base = ways[0].base
    learned = load_dataset(LEARNED, 128)
    judge = train_judge(learned, words_of(learned) or (), learned.ids, JUDGE_RECIPE, device=CPU).judge
    count = pictures + OTHERS
    held = load_dataset(f"synth:n={count},subjects={count},seed={held_out}", 128)
    named = [named_words(one) for one in (words_of(held) or ())][:pictures]
    prompts = [own[0] for own in captions_of(held, seed=0, variants=1)][:pictures]
    sources, others = held.pixels(range(pictures)), held.pixels(range(pictures, count))
    rows = {"source": sources, "autoencoder": through_autoencoder(base, sources)}
    found: dict[str, Any] = {"rows": {}, "settings": {}}
    for way in ways:
        drawer, name = Drawer(way), way.name
        colours, grids = {}, []
        for attribute in ATTRIBUTES.values():
            heard, drawn = listen(drawer, attribute)
            colours[attribute.prompt] = asdict(heard) | {"ratio": heard.ratio}
            grids.append(drawn)
        if sheets is not None:
            sheet(grids[0]).save(sheets / f"words-{name.replace(' ', '-')}.webp", quality=92, method=6)
        pair = bound(drawer, ATTRIBUTES["background"], ATTRIBUTES["clothes"], BINDING)
        rows[name] = drawer(prompts, range(pictures))
        found["settings"][name] = {
            **asdict(way.how), "colours": colours, "binding": asdict(pair),
            "seconds_a_picture": drawer.seconds / drawer.drawn,
        }  # fmt: skip
    looked = {name: examine(judge, pixels, CPU) for name, pixels in rows.items()}
    real, _ = examine(judge, others, CPU)
    shown = projection(real, pictures)
    apart = frechet_rows(
        {name: [shown(features)] for name, (features, _) in looked.items()}, shown(real),
        row_subjects=np.arange(pictures), real_subjects=np.arange(OTHERS), seed=0,
    )  # fmt: skip
    for name, (_, read) in looked.items():
        spread = apart[name].apart
        low, high = np.percentile(spread.drawn_RS.mean(axis=1), (2.5, 97.5))
        found["rows"][name] = {
            "kept": kept(read, named), "frechet": float(spread.value_S.mean()), "frechet_finite": apart[name].finite,
            "frechet_drawn": [float(low), float(high)],
        }  # fmt: skip
    return found


def sheet(pictures_NHWC: Any, seeds: int = 3) -> Image.Image:
    """A column a word, a row a seed."""
    made = [Image.fromarray(picture) for picture in pictures_NHWC]
    return image_grid([made[seed::seeds] for seed in range(seeds)])


@click.command()
@click.option("--base", "base_name", default="small", show_default=True)
@click.option("--pictures", type=click.IntRange(40), default=256, show_default=True, help="Pictures a row.")
@click.option("--guidance", type=float, default=None, help="Default: the base's own.")
@click.option("--steps", "only", type=int, multiple=True, help="Of 25, 6, 4 and 2 only these.")
@click.option("--held-out", type=int, default=HELD_OUT, show_default=True, help="Seed of the prompts and the real faces.")
@click.option("--sheets", type=click.Path(path_type=Path, file_okay=False), help="Folder for the grids.")
@click.option(
    "--student",
    "students",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="What `unplug train student` wrote, measured as well.",
)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
def main(
    base_name: str, pictures: int, guidance: float | None, only: tuple[int, ...], held_out: int,
    sheets: Path | None, students: tuple[Path, ...], out: Path,
) -> None:  # fmt: skip
    """Measures a base and writes OUT."""
    ways = ways_of(base_name, guidance, only, students)
    weights = {"base": base_digest(ways[0].base)} | {
        folder.name: sha256_file(lora_file(folder)) for folder in students if lora_file(folder).is_file()
    }
    if sheets is not None:
        sheets.mkdir(parents=True, exist_ok=True)
    found = measure(ways, pictures, sheets, held_out)
    write_json(out, {
        "schema": SCHEMA, "base": base_name, "weights": weights,
        "pictures": pictures, "guidance": ways[0].how.guidance, "learned": LEARNED, "held_out": held_out, **found,
        "versions": installed_versions(["torch", "diffusers", "numpy"]), "git_revision": git_revision(),
    })  # fmt: skip
    for name, row in found["rows"].items():
        click.echo(f"{name:<12} prompt kept {100 * row['kept']['all']:.1f} %  Fréchet {row['frechet']:.2f}")
    for name, row in found["settings"].items():
        heard = "  ".join(f"{prompt.split(', ')[1]}: {one['ratio']:.1f}" for prompt, one in row["colours"].items())
        click.echo(f"{name:<12} words over seeds  {heard}  ({row['seconds_a_picture']:.2f} s a picture)")


if __name__ == "__main__":
    main()
