"""LoRA weights made part of a base's own: a folder as any other base's, for what takes no adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from .base_files import write_pipeline
from .digest import base_digest
from .load import load_loras
from .shipped import teacher_of_lora


def foreign_loras(base: Any, paths: Sequence[Path]) -> list[Path]:
    """Those weights whose record says that they were trained on another base than this one, which
    may fit it all the same.

    Args:
        base: see `load_base`; before `load_loras` changes it. Of one in half precision, whose
            numbers are no longer those that the record's digest is of, none is found.
        paths: see `load_loras`.
    """
    if base.unet.dtype != torch.float32:
        return []
    teachers = {path: teacher for path in paths if (teacher := teacher_of_lora(path)) is not None}
    digest = base_digest(base) if teachers else None
    return [path for path, teacher in teachers.items() if teacher != digest]


def tell_foreign(
    base: Any, paths: Sequence[Path], name: str, say: Callable[[str], None]
) -> list[Path]:
    """The `foreign_loras`, after saying so of each; `name` is the base's."""
    foreign = foreign_loras(base, paths)
    for path in foreign:
        say(
            f"warning: {path} was trained on other weights than those of {name}: pictures may be "
            "worse"
        )
    return foreign


def merge_loras(base: Any, paths: Sequence[Path], out: Path) -> None:
    """A base with LoRA weights made part of it, see `load_loras`, as a folder.

    Args:
        base: see `load_base`; changed in place.
        paths: see `load_loras`.
        out: an empty folder; a diffusers pipeline in float32 without `unplug.json` is written
            there.

    Raises:
        CheckpointError: see `load_loras`.
    """
    load_loras(base, paths)
    write_pipeline(base, out, half=False)
