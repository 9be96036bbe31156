"""CIFAR-10 as files and as the published pickles, which must not run anything."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import DataError
from unplug.sdk.data import load_dataset
from unplug.sdk.data.sources.cifar10 import BATCHES

from .conftest import Draw


class Bomb:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


def batches(root: Path, count: int = 2, protocol: int = 2, **changes: Any) -> Path:
    """What the published archive holds: a dict of bytes keys, rows of 1,024 red, green and blue values."""
    root.mkdir(exist_ok=True)
    for number, name in enumerate(BATCHES):
        data = np.zeros((count, 3, 32, 32), np.uint8)
        data[:, 0], data[:, 1, :16], data[:, 2] = 10 * number, 200, np.arange(count)[:, None, None]
        raw = {b"data": data.reshape(count, -1), b"labels": [(number + row) % 10 for row in range(count)], **changes}
        (root / name).write_bytes(pickle.dumps(raw, protocol=protocol))
    return root


@pytest.mark.parametrize("protocol", [2, 4])
def test_batches_are_read_with_partition_class_and_colour(tmp_path: Path, protocol: int) -> None:
    dataset = load_dataset(f"cifar10:{batches(tmp_path / 'c', protocol=protocol)}", 32, show=False)
    assert len(dataset) == 12 and dataset.classes[0] == "airplane" and dataset.classes[9] == "truck"
    third = dataset.samples[5]
    assert (third.id, third.label, third.partition) == ("data_batch_3/00001", 3, "train")
    assert [sample.partition for sample in dataset.samples[-2:]] == ["test", "test"]
    pixels = dataset.pixels([5])[0]
    assert pixels[0, 0].tolist() == [20, 200, 1] and pixels[31, 0].tolist() == [20, 0, 1]


def test_a_tree_is_read_by_its_folders(draw: Draw, tmp_path: Path) -> None:
    for name in ("train/cat/0.png", "test/dog/0.png", "train/car/0.png", "valid/cat/0.png", "cat/1.png", "2.png"):
        draw(f"c/{name}")
    dataset = load_dataset(f"cifar10:{tmp_path}/c", 8, show=False)
    assert [(sample.id, sample.label, sample.partition) for sample in dataset.samples] == [
        ("test/dog/0.png", 5, "test"),
        ("train/cat/0.png", 3, "train"),
    ]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_batch_does_not_run(tmp_path: Path, protocol: int) -> None:
    root, trace = batches(tmp_path / "c"), tmp_path / "exploded"
    for bomb in (Bomb(os.system, f"touch {trace}"), Bomb(eval, f"open({str(trace)!r}, 'w')"), Bomb(Path.touch, trace)):
        (root / "data_batch_2").write_bytes(pickle.dumps({b"data": bomb, b"labels": []}, protocol=protocol))
        with pytest.raises(DataError, match="which no CIFAR-10 batch needs"):
            load_dataset(f"cifar10:{root}", 8, show=False)
    assert not trace.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {b"labels": [0]}, {b"labels": [0, 10]}, {b"labels": [0, -1]}, {b"labels": [0, float("nan")]}, {b"labels": None},
        {b"data": None}, {b"data": [[300] * 3072] * 2}, {b"data": np.zeros((2, 3071), np.uint8)},
        {b"data": np.array([Bomb(dict)], dtype=object)},
    ],
)  # fmt: skip
def test_batches_of_another_shape_are_refused(tmp_path: Path, changes: dict[bytes, Any]) -> None:
    root = batches(tmp_path / "c")
    good = pickle.loads((root / "data_batch_1").read_bytes())  # noqa: S301 (our own bytes)
    (root / "data_batch_1").write_bytes(pickle.dumps(good | changes))
    with pytest.raises(DataError, match="data_batch_1"):
        load_dataset(f"cifar10:{root}", 8, show=False)


def test_an_array_larger_than_memory_is_a_data_error(tmp_path: Path) -> None:
    root = batches(tmp_path / "c")
    bomb = Bomb(np._core.multiarray._reconstruct, np.ndarray, (2**50,), b"b")  # type: ignore[attr-defined]
    (root / "data_batch_1").write_bytes(pickle.dumps({b"data": bomb, b"labels": []}))
    with pytest.raises(DataError, match="data_batch_1"):
        load_dataset(f"cifar10:{root}", 8, show=False)


def test_damaged_batches_are_data_errors_whatever_the_damage(tmp_path: Path) -> None:
    root = batches(tmp_path / "c", count=1)
    raw = (root / "data_batch_1").read_bytes()
    for name in BATCHES[1:]:
        (root / name).unlink()
    random.seed(0)
    for _ in range(300):
        damaged = bytearray(raw[: random.choice([len(raw), random.randrange(len(raw))])] or b".")
        for _ in range(3):  # at the front or the end, where the instructions are
            place = random.choice(
                [random.randrange(min(200, len(damaged))), len(damaged) - 1 - random.randrange(min(60, len(damaged)))]
            )
            damaged[place] = random.randrange(256)
        (root / "data_batch_1").write_bytes(damaged)
        with pytest.raises(DataError):  # the other batches are missing: an undamaged one is refused as well
            load_dataset(f"cifar10:{root}", 8, show=False)
