"""What people read at a terminal: 80 columns, what was judged first, one helper for plurals, a line
a stage in logs.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.sdk.report.conftest import audit as written

from unplug.core import follow, progress_in_logs, span
from unplug.sdk.cli import base
from unplug.sdk.cli.audit import summary
from unplug.sdk.cli.base import WIDTH, Common
from unplug.sdk.cli.release import gate_lines
from unplug.sdk.evidence.auditing import AuditReport, Estimate, ModelAudit
from unplug.sdk.report import collect, render_html

from .calls import run, said

GAPS = {
    "equal": (-0.05, 0.06),
    "above": (0.02, 0.3),
    "below": (-0.4, -0.1),
    "open": (-0.351, 0.549),
}


def judged(model: ModelAudit) -> ModelAudit:
    """With an attack for each thing that an interval may say, and for the longest name."""
    attack = model.attacks["loss"]
    attacks = {
        word: replace(
            attack,
            minus_retrained_together=Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1]),
        )
        for word, ends in GAPS.items()
    }
    return replace(model, attacks={**attacks, "head-difference": attacks["open"]})


@pytest.fixture
def report() -> AuditReport:
    """Three models and six files, one of them with a long name."""
    report = TypeAdapter(AuditReport).validate_json(json.dumps(written()))
    *three, file = map(judged, report.models)
    names = [
        f"age.{precision}.{kind}"
        for precision in ("fp32", "int8-static")
        for kind in ("onnx", "tflite", "mlpackage")
    ]
    return replace(report, models=(*three, *(replace(file, name=name) for name in names)))


def test_an_audit_fits_a_terminal_and_begins_with_the_attacks_beside_retraining(
    report: AuditReport,
) -> None:
    lines = "\n".join(summary(report)).splitlines()
    assert max(map(len, lines)) <= WIDTH == 80
    assert lines[0] == "unlearned: what attacks see of the forget set (AUC)"
    assert lines[1].split()[:4] == ["attack", "original", "unlearned", "retrained"]
    for (word, (low, high)), line in zip(GAPS.items(), lines[2:6], strict=True):
        assert line.startswith(word) and line.endswith(f" {word}")
        assert f"({low:+.3f} to {high:+.3f})" in line
    use = next(number for number, line in enumerate(lines) if line.startswith("model "))
    models = [line.split()[0] for line in lines[use + 1 : use + 10]]
    assert models == [model.name for model in report.models]
    alarms = [line.startswith("ALARM not-forgotten (unlearned): ") for line in lines]
    assert any(alarms[:use]), "before anything less"
    assert any("the one of 9 people who stands out most" in line for line in lines[use:])


def test_console_and_page_give_one_number_one_interval(report: AuditReport, tmp_path: Path) -> None:
    report.save(tmp_path / "audit.json")
    shown = "\n".join(summary(report))
    html = render_html(collect([tmp_path / "audit.json"]), title="a")
    alone = report.model("unlearned").attacks["equal"].minus_retrained
    assert alone is not None and (alone.low, alone.high) not in GAPS.values()
    assert span(alone.low, alone.high, sign=True) not in html
    for low, high in GAPS.values():
        assert span(low, high, sign=True) in html and f"({low:+.3f} to {high:+.3f})" in shown


def test_too_few_people_leave_every_attack_open(report: AuditReport) -> None:
    lines = list(summary(replace(report, skipped={"forget interval": "fewer than five people"})))
    assert {line.split()[-1] for line in lines[1].splitlines()[1:]} == {"open"}


def test_gates_fit_a_terminal() -> None:
    gate = {
        "name": "not over-forgotten (head-difference)",
        "value": 0.5491,
        "limit": 0.1,
        "comparison": "<=",
        "passed": False,
        "unit": " AUC below retrained at most",
        "detail": "AUC 0.428; minus the oracle's +0.099 (-0.351 to +0.549)",
        "inconclusive": True,
        "override": "the board has seen it and wants the file to ship all the same",
    }
    unmeasured = {**gate, "name": "bench", "value": None, "unit": ""}
    lines = "\n".join(gate_lines({"gates": [gate, unmeasured]})).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert re.fullmatch(r"open +not over-forgotten \(head-difference\) +0\.5491 <= 0\.1", lines[0])
    assert lines[1].startswith("      AUC below retrained at most (AUC 0.428; ")
    assert any("not measured <= 0.1" in line for line in lines[2:])


def test_long_work_tells_logs_a_line_a_file_and_json_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for as_json, told in (
        (
            False,
            "export nano: 0 of 2, onnx: converting (1.5 s)\n"
            "export nano: 1 of 2, onnx fp16 (1 min 01 s)\n",
        ),
        (True, ""),
    ):
        monkeypatch.setattr("time.monotonic", iter([0.0, 1.5, 61.0]).__next__)
        common = Common(as_json=as_json, seed=0, device_name="cpu")
        with progress_in_logs(), follow("export nano", show=common.show) as update:
            for done, text in ((0, "onnx: converting"), (0, "onnx: converting"), (1, "onnx fp16")):
                update(done, 2, text)
        assert capsys.readouterr() == ("", told)


NOUNS = (
    "files?|people|pictures?|entries|models?|samples?|gates|requests|plugins?|rows|faces|threads?"
)


def test_the_command_line_counts_through_the_one_helper(tmp_path: Path) -> None:
    """What is not a count of things by itself, as "3 of 5 samples" or a column of a table, stays as
    it is.
    """
    one = run(f"data synth --count 1 --pixels 32 --out {tmp_path}/one").stdout
    assert one.startswith("1 face of 1 person at 32 px in ")
    by_hand = rf"(?<!of )\{{(?:len\([^}}]*\)|count|written)\}} (?:{NOUNS})\b|\(s\)"
    lines = [
        f"{path.name}: {line}"
        for path in Path(base.__file__).parent.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(by_hand, line)
    ]
    # at least two in any bundle
    assert not [line for line in lines if "files match the manifest" not in line]


def test_ctrl_c_ends_a_page_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "pipeline.json").write_text("{}")
    monkeypatch.setattr("unplug.sdk.drawing.device.web_files", lambda *_: {})
    monkeypatch.setattr("unplug.mobile_bench.serve_site", stopped)
    done = run(f"page {tmp_path}")
    assert (done.stdout, done.stderr) == ("stopped: the page is served no longer\n", "")
    assert said(f"page {tmp_path}")["files"] == 0
