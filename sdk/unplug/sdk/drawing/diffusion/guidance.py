"""Guidance that follows the noise levels, in any stock diffusers pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from unplug.sdk.drawing.device import GuidanceSchedule


def guidance_at(time_B: Tensor, levels: int, guidance: float, schedule: GuidanceSchedule) -> Tensor:
    """g(t) = 1 + (g - 1) 2 (1 - t / N) with "linear", g with "constant" (B,).

    Args:
        time_B: timesteps, from 0.
        levels: N.
        guidance: g.
        schedule: "constant" or "linear".

    Example:
        >>> guidance_at(torch.tensor([1000, 500, 0]), 1000, 3.0, "linear").tolist()
        [1.0, 3.0, 5.0]

    Reference:
        Wang et al., Analysis of Classifier-Free Guidance Weight Schedulers, 2024, section 4
        (linear).
    """
    rising_B = (
        torch.ones_like(time_B, dtype=torch.float32)
        if schedule == "constant"
        else 2.0 * (1.0 - time_B / levels)
    )
    return 1.0 + (guidance - 1.0) * rising_B


@contextmanager
def scheduled_guidance(pipe: Any, guidance: float, schedule: GuidanceSchedule) -> Iterator[None]:
    """Around calls of a pipeline with ``guidance_scale=guidance``: it then guides with g(t)
    instead.

    g(t) = 1 + (g - 1) 2 (1 - t / N) with "linear": none in pure noise, where guidance makes all
    pictures of a prompt alike, and most at the end, where it draws what a prompt names; g in the
    mean. "constant" changes nothing.

    Args:
        pipe: a pipeline with a ``unet`` that is asked for the negative prompts first and the
            prompts after them, as in all of diffusers.
        guidance: g, the scale that the pipeline is called with; 1 and less guide nothing.
        schedule: "constant" or "linear".

    Example:
        >>> with scheduled_guidance(pipe, 3.0, "linear"):                                                   # doctest: +SKIP
        ...     picture = pipe("a child", num_inference_steps=6, guidance_scale=3.0).images[0]

    Reference:
        Wang et al., Analysis of Classifier-Free Guidance Weight Schedulers, 2024, section 4
        (linear).
    """
    if schedule == "constant" or guidance <= 1:
        yield
        return
    levels = int(pipe.scheduler.config.num_train_timesteps)

    def weigh(_: Any, given: tuple[Any, ...], named: dict[str, Any], found: Any) -> Any:
        time = torch.as_tensor(float(given[1] if len(given) > 1 else named["timestep"]))
        share = float(guidance_at(time, levels, guidance, schedule)) / guidance
        negative, prompt = found[0].chunk(2)
        told = torch.cat([negative, negative + share * (prompt - negative)])
        return (told, *found[1:]) if isinstance(found, tuple) else type(found)(sample=told)

    hook = pipe.unet.register_forward_hook(weigh, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
