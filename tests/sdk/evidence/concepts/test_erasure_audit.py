"""The audit of an erased base: what follows from rates, resume, bad input, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.core import ArtifactError, CheckpointError, Estimate, InputError, read_json, sha256_file
from unplug.sdk import journey
from unplug.sdk.cli import main
from unplug.sdk.drawing.diffusion import Sampling
from unplug.sdk.evidence.concepts import (
    AuditOrder,
    Judge,
    JudgeFacts,
    RateRow,
    audit_erasure,
    check_drawn,
    claims_of,
    erasure_audit,
)

from ....blocked import python
from ...drawing.diffusion.conftest import CPU
from .conftest import WORD

HOLDS = {
    "named": "prompts",
    "control-image": "control images",
    "inverse-matrix": "weights",
    "unnamed": None,
}


def row(
    attack: str, role: Any, high: float, form: str = "as it is", *, low: float = 0.0
) -> RateRow:
    rate = Estimate(value=(low + high) / 2, low=low, high=high)
    holds: Any = HOLDS[attack]
    return RateRow(
        attack=attack, holds=holds, form=form, role=role, rate=rate, pictures=48, seconds=1.0
    )


def test_what_holds_is_an_upper_end_at_most_that_of_the_oracle() -> None:
    rows = [
        row("unnamed", "original", 0.2),
        row("named", "original", 1.0, low=0.8),
        row("named", "erased", 0.07),
        row("named", "oracle", 0.07),
        row("control-image", "erased", 0.5),
        row("control-image", "oracle", 0.1),
    ]
    assert claims_of(rows) == {
        "prompts": "holds",
        "control images": "broken",
        "text states": "not tried",
        "weights": "not tried",
    }
    worse = [*rows, row("named", "erased", 0.08, "int8"), row("named", "oracle", 0.07, "int8")]
    assert claims_of(worse)["prompts"] == "broken"


def test_exported_files_are_held_against_the_oracle_as_it_is() -> None:
    rows = [
        row("unnamed", "original", 0.1),
        row("named", "original", 1.0, low=0.8),
        row("named", "oracle", 0.2),
    ]
    assert claims_of([*rows, row("named", "erased", 0.2, "onnx fp16")])["prompts"] == "holds"
    assert claims_of([*rows, row("named", "erased", 0.3, "onnx fp16")])["prompts"] == "broken"


def test_without_an_oracle_the_original_unasked_is_the_reference() -> None:
    rows = [row("unnamed", "original", 0.1), row("named", "original", 1.0, low=0.8)]
    assert claims_of([*rows, row("named", "erased", 0.1)])["prompts"] == "holds"
    assert claims_of([*rows, row("named", "erased", 0.11)])["prompts"] == "broken"


def test_what_does_not_work_on_the_original_shows_nothing_by_failing() -> None:
    rows = [
        row("unnamed", "original", 0.1),
        row("control-image", "original", 0.3, low=0.1),
        row("control-image", "erased", 0.1),
    ]
    assert claims_of(rows)["control images"] == "not tried"
    rows[1] = row("control-image", "original", 0.6, low=0.2)
    assert claims_of(rows)["control images"] == "holds"


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch, judge: Judge) -> AuditOrder:
    few = Sampling(steps=1, guidance=1.0, solver=None)
    monkeypatch.setattr(erasure_audit, "concept_judge", lambda *_, **__: judge)
    monkeypatch.setattr(erasure_audit, "sampling_of", lambda _: few)
    return AuditOrder(attacks=("named", "inverse-matrix"), forms=("as it is",), pictures=8)


def run(erased: Path, order: AuditOrder, work: Path, **how: Any) -> Any:
    return audit_erasure(str(erased), order, seed=1, device=CPU, work=work, **how)


def test_a_whole_audit_and_the_same_again_from_its_rows(
    erased_folder: Path,
    base_folder: Path,
    order: AuditOrder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An ended run goes on: rows that are there are not drawn again."""
    said, drawn = list[str](), erasure_audit.presence_rate
    calls = list[int]()

    def stops(pictures: Any, judge: Judge) -> Estimate:
        calls.append(len(pictures))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return drawn(pictures, judge)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(erasure_audit, "presence_rate", stops)
        run(erased_folder, order, tmp_path, oracle=str(base_folder))
    report = run(erased_folder, order, tmp_path, oracle=str(base_folder), say=said.append)
    (concept,) = report.concepts
    assert len(concept.rows) == 9 and len(said) == 2  # the oracle is the original here
    assert {item.role for item in concept.rows} == {"original", "erased", "oracle"}
    assert report.reference == "a base that never saw it" and report.pictures == 8
    again = run(erased_folder, order, tmp_path, oracle=str(base_folder), say=said.append)
    assert again.concepts == report.concepts and len(said) == 2
    report.save(tmp_path / "audit.json")
    kept = read_json(tmp_path / "audit.json")
    assert kept["frechet"]["pictures"] == 4 and kept["frechet"]["components"] == 1
    assert kept["frechet"]["erased"] > 0 and kept["frechet"]["original"] > 0
    assert kept["schema"] == "unplug-erasure-audit/1" and kept["claim"] == report.claim


