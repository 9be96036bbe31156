"""Data sets by hand: grey squares whose brightness is the age, so that a few steps can learn
something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from unplug.plugins import AGE_EDGES
from unplug.sdk.learning.data import Dataset, Sample
from unplug.sdk.learning.training import ImageSet, Recipe, to_tensors

SIDE = 32


@pytest.fixture
def make_dataset() -> Callable[..., Dataset]:
    def make(count: int = 30, seed: int = 0, ages: Any = None, side: int = SIDE) -> Dataset:
        rng = np.random.default_rng(seed)
        years = rng.uniform(1, 90, count) if ages is None else ages
        noise = rng.integers(0, 40, (count, side, side, 3))
        level = np.array([0 if year is None else year * 2 for year in years])[:, None, None, None]
        images = np.clip(noise + level, 0, 255).astype(np.uint8)
        samples = tuple(
            Sample(id=f"s{row}", payload=row, age=None if year is None else float(year))
            for row, year in enumerate(years)
        )
        digest = hashlib.sha256(images.tobytes()).hexdigest()
        return Dataset(
            spec="hand:",
            images=images,
            rows=np.arange(count),
            samples=samples,
            problems=(),
            digest=digest,
        )

    return make


@pytest.fixture
def recipe() -> Recipe:
    """Four epochs of four steps."""
    return Recipe(size="nano", image_size=SIDE, epochs=4, batch_size=6, dropout=0.1)


@pytest.fixture
def tensors(make_dataset: Callable[..., Dataset]) -> ImageSet:
    dataset = make_dataset(10)
    return to_tensors(dataset, dataset.ids, AGE_EDGES, torch.device("cpu"))
