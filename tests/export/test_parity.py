"""Parity of the real export, and what makes it fail."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import ConversionError, InputError, ReportError
from unplug.export import (
    RUNTIMES,
    ParityReport,
    Reference,
    load_artifact,
    measure_parity,
)
from unplug.export.artifact import write_card
from unplug.plugins import load_checkpoint

from .conftest import Files, given, resigned


@pytest.fixture(scope="session")
def report(by_name: Files, checkpoint: Path) -> ParityReport:
    """Of all files that were made without samples."""
    files = [item for item in by_name.values() if item.card.precision in ("fp32", "fp16")]
    return measure_parity(files, checkpoint, given(files[0], 4))


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML itself runs on macOS")
def test_every_artifact_passes(report: ParityReport) -> None:
    assert report.passed and len(report.rows) == 12 and not report.not_run
    for row in report.rows:
        assert row.exact or (row.psnr_db is not None and row.psnr_db >= row.threshold_db)
        assert row.cosine is not None and row.cosine > 0.999
        assert row.status == "pass" and row.runtime_version
    assert {row.threshold_db for row in report.rows} == {100.0, 60.0}
    runtimes = {"litert": "litert", "onnx": "onnx", "coreml": "mil"}
    assert {(row.target, row.runtime) for row in report.rows} == set(runtimes.items())


@pytest.mark.long
def test_nothing_run_is_not_a_pass(
    by_name: Files,
    checkpoint: Path,
    report: ParityReport,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not replace(report, rows=()).passed
    monkeypatch.setattr(type(RUNTIMES.get("onnx")), "unavailable", lambda _self: "no such machine")
    file = by_name["age.fp32.onnx"]
    told = measure_parity(file, checkpoint, given(file))
    assert told.rows == told.not_run and not told.passed
    for row in told.rows:
        assert (row.reason, row.psnr_db, row.exact) == ("no such machine", None, False)


@pytest.mark.long
def test_report_round_trip_and_hostile_reports(report: ParityReport, tmp_path: Path) -> None:
    path = tmp_path / "parity.json"
    report.save(path)
    assert ParityReport.load(path) == report
    raw = json.loads(path.read_text())
    wrong = ({"schema": "unplug-parity/2"}, {"rows": [{"output": "x"}]}, {"samples": "4"}, {"x": 1})
    for change in wrong:
        path.write_text(json.dumps({**raw, **change}))
        with pytest.raises(ReportError, match="does not follow its schema"):
            ParityReport.load(path)
    with pytest.raises(ReportError, match="No such file"):
        ParityReport.load(tmp_path / "none.json")


@pytest.mark.long
def test_other_weights_fail_and_a_forged_card_does_not_help(
    by_name: Files, other_checkpoint: Path, tmp_path: Path
) -> None:
    honest = by_name["age.fp16.onnx"]
    copy = resigned(honest, tmp_path, honest.path.read_bytes())
    sha256 = load_checkpoint(other_checkpoint).sha256
    write_card(copy.path, replace(copy.card, checkpoint_sha256=sha256))
    forged = load_artifact(copy.path)
    for file, words in ((honest, "exported from other weights"), (forged, "is below 60 dB")):
        report = measure_parity(file, other_checkpoint, given(file, 4))
        assert [row.status for row in report.rows] == ["fail", "fail"] and not report.passed
        assert all(words in str(row.reason) for row in report.rows)


def constant(value: float) -> dict[str, np.ndarray]:
    return {
        "age_logits": np.full((1, 13), value, np.float32),
        "expected_age": np.zeros((1, 1), np.float32),
    }


CRASH = ConversionError("age.fp32.onnx on onnx", "its child process was killed by SIGSEGV")


@pytest.mark.parametrize(
    ("answer", "wanted", "reason"),
    [
        (constant(np.nan), constant(1.0), "the output holds NaN or infinity"),
        (CRASH, constant(1.0), "SIGSEGV"),
        # zeros of an untrained network are no parity
        (constant(0.0), constant(0.0), "the checkpoint gives zeros only"),
    ],
)
def test_what_fails_its_row(
    by_name: Files,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    wanted: dict[str, np.ndarray],
    reason: str,
) -> None:
    file = by_name["age.fp32.onnx"]
    sha256 = file.card.checkpoint_sha256
    reference = Reference(checkpoint_sha256=sha256, model_type="age", outputs=wanted)

    def run(*_: object) -> dict[str, np.ndarray]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("unplug.export.parity.reference_outputs", lambda *_, **__: reference)
    monkeypatch.setattr("unplug.export.parity.Session.run", run)
    rows = measure_parity(file, checkpoint, given(file)).rows
    assert {row.status for row in rows} == {"fail"} and reason in str(rows[0].reason)


def test_bad_requests(by_name: Files, checkpoint: Path) -> None:
    first = by_name["age.fp32.onnx"]
    iospec = replace(first.card.iospec, outputs=first.card.iospec.outputs[:1])
    other = replace(first, card=replace(first.card, iospec=iospec))
    for files, inputs, words in (
        ([], {}, "no artifact is given"),
        ([first, other], given(first), "its tensors differ"),
        (first, {}, "input 'image'"),
    ):
        with pytest.raises(InputError, match=words):
            measure_parity(files, checkpoint, inputs)
