"""Which member of a family a device takes: the vectors that apps are held to as well."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from unplug.core import InputError
from unplug.sdk.drawing.inference import Member, choose_member

RAW: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "family-choice.json").read_text(encoding="utf-8")
)


def members(case: dict[str, Any]) -> list[Member]:
    return [Member(trunk_sha256="0" * 64, **item) for item in case["members"]]


@pytest.mark.parametrize("case", RAW["cases"], ids=lambda case: case["what"])
def test_the_first_that_fits(case: dict[str, Any]) -> None:
    if case["fits"] is None:
        with pytest.raises(InputError, match="no member fits"):
            choose_member(members(case), case["budget_ms"])
    else:
        assert choose_member(members(case), case["budget_ms"]).name == case["fits"]


@pytest.mark.parametrize("case", RAW["refused"], ids=lambda case: case["what"])
def test_what_is_no_family(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        choose_member(members(case), case["budget_ms"])
    assert "no member fits" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("budget", [math.nan, math.inf])
def test_a_budget_that_is_no_number(budget: float) -> None:
    with pytest.raises(InputError, match="no time"):
        choose_member([Member(name="a", trunk_sha256="0" * 64, latency_ms=1.0)], budget)
