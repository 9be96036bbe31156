"""The report: read as hostile input, written as a table, a page and a document."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.studies.__main__ import main as cli
from benchmarks.studies.control import (
    ComparisonReport,
    Measure,
    Row,
    read_comparison,
)
from benchmarks.studies.control.page import blocks, render_page
from benchmarks.studies.control.summary import verdicts_of
from benchmarks.studies.pages import markdown
from click.testing import CliRunner
from PIL import Image

from unplug.core import ReportError
from unplug.sdk.evidence.statistics import Estimate

from .conftest import PICTURES, SPEC, Made

pytestmark = pytest.mark.study

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def written(made: Made) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((made.out / "compare.json").read_text())
    return report


# Reading


@pytest.mark.long
def test_a_broken_comparison_is_refused(written: dict[str, Any], tmp_path: Path) -> None:
    schema = "does not follow its schema"
    cases: list[tuple[Change, str]] = [
        (lambda report: report.update(surplus=1), schema),
        (lambda report: report.update(schema="unplug-compare/2"), schema),
        (lambda report: report["rows"][0].update(role="stranger"), schema),
        (lambda report: report["rows"][0]["measures"]["edge_f1"].update(value="1"), schema),
        (lambda report: report["rows"][0]["raw"]["edge_f1"][0].append("x"), schema),
        (lambda report: report.update(rows=[]), "no row"),
        (lambda report: report["rows"].append(report["rows"][0]), "share a name"),
        (lambda report: report.update(reference="lora"), "reference is no row"),
        (
            lambda report: report["rows"][0]["measures"].update(fid={"value": 6.5, "pictures": 4}),
            "unknown",
        ),
        (lambda report: report["rows"][0]["measures"]["edge_f1"].update(low=2.0), "upside down"),
        (
            lambda report: report["rows"][5]["measures"]["edge_f1"]["difference"].update(low=2.0),
            "upside down",
        ),
        (
            lambda report: report["rows"][0]["measures"]["edge_f1"].update(
                value=1e300, low=None, high=None
            ),
            "too large",
        ),
        (
            lambda report: report["rows"][5]["measures"]["edge_f1"]["difference"].update(
                value=1e300
            ),
            "too large",
        ),
        (lambda report: report["verdicts"][0].update(row="lora"), "verdict is on no row"),
        (lambda report: report["verdicts"][0].update(outcome="wins"), schema),
        (lambda report: report["verdicts"][0].update(why="x" * 5000), "too long"),
        (lambda report: report["notes"].append("x" * 5000), "too long"),
    ]
    path = tmp_path / "compare.json"
    for change, why in cases:
        report = copy.deepcopy(written)
        change(report)
        path.write_text(json.dumps(report))
        with pytest.raises(ReportError, match=why):
            read_comparison(path)


# Writing


def fake(**changes: Any) -> ComparisonReport:
    def row(name: str, role: Any, nme: float | None, **more: Any) -> Row:
        measures = (
            {}
            if nme is None
            else {"nme": Measure(value=nme, low=nme - 0.01, high=nme + 0.01, pictures=9, **more)}
        )
        missing = {} if nme is not None else {"nme": "no face was found in any picture"}
        return Row(
            name=name,
            label=f"{name}'s",
            role=role,
            parameters=1_612_345,
            macs=2.5e10,
            measures=measures,
            missing=missing,
        )

    gap = Estimate(value=-0.004, low=-0.006, high=0.002)
    rows = (
        row("source", "floor", 0.0),
        row("base", "base", None),
        row("controlnet", "control", 0.05),
        row("plugin", "control", 0.046, difference=gap),
    )
    from benchmarks.studies.control.report import FeatureFacts

    report = ComparisonReport(
        condition={"kind": "face_landmark", "options": {}},
        base={"name": "small"},
        data={"spec": SPEC, "train": 20, "split_given": False},
        verdicts=verdicts_of(rows, "controlnet", "face_landmark"),
        recipe={
            "steps": 3000,
            "batch_size": 32,
            "timesteps": "uniform",
            "weighting": "velocity",
            "drop_text": 0.1,
            "precision": "auto",
        },
        reference="controlnet",
        rows=rows,
        pictures=(),
        judge=None,
        notes=("a note",),
        versions={},
        features=FeatureFacts(name="f", width=3, components=None, variance=1.0, real=9),
        settings={
            "training_seeds": [0],
            "sampling_steps": 25,
            "guidance": 3.0,
            "seed": 0,
            "device": "cpu",
            "timing_rounds": 7,
            "timing": {"load_before": 0.5, "load_after": 0.5},
        },
    )
    return replace(report, **changes)


def tables(report: ComparisonReport) -> list[str]:
    return list(map(markdown, blocks(report)))


def test_tables_of_a_report() -> None:
    report = fake()
    numbers, differences, verdicts, notes = (
        text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")
        for text in tables(report)
    )
    assert "| controlnet's | 1.61 M | 25.0 G | 5.00 % (4.00 to 6.00) | – | – |" in numbers
    # percent become points
    assert "| minus controlnet's | NME (lower is better) |" in differences
    assert "| plugin's | -0.40 (-0.60 to +0.20) |" in differences
    assert "control error no worse than controlnet's's" in verdicts
    assert "cannot tell (no Fréchet distance" in verdicts
    assert notes == "- no NME for base's: no face was found in any picture\n- a note\n"
    assert len(tables(replace(report, reference=None, verdicts=()))) == 2


def test_the_page_has_every_table_and_no_verdict_on_forgetting(made: Made) -> None:
    html = render_page(made.report)
    tables = (
        "what no control can beat",
        "Paired differences from ControlNet",
        "Share of prompts",
        "Trainings: steps of 2 samples",
        "Verdicts by the paired",
        "Fréchet distance within 1 % of ControlNet",
        "another sample",
    )
    for text in (
        "Controls compared",
        "Compared",
        "T2I-Adapter",
        "edge F1",
        "Provenance",
        SPEC,
        *tables,
    ):
        assert text in html, text
    assert "Not in this report" not in html and "Not audited" not in html
    assert f"{PICTURES} pictures a row, condition canny, base tiny" in html


def test_a_page_escapes_what_a_report_says() -> None:
    report = fake(notes=("<script>alert(1)</script>",), base={"name": "<b>"})
    html = render_page(report)
    assert "<script>" not in html and "&lt;script&gt;" in html and "base &lt;b&gt;" in html
    assert "no NME for base" in html


# The command


def call(made: Made, out: Path, *more: str) -> Any:
    """The request of `made` as a command."""
    words = f"compare --base {made.request.base} --data {SPEC} --condition canny"
    words += f" --split {made.request.split} --steps 2 --batch-size 2 --precision fp32"
    words += f" --pictures {PICTURES} --sampling-steps 2 --rounds 2 --judge-steps 2 --device cpu"
    return CliRunner().invoke(cli, [*words.split(), "--out", str(out), *more])


@pytest.mark.long
def test_the_command_compares(made: Made, tmp_path: Path) -> None:
    rates = ("--lr", "plugin=0.002", "--lr", "plugin=0.003")
    done = call(made, tmp_path / "out", "--controls", "plugin", *rates, "--rounds", "1", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    names = [row["name"] for row in report["rows"]]
    assert names == ["source", "shuffled", "autoencoder", "base", "plugin"]
    tried = {one["lr"]: one["validation"] for one in report["rows"][-1]["tried"]}
    assert list(tried) == [0.002, 0.003] and report["rows"][-1]["trainings"][0]["lr"] == min(
        tried, key=tried.__getitem__
    )
    assert report["recipe"]["warmup"] == 100
    assert "Controls compared" in (tmp_path / "out" / "compare.html").read_text()
    assert Image.open(tmp_path / "out" / "compare.png").format == "PNG"


def test_wrong_use_is_one_line(made: Made, tmp_path: Path) -> None:
    for more, why in (
        (("--lr", "plugin"), "not NAME=VALUE"),
        (("--lr", "plugin=1e-3,"), "not NAME=VALUE"),
        (("--lr", "x=1"), "not among"),
        (("--controls", "lora"), "lora"),
        (("--set", "low=x"), "not a value"),
        (("--plugin", "/nowhere"), "no such folder"),
        (("--base", "/nowhere"), "no such folder"),
        (("--condition", "cany"), "canny"),
    ):
        done = call(made, tmp_path / "out", *more)
        assert done.exit_code == 2 and why in done.stderr, done.stderr
        assert done.stderr.strip().splitlines()[-1].startswith("error: ")
