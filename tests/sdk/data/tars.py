"""Tar shards made by hand."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from unplug.sdk.data import Dataset, captions_of, load_dataset


def picture(value: int = 100, format_: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((9, 9, 3), value, np.uint8)).save(out, format_)
    return out.getvalue()


def pair(key: str, value: int = 100, caption: str | None = None) -> dict[str, bytes]:
    return {f"{key}.png": picture(value), f"{key}.txt": (caption or f"caption of {key}").encode()}


def tar(path: Path, files: Mapping[str, bytes], format_: int = tarfile.PAX_FORMAT, *more: tarfile.TarInfo) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format_) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for entry in more:
            archive.addfile(entry)
    return path


def load(spec: str, on_bad: str = "error") -> Dataset:
    return load_dataset(spec, 8, on_bad=on_bad, show=False)  # type: ignore[arg-type]


def rows(dataset: Dataset) -> dict[str, tuple[str, int]]:
    """Id to caption and grey value: words and pixels belong together or this is wrong."""
    found = captions_of(dataset, seed=0, variants=2)
    greys = dataset.pixels(range(len(dataset)))[:, 4, 4, 0].tolist()
    return {sample.id: (texts[0], grey) for sample, texts, grey in zip(dataset.samples, found, greys, strict=True)}
