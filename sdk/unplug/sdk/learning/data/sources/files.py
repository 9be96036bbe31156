"""What all sources made of image files share."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import name_forms

from ..decode import decode_file, fingerprint_file
from ..source import Sample


class FileSource:
    """Decodes samples whose payload is a path. Pillow lets go of the interpreter lock, so threads
    do.
    """

    parallel: Literal["thread", "process"] = "thread"

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the sample's file, 32 bytes."""
        return fingerprint_file(sample.payload)

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The file's picture as RGB pixels (size, size, 3), uint8."""
        return decode_file(sample.payload, size)


def below(root: Path, name: str) -> Path:
    """The file that a table names; `ValueError` where its name leads out of the table's folder.
    Links are followed.
    """
    if Path(name).is_absolute() or Path(os.path.normpath(name)).parts[:1] == (os.pardir,):
        raise ValueError("the path leads out of the table's folder")
    return on_disk(root, name)


def on_disk(root: Path, name: str) -> Path:
    """The file that a table names, also where its name stands on the disk in another Unicode form,
    as macOS writes it.
    """
    if not name.isascii():
        with contextlib.suppress(OSError):  # a name too long: opening it says so
            return next(
                (root / form for form in name_forms(name) if (root / form).exists()), root / name
            )
    return root / name
