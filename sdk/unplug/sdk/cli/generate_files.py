"""``unplug generate`` with a base of exported files: the device's own loop, without torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import InputError

from .bars import progress_bar
from .base import Common, Outcome
from .generate_order import DrawOrder, deliver
from .options import given_option

if TYPE_CHECKING:
    from unplug.sdk.drawing.device import Encoded

ELSEWHERE = {"size": "--size"}
"""Options that a file cannot follow: what it draws was fixed when it was exported."""


def generate_on_files(order: DrawOrder, common: Common) -> Outcome:
    """Draws with the files of one target and precision."""
    from PIL import Image

    from unplug.sdk.drawing.device import Words, condition_of, draw, load_pipeline
    from unplug.sdk.drawing.diffusion import find_lora

    if (name := given_option(*ELSEWHERE)) is not None:
        raise InputError(
            ELSEWHERE[name],
            "exported files cannot follow it",
            "Leave it out, or export the base that you want",
        )
    folder = Path(order.base)
    pipeline = load_pipeline(folder)
    kind_of = partial(condition_of, pipeline)
    steerings = order.guides.steerings(kind_of)
    words = Words(
        prompt=order.prompt,
        negative=order.negative,
        steps=order.steps,
        guidance=order.guidance,
        solver=order.solver,
    )
    words = replace(words, encoded=words.read(pipeline))
    for text, encoded in zip((order.prompt, order.negative), words.read(pipeline), strict=True):
        _tell_words(text, encoded, len(pipeline.tokenizer.vocabulary), common)
    with progress_bar("draw", common) as progress:
        drawn = draw(
            folder,
            words,
            pipeline=pipeline,
            seeds=order.seeds,
            steerings=steerings,
            variant=order.variant,
            loras=tuple(map(find_lora, order.loras)),
            target=order.target,
            precision=order.precision,
            threads=order.threads,
            progress=progress,
        )
    usual = pipeline.defaults_of(order.variant)
    facts = {
        "base": pipeline.name,
        "steps": order.steps or usual.steps,
        "guidance": usual.guidance if order.guidance is None else order.guidance,
        "solver": order.solver or usual.solver,
        "guidance_schedule": pipeline.schedule.guidance,
        "size": pipeline.image_size,
        "precision": drawn.precision,
        "target": drawn.target,
        "runtime": drawn.runtime,
        "noise": pipeline.noise,
        "variant": order.variant,
    }
    more = {
        "load_seconds": drawn.load_seconds,
        "peak_bytes": drawn.peak_bytes,
        "runtime_version": drawn.runtime_version,
        "prompt_tokens": drawn.prompt.tokens,
        "tokens_read": min(drawn.prompt.tokens, len(drawn.prompt.ids)),
    }
    return deliver(
        order,
        [Image.fromarray(item) for item in drawn.images],
        [Image.fromarray(item) for item in drawn.conditions],
        facts,
        more,
        steerings,
        kind_of,
        seconds=sum(drawn.seconds),
        how=f"{drawn.runtime} {drawn.precision}",
    )


def _tell_words(text: str, encoded: Encoded, vocabulary: int, common: Common) -> None:
    """Says what the base does not read of a text."""
    from unplug.sdk.drawing.device import untaught

    if encoded.cut:
        short = text if len(text) <= 40 else f"{text[:40]}..."
        common.say(
            f"{short!r} has {encoded.tokens} tokens: the base reads the first {len(encoded.ids)} "
            "only"
        )
    if (line := untaught(encoded.spelled, vocabulary)) is not None:
        common.say(line)
