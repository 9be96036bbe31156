"""LoRA weights on a base, all of them or an error: diffusers leaves out what does not fit, and says so in a log at most."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unplug.core import CheckpointError, MissingExtraError, quiet

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
_FIRST_FACTOR = re.compile(r"lora(_linear_layer)?[._](A|down)\b")
"""Of a low-rank pair, in peft's, diffusers' (older ones' too) and kohya's names."""


def load_loras(base: Any, paths: Sequence[Path]) -> None:
    """Adds LoRA weights to a base; all of them act, each in full.

    Args:
        base: see `load_base`; changed in place.
        paths: ``.safetensors`` files, or folders that ``save_lora_weights`` wrote.

    Raises:
        CheckpointError: no such file, a pickle, or weights of which some do not fit this base.
        MissingExtraError: peft is not installed.
    """
    if not paths:
        return
    try:
        import peft  # noqa: F401 (diffusers needs it, and says so in an error of no type of its own)
    except ImportError as error:
        raise MissingExtraError("peft", "diffusion") from error
    names = [f"lora{number}" for number in range(len(paths))]
    for name, path in zip(names, paths, strict=True):
        file = path / WEIGHTS_NAME if path.is_dir() else path
        if not file.is_file() or file.suffix != ".safetensors":
            why = "no such file" if not file.is_file() else "only safetensors are read: a pickle can run code"
            raise CheckpointError(str(file), why, "Give LoRA weights as safetensors")
        _load(base, file, name)
    base.set_adapters(names)  # else only the last one acts


def _load(base: Any, file: Path, name: str) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as handle:
            wanted = sum(_FIRST_FACTOR.search(key) is not None for key in handle.keys())  # noqa: SIM118 (not a dict)
        with quiet():
            warnings.simplefilter("ignore", UserWarning)  # peft warns of a second adapter, which is what was asked for
            base.load_lora_weights(
                str(file.parent), weight_name=file.name, use_safetensors=True, local_files_only=True, adapter_name=name
            )
    except (SafetensorError, OSError, ValueError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200]
        raise CheckpointError(str(file), f"not LoRA weights of this base ({why})", "Train them on the same base") from error
    found = sum(
        f"lora_A.{name}." in key for part in (base.unet, base.text_encoder) for key, _ in part.named_parameters()
    )  # fmt: skip
    if found != wanted or not found:
        why = f"{found} of its {wanted} low-rank updates fit this base"
        raise CheckpointError(str(file), why, "Train them on the same base")
