"""The decision's vectors, which Kotlin, Swift and TypeScript are held to as well, and the record of
a manifest.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vectors.decision.make import TOLERANCE, vectors

from unplug.core import InputError
from unplug.sdk.drawing.inference import Decision, decision_in, over_probability, read_decision

RAW: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "vectors" / "decision" / "decision.json").read_text(
        encoding="utf-8"
    )
)


def test_the_file_is_what_this_version_makes() -> None:
    """But for the last digits: processors round an exponential differently."""
    made = json.loads(json.dumps(vectors()))
    for case in made["cases"]:
        case["over"] = pytest.approx(case["over"], abs=TOLERANCE)
    assert made == RAW


@pytest.mark.parametrize("case", RAW["cases"], ids=lambda case: case["what"])
def test_answers(case: dict[str, Any]) -> None:
    logits, edges, age = (case[name] for name in ("age_logits", "edges", "age"))
    over = over_probability(np.array([logits]), edges, age)
    assert over[0] == pytest.approx(by_hand(logits, edges, age), abs=TOLERANCE)
    assert over[0] == pytest.approx(case["over"], abs=TOLERANCE)
    rule = Decision(age=age, over_from=case["over_from"], under_to=case["under_to"])
    assert rule.answers(over) == [case["answer"]]


def by_hand(logits: list[float], edges: Sequence[float], age: float) -> float:
    top, above, total = max(logits), 0.0, 0.0
    for logit, (low, high) in zip(logits, itertools.pairwise(edges), strict=True):
        weight = math.exp(logit - top)
        total += weight
        above += weight * min(1.0, max(0.0, (high - age) / (high - low)))
    return above / total


LOGITS = st.lists(st.floats(-30, 30), min_size=5, max_size=5)
AGES = st.floats(0.01, 99.9)
EDGES = (0.0, 6.0, 13.0, 18.0, 30.0, 100.0)


@given(LOGITS, AGES, AGES)
def test_the_groups_above_and_a_share_of_the_one_around(
    logits: list[float], one: float, other: float
) -> None:
    """And an older limit is never more probable."""
    low, high = (
        over_probability(np.array([logits]), EDGES, age)[0] for age in sorted((one, other))
    )
    assert low == pytest.approx(by_hand(logits, EDGES, min(one, other)), abs=1e-12)
    assert high <= low + 1e-12


def test_logits_that_overflow_alone_are_fine() -> None:
    assert over_probability(np.array([[5000.0, 0, 0, 0, 5000.0]]), EDGES, 18.0)[0] == 0.5


@pytest.mark.parametrize("age", [0.0, 100.0, -1.0, 101.0, math.nan])
def test_an_age_outside_the_borders(age: float) -> None:
    with pytest.raises(InputError, match="no output speaks of"):
        over_probability(np.zeros((1, 5)), EDGES, age)


@pytest.mark.parametrize(
    ("over", "under"), [(0.5, 0.5), (0.2, 0.6), (math.nan, 0.1), (0.9, math.nan)]
)
def test_a_rule_that_crosses_is_refused(over: float, under: float) -> None:
    with pytest.raises(InputError):
        Decision(age=18.0, over_from=over, under_to=under)


def test_every_answer_and_every_side_of_an_end_is_there() -> None:
    assert {case["answer"] for case in RAW["cases"]} == {"over", "under", "unsure"}
    assert sum(case["over"] in (case["over_from"], case["under_to"]) for case in RAW["cases"]) >= 5


def test_a_record_comes_back(tmp_path: Path) -> None:
    raw = RAW["record"]["decision"]
    record = decision_in({"decision": raw}, "manifest.json")
    assert record is not None and record.rule == Decision(age=18.0, over_from=0.92, under_to=0.31)
    assert record.limit() == (
        "at most 1 % of minors called over 18 and 5 % of adults under it (95 % confidence, 790 and "
        "7210 people)"
    )
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(raw))
    assert read_decision(path) == record


@pytest.mark.parametrize("case", RAW["models"], ids=lambda case: case["what"])
def test_it_decides_about_the_models_that_it_names(case: dict[str, Any]) -> None:
    record = decision_in({"decision": case["decision"]}, "manifest.json")
    assert record is not None and record.fitted_on(case["sha256"]) is case["fitted"]


@pytest.mark.parametrize(
    "postprocessing", [{}, {"decision": None}, {"age_edges": [0, 1], "unit": "years"}]
)
def test_a_manifest_without_one(postprocessing: dict[str, Any]) -> None:
    assert decision_in(postprocessing, "manifest.json") is None


@pytest.mark.parametrize("case", RAW["refused"], ids=lambda case: case["what"])
def test_no_app_decides_by_these(case: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        record = decision_in({"decision": case["decision"]}, "manifest.json")
        assert record is not None
        over_probability(np.zeros((1, len(case["edges"]) - 1)), case["edges"], record.age)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", '{"age": 18}', '{"age": NaN}', "{" * 5000])
def test_a_broken_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "decision.json").write_text(text)
    with pytest.raises(InputError) as refused:
        read_decision(tmp_path / "decision.json")
    assert "\n" not in str(refused.value)
