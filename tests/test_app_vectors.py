"""Vectors that only apps read: what is in the files is what Python computes today."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

VECTORS = Path(__file__).parent / "vectors"


@pytest.mark.parametrize("name", ["signatures", "statistics", "loop", "pictures"])
def test_the_files_are_what_is_made_today(name: str) -> None:
    if name == "pictures":
        pytest.importorskip("mediapipe")
        pytest.importorskip("cv2")
    made = importlib.import_module(f"tests.vectors.{name}.make").files()
    for file, text in made.items():
        assert (VECTORS / name / file).read_text(encoding="utf-8") == text, (
            f"python -m tests.vectors.{name}.make"
        )
    assert {path.name for path in (VECTORS / name).glob("*.json")} == made.keys()
