"""Where tensors live and in which precision the network computes."""

from __future__ import annotations

import contextlib
import platform
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from unplug.core import InputError, counted


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is CUDA where there is one, else the CPU.

    Raises:
        InputError: the device is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r}", "no such device", "Use auto, cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(
            f"device {name!r}", "unplug computes on cpu or cuda", "Use auto, cpu or cuda"
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {name!r}", "this torch sees no CUDA device", "Use `device=cpu`")
    return device


def describe_device(device: torch.device) -> str:
    """A name for reports: the GPU's, or the processor's and the number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cpu_name()}, {counted(torch.get_num_threads(), 'thread')}"


def cpu_name() -> str:
    """The processor's model name where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def autocast(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 on CUDA, plain float32 on the CPU (its depthwise backward in bfloat16 was measured
    slower here).
    """
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def synchronize(device: torch.device) -> None:
    """Waits for the device, so that a wall clock reads finished work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
