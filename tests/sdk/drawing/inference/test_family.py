"""Which member of a family a device takes: the vectors that apps are held to as well."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import InputError
from unplug.sdk.drawing.inference import (
    FRAME_MS,
    FamilyMember,
    FamilyRecord,
    choose_member,
    family_in,
    take_head,
)

RAW: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "family-choice.json").read_text(encoding="utf-8")
)
HASHES: dict[str, Any] = {"checkpoint_sha256": "0" * 64, "trunk_sha256": "1" * 64}


def members(case: dict[str, Any]) -> list[FamilyMember]:
    return [FamilyMember(**HASHES, **item) for item in case["members"]]


@pytest.mark.parametrize("case", RAW["cases"], ids=lambda case: case["what"])
def test_the_first_that_fits(case: dict[str, Any]) -> None:
    if case["fits"] is None:
        with pytest.raises(InputError, match="no member fits"):
            choose_member(members(case), case["budget_ms"])
    else:
        assert choose_member(members(case), case["budget_ms"]).name == case["fits"]


def test_the_budget_of_all_languages() -> None:
    assert RAW["frame_ms"] == FRAME_MS < 1000 / 30


@pytest.mark.parametrize("case", RAW["refused"], ids=lambda case: case["what"])
def test_what_is_no_family(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        choose_member(members(case), case["budget_ms"])
    assert "no member fits" not in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("budget", [math.nan, math.inf])
def test_a_budget_that_is_no_number(budget: float) -> None:
    with pytest.raises(InputError, match="not a time"):
        choose_member([FamilyMember(name="a", latency_ms=1.0, **HASHES)], budget)


def test_a_record_in_a_manifest() -> None:
    record = FamilyRecord(members=(FamilyMember(name="a", latency_ms=None, **HASHES),))
    raw = {"members": [{"name": "a", "latency_ms": None, **HASHES}], "schema": "unplug-family/1"}
    assert family_in({"family": raw}, "manifest.json") == record
    assert family_in({}, "manifest.json") is None
    broken: Any
    for broken in ({"members": []}, [], {**raw, "more": 1}, {**raw, "members": [{"name": "a"}]}):
        with pytest.raises(InputError, match="its family does not follow its schema"):
            family_in({"family": {"schema": "unplug-family/2", **dict(broken)}}, "manifest.json")


def test_a_head_takes_the_place_of_another() -> None:
    before, after = ({"weight": np.full((2, 3), value), "bias": np.ones(2)} for value in (1.5, 2.5))
    file = b"".join(
        (
            b"trunk",
            before["weight"].astype("<f2").tobytes(),
            b"-a-",
            before["bias"].astype("<f4").tobytes(),
        )
    )
    new = take_head(file, before, after, ("-a-", "-b-"))
    assert new == file.replace(np.float16(1.5).tobytes(), np.float16(2.5).tobytes()).replace(
        b"-a-", b"-b-"
    )
    for wrong in (b"", file + file):
        with pytest.raises(InputError, match="Take the whole file"):
            take_head(wrong, before, after, ("-a-", "-b-"))
