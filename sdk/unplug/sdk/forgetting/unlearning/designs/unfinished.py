"""What a training over trunks has computed, in its folder until the model is saved: a killed one
goes on after its last whole pass over the pictures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unplug.core import CheckpointError, atomic_path
from unplug.plugins import safetensors_errors
from unplug.sdk.learning.training import fingerprint

AGAIN = "Pass `restart` to begin again"


@dataclass(kw_only=True)
class Unfinished:
    """Tensors that an earlier run of the same training left.

    Args:
        folder: the training's, see `training_dir`.
        device: the device of its passes.
        seconds: the cost of the tensors that were found.
    """

    folder: Path
    device: torch.device
    seconds: float = 0.0

    def tensors(
        self, name: str, make: Callable[[], dict[str, Tensor]], **facts: Any
    ) -> dict[str, Tensor]:
        """What `make` computes, or has computed before of the same facts.

        Args:
            name: the start of the file's name.
            make: computes them.
            facts: JSON of everything that decides them, but for the device and torch's version.

        Raises:
            CheckpointError: the file cannot be read.
            OutputError: it cannot be written.
        """
        known = fingerprint(device=self.device.type, torch=torch.__version__, **facts)
        path = self.folder / f"{name}-{known[:16]}.safetensors"
        if path.is_file():
            return self._read(path)
        start = time.perf_counter()
        tensors = make()
        spent = {"seconds": repr(time.perf_counter() - start)}
        with atomic_path(path, private=True) as temporary, safetensors_errors(path):
            save_file(tensors, temporary, metadata=spent)
        return tensors

    def _read(self, path: Path) -> dict[str, Tensor]:
        try:
            with safe_open(path, framework="pt") as file:
                self.seconds += float((file.metadata() or {})["seconds"])
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise CheckpointError(str(path), f"cannot go on from it ({error})", AGAIN) from error
