"""Exported files of one age model, and copies of them that an attacker would make."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.exported import age_checkpoint, age_files, age_files_channels_last, save_age_model

from unplug.core import Reply, call_in_child, sha256_tree
from unplug.export import Artifact, load_artifact, random_inputs
from unplug.export.artifact import write_card

Files = Mapping[str, Artifact]
"""Exported files by name."""


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return age_checkpoint(tmp_path_factory)


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_age_model(tmp_path_factory.mktemp("checkpoint") / "other", seed=1)


@pytest.fixture(scope="session")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """All targets in all precisions; tests must not write to these files."""
    return age_files(tmp_path_factory)


@pytest.fixture(scope="session")
def channels_last(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return age_files_channels_last(tmp_path_factory)


def given(artifact: Artifact, samples: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of a file."""
    return random_inputs(artifact.card.iospec, samples, seed)


def resigned(
    artifact: Artifact, folder: Path, change: bytes | Callable[[Path], object]
) -> Artifact:
    """A copy with other bytes, or changed by a function, and a card that vouches for it."""
    path = folder / artifact.path.name
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        shutil.copytree(artifact.path, path)
        change(path)
    sha256, size = sha256_tree(path)
    write_card(path, replace(artifact.card, sha256=sha256, bytes=size))
    return load_artifact(path)


def in_child(function: str, arrays: Any = None, **values: Any) -> Reply:
    """A function of `children`, in a process where converters may be loaded."""
    return call_in_child(f"tests.export.children:{function}", values, arrays, what=function)
