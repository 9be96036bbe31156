"""Packs of three things, two styles and one person: how often what they learned is drawn when a
prompt says its word, and that a prompt without it gives the base's own pictures.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from unplug.core import read_json, write_json
from unplug.sdk.drawing.diffusion import (
    PackRecipe,
    image_grid,
    load_base,
    load_loras,
    to_image,
    train_pack,
)
from unplug.sdk.evidence.concepts import (
    ConceptPairs,
    Judge,
    JudgeRecipe,
    at_most,
    load_judge,
    presence_rate,
    save_judge,
    through,
    train_judge,
)
from unplug.sdk.learning.data import load_dataset

from .rates import PEOPLE, drawn, judge_of, prompts_of
from .taught import CONCEPTS, SIZE

HER = "subjects=1,seed=77"
"""One procedural identity."""
PERSON = "anna"
FREE = ("background", "clothes", "smiling", "laughing", "surprised", "speaking", "expression")
"""What a prompt of a person may say besides: her looks are hers."""
SHOWN = 8


def packs_of() -> Mapping[str, tuple[str, str]]:
    """Name of each pack to its data and its word."""
    things = {
        word: (f"synth:n=200,subjects=200,seed=11,{what}", word) for word, what in CONCEPTS.items()
    }
    person = {f"{PERSON} of {count}": (f"synth:n={count},{HER}", PERSON) for count in (5, 20)}
    return things | person


def of_nobody(prompt: str) -> str:
    """A prompt without anybody's looks.

    Example:
        >>> of_nobody("a photo of a child, black afro, smiling, teal clothes")
        'a portrait, smiling, teal clothes'
    """
    parts = [part for part in prompt.split(", ") if part.endswith(FREE)]
    return ", ".join(["a portrait", *parts])


def person_judge(out: Path, base: Any, *, seed: int, show: bool) -> Judge:
    """Tells her pictures from other people's."""
    folder = out / "judges" / PERSON
    if folder.is_dir():
        return load_judge(folder, device=base.device)
    hers, others = (
        at_most(
            through(
                base, to_image(load_dataset(spec, SIZE, show=show).pixels(range(400)), base.device)
            )
        )
        for spec in (f"synth:n=400,{HER}", PEOPLE)
    )
    pairs = ConceptPairs(with_NCHW=hers, without_NCHW=others, source=f"synth:{HER}")
    judge = train_judge(pairs, PERSON, JudgeRecipe(), seed=seed, device=base.device, show=show)
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_judge(judge, folder)
    return judge


def packs(
    out: Path,
    pictures: int,
    recipe: PackRecipe,
    *,
    seed: int,
    device: torch.device,
    show: bool,
    say: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """A row a pack, those that an ended run finished from their files.

    Args:
        out: folder of the study: packs, judges, a JSON and a strip of pictures for each.
        pictures: how many are drawn with each pack, named and unnamed.
        recipe: how packs are trained.
        seed: where trainings draw from.
        device: where to compute.
        show: progress bars.
        say: takes one line a pack.
    """
    base = load_base("small", device=device)
    prompts = prompts_of(pictures)
    plain, bare = drawn(base, prompts), [*map(of_nobody, prompts)]
    for name, (spec, word) in packs_of().items():
        folder = out / f"pack-{name.replace(' ', '-')}"
        told = folder.with_suffix(".json")
        if not told.is_file():
            how: dict[str, Any] = {"seed": seed, "device": device, "show": show}
            data = load_dataset(spec, SIZE, show=show)
            record = train_pack(base, "small", data, word, folder, recipe, half=True, **how)
            judge = (
                person_judge(out, base, seed=seed, show=show)
                if word == PERSON
                else judge_of(word, out, base, JudgeRecipe(), seed=seed, show=show)
            )
            taught = type(base)(**base.components, requires_safety_checker=False)
            taught.unet = copy.deepcopy(base.unet)
            load_loras(taught, [folder])
            named = [f"{prompt}, {word}" for prompt in (bare if word == PERSON else prompts)]
            shown = drawn(taught, named)
            row = {
                "pack": name,
                "data": spec,
                "named": asdict(presence_rate(shown, judge)),
                "unnamed": asdict(presence_rate(plain, judge)),
                "base named": asdict(presence_rate(drawn(base, named), judge)),
                "judge": asdict(judge.facts),
                "seconds": record["cost"]["wall_s"],
                "bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors")),
                "pictures": pictures,
            }
            grid = image_grid([plain[:SHOWN], shown[:SHOWN]], side=SIZE)
            grid.save(folder.with_suffix(".png"))
            write_json(told, row)
        row = read_json(told)
        say(f"{name}: named {row['named']['value']:.0%}, unnamed {row['unnamed']['value']:.0%}")
        yield row
