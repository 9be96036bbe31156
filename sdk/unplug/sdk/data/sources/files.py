"""What all sources made of image files share."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import name_forms

from ..decode import SUFFIXES, decode_file, fingerprint_file
from ..source import Sample


class FileSource:
    """Decodes samples whose payload is a path. Pillow lets go of the interpreter lock, so threads do."""

    parallel: Literal["thread", "process"] = "thread"

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the sample's file, 32 bytes."""
        return fingerprint_file(sample.payload)

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The file's picture as RGB pixels (size, size, 3), uint8."""
        return decode_file(sample.payload, size)


def image_files(root: Path) -> Iterator[Path]:
    """Image files below `root` in a stable order; hidden ones and links that lead outside are left out."""
    return files_below(root, SUFFIXES)


def files_below(root: Path, suffixes: Container[str]) -> Iterator[Path]:
    """As `image_files`, of any lower-case suffixes."""
    base = root.resolve()
    for path in sorted(root.rglob("*")):
        if path.suffix.lower() not in suffixes or path.name.startswith("."):
            continue
        if path.is_file() and (not path.is_symlink() or path.resolve().is_relative_to(base)):  # is_file first: links can loop
            yield path


def below(root: Path, name: str) -> Path:
    """The file that a table names; `ValueError` where it lies outside of the table's folder."""
    path = on_disk(root, name)
    try:
        inside = not Path(name).is_absolute() and path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:  # links that lead in a circle
        raise ValueError(str(error)) from error
    if not inside:
        raise ValueError("the path leads out of the table's folder")
    return path


def on_disk(root: Path, name: str) -> Path:
    """The file that a table names, also where its name stands on the disk in another Unicode form, as macOS writes it."""
    if not name.isascii():
        with contextlib.suppress(OSError):  # a name too long: whoever opens it says so
            return next((root / form for form in (name, *name_forms(name)) if (root / form).exists()), root / name)
    return root / name
