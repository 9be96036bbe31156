"""The Pareto chart: the front is what nothing beats, and only files with a known quality and size
are in it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.sdk.report.latency import _File, on_the_front
from unplug.sdk.report.plots.pareto import (
    pareto_front,
)

from .conftest import SHA, Draw, audit, bench, parity
from .test_page import check_structure, text_of


def file(ms: float, value: float, size: int, ranked: bool = True) -> _File:
    return _File(label="a name", short="a", ms=ms, value=value, bytes=size, ranked=ranked)


def test_the_front_by_hand() -> None:
    files = [
        file(1, 30, 5),
        file(2, 60, 9),
        file(2, 50, 9),
        file(3, 60, 1),
        file(0.5, 99, 1, ranked=False),
    ]
    assert on_the_front(files, higher_is_better=True) == [True, True, False, True, False]
    assert on_the_front(files, higher_is_better=False) == [True, False, False, True, False]
    # equals do not beat one another
    assert on_the_front([file(1, 1, 1)] * 2, higher_is_better=True) == [
        True,
        True,
    ]


@given(
    st.lists(
        st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.integers(1, 9)), min_size=1, max_size=12
    )
)
def test_the_front_is_what_no_point_beats(goods: list[tuple[float, float, int]]) -> None:
    array = np.array(goods)
    beaten = [bool(((array >= own).all(axis=1) & (array > own).any(axis=1)).any()) for own in array]
    assert pareto_front(goods) == [not item for item in beaten]


@pytest.mark.long
def test_the_error_in_the_task_is_the_quality_where_an_audit_ran_the_file(draw: Draw) -> None:
    html = draw(audit=audit(), bench=bench(), parity=parity())
    assert "Mean absolute error (years) against latency, Test Machine 9 (host)" in html
    assert "age.fp16.tflite, XNNPACK, 148 kB 1.27 ms, 6.51, on the front" in html
    assert "Quality: error on unseen samples" in text_of(html)
    check_structure(html)


@pytest.mark.long
def test_parity_is_the_quality_without_an_audit(draw: Draw) -> None:
    html = draw(bench=bench(), parity=parity())
    assert "Parity (dB) against latency" in html and "71.93" in html
    exact = parity()
    for row in exact["rows"]:
        row |= {"status": "pass", "exact": True, "psnr_db": None, "reason": None}
    assert ", 150, on the front" in draw(bench=bench(), parity=exact)


def test_what_is_not_known_is_said_and_not_drawn(draw: Draw) -> None:
    assert "No Pareto chart: it needs an audit or a parity report" in text_of(draw(bench=bench()))
    raw = bench()
    raw["rows"][0] |= {"artifact_sha256": SHA["data"]}
    text = text_of(draw(bench=raw, parity=parity()))
    assert "No Pareto chart: none of the timed files has both" in text
    raw["rows"].append(bench()["rows"][0])
    text = text_of(draw(bench=raw, parity=parity()))
    assert "Not drawn, because their quality or size is not known: 1." in text
