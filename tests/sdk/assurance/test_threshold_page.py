"""docs/threshold.md holds the tables of the committed run, and the run shows what the page says."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.threshold import DRAWS, limits_table, moved_table
from scipy.stats import binom

ROOT = Path(__file__).parents[3]
FACTS = json.loads((ROOT / "docs/data/threshold-utkface.json").read_text(encoding="utf-8"))
SLACK = int(binom.ppf(0.999, DRAWS, 0.05)) / DRAWS
"""A limit that is exceeded in 5 % of all draws is so in at most 10.5 % of 200, but once in a thousand runs."""


def test_the_tables_are_those_of_the_committed_run() -> None:
    page = (ROOT / "docs/threshold.md").read_text(encoding="utf-8")
    assert limits_table(FACTS) in page and moved_table(FACTS) in page
    assert f"{FACTS['parameters'] / 1e6:.2f} M parameters" in page
    assert f"{FACTS['test_mae']['original']:.2f} years" in page and f"forgot {FACTS['forgotten']} of them" in page
    assert f"but for {FACTS['copies']['left_out']} that lie in the training under another name" in page


def test_limits_with_a_confidence_are_seldom_exceeded() -> None:
    rows = [row for row in FACTS["limits"] if row["method"] == "clopper-pearson"]
    assert rows and all(row["draws"] == DRAWS for row in rows)
    assert all(share <= SLACK for row in rows for share in row["exceeded"].values())
    over = [row["exceeded"]["minors"] for row in FACTS["limits"] if row["method"] == "conformal"]
    assert max(over) > SLACK  # on average is less


def test_the_people_were_never_seen() -> None:
    copies = FACTS["copies"]
    assert FACTS["apart"] == "other data" and copies["why"] is None and copies["compared"] == copies["trained"] == 3500
    assert FACTS["people"] + copies["left_out"] == 8000


def test_the_oracle_stands_beside_the_original_and_the_unlearned_model() -> None:
    asked = [(row["method"], row["limit"], row["minors_from"]) for row in FACTS["limits"] if row["model"] == "original"]
    for name in ("unlearned", "retrained"):
        rows = [row for row in FACTS["limits"] if row["model"] == name]
        assert [(row["method"], row["limit"], row["minors_from"]) for row in rows] == asked
    assert [row["step"] for row in FACTS["moved"]][:2] == ["forgetting", "training anew without them"]
