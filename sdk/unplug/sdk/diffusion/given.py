"""The loss of a base with the residuals that an exported plugin gives, in the file's own runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.plugins.errors import ArtifactError

from .control_set import ControlSet
from .measure import BATCH, LEVELS, batch_losses
from .task import Frame, SteeredSet

CHUNK = 512
"""Samples whose residuals are in memory at once."""


class _Given(nn.Module):
    """A network that answers with what a file said."""

    def __init__(self, residuals: list[Tensor]) -> None:
        super().__init__()
        self.residuals = residuals

    def forward(self, _: Tensor) -> list[Tensor]:
        return [item.clone() for item in self.residuals]


@torch.no_grad()
def given_losses(
    artifact: Any, frame: Frame, parts: Sequence[SteeredSet], device: torch.device
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Mean loss of each sample over the fixed noise levels (N,), with the file's residuals and without any.

    Args:
        artifact: an exported plugin.
        frame: the base.
        parts: sets of samples.
        device: where the base computes.

    Raises:
        ArtifactError: its outputs are not a plugin's for this base.
        ConversionError: its runtime crashed.
    """
    from unplug.export import Session

    session = Session(artifact)
    names = [item.name for item in artifact.card.iospec.outputs]
    if not names or not all(name.startswith("adapter_res_samples_") for name in names):
        raise ArtifactError(str(artifact.path), "its outputs are not a plugin's", "Audit the artifacts of a plugin")
    return [_part(session, names, frame, part, device) for part in parts]


def _part(
    session: Any, names: list[str], frame: Frame, part: SteeredSet, device: torch.device
) -> tuple[NDArray[Any], NDArray[Any]]:
    own, plain = [], []
    data: ControlSet = part.control_set
    for start in range(0, len(data), CHUNK):
        index = torch.arange(start, min(start + CHUNK, len(data)))
        condition = data.batch(index, torch.device("cpu"))["condition_BCHW"].numpy()
        said = session.run({"condition": condition})
        for low in range(0, len(index), BATCH):
            rows = slice(low, low + BATCH)
            batch = data.batch(index[rows], device)
            network = _Given([torch.from_numpy(np.ascontiguousarray(said[name][rows])).to(device) for name in names])
            own.append(batch_losses(frame.control, network, frame.base, batch, LEVELS, 0).mean(dim=1).numpy())
            plain.append(batch_losses(None, None, frame.base, batch, LEVELS, 0).mean(dim=1).numpy())
    return (np.concatenate(own), np.concatenate(plain)) if own else (np.zeros(0), np.zeros(0))
