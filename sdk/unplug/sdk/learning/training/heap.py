"""Memory that a training on the CPU gives back and takes again at every step is kept in the process
until its end.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Constants of glibc's malloc.h that mallopt sets."""
KEEP = {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: 0}
USUAL = {TRIM_THRESHOLD: 2 * 32 * 2**20, MMAP_THRESHOLD: 32 * 2**20, MMAP_MAX: 65_536}
"""Where glibc's own thresholds end in a process that frees large tensors; once one was set, they
move no more by themselves.
"""

_lock, _inside = threading.Lock(), 0


@contextmanager
def kept_heap(device: torch.device) -> Iterator[bool]:
    """Lets glibc keep what is freed, instead of asking the kernel for the pages of every large
    tensor anew.

    A step allocates the same tensors as the step before. glibc maps each large one by itself and
    unmaps it when it is freed, so that the kernel clears all of their pages again at each step. At
    the end everything is given back. Numbers do not change: torch aligns its tensors itself.

    Args:
        device: the device of the training; on a GPU nothing is done.

    Yields:
        Whether it is so: not on a GPU, and not with another C library.

    Example:
        >>> with kept_heap(torch.device("cpu")):
        ...     loss = torch.zeros(3).sum()

    Reference:
        The GNU C Library, mallopt(3), M_MMAP_MAX and M_TRIM_THRESHOLD.
    """
    global _inside
    libc = _glibc() if device.type == "cpu" else None
    if libc is None:
        yield False
        return
    with _lock:
        _inside += 1
        if _inside == 1:
            _set(libc, KEEP)
    try:
        yield True
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _set(libc, USUAL)
                libc.malloc_trim(0)


def _glibc() -> Any:
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt") else None


def _set(libc: Any, options: dict[int, int]) -> None:
    for option, value in options.items():
        libc.mallopt(option, value)
