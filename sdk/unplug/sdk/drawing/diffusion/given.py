"""The loss of a base with the residuals that an exported plugin gives, in the file's own runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.core import ArtifactError, IOSpec

from .measure import LEVELS, batch_losses, level_mean
from .task import NoiseFrame, NoiseSet

CHUNK_BYTES = 2**29
"""Residuals in memory at once; those of one sample take 10 MB for Stable Diffusion 1.5."""


class _Given(nn.Module):
    """A network that answers with what a file said."""

    def __init__(self, residuals: list[Tensor]) -> None:
        super().__init__()
        self.residuals = residuals

    def forward(self, _: Tensor) -> list[Tensor]:
        return [item.clone() for item in self.residuals]  # a UNet adds to some of them in place


@torch.no_grad()
def given_losses(
    artifact: Any,
    iospec: IOSpec,
    frame: NoiseFrame,
    parts: Sequence[NoiseSet],
    device: torch.device,
) -> list[NDArray[Any]]:
    """Mean loss of each sample over the fixed noise levels (N,), a set at a time, with the file's
    residuals.

    Args:
        artifact: an exported plugin.
        iospec: named tensors of a plugin for this base.
        frame: the base.
        parts: sets of samples.
        device: the device of the base.

    Raises:
        ArtifactError: its tensors are not those of a plugin for this base.
        ConversionError: its runtime crashed.
    """
    from unplug.export import Session

    _check_tensors(artifact, iospec)
    with Session(artifact) as session:
        return [_part(session, iospec, frame, part, device) for part in parts]


def _check_tensors(artifact: Any, iospec: IOSpec) -> None:
    spec: IOSpec = artifact.card.iospec.images_in("NCHW")
    for theirs, ours in ((spec.inputs, iospec.inputs), (spec.outputs, iospec.outputs)):
        has, wanted = ({item.name: tuple(item.shape) for item in side} for side in (theirs, ours))
        if has != wanted:
            why = f"its tensors are {_named(has)}, and this base's plugins have {_named(wanted)}"
            raise ArtifactError(
                str(artifact.path), why, "Audit the artifacts of a plugin of this base"
            )


def _named(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def _part(
    session: Any, iospec: IOSpec, frame: NoiseFrame, part: NoiseSet, device: torch.device
) -> NDArray[Any]:
    data, size, losses = part.control_set, part.eval_batch, []
    chunk = max(1, CHUNK_BYTES // sum(4 * math.prod(item.shape) for item in iospec.outputs))
    for start in range(0, len(data), chunk):
        index_N = torch.arange(start, min(start + chunk, len(data)))
        answer = session.run_channels_first(
            {"condition": data.batch(index_N, torch.device("cpu"))["condition_BCHW"].numpy()}
        )
        for low in range(0, len(index_N), size):
            rows = slice(low, low + size)
            residuals = [
                torch.from_numpy(np.ascontiguousarray(answer[item.name][rows])).to(device)
                for item in iospec.outputs
            ]
            batch = data.batch(index_N[rows], device)
            loss_BT = batch_losses(frame.control, _Given(residuals), frame.base, batch, LEVELS, 0)
            losses.append(level_mean(loss_BT, frame.base, frame.weighting).numpy())
    return np.concatenate(losses) if losses else np.zeros(0)
