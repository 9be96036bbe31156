"""All that an erasure method may look at: the base, what to take out of it, and pictures that the
base draws itself.

Shapes: P prompts, c latent channels, h and w of a latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from unplug.core import atomic_path, json_sha256, progress
from unplug.plugins import safetensors_errors
from unplug.sdk.drawing.diffusion import Sampling, base_digest, draw_latents, image_size_of

from .concept import Concept, joined
from .text_map import state_pairs, text_states


@dataclass(frozen=True, kw_only=True)
class EraseProblem:
    """What a method gets.

    Args:
        name: the name of the original, see `load_base`.
        base: a pipeline, see `load_base`, whose UNet it changes; earlier erasures are in it.
        original: the pipeline before any erasure, frozen.
        concepts: the concepts to erase now.
        earlier: erased from `base` before; they must stay so.
        retained: words that must go on working.
        prompts: further prompts, without any of these concepts.
        sampling: how the base draws.
        seed: the seed of everything random.
        device: the device to compute on.
        work: folder where long work keeps its state and what was drawn; None keeps nothing.
        show: progress bars.
        trained: the record of a training that replaced the base, see `base_record`; empty of none.
    """

    name: str = ""
    base: Any
    original: Any
    concepts: tuple[Concept, ...]
    earlier: tuple[Concept, ...] = ()
    retained: tuple[str, ...] = ()
    prompts: tuple[str, ...]
    sampling: Sampling
    seed: int
    device: torch.device
    work: Path | None = None
    show: bool = False
    trained: dict[str, Any] = field(default_factory=dict)

    @property
    def every(self) -> tuple[Concept, ...]:
        """All concepts that the result must not draw."""
        return (*self.earlier, *self.concepts)

    @property
    def retained_prompts(self) -> tuple[str, ...]:
        """Prompts that must give what they gave: no words at all, the others', and each with every
        retained word.
        """
        own = (joined(prompt, word) for word in self.retained for prompt in self.prompts)
        return ("", *self.prompts, *own)

    def pairs(self) -> list[tuple[str, str]]:
        """Prompts that say a concept, and what they shall give."""
        return [
            (concept.named(prompt), concept.instead(prompt))
            for concept in self.every
            for prompt in self.prompts
        ]

    def states(self) -> tuple[Tensor, Tensor, Tensor]:
        """What closed forms solve for, of the original's text encoder, float64: states (N, D) of
        `pairs`, both sides, and (M, D) of `retained_prompts`.
        """
        said_ND, meant_ND = state_pairs(self.original, self.pairs())
        kept_MD = text_states(self.original, self.retained_prompts).flatten(0, 1)
        return said_ND, meant_ND, kept_MD

    def draw(self, prompts: Sequence[str]) -> Tensor:
        """Latents (P, c, h, w) of pictures that the original draws, scaled as UNets take them.

        Prompt number p has seed p everywhere: two lists of prompts are drawn from the same noise,
        so that pictures of a prompt and its counterpart differ by the words alone.
        """
        facts = {
            "base": base_digest(self.original),
            "sampling": asdict(self.sampling),
            "prompts": list(prompts),
        }
        path = None if self.work is None else self.work / f"{json_sha256(facts)[:32]}.safetensors"
        if path is not None and path.is_file():
            from safetensors.torch import load_file

            return load_file(path)["latents"]
        latent_Pchw = drawn_latents(self.original, prompts, self.sampling, self.show)
        if path is not None:
            with atomic_path(path) as temporary, safetensors_errors(path):
                save_file({"latents": latent_Pchw}, temporary)
        return latent_Pchw


def drawn_latents(original: Any, prompts: Sequence[str], sampling: Sampling, show: bool) -> Tensor:
    """The latents of `EraseProblem.draw`, drawn now."""
    # another pipeline of the same parts: drawing gives it another scheduler
    pipe = type(original)(**original.components, requires_safety_checker=False)
    batches = draw_latents(
        pipe,
        prompts,
        seeds=range(len(prompts)),
        size=image_size_of(original),
        steps=sampling.steps,
        guidance=sampling.guidance,
        solver=sampling.solver,
        schedule=sampling.schedule,
    )
    parts = list[Tensor]()
    with progress(total=len(prompts), label="draw", unit="picture", show=show) as done:
        for latent_Bchw in batches:
            parts.append(latent_Bchw.float().cpu())
            done.update(len(latent_Bchw))
    return torch.cat(parts)
