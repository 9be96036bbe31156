"""Writing synthetic faces as files, with a table that reads them back."""

from __future__ import annotations

import csv
from pathlib import Path

from PIL import Image

from unplug.core import atomic_dir, progress, write_json

from .dataset import load_dataset

MARKER = "unplug-faces.json"
"""A file next to the table: a folder that has it was written here, and may be replaced."""


def write_faces(spec: str, size: int, out: Path, *, show: bool = True) -> int:
    """Writes the images of a spec as PNG files next to a ``labels.csv`` and a record of the spec,
    atomically.

    Args:
        spec: a ``synth:`` spec.
        size: side in pixels.
        out: a new or empty folder, or one that this function wrote.
        show: progress bar.

    Returns:
        The number of images.

    Raises:
        OutputError: the folder is taken by something else or cannot be written.
    """
    dataset = load_dataset(spec, size, show=show)
    with (
        atomic_dir(out, owner=MARKER, ours=("labels.csv", "face-*.png")) as folder,
        (folder / "labels.csv").open("w", newline="", encoding="utf-8") as handle,
    ):
        write_json(folder / MARKER, {"schema": "unplug-faces/1", "spec": spec, "size": size})
        table = csv.writer(handle)
        table.writerow(["path", "age", "subject"])
        for index, sample in enumerate(progress(dataset.samples, label="write", show=show)):
            Image.fromarray(dataset.pixels([index])[0]).save(folder / f"{sample.id}.png")
            table.writerow([f"{sample.id}.png", sample.age, sample.subject])
    return len(dataset)
