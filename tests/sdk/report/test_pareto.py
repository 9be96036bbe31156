"""The Pareto chart: the front is what nothing beats, and only files with a known quality and size are in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unplug.sdk.report import collect, render_html
from unplug.sdk.report.figures.pareto import Point, front, pareto_svg

from .conftest import SHA, audit, bench, parity
from .test_page import check_structure, text_of

Json = dict[str, Any]
Write = Callable[..., list[Path]]


def point(latency: float, quality: float, size: int, *, ranked: bool = True) -> Point:
    name = f"{latency:g}, {quality:g}, {size}"
    return Point(label=name, short=name, latency_ms=latency, quality=quality, bytes=size, ranked=ranked)


def test_the_front_by_hand() -> None:
    points = [point(1, 30, 5), point(2, 60, 9), point(2, 50, 9), point(3, 60, 1), point(0.5, 99, 1, ranked=False)]
    assert front(points, higher_is_better=True) == [True, True, False, True, False]
    assert front(points, higher_is_better=False) == [True, False, False, True, False]
    assert front([point(1, 1, 1), point(1, 1, 1)], higher_is_better=True) == [True, True]  # equals do not beat one another


@given(
    st.lists(st.tuples(st.floats(0.1, 9), st.floats(-9, 9), st.integers(1, 9), st.booleans()), min_size=1, max_size=12),
    st.booleans(),
)
def test_the_front_is_what_no_ranked_point_beats(values: list[tuple[float, float, int, bool]], higher: bool) -> None:
    points = [point(a, b, c, ranked=d) for a, b, c, d in values]
    sign = -1.0 if higher else 1.0
    costs = [np.array([item.latency_ms, sign * item.quality, item.bytes]) for item in points]
    for index, first in enumerate(front(points, higher_is_better=higher)):
        beaten = any(
            other.ranked and (costs[k] <= costs[index]).all() and (costs[k] < costs[index]).any()
            for k, other in enumerate(points)
        )
        assert first == (points[index].ranked and not beaten)


def test_it_is_drawn_with_one_point_and_with_equal_ones() -> None:
    for points in ([point(1, 5, 10)], [point(1, 5, 10)] * 3, [point(0.01, 1, 10), point(100, 2, 10**9)]):
        for higher in (True, False):
            svg = pareto_svg(points, higher_is_better=higher, axis="Q", name="p", title="t", width=354)
            assert svg.startswith("<svg") and "on the front" in svg


def test_the_error_in_the_task_is_the_quality_where_an_audit_ran_the_file(write: Write) -> None:
    html = render_html(collect(write(audit=audit(), bench=bench(), parity=parity())), title="t")
    assert "Mean absolute error (years) against latency, Test Machine 9 (host)" in html
    assert "age.fp16.tflite, XNNPACK, 148 kB 1.27 ms, 6.51, on the front" in html
    assert "Quality: error on unseen samples" in text_of(html)
    check_structure(html)


def test_parity_is_the_quality_without_an_audit(write: Write) -> None:
    html = render_html(collect(write(bench=bench(), parity=parity())), title="t")
    assert "Parity (dB) against latency" in html and "71.93" in html
    exact = parity()
    for row in exact["rows"]:
        row |= {"status": "pass", "exact": True, "psnr_db": None, "reason": None}
    assert ", 150, on the front" in render_html(collect(write(bench=bench(), parity=exact)), title="t")


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
