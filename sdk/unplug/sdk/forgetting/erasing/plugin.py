"""A conditioning plugin forgets with its base: lines that show a concept learn to give the picture
that the base draws without it.

Shapes: N pictures, S their side.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unplug.core import InputError
from unplug.plugins import Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.drawing.conditions import Steering, draw_conditions
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    ControlRecipe,
    ControlSet,
    base_digest,
    decode,
    find_plugin,
    fit_control,
    image_size_of,
)
from unplug.sdk.forgetting.unlearning import check_settings, within

from .problem import EraseProblem
from .text_map import text_states

PLUGINS = "plugins"
"""Folder in an erased base for the plugins that forgot with it."""


@dataclass(frozen=True, kw_only=True)
class PluginForgetting:
    """How a plugin forgets.

    Args:
        steps: the number of optimizer steps.
        batch_size: samples a step.
        lr: peak learning rate of AdamW.
        pictures: the number of pictures that the original draws with the concept, and as many
            without.
        clutter: share of conditions with lines missing and others too many, see `clutter`.
    """

    steps: int = within(1, 1_000_000, 150)
    batch_size: int = within(1, 4096, 12)
    lr: float = within(1e-8, 1.0, 1e-3)
    pictures: int = within(1, 100_000, 96)
    clutter: float = within(0.0, 1.0, 0.3)

    def __post_init__(self) -> None:
        check_settings(self)


def find_unlearnable(name: str, original: Any) -> Checkpoint:
    """A plugin of a base.

    Raises:
        CheckpointError: no such plugin.
        InputError: a plugin that was trained with another base.
    """
    checkpoint = load_checkpoint(find_plugin(name), expect="plugin")
    checkpoint.model.check_base(original.unet)
    told = checkpoint.record.get("base")
    if isinstance(told, dict) and told.get("sha256") != base_digest(original):
        why = f"it was trained with another base, {str(told.get('name'))[:60]}"
        raise InputError(f"plugin {name}", why, "Give one of the base that is erased from")
    return checkpoint


def forget_in_plugin(
    problem: EraseProblem, checkpoint: Checkpoint, out: Path, how: PluginForgetting
) -> dict[str, Any]:
    """Trains a plugin on counterfactual pairs with the erased base, and saves it.

    Half of the samples are lines of a picture with the concept, and the picture that the same noise
    gives without it; the others are lines of that picture, so that all else is followed as before.

    Args:
        problem: its base is erased already.
        checkpoint: the plugin, see `find_unlearnable`.
        out: checkpoint folder to write.
        how: see `PluginForgetting`.

    Returns:
        Name, hash and seconds, for the record.
    """
    plugin, work = checkpoint.model, problem.work
    recipe = ControlRecipe(
        steps=how.steps,
        batch_size=how.batch_size,
        lr=how.lr,
        warmup=min(5, how.steps),
        ema=0.95,
        clutter=how.clutter,
    )
    facts = {"base": base_digest(problem.base), "pairs": problem.pairs(), "how": vars(how)}
    done = fit_control(
        CONTROLS.get("plugin")(),
        problem.base,
        _pairs(problem, str(plugin.config.condition), how.pictures),
        recipe,
        condition=str(plugin.config.condition),
        image_size=int(plugin.config.image_size),
        seed=problem.seed,
        device=problem.device,
        state_path=None if work is None else work / f"plugin-{out.name}.safetensors",
        facts=facts,
        start=plugin,
        show=problem.show,
    )
    record = checkpoint.record | {
        "base": {"name": "erased", "sha256": facts["base"]},
        "forgot": [concept.words for concept in problem.every],
    }
    network = done.model.network.to(torch.device("cpu"), memory_format=torch.contiguous_format)
    save_checkpoint(network, out, record=record, card=_CARD)
    return {"name": out.name, "before": checkpoint.sha256, "wall_s": done.wall_s, **vars(how)}


_CARD = """\
# A conditioning plugin that forgot with its base

Made by `unplug erase --plugin`. Use it with the erased base in the folder above.
"""


def _pairs(problem: EraseProblem, kind: str, pictures: int) -> ControlSet:
    """Lines with the concept to the picture without it, and that picture's own lines to it."""
    prompts = problem.prompts[:pictures]
    latents, lines, texts = list[Tensor](), list[NDArray[np.uint8]](), list[str]()
    for concept in problem.every:
        meant = [concept.instead(prompt) for prompt in prompts]
        plain_Nchw = problem.draw(meant)
        shown_Nchw = problem.draw([concept.named(prompt) for prompt in prompts])
        for drawn_Nchw in (shown_Nchw, plain_Nchw):
            latents.append(plain_Nchw)
            lines.append(_lines(problem, drawn_Nchw, kind))
            texts += meant
    known = tuple(dict.fromkeys(["", *texts]))
    place = {text: number for number, text in enumerate(known)}
    text_ULD = text_states(problem.base, known).numpy().astype(np.float16)
    count = len(texts)
    return ControlSet(
        ids=tuple(map(str, range(count))),
        rows=np.arange(count),
        latent=torch.cat(latents).numpy().astype(np.float16),
        condition=np.concatenate(lines),
        text=text_ULD,
        prompt=np.array([[place[text]] for text in texts]),
        empty=text_ULD[0],
        subject=np.arange(count),
        prompts=known,
    )


def _lines(problem: EraseProblem, latent_Nchw: Tensor, kind: str) -> NDArray[np.uint8]:
    """The conditions (N, S, S, 3) of pictures."""
    drawn = decode(problem.original, latent_Nchw.to(problem.device))
    asked = [Steering(plugin=kind, image=np.asarray(one), photo=True) for one in drawn]
    size = image_size_of(problem.original)
    return np.stack(draw_conditions(asked, [kind] * len(asked), size))
