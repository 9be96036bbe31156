"""The committed run of the exported files gave diffusers' pictures."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
LEAST_DB = 60.0
FACTS = json.loads((ROOT / "docs/data/device-pipeline.json").read_text(encoding="utf-8"))


def test_every_runtime_draws_what_diffusers_draws() -> None:
    rows = {
        name: row for name, row in FACTS["rows"].items() if " fp32, " in name and row["picture_db"]
    }
    ways = [
        name.removeprefix("diffusers fp32, ")
        for name in FACTS["rows"]
        if name.startswith("diffusers ")
    ]
    assert {"25 steps", "6 steps"} <= set(ways)
    assert set(rows) == {
        f"{kind} fp32, {way}" for kind in ("litert", "onnx", "coreml") for way in ways
    }
    assert all(min(row["picture_db"]) >= LEAST_DB for row in rows.values())
