"""Parity of the real export, and what makes it fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unplug.core import ConversionError, InputError, ReportError
from unplug.export import (
    RUNTIMES,
    Artifact,
    ParityReport,
    Reference,
    load_artifact,
    measure_parity,
    random_inputs,
)
from unplug.export.artifact import write_card
from unplug.plugins import load_checkpoint

SAMPLES = 4


@pytest.fixture(scope="session")
def report(exported: list[Artifact], checkpoint: Path) -> ParityReport:
    return measure_parity(
        exported, checkpoint, random_inputs(exported[0].card.iospec, SAMPLES, seed=0)
    )


@pytest.mark.long
def test_every_artifact_passes(report: ParityReport) -> None:
    assert len(report.rows) == 12
    for row in report.rows:
        assert row.status == "pass", row
        assert row.exact or (row.psnr_db is not None and row.psnr_db >= row.threshold_db)
        assert row.cosine is not None and row.cosine > 0.999
        assert row.runtime_version
    assert {row.threshold_db for row in report.rows} == {100.0, 60.0}
    assert report.passed


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML itself runs on macOS")
def test_rows_of_core_ml_say_what_computed_them(report: ParityReport) -> None:
    assert {(row.target, row.runtime) for row in report.rows} == {
        ("litert", "litert"),
        ("onnx", "onnx"),
        ("coreml", "mil"),
    }
    assert not report.not_run


@pytest.mark.long
def test_nothing_run_is_not_a_pass(
    exported: list[Artifact],
    checkpoint: Path,
    report: ParityReport,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not replace(report, rows=()).passed
    monkeypatch.setattr(type(RUNTIMES.get("onnx")), "unavailable", lambda _self: "no such machine")
    chosen = [artifact for artifact in exported if artifact.card.target == "onnx"]
    found = measure_parity(chosen, checkpoint, random_inputs(chosen[0].card.iospec, 1, seed=0))
    assert found.rows == found.not_run and not found.passed
    for row in found.rows:
        assert row.reason == "no such machine" and row.psnr_db is None and not row.exact


@pytest.mark.long
def test_report_round_trip_and_hostile_reports(report: ParityReport, tmp_path: Path) -> None:
    path = tmp_path / "parity.json"
    report.save(path)
    assert ParityReport.load(path) == report
    raw = json.loads(path.read_text())
    for change in (
        {"schema": "unplug-parity/2"},
        {"rows": [{"output": "x"}]},
        {"samples": "4"},
        {"more": 1},
    ):
        path.write_text(json.dumps({**raw, **change}))
        with pytest.raises(ReportError, match="does not follow its schema"):
            ParityReport.load(path)
    with pytest.raises(ReportError, match="No such file"):
        ParityReport.load(tmp_path / "none.json")


@pytest.mark.long
def test_other_weights_fail_and_a_forged_card_does_not_help(
    by_name: Mapping[str, Artifact], other_checkpoint: Path, tmp_path: Path
) -> None:
    artifact = by_name["age.fp16.onnx"]
    inputs = random_inputs(artifact.card.iospec, SAMPLES, seed=0)
    honest = measure_parity(artifact, other_checkpoint, inputs)
    assert [row.status for row in honest.rows] == ["fail", "fail"] and not honest.passed
    assert all(
        row.reason is not None and "exported from other weights" in row.reason
        for row in honest.rows
    )
    copy = tmp_path / artifact.path.name
    copy.write_bytes(artifact.path.read_bytes())
    write_card(
        copy, replace(artifact.card, checkpoint_sha256=load_checkpoint(other_checkpoint).sha256)
    )
    forged = measure_parity(load_artifact(copy), other_checkpoint, inputs)
    assert [row.status for row in forged.rows] == ["fail", "fail"]
    assert all(row.reason is not None and "is below 60 dB" in row.reason for row in forged.rows)


class FakeSession:
    """A runtime that gives what a test wants."""

    answer: dict[str, np.ndarray] | ConversionError

    def __init__(self, *_args: object, **_kwargs: object) -> None: ...

    def run(self, _inputs: object) -> dict[str, np.ndarray]:
        if isinstance(self.answer, ConversionError):
            raise self.answer
        return self.answer


@pytest.mark.long
def test_nan_and_crashes_fail_their_rows(
    by_name: Mapping[str, Artifact], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = by_name["age.fp32.onnx"]
    inputs = random_inputs(artifact.card.iospec, 1, seed=0)
    monkeypatch.setattr("unplug.export.parity.Session", FakeSession)
    FakeSession.answer = {"age_logits": np.full((1, 13), np.nan), "expected_age": np.zeros((1, 1))}
    rows = measure_parity(artifact, checkpoint, inputs).rows
    assert [row.status for row in rows] == ["fail", "fail"]
    assert rows[0].reason == "the output holds NaN or infinity"
    FakeSession.answer = ConversionError(
        "age.fp32.onnx on onnx", "its child process was killed by SIGSEGV"
    )
    rows = measure_parity(artifact, checkpoint, inputs).rows
    assert {row.status for row in rows} == {"fail"} and "SIGSEGV" in (rows[0].reason or "")


def test_zeros_of_an_untrained_network_are_no_parity(
    by_name: Mapping[str, Artifact], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = by_name["age.fp32.onnx"]
    zeros = {item.name: np.zeros(item.shape, np.float32) for item in artifact.card.iospec.outputs}
    reference = Reference(
        checkpoint_sha256=artifact.card.checkpoint_sha256, model_type="age", outputs=zeros
    )
    monkeypatch.setattr("unplug.export.parity.reference_outputs", lambda *_, **__: reference)
    monkeypatch.setattr("unplug.export.parity.Session.run", lambda *_: zeros)
    for row in measure_parity(
        artifact, checkpoint, random_inputs(artifact.card.iospec, 1, seed=0)
    ).rows:
        assert (
            row.status == "fail"
            and row.exact
            and str(row.reason).startswith("the checkpoint gives zeros only")
        )


def test_bad_requests(by_name: Mapping[str, Artifact], checkpoint: Path) -> None:
    with pytest.raises(InputError, match="no artifact is given"):
        measure_parity([], checkpoint, {})
    first = by_name["age.fp32.onnx"]
    spec = first.card.iospec
    other = replace(first, card=replace(first.card, iospec=replace(spec, outputs=spec.outputs[:1])))
    with pytest.raises(InputError, match="its tensors differ"):
        measure_parity([first, other], checkpoint, random_inputs(spec, 1, seed=0))
    with pytest.raises(InputError, match="input 'image'"):
        measure_parity(first, checkpoint, {})
