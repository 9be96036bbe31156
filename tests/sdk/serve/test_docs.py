"""The numbers of the service are those of the committed runs, its limits those of the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unplug.serve import ServeLimits

ROOT = Path(__file__).resolve().parents[3]
PAGE, SPEED = (
    (ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("service", "results/speed")
)
FACTS, LOCKED = (
    json.loads((ROOT / f"docs/data/{name}.json").read_text(encoding="utf-8"))
    for name in ("service", "service-locked")
)


@pytest.mark.parametrize("facts", [FACTS, LOCKED])
def test_the_numbers_are_those_of_the_committed_run(facts: dict[str, Any]) -> None:
    asked = facts["checked"]["acknowledged"]
    assert f"{asked:,} requests were acknowledged, 0 lost, 0 doubled" in SPEED


@pytest.mark.parametrize("facts", [FACTS, LOCKED])
def test_nothing_was_lost_or_doubled_in_it(facts: dict[str, Any]) -> None:
    checked = facts["checked"]
    assert facts["clients"] == 200 and facts["seconds"] == 120
    assert checked["acknowledged"] == checked["in_the_ledger"] > 0
    assert not any(
        checked[name]
        for name in ("lost", "unasked", "doubled", "new_twice", "answered_twice", "findings")
    )


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    limits = ServeLimits()
    assert (limits.body_bytes, limits.picture_bytes, limits.header_bytes) == (
        64 * 2**10,
        8 * 2**20,
        16 * 2**10,
    )
    assert "64 KiB, 8 MiB | 413" in PAGE and "| 16 KiB | 400" in PAGE
    assert (
        f"| {limits.total_seconds:.0f} s | 408" in PAGE
        and f"| {limits.connections:,} | 503" in PAGE
    )
    assert f"| {limits.rate:.0f} a second, {limits.burst} | 429" in PAGE
    assert f"| {limits.open_requests:,}, {limits.open_names:,} | 429" in PAGE
