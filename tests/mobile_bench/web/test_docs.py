"""The committed run of the page that draws gave Python's pictures."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LEAST_DB = {"fp32 wasm": 90.0, "fp16 wasm": 60.0, "fp32 webgpu": 60.0, "fp16 webgpu": 60.0}
FACTS = json.loads((ROOT / "docs/data/web-drawing.json").read_text(encoding="utf-8"))


def test_the_page_draws_what_python_draws() -> None:
    assert {name.split(" ", 1)[1] for name in FACTS["rows"]} == set(LEAST_DB)
    for name, row in FACTS["rows"].items():
        assert min(row["picture_db"], row["latent_db"]) >= LEAST_DB[name.split(" ", 1)[1]], name
        assert row["most_bytes_off"] <= 1, name


def test_fp16_files_take_longer_on_webassembly() -> None:
    """The reason for which the page takes fp32 files there."""
    fp16, fp32 = (
        min(FACTS["rows"][f"litert {precision} wasm"]["seconds"]) for precision in ("fp16", "fp32")
    )
    assert fp16 > 2 * fp32
