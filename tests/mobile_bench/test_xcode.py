"""Xcode's performance reports: no number is guessed, none is ranked. The layout below is made up; Apple documents none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import InputError
from unplug.export import Artifact
from unplug.mobile_bench import BenchReport, read_xcode
from unplug.sdk.cli import main

FACTS = {"results": [{"predict": {"median": 0.0125, "runs": [0.012, 0.0125, 0.014]}, "load": {"median": 0.2}}], "name": "x"}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "age.mlperf"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(FACTS))
    return folder


def test_a_number_that_is_named(report: Path, coreml: Artifact) -> None:
    row = read_xcode(report, coreml, at="results.0.predict.median", unit="s", device="iPhone 15", os="iOS 18.1")
    assert (row.median_ms, row.median_ci95_ms, row.device, row.where) == (pytest.approx(12.5), None, "iPhone 15", "device")
    assert not row.valid and row.reasons[0] == "parity was not checked: Xcode's report holds no outputs"
    runs = read_xcode(report, coreml, at="results.0.predict.runs", unit="s", device="iPhone 15", os="iOS 18.1")
    assert runs.summary is not None and (runs.summary.count, runs.summary.max) == (3, 14.0)


def test_what_is_not_named_is_not_guessed(report: Path, coreml: Artifact) -> None:
    with pytest.raises(InputError, match=r"Candidates: results\.0\.predict\.median = 0\.0125, .*load") as error:
        read_xcode(report, coreml, at=None, unit=None, device="iPhone", os="x")
    assert "\n" not in str(error.value)
    for at, words in (
        ("results.0.predict.mean", "has nothing there"), ("results.7", "has nothing there"), ("name", "neither a number"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            read_xcode(report, coreml, at=at, unit="s", device="x", os="x")
    (report / "report.json").write_text(json.dumps({"median": -1.0}))
    with pytest.raises(InputError, match="-1000 ms is no latency"):
        read_xcode(report, coreml, at="median", unit="s", device="x", os="x")


@pytest.mark.parametrize("content", ["", "[", "[1]", '{"median": NaN}', "null", "[" * 100_000])
def test_any_content_is_one_line(report: Path, coreml: Artifact, content: str) -> None:
    (report / "report.json").write_text(content)
    with pytest.raises(InputError) as error:
        read_xcode(report, coreml, at="a.b", unit="s", device="x", os="x")
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_the_command(report: Path, coreml: Artifact, tmp_path: Path) -> None:
    words = ["bench", "import", str(report), "--out", str(tmp_path / "iphone.json")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "Give --artifact FILE and --on NAME" in done.stderr
    words += ["--artifact", str(coreml.path), "--on", "iPhone 15", "--at", "results.0.predict.median", "--unit", "s"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0 and "not ranked" in done.stdout, done.output
    assert BenchReport.load(tmp_path / "iphone.json").rows[0].median_ms == pytest.approx(12.5)
    page = ["bench", "import", str(tmp_path / "iphone.json"), "--os", "iOS 18", "--out", str(tmp_path / "page.json")]
    done = CliRunner().invoke(main, page)
    assert done.exit_code == 2 and "a page's report says itself what --os would" in done.stderr
