"""Tiny folders in the formats of the data sets that protocols name."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32


def picture(path: Path, value: int) -> None:
    """Noise around a grey level: a class can be learned from it, and no two files are alike."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(abs(hash(path.name)) % 2**31).integers(-15, 16, (SIDE, SIDE, 3))
    Image.fromarray(np.clip(value + noise, 0, 255).astype(np.uint8)).save(path)


def mufac(root: Path, *, train: int = 120, test: int = 36, validation: int = 12) -> str:
    """Three age groups in turn, two pictures a family."""
    for part, folder, count in (
        ("train", "train_images", train),
        ("val", "val_images", validation),
        ("test", "test_images", test),
    ):
        rows = [("image_path", "age_class")]
        for number in range(count):
            name = f"F{number // 2:04d}_AGE_M_30_{part}{number}.png"
            rows.append((name, "abc"[number % 3]))
            picture(root / folder / name, 60 + 60 * (number % 3))
        with (root / f"custom_{part}_dataset.csv").open("w", newline="") as handle:
            csv.writer(handle).writerows(rows)
    return f"mufac:{root}"


def mucac(root: Path, *, people: int = 20, each: int = 4) -> str:
    """Identities of `each` pictures, all eight joint classes."""
    attributes, identities = ["x", "names ..."], []
    for number in range(people * each):
        name = f"{number}.png"
        values = ["-1"] * 40
        for bit, column in enumerate((21, 32, 40)):
            values[column - 1] = "1" if number >> bit & 1 else "-1"
        attributes.append(f"{name} {' '.join(values)}")
        identities.append(f"{name} {number // each}")
        picture(root / "CelebA-HQ-img" / name, 20 + 25 * (number % 8))
    (root / "CelebA-HQ-attribute.txt").write_text("\n".join(attributes))
    (root / "CelebA-HQ-identity.txt").write_text("\n".join(identities))
    return f"mucac:{root}"


def cifar10(root: Path, *, train: int = 60, test: int = 21) -> str:
    """Three classes in turn."""
    for part, count in (("train", train), ("test", test)):
        for number in range(count):
            name = ("airplane", "bird", "cat")[number % 3]
            picture(root / part / name / f"{number:04d}.png", 60 + 60 * (number % 3))
    return f"cifar10:{root}"


def utkface(root: Path, *, count: int = 100) -> str:
    """Ages 1 to 80 without subjects."""
    for number in range(count):
        picture(root / f"{1 + number % 80}_0_0_{number}.png", 100)
    return f"utkface:{root}"
