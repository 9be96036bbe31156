"""``unplug generate`` with a base of exported files: the device's own loop, without torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import InputError

from .bars import progress_bar
from .base import Common, Outcome
from .generate_order import DrawOrder, deliver
from .guides import Guide
from .options import given_option

if TYPE_CHECKING:
    from unplug.sdk.device import Pipeline, Steer

ELSEWHERE = {"size": "--size"}
"""Options that a file cannot follow: what it draws was fixed when it was exported."""


def generate_on_files(order: DrawOrder, common: Common) -> Outcome:
    """Draws with the files of one target and precision."""
    from PIL import Image

    from unplug.sdk.device import Words, condition_of, draw, load_pipeline, untaught
    from unplug.sdk.diffusion import find_lora

    if (name := given_option(*ELSEWHERE)) is not None:
        raise InputError(ELSEWHERE[name], "exported files cannot follow it", "Leave it out, or export the base that you want")
    folder = Path(order.base)
    pipeline = load_pipeline(folder)
    guides = order.guides.guides(partial(condition_of, pipeline))
    steers = _steers(pipeline, guides)
    words = Words(
        prompt=order.prompt, negative=order.negative, steps=order.steps, guidance=order.guidance, solver=order.solver
    )  # fmt: skip
    for text in (order.prompt, order.negative):
        if (encoded := pipeline.tokenizer.encode(text)).cut:
            short = text if len(text) <= 40 else f"{text[:40]}..."
            common.say(f"{short!r} has {encoded.tokens} tokens: the base reads the first {len(encoded.ids)} only")
        if (line := untaught(encoded.spelled, len(pipeline.tokenizer.vocabulary))) is not None:
            common.say(line)
    with progress_bar("draw", common) as progress:
        drawn = draw(
            folder, words, seeds=order.seeds, steers=steers, variant=order.variant, loras=tuple(map(find_lora, order.loras)),
            target=order.target, precision=order.precision, threads=order.threads, progress=progress,
        )  # fmt: skip
    usual = pipeline.defaults_of(order.variant)
    facts = {
        "base": pipeline.name, "steps": order.steps or usual.steps,
        "guidance": usual.guidance if order.guidance is None else order.guidance,
        "solver": order.solver or usual.solver, "guidance_schedule": pipeline.schedule.guidance,
        "size": pipeline.image_size, "precision": drawn.precision,
        "target": drawn.target, "runtime": drawn.runtime, "noise": pipeline.noise, "variant": order.variant,
    }  # fmt: skip
    more = {
        "load_seconds": drawn.load_seconds, "peak_bytes": drawn.peak_bytes, "runtime_version": drawn.runtime_version,
        "prompt_tokens": drawn.prompt_tokens, "tokens_read": min(drawn.prompt_tokens, drawn.length),
    }  # fmt: skip
    return deliver(
        order, [Image.fromarray(item) for item in drawn.images], [Image.fromarray(item.condition_HWC) for item in steers],
        facts, more, guides, seconds=sum(drawn.seconds), how=f"{drawn.runtime} {drawn.precision}",
    )  # fmt: skip


def _steers(pipeline: Pipeline, guides: tuple[Guide, ...]) -> tuple[Steer, ...]:
    """The plugins with their conditions, each drawn or read."""
    from unplug.sdk.device import read_steer

    return tuple(
        read_steer(pipeline, item.plugin, item.image, photo=item.photo, strength=item.strength, options=item.options,
                   frame=item.frame)
        for item in guides
    )  # fmt: skip
