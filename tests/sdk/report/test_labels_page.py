"""The page of classifiers: their numbers are those of the file, and broken files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from unplug.core import Estimate, ReportError
from unplug.sdk.evidence.assurance import ClassesJudged, ClassEvaluation
from unplug.sdk.evidence.assurance.class_evaluation import CalibrationBin, ClassShare, GroupShare
from unplug.sdk.report import write_report

RIGHT = Estimate(value=0.75, low=0.5, high=0.9)
MODEL = ClassesJudged(
    name="pets",
    sha256="a" * 64,
    checkpoint_sha256="a" * 64,
    target="onnx",
    precision="fp16",
    role=None,
    seconds=0.0042,
    accuracy=RIGHT,
    loss=Estimate(value=0.5, low=0.4, high=0.6),
    brier=Estimate(value=0.3, low=0.2, high=0.4),
    calibration_error=0.125,
    bins=(CalibrationBin(n=4, confidence=0.875, accuracy=0.75),),
    classes=(
        ClassShare(label="cat", n=2, found=1.0, right=0.667),
        ClassShare(label="<dog>", n=2, found=0.5, right=1.0),
        ClassShare(label="ox", n=0, found=None, right=None),
    ),
    groups=(GroupShare(cell="sex: f", n=4, people=12, accuracy=RIGHT),),
)
REPORT = ClassEvaluation(
    data={"spec": "imagefolder:pets", "digest": "0" * 64, "samples": 4},
    pictures=4,
    people=4,
    apart="held out",
    part="test",
    left_out=0,
    models=(MODEL,),
    seed=0,
    versions={"python": "3.11"},
)


def page(report: ClassEvaluation, folder: Path) -> str:
    report.save(folder / "evaluation.json")
    write_report([folder / "evaluation.json"], folder / "page.html")
    return (folder / "page.html").read_text().replace("\u00a0", " ")


def test_its_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    html = page(REPORT, tmp_path)
    said = ("1 classifier on 4 pictures that none of them learned from.", "75.0 %", "0.125", "4.20")
    assert [
        text for text in (*said, "onnx fp16", "sex: f", "50.0 to 90.0") if text not in html
    ] == []
    assert html.index("&lt;dog&gt;") < html.index("cat</") < html.index("ox</")
    assert "Found least: &lt;dog&gt;" in html and "<dog>" not in html
    assert "Intervals are 95 %, over pictures." in html and "people" not in html
    named = page(replace(REPORT, people=3), tmp_path)
    assert "4 pictures of 3 people that none" in named and "over people." in named


def test_a_file_that_judges_nothing_or_too_much_is_refused(tmp_path: Path) -> None:
    many = tuple(replace(MODEL.classes[0], label=str(number)) for number in range(1001))
    for broken, why in (
        (replace(REPORT, models=()), "it judges no model"),
        (replace(REPORT, models=(replace(MODEL, classes=many),)), "more than 1000 classes"),
    ):
        with pytest.raises(ReportError, match=why):
            page(broken, tmp_path)
    raw = json.loads((tmp_path / "evaluation.json").read_text())
    raw["models"][0]["accuracy"] = "all"
    (tmp_path / "evaluation.json").write_text(json.dumps(raw))
    with pytest.raises(ReportError, match="does not follow its schema"):
        write_report([tmp_path / "evaluation.json"], tmp_path / "page.html")
