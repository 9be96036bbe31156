"""The page of an evaluation: its numbers, hostile text in it, and reports that no page can draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import ReportError
from unplug.sdk.evidence.assurance import PROTOCOLS, Asking, judge
from unplug.sdk.report import collect, render_html

from ..evidence.assurance.planted import crowd, said
from .test_page import check_structure, text_of

HOSTILE = '<script>alert("x")</script> | $\\frac$'


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two models, one of which fails a group whose name is hostile."""
    rng = np.random.default_rng(0)
    ages = np.arange(6, 50).repeat(10) + rng.uniform(0, 1, 440)
    people = crowd(
        ages,
        {
            "sex": ["female", "male"] * 220,
            "group": [HOSTILE if index % 4 == 0 else "b" for index in range(440)],
        },
    )
    error_N = rng.normal(0, 2, 440)
    fair, unfair = (
        said(people, ages + error_N, "fair"),
        said(people, ages + error_N + 9.0 * (np.arange(440) % 4 == 0), HOSTILE),
    )
    path = tmp_path_factory.mktemp("page") / "e.json"
    judge([fair, unfair], PROTOCOLS.get("fate-aev"), Asking(replicates=100)).save(path)
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def page_of(raw: dict[str, Any], tmp_path: Path) -> str:
    (tmp_path / "e.json").write_text(json.dumps(raw))
    return render_html(collect([tmp_path / "e.json"]), title="Age limits")


def test_the_numbers_are_on_the_page_and_no_text_runs(
    written: dict[str, Any], tmp_path: Path
) -> None:
    html = page_of(written, tmp_path)
    check_structure(html)
    text = text_of(html)
    fair = written["models"][0]
    assert (
        f"{fair['mae']['value']:.2f} years" in text
        and "2 models on 440 pictures of 440 people whom none" in text
    )
    minors = fair["challenges"][3]["minors"]
    assert f"{100 * minors['value']:.1f} %" in text and "Challenge-25" in text
    assert f"{written['needed'] - written['people']['minors']} are missing" in text
    assert (
        "<script>" not in html
        and "1 alarm" in text
        and "worst-group" in text
        and "Not audited" not in text
    )
    assert "no liveness check" in text and "Procedural faces support no claim" in text
    assert html == page_of(written, tmp_path), "the same file, the same page"


def test_an_evaluation_stands_beside_others_of_its_kind(
    written: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(written))
    html = render_html(collect([tmp_path / "a.json", tmp_path / "b.json"]), title="Both")
    check_structure(html)
    assert 'id="limits-1"' in html and 'id="limits-2"' in html


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("models", 0, "challenges", 0, "minors", "value"), 1.5),
        (("models", 0, "det", 0, "threshold"), [1.0]),
        (
            ("models", 0, "challenges", 0, "by_year"),
            {
                "x": {
                    "events": 0,
                    "pictures": 0,
                    "people": 0,
                    "value": None,
                    "low": None,
                    "high": None,
                    "upper": None,
                }
            },
        ),
        (("models", 0, "worst_group"), "nobody"),
        (("models",), []),
        (("limit",), "1 %"),
    ],
)
def test_a_report_that_no_page_can_draw_is_refused(
    written: dict[str, Any], place: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    raw = json.loads(json.dumps(written))
    *way, last = place
    target = raw
    for step in way:
        target = target[step]
    target[last] = value
    with pytest.raises(ReportError):
        page_of(raw, tmp_path)