@pytest.mark.long
def test_files_that_ship_draw_as_well(
    erased_folder: Path, plugin_folder: Path, order: AuditOrder, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    journey.export([erased_folder], out=files, to=["onnx"], precision=["fp32"], check=0)
    asked = replace(
        order, attacks=("named", "control-image"), plugin=str(plugin_folder), files=files
    )
    report = run(erased_folder, asked, tmp_path)
    rows = {(row.attack, row.form, row.role) for row in report.concepts[0].rows}
    assert ("named", "onnx fp32", "erased") in rows
    assert ("named", "onnx fp32", "original") not in rows
    assert ("control-image", "onnx fp32", "erased") not in rows
    assert "no plugin" in report.concepts[0].left_out["control-image"]
    assert sha256_file(next((files / "unet").glob("*.onnx"))) == report.files["onnx fp32"]["unet"]
    weights = next((files / "unet").glob("*.onnx"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError):
        run(erased_folder, asked, tmp_path)
    with pytest.raises(InputError, match=r"has no pipeline\.json"):
        run(erased_folder, replace(asked, files=tmp_path), tmp_path)


def test_other_words_are_counted_once(
    erased_folder: Path, order: AuditOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original draws them alike for every method that is audited in one folder."""
    order, calls = replace(order, attacks=("named",), beside=("scarf", "pipe")), list[int]()
    drawn = erasure_audit.presence_rate

    def counted(pictures: Any, judge: Judge) -> Estimate:
        calls.append(len(pictures))
        return drawn(pictures, judge)

    monkeypatch.setattr(erasure_audit, "presence_rate", counted)
    report = run(erased_folder, order, tmp_path)
    assert [*report.beside] == ["scarf", "pipe"]
    assert all({"original", "erased"} == set(rates) for rates in report.beside.values())
    assert len(calls) == 8 and set(calls) == {8}
    assert run(erased_folder, order, tmp_path).beside == report.beside and len(calls) == 8


def test_bases_that_cannot_be_audited(
    base_folder: Path, erased_folder: Path, order: AuditOrder, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="nothing was erased"):
        run(base_folder, order, tmp_path)
    with pytest.raises(InputError, match="an erased base, not one that never saw"):
        run(erased_folder, order, tmp_path, oracle=str(erased_folder))
    with pytest.raises(CheckpointError):
        run(erased_folder, order, tmp_path, oracle=str(tmp_path / "none"))
    for wrong in ({"attacks": ("nmaed",)}, {"forms": ("fp8",)}, {"pictures": 2}):
        with pytest.raises(InputError):
            AuditOrder(**wrong)


@pytest.mark.parametrize(
    ("asked", "unasked", "refused"),
    [
        (0.95, 0.02, False),
        (0.55, 0.04, False),
        (0.4, 0.0, True),
        (0.95, 0.5, True),
        (0.5, 0.48, True),
    ],
)
def test_what_words_do_not_control(
    judge: Judge, asked: float, unasked: float, refused: bool
) -> None:
    rates = {"recall": Estimate(value=asked), "false_alarms": Estimate(value=unasked)}
    facts = JudgeFacts(**{**vars(judge.facts), **rates})
    told = Judge(net=judge.net, facts=facts)
    if not refused:
        check_drawn(told, "small")
        return
    with pytest.raises(InputError, match=f"{asked:.0%} of pictures"):
        check_drawn(told, "small")


def test_the_command(erased_folder: Path, order: AuditOrder, tmp_path: Path) -> None:
    out = tmp_path / "audit.json"
    words = [
        "audit",
        str(erased_folder),
        "--attacks",
        "named",
        "--count",
        "8",
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert WORD in done.output and "prompts" in done.output and out.is_file()
    odd = CliRunner().invoke(main, [*words, "--fleet", str(tmp_path)])
    assert odd.exit_code == 2 and "--fleet" in odd.stderr and odd.stderr.count("\n") == 1
    as_json = CliRunner().invoke(main, [*words, "--json"])
    assert json.loads(as_json.stdout)["pictures"] == 8
    missing = CliRunner().invoke(main, ["audit", str(tmp_path / "model"), "--out", str(out)])
    assert missing.exit_code == 2 and missing.stderr.count("\n") == 1


def test_a_report_reads_audits_where_no_base_can_be_opened() -> None:
    """The demo's environment has no diffusers."""
    code = """
import sys
sys.modules["diffusers"] = None
import unplug.sdk.report.erasures, unplug.sdk.report.render
from unplug.sdk.evidence.concepts import ErasureAudit, claims_of
print(claims_of([])["weights"])
"""
    assert python(code) == "not tried\n"
