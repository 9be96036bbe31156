"""How often a base draws each concept, named and unnamed, and how far its other pictures are from
another base's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import Estimate
from unplug.sdk.drawing.diffusion import OURS, generate, image_size_of
from unplug.sdk.evidence.concepts import (
    Judge,
    JudgeRecipe,
    load_judge,
    pairs_of_spec,
    presence_rate,
    save_judge,
    train_judge,
)
from unplug.sdk.learning.data import SynthSource

from .taught import CONCEPTS, SIZE

JUDGED: Mapping[str, str] = {**CONCEPTS, "glasses": "wears=glasses"}
NAMED = {**dict.fromkeys(CONCEPTS, ""), "glasses": "black "}
"""In front of a concept in a prompt."""
PEOPLE, STRANGERS = "synth:n=400,subjects=400,seed=21", "n={},subjects={},seed=91"
"""Who judges learn from, and of whom the prompts tell: neither was trained on."""


@dataclass(frozen=True, kw_only=True)
class ConceptRate:
    """How often one concept was drawn.

    Args:
        named: of prompts that say it.
        unnamed: of the same prompts, seeds and noise without it.
        recall, false_alarms: of the judge, on pictures that it never saw.
    """

    named: Estimate
    unnamed: Estimate
    recall: Estimate
    false_alarms: Estimate


def judge_of(
    concept: str, out: Path, base: Any, recipe: JudgeRecipe, *, seed: int, show: bool
) -> Judge:
    """The judge of a concept in the study's folder, trained where it is not there yet."""
    folder = out / "judges" / concept.replace(" ", "-")
    device = base.device
    if folder.is_dir():
        return load_judge(folder, device=device)
    pairs = pairs_of_spec(f"{PEOPLE},{JUDGED[concept]}", PEOPLE, SIZE, base=base)
    judge = train_judge(pairs, concept, recipe, seed=seed, device=device, show=show)
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_judge(judge, folder)
    return judge


def prompts_of(count: int) -> list[str]:
    """Prompts of people that no base was trained on, none with glasses.

    Example:
        >>> len(prompts_of(3)), any("glasses" in prompt for prompt in prompts_of(40))
        (3, False)
    """
    source = SynthSource(STRANGERS.format(count, count))
    told = (source.captions(sample, 0, 2)[1] for sample in source.listing().samples)
    return [
        ", ".join(part for part in prompt.split(", ") if "glasses" not in part) for prompt in told
    ]


def drawn(base: Any, prompts: list[str]) -> list[Any]:
    """A picture of each prompt as bases of ours draw by default, each from its own noise."""
    return generate(
        base,
        prompts,
        seeds=list(range(len(prompts))),
        size=image_size_of(base),
        steps=OURS.steps,
        guidance=OURS.guidance,
        solver=OURS.solver,
        schedule=OURS.schedule,
    )


def rates_of(base: Any, judges: Mapping[str, Judge], count: int) -> dict[str, ConceptRate]:
    """Named and unnamed rates of every judged concept.

    Args:
        base: see `unplug.sdk.drawing.diffusion.load_base`.
        judges: of each concept.
        count: pictures of each.
    """
    prompts = prompts_of(count)
    plain, rates = drawn(base, prompts), dict[str, ConceptRate]()
    for name, judge in judges.items():
        shown = drawn(base, [f"{prompt}, {NAMED[name]}{name}" for prompt in prompts])
        rates[name] = ConceptRate(
            named=presence_rate(shown, judge),
            unnamed=presence_rate(plain, judge),
            recall=judge.facts.recall,
            false_alarms=judge.facts.false_alarms,
        )
    return rates


def distance(base: Any, other: Any, count: int) -> float:
    """Mean PSNR in dB between what two bases draw of the same prompts and noise."""
    prompts = prompts_of(count)
    ours, theirs = (
        np.stack([np.asarray(one, np.float64) for one in drawn(one_base, prompts)])
        for one_base in (base, other)
    )
    error_N = np.square(ours - theirs).mean(axis=(1, 2, 3)).clip(1e-6)
    return float(np.mean(10 * np.log10(255.0**2 / error_N)))
