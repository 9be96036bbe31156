"""The section about latency: every row is in it, devices can be looked at alone, published numbers
stay apart.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unplug.mobile_bench import NOT_OURS, load_baselines
from unplug.sdk.report import collect, write_report
from unplug.sdk.report.latency import MAX_CHOICES, labels
from unplug.sdk.report.plots.bench import published_svg

from .conftest import Draw, Json, Write, bench
from .test_page import check_structure, text_of


def rows_of(*changes: Json) -> Json:
    """The bench report of `conftest` with one row for each change."""
    raw = bench()
    (row,) = raw["rows"]
    raw["rows"] = [
        {**row, "artifact_sha256": (f"{number:02x}" * 32), **change}
        for number, change in enumerate(changes, start=1)
    ]
    return raw


def section(html: str, name: str = "latency") -> str:
    match = re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL)
    assert match
    return match[0]


PIXEL = {"device": "Google Pixel 7", "where": "device", "os": "Android 14"}
STYLE = "</style>"  # what `text_of` looks behind
FAILED = {
    "status": "failed",
    "valid": False,
    "reasons": ["it crashed"],
    "repeats": [],
    "summary": None,
    "median_ms": None,
    "median_ci95_ms": None,
    "spread": None,
}


def test_rows_are_ranked_by_the_median_over_cold_starts(draw: Draw) -> None:
    html = draw(bench=rows_of({"median_ms": 1.5, "median_ci95_ms": None}))
    assert "1.50" in text_of(STYLE + section(html)) and "Median latency" in html
    # a report of an older version
    assert "1.27" in text_of(STYLE + section(draw(bench=rows_of({"median_ms": None}))))


def test_reasons_and_warnings_are_both_shown(draw: Draw) -> None:
    raw = rows_of(
        {"warnings": ["other work ran"]}, FAILED, {"valid": False, "reasons": ["it throttled"]}
    )
    text = text_of(STYLE + section(draw(bench=raw)))
    assert "yes other work ran" in text and "no it crashed" in text and "no it throttled" in text
    assert "3 rows on 1 device, 2 of them not ranked" in text
    assert "not ranked" in text.split("Every timed artifact")[0]  # drawn, and marked


def test_a_reader_can_look_at_one_device_alone(draw: Draw) -> None:
    html = draw(bench=rows_of({}, PIXEL, PIXEL))
    latency = section(html)
    assert re.findall(r'type="radio" name="latency-pick" value="(\d)"', latency) == ["0", "1", "2"]
    assert "<script" not in html
    assert 'section:has(.filter [value="2"]:checked) [data-pick]:not([data-pick="2"])' in html
    picks = re.findall(r'<(figure|tbody)[^>]* data-pick="(\d)"', latency)
    assert set(picks) == {("figure", "1"), ("figure", "2"), ("tbody", "1"), ("tbody", "2")}
    check_structure(html)
    assert "radio" not in section(draw(bench=rows_of(PIXEL, PIXEL)))  # nothing to choose


@pytest.mark.long
def test_every_button_has_its_rule_and_more_devices_are_drawn_without(draw: Draw) -> None:
    html = draw(
        bench=rows_of(
            *({**PIXEL, "device": f"Phone {number}"} for number in range(MAX_CHOICES + 2))
        ),
    )
    style = html.split("<style>")[1].split("</style>")[0]
    for number in range(1, MAX_CHOICES + 1):
        assert f'[data-pick]:not([data-pick="{number}"])' in style
        assert f'value="{number}"' in html
    assert f'value="{MAX_CHOICES + 1}"' not in html and f"Phone {MAX_CHOICES + 1}" in section(html)
    check_structure(html)


def test_what_full_load_costs(draw: Draw) -> None:
    curve = [
        {
            "start_s": float(step),
            "end_s": step + 1.0,
            "count": 9,
            "p50": p50,
            "p95": 1.8,
            "temperature_c": 30.0 + step,
        }
        for step, p50 in enumerate([1.0] * 5 + [1.5] * 5)
    ]
    changes = {**PIXEL, "mode": "sustained", "curve": curve}
    html = draw(bench=rows_of(PIXEL, changes))
    assert "full load: 50 % slower at the end" in html and "10 s without a pause" in text_of(html)
    check_structure(html)


def test_labels_tell_rows_apart(write: Write) -> None:
    raw = rows_of({}, {}, {"threads": 4}, {"mode": "sustained"})
    rows = collect(write(bench=raw)).benches[0].rows
    assert len(set(labels(rows))) == 4
    assert labels(rows[:1]) == ["age.fp16.tflite, XNNPACK"]


def test_an_axis_of_less_than_a_decade_carries_plain_numbers() -> None:
    drawn = published_svg([("b", 128.0), ("a", 48.0)], name="n", title="t", width=992)
    assert {"50", "100", "200"} <= {*re.findall(r"<text[^>]*>([^<]*)</text>", drawn)}
    assert "math" not in drawn


@pytest.mark.long
def test_published_numbers_come_when_asked_for_and_stay_apart(write: Write, tmp_path: Path) -> None:
    paths = write(bench=bench())
    write_report(paths, tmp_path / "with.html", baselines=True)
    write_report(paths, tmp_path / "without.html")
    html = (tmp_path / "with.html").read_text(encoding="utf-8")
    apart = section(html, "published")
    assert NOT_OURS in apart and 'class="elsewhere"' in apart and "<dt>" not in apart
    known = load_baselines()
    assert all(
        source.url.removeprefix("https://").split("/blob/")[0][:40] in apart
        for source in known.sources.values()
    )
    assert (
        "MobileNetV2" not in section(html)
        and "MobileNetV2" not in html.split('id="numbers"')[1].split("</section>")[0]
    )
    for shown in ("128 ms", "6.51 FID", "0.26 CLIP similarity", "7.4 s", "Pixel 4 128 ms"):
        assert shown in apart
    assert "not read here" not in apart and ", </" not in apart
    check_structure(html)
    assert "Published numbers" not in (tmp_path / "without.html").read_text(encoding="utf-8")


def test_a_hostile_device_name_stays_text(draw: Draw) -> None:
    attack = '$\\frac{$\x07\u202e%s"><script>alert(1)</script>'
    html = draw(
        bench=rows_of(
            {**PIXEL, "device": attack, "file": attack, "warnings": [attack]},
            PIXEL,
        ),
    )
    assert "<script" not in html
    check_structure(html)


def test_a_page_of_bench_reports_is_about_them(draw: Draw) -> None:
    html = draw(bench=rows_of({}, {**FAILED}, {**PIXEL}))
    assert (
        "3 rows from 2 devices; 2 of them may be ranked." in html
        and "nothing here is about forgetting" in html
    )
    assert (
        "Not audited" not in html
        and "Not in this report" not in html
        and 'id="artifacts"' not in html
    )
