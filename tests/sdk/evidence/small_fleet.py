"""References of the small world, made once for all tests that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.once import once

from unplug.sdk.evidence.fleet import train_references

from ..conftest import CPU, World

HERE: dict[str, Any] = {"device": CPU, "backend": "loop", "show": False}
"""In this process, one after the other."""
MODELS, FOLDS = 10, 2


def small_references(world: World, factory: pytest.TempPathFactory) -> Path:
    """The folder: 5 models never saw a person."""

    def make(root: Path) -> None:
        options = {"models": MODELS, "folds": FOLDS, **HERE}
        train_references(world.original, world.dataset, root / "references", **options)

    return once(factory, "references", make) / "references"
