"""The app reads records strictly, so it must know every key that Python writes."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from unplug.sdk.drawing.inference import DecisionRecord
from unplug.trust.bundle import Gate, Lineage, Manifest

CORE = Path(__file__).parents[2] / "android_demo/core/src/main/kotlin/ai/unplug/core"


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        (Manifest, "bundle/Manifest.kt"),
        (Gate, "bundle/Manifest.kt"),
        (Lineage, "bundle/Manifest.kt"),
        (DecisionRecord, "age/DecisionRule.kt"),
    ],
)
def test_kotlin_knows_every_key(kind: type, file: str) -> None:
    text = (CORE / file).read_text(encoding="utf-8")
    assert [item.name for item in fields(kind) if f'"{item.name}"' not in text] == []  # type: ignore[arg-type]
