"""Arrays on disk. Apart from what verifies a bundle, which has no NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .results import atomic_path

Array = NDArray[Any]


def open_array(path: Path, shape: tuple[int, ...], dtype: str) -> Array | None:
    """A read-only memory map of a ``.npy`` file, or None where there is no whole one of this shape
    and type.
    """
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None
    return array if array.shape == shape and array.dtype == np.dtype(dtype) else None


def write_array(path: Path, shape: tuple[int, ...], dtype: str, blocks: Iterable[Array]) -> None:
    """Writes a ``.npy`` file block by block, atomically: it is larger than memory, and there is no
    half of it.

    Args:
        path: the file; its folder is made.
        shape, dtype: the shape and type of the whole array.
        blocks: its parts along the first axis, in order, or single rows.

    Raises:
        OutputError: the place cannot be written, or the disk is full.
    """
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        # Plain writes, in order: a full disk is then an error here, where a memory map would be
        # killed by SIGBUS.
        np.lib.format.write_array_header_1_0(
            handle, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
        )
        for block in blocks:
            handle.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
