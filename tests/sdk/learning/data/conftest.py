"""Small images with known pixels, and what a loaded data set says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.sdk.learning.data import Dataset, load_dataset

Draw = Callable[..., Path]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """``draw("a/b.png", 40)``: a flat grey image below tmp_path; lossless formats keep the value."""

    def save(name: str, value: int = 100, side: int = 12, **options: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path, **options)
        return path

    return save


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path_factory.mktemp("cache")))


def load(spec: str, on_bad: str = "error", size: int = 8) -> Dataset:
    return load_dataset(spec, size, on_bad=on_bad, show=False)  # type: ignore[arg-type]


def reasons(dataset: Dataset) -> dict[str, str]:
    return {problem.id: problem.reason for problem in dataset.problems}


def assert_reasons(dataset: Dataset, expected: dict[str, str], prefix: str = "") -> None:
    """Every problem is there, and none besides; each reason holds the words that are expected of
    it.
    """
    found = reasons(dataset)
    assert set(found) == {f"{prefix}{name}" for name in expected}
    for name, why in expected.items():
        assert why in found[f"{prefix}{name}"], (name, found[f"{prefix}{name}"])
