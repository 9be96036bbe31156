"""The processes of one training: a single one, or one a GPU under ``accelerate launch``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch

from unplug.core import MissingExtraError

WAIT = timedelta(hours=24)
"""How long the others wait while the first one fills the cache."""


def processes(device: torch.device) -> Any:
    """accelerate's ``PartialState``; its ``device`` is this process's own.

    Args:
        device: a processor, or the GPU (of several processes: each takes that of its rank).

    Raises:
        MissingExtraError: accelerate is not installed.
    """
    try:
        from accelerate import PartialState
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise MissingExtraError("accelerate", "diffusion") from error
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # accelerate takes the current one
    state = PartialState(cpu=device.type == "cpu", timeout=WAIT)
    if state.device.type != device.type:  # it keeps what was first asked for
        AcceleratorState._reset_state(reset_partial_state=True)
        state = PartialState(cpu=device.type == "cpu", timeout=WAIT)
    return state
