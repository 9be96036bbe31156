"""Small images with known pixels, and what a loaded data set says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.sdk.learning.data import Dataset, load_dataset

CASES = Path(__file__).parents[3] / "cases"
Draw = Callable[..., Path]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """``draw("a/b.png", 40)``: a flat grey image below tmp_path; lossless formats keep the value."""

    def save(name: str, value: int = 100) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((12, 12, 3), value, np.uint8)).save(path)
        return path

    return save


@pytest.fixture
def fill(draw: Draw, tmp_path: Path) -> Draw:
    """``fill("a", {"b.png": 40})``: images of these names below a folder, with or without values."""

    def save(folder: str, names: Iterable[str]) -> Path:
        for name in names:
            draw(f"{folder}/{name}", *([names[name]] if isinstance(names, dict) else []))
        return tmp_path / folder

    return save


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path_factory.mktemp("cache")))


def load(spec: str, on_bad: Any = "error", size: int = 8) -> Dataset:
    return load_dataset(spec, size, on_bad=on_bad, show=False)


def greys(dataset: Dataset) -> dict[str, int]:
    """Id to grey value: pixels and labels belong together or this is wrong."""
    values = dataset.pixels(range(len(dataset)))[:, 4, 4, 0].tolist()
    return dict(zip(dataset.ids, values, strict=True))


def reasons(dataset: Dataset) -> dict[str, str]:
    return {problem.id: problem.reason for problem in dataset.problems}


def assert_reasons(dataset: Dataset, expected: dict[str, str], prefix: str = "") -> None:
    """Every problem is there once, and none besides; each reason holds the words expected of it."""
    named = reasons(dataset)
    assert len(dataset.problems) == len(expected)
    assert set(named) == {f"{prefix}{name}" for name in expected}
    for name, why in expected.items():
        assert why in named[f"{prefix}{name}"], (name, named[f"{prefix}{name}"])
