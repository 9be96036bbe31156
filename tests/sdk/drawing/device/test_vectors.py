"""The vectors that all ports share are what Python computes, within the tolerances that they state."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.vectors.pipeline.make import HERE, MADE, TOLERANCES

RELATIVE, ABSOLUTE = 2e-6, 1e-6
MOST_BYTES = 300_000


def check(wanted: Any, got: Any, place: str) -> None:
    if isinstance(wanted, dict):
        assert wanted.keys() == got.keys(), place
        for key in wanted:
            check(wanted[key], got[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert len(wanted) == len(got), place
        for number, (one, two) in enumerate(zip(wanted, got, strict=True)):
            check(one, two, f"{place}[{number}]")
    elif isinstance(wanted, float):
        assert math.isclose(wanted, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE), (place, wanted, got)
    else:
        assert wanted == got and type(wanted) is type(got), place


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_vectors_are_current(name: str) -> None:
    kept = json.loads((HERE / name).read_text(encoding="utf-8"))
    assert kept.pop("tolerances") == TOLERANCES
    check(kept, json.loads(json.dumps(MADE[name]())), name)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.glob("*.json")) < MOST_BYTES
