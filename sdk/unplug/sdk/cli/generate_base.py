"""``unplug generate`` with a diffusers base, on torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unplug.core import InputError, progress

from .base import Common, Outcome, tell_foreign
from .generate_order import DrawOrder, deliver


def generate_on_base(order: DrawOrder, updates: Sequence[Path], common: Common) -> Outcome:
    """Draws with a base, its plugins and the LoRA weights `updates`."""
    from unplug.core import check_writable
    from unplug.sdk.drawing.diffusion import find_plugin

    for name in order.guides.plugins:
        find_plugin(name)
    # before torch and diffusers are loaded, which takes seconds
    steerings = order.guides.steerings(_kind_of)
    from unplug.sdk.drawing.diffusion import (
        draw_pictures,
        drawing_dtype,
        foreign_loras,
        load_base,
        load_loras,
        sampling_of,
    )

    check_writable(order.out.parent)
    usual = sampling_of(order.base)
    steps, guidance = order.steps or usual.steps, order.guidance or usual.guidance
    solver = order.solver or usual.solver
    if order.negative and guidance <= 1:
        raise InputError(
            "--negative",
            "without guidance it has no effect",
            "Leave it out, or raise --guidance above 1",
        )
    dtype = drawing_dtype(order.base, common.device)
    base = load_base(order.base, device=common.device, dtype=dtype)
    foreign = tell_foreign(foreign_loras(base, updates), order.base, common)
    load_loras(base, updates)
    for text in (order.prompt, order.negative):
        _tell_words(base.tokenizer, text, common)
    started = time.perf_counter()
    count = len(order.seeds)
    with progress(total=count, label="draw", unit="picture", show=common.show) as bar:
        pictures, drawn = draw_pictures(
            base,
            [order.prompt] * count,
            steerings,
            seeds=order.seeds,
            size=order.size,
            steps=steps,
            guidance=guidance,
            solver=solver,
            schedule=usual.schedule,
            negative=order.negative,
            progress=bar,
        )
    seconds = time.perf_counter() - started
    precision = str(dtype).removeprefix("torch.")
    facts = {
        "base": order.base,
        "steps": steps,
        "guidance": guidance,
        "solver": solver,
        "guidance_schedule": usual.schedule,
        "size": pictures[0].width,
        "precision": precision,
    }
    return deliver(
        order,
        pictures,
        drawn,
        facts,
        {"foreign_loras": foreign},
        steerings,
        _kind_of,
        seconds=seconds,
        how=precision,
    )


def _kind_of(plugin: str) -> str:
    """The condition that a plugin follows, from its configuration alone."""
    from unplug.plugins import read_config
    from unplug.sdk.drawing.diffusion import find_plugin

    return str(read_config(find_plugin(plugin), expect="plugin")[1].get("condition", ""))


def _tell_words(tokenizer: Any, text: str, common: Common) -> None:
    """Says what the base does not read of a text: what is behind its last token, and words that are
    no token of their own.
    """
    from unplug.sdk.drawing.device import untaught
    from unplug.sdk.drawing.diffusion import plain_tokenizer

    found = plain_tokenizer(tokenizer).encode(text)
    if found.cut:
        common.say(
            f"{text[:40]!r}... has {found.tokens} tokens: the base reads the first "
            f"{len(found.ids)} only"
        )
    if (line := untaught(found.spelled, len(tokenizer))) is not None:
        common.say(line)
