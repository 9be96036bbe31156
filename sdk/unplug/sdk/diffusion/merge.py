"""LoRA weights made part of a base's own: a folder as any other base's, for what takes no adapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from unplug.core import quiet

from .digest import base_digest
from .load import load_loras
from .run_base import prefix_text_encoder
from .shipped import teacher_of_lora


def foreign_loras(base: Any, paths: Sequence[Path]) -> list[Path]:
    """Those weights whose record says that they were trained on another base than this one, which may fit it all the same.

    Args:
        base: see `load_base`; before `load_loras` changes it. Of one in half precision, whose numbers are no longer those that
            the record's digest is of, none is found.
        paths: see `load_loras`.
    """
    if base.unet.dtype != torch.float32:
        return []
    teachers = {path: teacher for path in paths if (teacher := teacher_of_lora(path)) is not None}
    own = base_digest(base) if teachers else None
    return [path for path, teacher in teachers.items() if teacher != own]


def merge_loras(base: Any, paths: Sequence[Path], out: Path) -> None:
    """W' = W + sum_k s_k B_k A_k in every layer that the weights change, with s_k what their file says; all of them act.

    Args:
        base: see `load_base`; changed in place.
        paths: see `load_loras`.
        out: an empty folder; a diffusers pipeline in float32 without `unplug.json` is written there.

    Raises:
        CheckpointError, MissingExtraError: see `load_loras`.

    Example:
        >>> merge_loras(None, [Path("/gone")], Path("unused"))
        Traceback (most recent call last):
        unplug.core.errors.CheckpointError: /gone: no such file. Give four-steps, two-steps, or LoRA weights as safetensors.

    Reference:
        Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021, section 4.1.
    """
    load_loras(base, paths)
    with quiet():
        base.fuse_lora()
        base.unload_lora_weights()
        base.save_pretrained(out)
    prefix_text_encoder(out)
