"""``unplug generate`` with a base of exported files: the device's own loop, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, counted

from .bars import progress_bar
from .base import Common, Outcome
from .guides import Guide, GuideOrder
from .options import given_option

if TYPE_CHECKING:
    from unplug.sdk.device import Pipeline, Steer

ELSEWHERE = {"size": "--size"}
"""Options that a file cannot follow: what it draws was fixed when it was exported."""


@dataclass(frozen=True, kw_only=True)
class FilesOrder:
    """What was asked for; see the options of `unplug generate`."""

    prompt: str
    negative: str
    folder: Path
    guides: GuideOrder
    count: int
    steps: int | None
    guidance: float | None
    solver: Any
    target: str | None
    precision: str | None
    threads: int
    variant: str | None
    loras: tuple[str, ...]
    out: Path
    singly: tuple[Path, ...]


def generate_on_files(order: FilesOrder, common: Common) -> Outcome:
    """Draws with the files of one target and precision."""
    from PIL import Image

    from unplug.sdk.device import Words, condition_of, draw, load_pipeline, save_marked, untaught
    from unplug.sdk.diffusion import find_lora, image_grid

    if (name := given_option(*ELSEWHERE)) is not None:
        raise InputError(ELSEWHERE[name], "exported files cannot follow it", "Leave it out, or export the base that you want")
    pipeline = load_pipeline(order.folder)
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
    seeds = tuple(common.seed + index for index in range(order.count))
    with progress_bar("draw", common) as progress:
        drawn = draw(
            order.folder, words, seeds=seeds, steers=steers, variant=order.variant, loras=tuple(map(find_lora, order.loras)),
            target=order.target, precision=order.precision, threads=order.threads, progress=progress,
        )  # fmt: skip
    usual = pipeline.defaults_of(order.variant)
    facts = {
        "prompt": order.prompt, "negative": order.negative, "base": pipeline.name, "plugins": list(order.guides.plugins),
        "strengths": list(order.guides.strengths), "steps": order.steps or usual.steps,
        "guidance": usual.guidance if order.guidance is None else order.guidance,
        "solver": order.solver or usual.solver, "size": pipeline.image_size, "precision": drawn.precision,
        "target": drawn.target, "runtime": drawn.runtime, "noise": pipeline.noise,
        "variant": order.variant, "loras": list(order.loras),
    }  # fmt: skip
    pictures = [Image.fromarray(item) for item in drawn.images]
    for file, picture, seed in zip(order.singly, pictures, seeds, strict=True):
        save_marked(picture, file, {**facts, "seed": seed})
    if order.count > 1:
        shown = [Image.fromarray(item.condition_HWC) for item in steers]
        save_marked(image_grid([[*shown, *pictures]]), order.out, {**facts, "seeds": list(seeds)})
    seconds = round(sum(drawn.seconds), 3)
    value = {
        "out": str(order.out), "pictures": [str(file) for file in order.singly], "seconds": seconds,
        "load_seconds": drawn.load_seconds, "peak_bytes": drawn.peak_bytes, "runtime_version": drawn.runtime_version,
        "prompt_tokens": drawn.prompt_tokens, "tokens_read": min(drawn.prompt_tokens, drawn.length),
        "guides": [item.to_dict() for item in guides], **facts,
    }  # fmt: skip
    how = f"{seconds:.1f} s, {drawn.runtime} {drawn.precision}"
    return Outcome(value=value, text=f"saved {order.out} ({counted(order.count, 'picture')}, {how})")


def _steers(pipeline: Pipeline, guides: tuple[Guide, ...]) -> tuple[Steer, ...]:
    """The plugins with their conditions, each drawn or read."""
    from unplug.sdk.device import read_steer

    return tuple(
        read_steer(pipeline, item.plugin, item.image, photo=item.photo, strength=item.strength, options=item.options,
                   frame=item.frame)
        for item in guides
    )  # fmt: skip
