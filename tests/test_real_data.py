"""Real photographs: UTKFace and a portrait, where `UNPLUG_UTKFACE` and `UNPLUG_PORTRAIT` name them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from unplug.sdk import run
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe

UTKFACE = os.environ.get("UNPLUG_UTKFACE", "")
PORTRAIT = os.environ.get("UNPLUG_PORTRAIT", "")
LANDMARKER = os.environ.get("UNPLUG_FACE_LANDMARKER", "")
needs_utkface = pytest.mark.skipif(
    not Path(UTKFACE or "?").is_dir(),
    reason="UNPLUG_UTKFACE names no folder of UTKFace photographs",
)


@pytest.mark.long
@needs_utkface
def test_every_photograph_decodes_and_its_age_is_the_one_in_its_name() -> None:
    dataset = load_dataset(f"utkface:{UTKFACE}", 32, show=False)
    assert len(dataset) == 5000 and not dataset.problems
    assert [int(age) for age in dataset.ages] == [int(name.split("_")[0]) for name in dataset.ids]
    spread = dataset.pixels(range(0, 5000, 50)).reshape(100, -1).std(axis=1)
    assert spread.min() > 5.0, "an image decoded to one colour"


@pytest.mark.long
@needs_utkface
def test_three_epochs_beat_the_best_constant(tmp_path: Path) -> None:
    """The best constant is the median training age; a net that learns nothing cannot beat it."""
    dataset = load_dataset(f"utkface:{UTKFACE}", 32, show=False)
    split = make_split(dataset)
    recipe = Recipe(
        size="nano", image_size=32, epochs=3, batch_size=64, augment="flip", dropout=0.0, lr=6e-3
    )
    trained = train_age(
        dataset, split, recipe, tmp_path / "age", seed=0, device=torch.device("cpu"), show=False
    )
    ages = dataset.ages
    constant = np.median(ages[dataset.indices(split.train)])
    baseline = float(np.abs(ages[dataset.indices(split.test)] - constant).mean())
    assert trained.record["metrics"]["test"]["mae"] < 0.8 * baseline

    if not Path(PORTRAIT or "?").is_file():
        pytest.skip("UNPLUG_PORTRAIT names no photograph: the rest of this test needs one")
    landmarker = Path(LANDMARKER) if LANDMARKER else None
    (row,) = run(trained.path, [Path(PORTRAIT)], landmarker=landmarker).results
    assert 10.0 < row["age"] < 80.0, "the portrait shows an adult"
    assert sum(group["probability"] for group in row["groups"]) == pytest.approx(1.0, abs=1e-5)
    assert row["crop"].startswith("face at" if landmarker else "centre")
