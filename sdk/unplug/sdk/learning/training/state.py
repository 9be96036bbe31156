"""The state of a running training: written after every epoch, read after a kill, removed at the
end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unplug.core import CheckpointError, atomic_path, json_sha256
from unplug.plugins import safetensors_errors


def fingerprint(**facts: Any) -> str:
    """Hash of the JSON of some facts; two runs with the same one may share their state."""
    return json_sha256(facts)


@dataclass(frozen=True, kw_only=True)
class StateFile:
    """Model, averaged model and optimizer in one safetensors file, so that one rename saves them
    all.

    Args:
        path: the file.
        fingerprint: the fingerprint of the run; a state of another run is refused.
    """

    path: Path
    fingerprint: str

    def save(
        self,
        model: nn.Module,
        average: nn.Module,
        optimizer: torch.optim.Optimizer,
        progress: dict[str, Any],
    ) -> None:
        """Writes the state, atomically; `progress` is JSON."""
        tensors: dict[str, Tensor] = {}
        for prefix, module in (("model", model), ("average", average)):
            tensors |= {
                f"{prefix}/{name}": value.detach().cpu().contiguous()
                for name, value in module.state_dict().items()
            }
        for index, slots in optimizer.state_dict()["state"].items():
            tensors |= {
                f"optimizer/{index}/{name}": value.detach().cpu().contiguous()
                for name, value in slots.items()
            }
        metadata = {"fingerprint": self.fingerprint, "progress": json.dumps(progress)}
        # Tensors may share memory (an averaged model that was just copied): safetensors wants them
        # apart.
        tensors = {name: value.clone() for name, value in tensors.items()}
        with atomic_path(self.path, private=True) as temporary, safetensors_errors(self.path):
            save_file(tensors, temporary, metadata=metadata)

    def load(
        self, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, Any] | None:
        """Restores the state and returns its progress; None where there is no file.

        Raises:
            CheckpointError: the file is broken or belongs to another run.
        """
        if not self.path.is_file():
            return None
        try:
            with safe_open(self.path, framework="pt") as handle:
                metadata = handle.metadata() or {}
                if metadata.get("fingerprint") != self.fingerprint:
                    raise CheckpointError(
                        str(self.path.parent),
                        "an unfinished run of another recipe, data or seed is there",
                        "Pass `restart` to drop it, or give another `out`",
                    )
                tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118 (not a dict)
            progress: dict[str, Any] = json.loads(metadata["progress"])
            for prefix, module in (("model", model), ("average", average)):
                module.load_state_dict(_under(tensors, prefix))
            _load_optimizer(optimizer, _under(tensors, "optimizer"))
        except (SafetensorError, KeyError, IndexError, ValueError, RuntimeError, OSError) as error:
            raise CheckpointError(
                str(self.path), f"cannot go on from it ({error})", "Pass `restart` to begin again"
            ) from error
        return progress


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name[len(prefix) + 1 :]: value
        for name, value in tensors.items()
        if name.startswith(f"{prefix}/")
    }


def _load_optimizer(optimizer: torch.optim.Optimizer, flat: dict[str, Tensor]) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    slots: dict[int, dict[str, Tensor]] = {}
    for name, value in flat.items():
        index, _, slot = name.partition("/")
        like = parameters[int(index)]
        # In the parameter's memory layout: a fused optimizer walks over both as they lie in memory.
        slots.setdefault(int(index), {})[slot] = (
            torch.empty_like(like).copy_(value) if value.shape == like.shape else value
        )
    optimizer.load_state_dict(
        {"state": slots, "param_groups": optimizer.state_dict()["param_groups"]}
    )
