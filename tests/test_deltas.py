"""The table of bytes to ship in docs/delivery.md is the one that its JSON gives."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.deltas import markdown

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_is_that_of_the_file() -> None:
    facts = json.loads((DOCS / "data" / "deltas.json").read_text())
    assert markdown(facts) in (DOCS / "delivery.md").read_text()
    assert facts["rows"], "it measured nothing"


def test_what_the_page_says_of_it() -> None:
    """Exact designs and the sparse method ship less than a fifteenth of the file, a retraining about all of it; of a plugin
    that was trained for eight steps int8 hides most of that.
    """
    for row in json.loads((DOCS / "data" / "deltas.json").read_text())["rows"]:
        share = min(row["zstd"], row["bsdiff"], row["whole"]) / row["whole"]
        if row["way"] in ("closed-form", "shards", "ssd") and row["model"] != "plugin":
            assert share < 1 / 15, row
        if row["way"] == "retrain":
            assert (share > 0.9) == ((row["model"], row["precision"]) != ("plugin", "int8-static")), row
