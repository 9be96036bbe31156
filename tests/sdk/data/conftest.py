"""Small images with known pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

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
