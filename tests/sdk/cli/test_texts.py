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
from click.testing import CliRunner
from pydantic import TypeAdapter
from tests.sdk.report.conftest import audit as written

from unplug.core import span
from unplug.sdk.cli import bars, main
from unplug.sdk.cli.audit import summary
from unplug.sdk.cli.base import WIDTH, Common
from unplug.sdk.cli.release import gate_lines
from unplug.sdk.evidence.auditing import AuditReport, Estimate, ModelAudit
from unplug.sdk.report import collect, render_html

GAPS = {
    "equal": (-0.05, 0.06),
    "above": (0.02, 0.3),
    "below": (-0.4, -0.1),
    "open": (-0.351, 0.549),
}


def judged(model: ModelAudit) -> ModelAudit:
    """With an attack for each thing that an interval may say, and for the longest name."""
    attack = model.attacks["loss"]
    gaps = {
        word: Estimate(value=sum(ends) / 2, low=ends[0], high=ends[1])
        for word, ends in GAPS.items()
    }
    found = {word: replace(attack, minus_retrained_together=gap) for word, gap in gaps.items()}
    return replace(model, attacks={**found, "head-difference": found["open"]})


@pytest.fixture
def report() -> AuditReport:
    """Three models and six files, one of them with a long name."""
    found = TypeAdapter(AuditReport).validate_json(json.dumps(written()))
    *three, file = map(judged, found.models)
    names = [
        f"age.{precision}.{kind}"
        for precision in ("fp32", "int8-static")
        for kind in ("onnx", "tflite", "mlpackage")
    ]
    return replace(found, models=(*three, *(replace(file, name=name) for name in names)))


def test_an_audit_fits_a_terminal_and_begins_with_the_attacks_beside_retraining(
    report: AuditReport,
) -> None:
    lines = "\n".join(summary(report)).splitlines()
    assert max(map(len, lines)) <= WIDTH == 80
    assert lines[0] == "unlearned: what attacks see of the forget set (AUC)"
    assert lines[1].split()[:4] == ["attack", "original", "unlearned", "retrained"]
    for word, line in zip(GAPS, lines[2:6], strict=True):
        low, high = (f"{end:+.3f}" for end in GAPS[word])
        assert (
            line.split()[0] == word and f"({low} to {high})" in line and line.endswith(f" {word}")
        )
    use = next(number for number, line in enumerate(lines) if line.startswith("model "))
    assert [line.split()[0] for line in lines[use + 1 : use + 10]] == [
        model.name for model in report.models
    ]
    assert any(line.startswith("ALARM not-forgotten (unlearned): ") for line in lines[:use]), (
        "before anything less"
    )
    assert any("of 9 people the one who stands out most" in line for line in lines[use:])


def test_console_and_page_give_one_number_one_interval(report: AuditReport, tmp_path: Path) -> None:
    report.save(tmp_path / "audit.json")
    shown, html = (
        "\n".join(summary(report)),
        render_html(collect([tmp_path / "audit.json"]), title="a"),
    )
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
    lines = "\n".join(
        gate_lines({"gates": [gate, {**gate, "name": "bench", "value": None, "unit": ""}]})
    ).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].split() == [
        "open",
        "not",
        "over-forgotten",
        "(head-difference)",
        "0.5491",
        "<=",
        "0.1",
    ]
    assert lines[1].startswith("      AUC below retrained at most (AUC 0.428; ")
    assert any("not measured <= 0.1" in line for line in lines[2:])


def test_long_work_tells_logs_a_line_a_file_and_json_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bars.time, "monotonic", iter([0.0, 1.5, 61.0]).__next__)
    with bars.progress_bar(
        "export nano", Common(as_json=False, seed=0, device_name="cpu")
    ) as update:
        for done, text in ((0, "onnx: converting"), (0, "onnx: converting"), (1, "onnx fp16")):
            update(done, 2, text)
    told = (
        "export nano: 0 of 2, onnx: converting (1.5 s)\nexport nano: 1 of 2, onnx fp16 (1 min 01 "
        "s)\n"
    )
    assert capsys.readouterr() == ("", told)
    monkeypatch.undo()
    with bars.progress_bar(
        "export nano", Common(as_json=True, seed=0, device_name="cpu")
    ) as update:
        update(1, 2, "onnx fp16")
    assert capsys.readouterr() == ("", "")


def test_one_is_no_plural(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["data", "synth", "--n", "1", "--size", "32", "--out", str(tmp_path / "one")]
    )
    assert done.exit_code == 0 and done.stdout.startswith("1 face of 1 person at 32 px in "), (
        done.output
    )


NOUNS = (
    "files?|people|pictures?|entries|models?|samples?|gates|requests|plugins?|rows|faces|threads?"
)


def test_the_command_line_counts_through_the_one_helper() -> None:
    """What is not a count of things by itself, as "3 of 5 samples" or a column of a table, stays as
    it is.
    """
    folder, found = Path(bars.__file__).parent, []
    for path in sorted(folder.glob("*.py")):
        found += [
            f"{path.name}: {line.strip()}"
            for line in path.read_text(encoding="utf-8").splitlines()
            if re.search(
                rf"(?<!of )\{{(?:len\([^}}]*\)|count|written)\}} (?:{NOUNS})\b|\(s\)", line
            )
        ]
    # at least two in any bundle
    assert not [line for line in found if "files match the manifest" not in line]


def test_ctrl_c_ends_a_page_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pipeline.json").write_text("{}")
    monkeypatch.setattr("unplug.sdk.drawing.device.web_files", lambda _: {})
    monkeypatch.setattr("unplug.mobile_bench.serve_site", stopped)
    done = CliRunner().invoke(main, ["page", str(tmp_path / "files")])
    assert (done.exit_code, done.stdout, done.stderr) == (
        0,
        "stopped: the page is served no longer\n",
        "",
    )
    done = CliRunner().invoke(main, ["page", str(tmp_path / "files"), "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["files"] == 0
