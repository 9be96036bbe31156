"""Drafts say what ledger and certificate know, leave the rest open and visible, and call themselves no legal advice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import CheckFailed, InputError
from unplug.sdk.certificates import certify, write_drafts
from unplug.sdk.cli import main

from .conftest import PERSON, REQUEST, Case, a_ledger, a_trace

OPEN = "[TO FILL IN: "


def texts(paths: tuple[Path, ...]) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_a_certificate_fills_what_it_knows(made: Case, tmp_path: Path) -> None:
    said = made.issued.certificate
    without = texts(write_drafts(REQUEST, made.ledger, tmp_path / "a"))
    filled = texts(write_drafts(REQUEST, made.ledger, tmp_path / "b", said))
    assert [*without] == [*filled] == ["answer.md", "record.md", "annex-edpb-28-2024.md"]
    for name, text in filled.items():
        assert text.startswith("> This draft is no legal advice.") and REQUEST in text
        assert OPEN in text and text.count(OPEN) < without[name].count(OPEN), name
        assert PERSON not in text and "lovelace" not in text and "/srv" not in text
        assert not [line for line in text.splitlines() if "{{" in line or "{%" in line or "None" in line]
    assert all(f"- {line.place}: {line.outcome}" in filled["answer.md"] for line in said.places)
    assert "the labelling company" in filled["answer.md"] and said.model.bundle in filled["record.md"]
    for attack in said.evidence.attacks:
        assert (
            f"| {attack.attack} | {attack.model.value:.3f} | {attack.never_saw.value:.3f} |" in filled["annex-edpb-28-2024.md"]
        )


def test_a_refusal_says_so_and_why_and_where_to_complain(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    ledger.add([PERSON], id=REQUEST)
    ledger.refuse(REQUEST, "it is *not* about a model <of ours>")
    answer = texts(write_drafts(REQUEST, ledger, tmp_path / "out"))["answer.md"]
    assert r"it is \*not\* about a model \<of ours\>" in answer and "supervisory authority" in answer
    assert "made to forget" not in answer
    with pytest.raises(InputError, match="no such request"):
        write_drafts("TICKET-1", ledger, tmp_path / "other")


def test_who_was_only_held_out_is_told_so_and_gets_no_certificate(case: Case, tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    ledger.add([PERSON], id=REQUEST)
    model = {"model_sha256": "1" * 64, "data_digest": "2" * 64}
    ledger.record("touched", [REQUEST], facts={**model, "samples": "0", "held_out": "3"})
    ledger.record("step", [REQUEST], facts={"trace_sha256": a_trace(tmp_path / "trace.json")})
    ledger.record("answered", [REQUEST])
    drafts = texts(write_drafts(REQUEST, ledger, tmp_path / "drafts"))
    assert "No model of ours was trained on data about you" in drafts["answer.md"] and "We searched" in drafts["answer.md"]
    assert "Nothing was released for it" in drafts["record.md"] and "issue a certificate" not in drafts["record.md"]
    with pytest.raises(CheckFailed, match="unplug certificate templates TICKET-17"):
        certify(REQUEST, ledger=ledger, bundle=case.bundle, signer=case.signer, out=tmp_path / "certificate", pdf=False)
    ledger.add([PERSON], id="TICKET-2")
    for samples, held_out in (("4", "3"), ("0", "0")):
        ledger.record("touched", ["TICKET-2"], facts={**model, "samples": samples, "held_out": held_out})
        answer = texts(write_drafts("TICKET-2", ledger, tmp_path / "other"))["answer.md"]
        assert "No model of ours" not in answer and "issue a certificate" in answer
    ledger.withdraw("TICKET-2")
    with pytest.raises(CheckFailed, match="is withdrawn"):
        certify("TICKET-2", ledger=ledger, bundle=case.bundle, signer=case.signer, out=tmp_path / "certificate", pdf=False)


def test_the_command_takes_a_certificate_with_its_key_alone(made: Case, tmp_path: Path) -> None:
    words = ["certificate", "templates", REQUEST, "--ledger", str(made.folder / "ledger.db"), "--out", str(tmp_path / "out")]
    given = ["--certificate", str(made.issued.file), "--key", str(made.public)]
    assert CliRunner().invoke(main, [*words, *given[:2]]).exit_code == 2
    done = CliRunner().invoke(main, [*words, *given, "--json"])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["to_fill_in"] > 0 and len(found["files"]) == 3
    other = CliRunner().invoke(main, [*(word.replace(REQUEST, "TICKET-16") for word in words), *given])
    assert other.exit_code == 2 and "is about the request TICKET-17" in other.stderr
