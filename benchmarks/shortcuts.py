"""``python -m benchmarks.shortcuts --faces DIR --clean DIR``: does `unplug data inspect
--shortcuts` see pictures that were protected, and stay silent on others?

From a UTKFace folder sets of 500 photographs are drawn: as they are, and with what somebody adds
who does not want them learned: a patch of +-4 or +-8 of 255 for each age group (also saved as JPEG
75, and on half of the pictures), or a random 3 x 3 filter for each group. Each set is compared with
500 photographs of another folder. Writes ``docs/data/shortcuts.json``: how often the command says
"simpler", and the AUC of its share between clean and protected sets.

Reference:
    Sadasivan et al., CUDA: Convolution-based Unlearnable Datasets, 2023 (a filter a class).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import convolve

from unplug.core import git_revision, use_threads, versions, write_json
from unplug.plugins import AGE_EDGES
from unplug.sdk.evidence.shortcuts import shortcuts
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.learning.data import Dataset, load_dataset

PICTURES, SIDE = 500, 64
Pixels = NDArray[np.uint8]
Change = Callable[[Pixels, NDArray[np.int64], np.random.Generator], Pixels]


def patches(amount: int) -> Change:
    """One pattern of +-amount for each age group."""

    def change(image_NHWC: Pixels, group_N: NDArray[np.int64], rng: np.random.Generator) -> Pixels:
        signs = rng.choice([-amount, amount], (len(AGE_EDGES), *image_NHWC.shape[1:]))
        changed: Pixels = np.clip(image_NHWC + signs[group_N], 0, 255).astype(np.uint8)
        return changed

    return change


def behind_jpeg(change: Change) -> Change:
    """The same, saved as JPEG of quality 75."""

    def both(image_NHWC: Pixels, group_N: NDArray[np.int64], rng: np.random.Generator) -> Pixels:
        files = []
        for picture in change(image_NHWC, group_N, rng):
            file = io.BytesIO()
            Image.fromarray(picture).save(file, "JPEG", quality=75)
            files.append(np.asarray(Image.open(file)))
        return np.stack(files)

    return both


def half(change: Change) -> Change:
    """The same, on every second picture."""

    def some(image_NHWC: Pixels, group_N: NDArray[np.int64], rng: np.random.Generator) -> Pixels:
        changed = change(image_NHWC, group_N, rng)
        changed[::2] = image_NHWC[::2]
        return changed

    return some


def filters(image_NHWC: Pixels, group_N: NDArray[np.int64], rng: np.random.Generator) -> Pixels:
    """One random 3 x 3 filter for each age group: 1 in the middle, 0 to .3 around it."""
    kernels = rng.uniform(0, 0.3, (len(AGE_EDGES), 3, 3))
    kernels[:, 1, 1] = 1.0
    kernels /= kernels.sum(axis=(1, 2), keepdims=True)
    made = [
        convolve(picture.astype(float), kernels[group][..., None], mode="nearest")
        for picture, group in zip(image_NHWC, group_N, strict=True)
    ]
    return np.stack(made).round().astype(np.uint8)


CHANGES: dict[str, Change] = {
    "nothing": lambda image_NHWC, _group, _rng: image_NHWC,
    "patches, 4 of 255": patches(4),
    "patches, 8 of 255": patches(8),
    "patches, 4 of 255, JPEG 75": behind_jpeg(patches(4)),
    "patches, 8 of 255, JPEG 75": behind_jpeg(patches(8)),
    "patches, 8 of 255, half of the pictures": half(patches(8)),
    "filters (CUDA)": filters,
}


def drawn(dataset: Dataset, change: Change, rng: np.random.Generator) -> Dataset:
    """Some pictures of a data set, changed."""
    rows = np.sort(rng.choice(len(dataset), PICTURES, replace=False))
    part = dataset.only([dataset.ids[row] for row in rows])
    group_N = np.clip(np.searchsorted(AGE_EDGES, part.ages, side="right") - 1, 0, len(AGE_EDGES))
    images = change(part.pixels(np.arange(len(part))), group_N, rng)
    return replace(part, images=images, rows=np.arange(len(part)))


@click.command()
@click.option("--faces", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--clean", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--sets", default=40, show_default=True, help="Sets of each kind.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/data/shortcuts.json"))
def main(faces: Path, clean: Path, sets: int, out: Path) -> None:
    """Measures, and writes the numbers."""
    use_threads(1)
    photographs, others = (load_dataset(f"utkface:{path}", SIDE) for path in (faces, clean))
    shares: dict[str, list[float]] = {}
    rows = []
    for name, change in CHANGES.items():
        alarms = 0
        for number in range(sets):
            rng = np.random.default_rng([number, 9])
            found = shortcuts(
                drawn(photographs, change, rng), drawn(others, CHANGES["nothing"], rng)
            )
            shares.setdefault(name, []).append(found["probes"][0]["right"]["value"])
            alarms += found["verdict"].startswith("simpler")
        told = auc(np.array(shares[name]), np.array(shares["nothing"]))
        mean = float(np.mean(shares[name]))
        rows.append([name, f"{alarms} of {sets}", f"{100 * mean:.0f} %", f"{told:.2f}"])
        print(*rows[-1], sep="  ", flush=True)
    commit = git_revision().partition("-")[0]  # without "-dirty"
    head = ["what was added", "called simpler", "right by thumbnails", "AUC against nothing"]
    write_json(
        out,
        {
            "schema": "unplug-shortcuts/1",
            "command": f"python -m benchmarks.shortcuts --faces DIR --clean DIR --sets {sets}",
            "commit": commit,
            "tables": [{"head": head, "rows": rows}],
            "versions": versions(),
        },
    )


if __name__ == "__main__":
    main()
