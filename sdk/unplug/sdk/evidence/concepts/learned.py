"""The judge of a concept that a base draws: trained on the base's own pictures with the words and
without, once, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from unplug.core import InputError, json_sha256, progress, use_cache
from unplug.sdk.drawing.diffusion import Sampling, base_digest, sampling_of
from unplug.sdk.forgetting.erasing import Concept, usual_prompts

from .pairs import pairs_of_draws
from .presence import Judge, load_judge, save_judge, train_judge
from .scene import fresh, how

PICTURES = 160
FIRST_SEED = 2_000_000
"""The first seed of the pictures that judges learn from: no audit draws from these."""
LEAST_GAP, MOST_UNASKED = 0.5, 0.25


def concept_judge(
    original: Any,
    name: str,
    concept: Concept,
    sampling: Sampling,
    *,
    seed: int,
    device: torch.device,
    show: bool = False,
) -> Judge:
    """The judge of a concept, from the cache where this base's is there.

    Args:
        original: the base before any erasure.
        name: how the user calls it.
        concept: the concept to see.
        sampling: how pictures will be drawn that it judges.
        seed: the seed of the judge.
        device: the device to compute on.
        show: progress bars.
    """
    facts = {
        "base": base_digest(original),
        "words": concept.words,
        "sampling": asdict(sampling),
        "seed": seed,
        "pictures": PICTURES,
    }
    folder = use_cache() / "judges" / json_sha256(facts)[:32]
    if folder.is_dir():
        return load_judge(folder, device=device)
    prompts = usual_prompts(name, [concept.words], seed=FIRST_SEED + seed)
    every = [prompts[number % len(prompts)] for number in range(PICTURES)]
    with progress(total=2 * PICTURES, label="draw", unit="picture", show=show) as done:
        pairs = pairs_of_draws(
            fresh(original),
            every,
            concept.words,
            seeds=range(FIRST_SEED, FIRST_SEED + PICTURES),
            progress=done,
            **how(sampling),
        )
    judge = train_judge(pairs, concept.words, seed=seed, device=device, show=show)
    save_judge(judge, folder)
    return judge


def check_words(
    original: Any,
    name: str,
    concepts: Sequence[Concept],
    *,
    seed: int,
    device: torch.device,
    show: bool,
) -> None:
    """Refuses concepts that words do not control in a base: such words cannot be erased.

    Args:
        original: the base before any erasure. name: how the user calls it.
        concepts: the concepts to erase.
        seed, device, show: see `concept_judge`.

    Raises:
        InputError: see `check_drawn`.
    """
    for concept in concepts:
        judge = concept_judge(
            original, name, concept, sampling_of(name), seed=seed, device=device, show=show
        )
        check_drawn(judge, name)


def check_drawn(judge: Judge, base: str) -> None:
    """Refuses a concept that words do not control: such words cannot be erased.

    Raises:
        InputError: prompts that say the words hardly show it more often than others, or too many of
            the others show it; with the rates.
    """
    facts = judge.facts
    asked, unasked = facts.recall.value, facts.false_alarms.value
    told = f"it is in {asked:.0%} of pictures that {base} draws of these words"
    if unasked > MOST_UNASKED or asked - unasked < LEAST_GAP:
        why = f"{told}, and in {unasked:.0%} of those that do not say them"
        fix = "What words do not control they cannot erase: try other words, or train a pack"
        raise InputError(f"concept {facts.concept!r}", why, fix)
