"""Opening a diffusion base: the small one that ships, a diffusers folder, or a name on the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from unplug.plugins.errors import CheckpointError, InputError
from unplug.plugins.files import read_json

from .small import diffusers

SMALL = "small"
"""The base that comes with the package."""
WEIGHTS = Path(__file__).parent.parent / "weights"
MARK, RECORD = "model_index.json", "unplug.json"
OURS = (MARK, RECORD, "README.md", "vae", "unet", "text_encoder", "tokenizer", "scheduler")
PARTS = ("unet", "vae", "text_encoder", "tokenizer", "scheduler")
MAX_INDEX_BYTES = 2**16


def load_base(name: str, *, device: torch.device, dtype: torch.dtype = torch.float32) -> Any:
    """A text-to-image pipeline with Stable Diffusion 1's or 2's parts, frozen and in eval mode.

    Args:
        name: "small" for the base that ships, a folder that diffusers wrote, or ``owner/name`` on the hub.
        device: where it goes.
        dtype: of its weights in memory.

    Returns:
        A ``StableDiffusionPipeline`` without safety checker.

    Raises:
        CheckpointError: no such folder, not diffusers' layout, a pickle, or parts that Stable Diffusion does not have.
    """
    folder = WEIGHTS / "base" if name == SMALL else Path(name)
    local = folder.is_dir()
    if local:
        _check_folder(folder)
    elif name.count("/") != 1 or Path(name).is_absolute() or name.startswith((".", "~")):
        raise CheckpointError(
            name, "no such folder", f"Give {SMALL!r}, a folder that diffusers wrote, or OWNER/NAME on the hub"
        )
    try:
        pipe = diffusers().StableDiffusionPipeline.from_pretrained(
            str(folder) if local else name, dtype=dtype, use_safetensors=True, local_files_only=local,
            safety_checker=None, feature_extractor=None, requires_safety_checker=False,
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
        raise CheckpointError(name, f"diffusers cannot load it ({_short(error)})", _FIX) from error
    for part in (pipe.unet, pipe.vae, pipe.text_encoder):
        part.requires_grad_(False).eval()
    return pipe.to(device)


_FIX = "Give a folder that StableDiffusionPipeline.save_pretrained wrote, with safetensors weights"


def _check_folder(folder: Path) -> None:
    if not (folder / MARK).is_file():
        single = next(iter(sorted([*folder.glob("*.safetensors"), *folder.glob("*.ckpt")])), None)
        why = f"no {MARK} in it" + (f" ({single.name} is a single-file checkpoint)" if single else "")
        raise CheckpointError(str(folder), f"not a diffusers folder: {why}", _FIX)
    try:
        index = read_json(folder / MARK, max_bytes=MAX_INDEX_BYTES)
    except InputError as error:
        raise CheckpointError(error.what, error.why, error.fix) from error
    missing = [part for part in PARTS if not isinstance(index, dict) or part not in index or not (folder / part).is_dir()]
    if missing:
        raise CheckpointError(str(folder), f"it has no {', '.join(missing)}", _FIX)
    extra = [part for part in ("text_encoder_2", "transformer", "prior") if part in index]
    if extra:
        raise CheckpointError(str(folder), f"it has a {extra[0]}: not a Stable Diffusion 1 or 2", "Give a base of that family")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def image_size_of(base: Any) -> int:
    """Side in pixels of the pictures that a base was trained for."""
    return int(base.unet.config.sample_size) * 2 ** (len(base.vae.config.block_out_channels) - 1)


def base_record(name: str) -> dict[str, Any]:
    """What ``unplug.json`` of a base of ours says; empty for others."""
    path = (WEIGHTS / "base" if name == SMALL else Path(name)) / RECORD
    found = read_json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}
