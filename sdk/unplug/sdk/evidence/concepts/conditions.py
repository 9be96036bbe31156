"""In what form a base is attacked: as it is, rounded as exported files are, with another sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from unplug.sdk.drawing.diffusion import Sampling, find_lora, load_loras, sampling_of_lora

from .scene import with_own_unet

Form = Callable[[Any, Sampling], tuple[Any, Sampling]]
"""A base and how it is drawn with, to another of both."""
STUDENT = "four-steps"


@torch.no_grad()
def _fp16(base: Any, sampling: Sampling) -> tuple[Any, Sampling]:
    pipe = with_own_unet(base)
    for weight in pipe.unet.parameters():
        weight.copy_(weight.half())
    return pipe, sampling


@torch.no_grad()
def _int8(base: Any, sampling: Sampling) -> tuple[Any, Sampling]:
    """Weights of a row in 255 steps of its largest one, as files of int8 weights have them."""
    pipe = with_own_unet(base)
    for layer in pipe.unet.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            weight_OI = layer.weight.flatten(1)
            step_O1 = weight_OI.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
            weight_OI.copy_((weight_OI / step_O1).round() * step_O1)
    return pipe, sampling


def _ddim(base: Any, sampling: Sampling) -> tuple[Any, Sampling]:
    return base, replace(sampling, steps=25, solver="ddim")


def _student(base: Any, sampling: Sampling) -> tuple[Any, Sampling]:
    pipe, weights = with_own_unet(base), find_lora(STUDENT)
    load_loras(pipe, [weights])
    return pipe, sampling_of_lora(weights) or sampling


FORMS: Mapping[str, Form] = {
    "as it is": lambda base, sampling: (base, sampling),
    "fp16": _fp16,
    "int8": _int8,
    "25 steps": _ddim,
    "student": _student,
}
"""By name; a student is that of the base that ships."""
