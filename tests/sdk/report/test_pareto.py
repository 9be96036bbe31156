"""The Pareto chart: the front is what nothing beats, and only files with a known quality and size
are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.sdk.report import collect, render_html
from unplug.sdk.report.latency import _File, on_the_front
from unplug.sdk.report.plots.pareto import (
    Point,
    latency_axis,
    pareto_front,
    pareto_svg,
    quality_axis,
)

from .conftest import SHA, audit, bench, parity
from .test_page import check_structure, text_of

Json = dict[str, Any]
Write = Callable[..., list[Path]]


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
def test_it_is_drawn_with_one_point_and_with_equal_ones() -> None:
    for values in ([(1.0, 5.0)], [(1.0, 5.0)] * 3, [(0.01, 1.0), (100.0, 2.0)]):
        points = [
            Point(label="name", x=x, y=y, diameter=9.0, front=True, marker="o") for x, y in values
        ]
        for higher in (True, False):
            x, y = (
                latency_axis([x for x, _ in values]),
                quality_axis([y for _, y in values], "Q", higher_is_better=higher),
            )
            svg = pareto_svg(
                points, x, y, name="p", spoken="said", width=354, height=380, staircase=True
            )
            assert svg.startswith("<svg") and 'aria-label="said"' in svg


@pytest.mark.long
def test_the_error_in_the_task_is_the_quality_where_an_audit_ran_the_file(write: Write) -> None:
    html = render_html(collect(write(audit=audit(), bench=bench(), parity=parity())), title="t")
    assert "Mean absolute error (years) against latency, Test Machine 9 (host)" in html
    assert "age.fp16.tflite, XNNPACK, 148 kB 1.27 ms, 6.51, on the front" in html
    assert "Quality: error on unseen samples" in text_of(html)
    check_structure(html)


@pytest.mark.long
def test_parity_is_the_quality_without_an_audit(write: Write) -> None:
    html = render_html(collect(write(bench=bench(), parity=parity())), title="t")
    assert "Parity (dB) against latency" in html and "71.93" in html
    exact = parity()
    for row in exact["rows"]:
        row |= {"status": "pass", "exact": True, "psnr_db": None, "reason": None}
    assert ", 150, on the front" in render_html(
        collect(write(bench=bench(), parity=exact)), title="t"
    )


def test_what_is_not_known_is_said_and_not_drawn(write: Write) -> None:
    assert "No Pareto chart: it needs an audit or a parity report" in text_of(
        render_html(collect(write(bench=bench())), title="t")
    )
    raw = bench()
    raw["rows"][0] |= {"artifact_sha256": SHA["data"]}
    text = text_of(render_html(collect(write(bench=raw, parity=parity())), title="t"))
    assert "No Pareto chart: none of the timed files has both" in text
    raw["rows"].append(bench()["rows"][0])
    text = text_of(render_html(collect(write(bench=raw, parity=parity())), title="t"))
    assert "Not drawn, because their quality or size is not known: 1." in text
