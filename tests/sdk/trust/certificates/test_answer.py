"""The draft of the answer says what ledger and certificate know, leaves the rest open and visible,
and is no legal advice.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import CheckFailed, InputError, OutputError
from unplug.sdk.cli import main
from unplug.trust.certificates import draft_answer, issue_certificate

from .conftest import PERSON, REQUEST, Case, a_ledger, a_trace

OPEN = "[TO FILL IN: "


def test_a_certificate_fills_what_it_knows(made: Case, tmp_path: Path) -> None:
    said = made.issued.certificate
    without = draft_answer(REQUEST, made.ledger, tmp_path / "a").read_text(encoding="utf-8")
    text = draft_answer(REQUEST, made.ledger, tmp_path / "b", said).read_text(encoding="utf-8")
    assert text.startswith("> This draft is no legal advice.") and REQUEST in text
    assert OPEN in text and text.count(OPEN) < without.count(OPEN)
    assert PERSON not in text and "lovelace" not in text and "/srv" not in text
    assert not [
        line for line in text.splitlines() if "{{" in line or "{%" in line or "None" in line
    ]
    assert all(f"- {line.place}: {line.outcome}" in text for line in said.places)
    assert "the labelling company" in text


def test_a_refusal_says_so_and_why_and_where_to_complain(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    ledger.add([PERSON], id=REQUEST)
    ledger.refuse(REQUEST, "it is *not* about a model <of ours>")
    answer = draft_answer(REQUEST, ledger, tmp_path / "out").read_text(encoding="utf-8")
    assert (
        r"it is \*not\* about a model \<of ours\>" in answer and "supervisory authority" in answer
    )
    assert "made to forget" not in answer
    with pytest.raises(InputError, match="no such request"):
        draft_answer("TICKET-1", ledger, tmp_path / "other")


def test_an_older_draft_is_replaced_and_nothing_else(made: Case, tmp_path: Path) -> None:
    for _ in range(2):
        draft_answer(REQUEST, made.ledger, tmp_path / "out")
    (tmp_path / "out" / "record.md").write_text("mine")
    with pytest.raises(OutputError, match=r"record\.md"):
        draft_answer(REQUEST, made.ledger, tmp_path / "out")


def test_who_was_only_held_out_is_told_so_and_gets_no_certificate(
    case: Case, tmp_path: Path
) -> None:
    ledger = a_ledger(tmp_path)
    ledger.add([PERSON], id=REQUEST)
    model = {"model_sha256": "1" * 64, "data_digest": "2" * 64}
    ledger.record("touched", [REQUEST], facts={**model, "samples": "0", "held_out": "3"})
    ledger.record("step", [REQUEST], facts={"trace_sha256": a_trace(tmp_path / "trace.json")})
    ledger.record("answered", [REQUEST])
    answer = draft_answer(REQUEST, ledger, tmp_path / "drafts").read_text(encoding="utf-8")
    assert "No model of ours was trained on data about you" in answer and "We searched" in answer
    with pytest.raises(CheckFailed, match="unplug certificate templates TICKET-17"):
        issue_certificate(
            REQUEST,
            ledger=ledger,
            bundle=case.bundle,
            signer=case.signer,
            out=tmp_path / "certificate",
        )
    ledger.add([PERSON], id="TICKET-2")
    for samples, held_out in (("4", "3"), ("0", "0")):
        ledger.record(
            "touched", ["TICKET-2"], facts={**model, "samples": samples, "held_out": held_out}
        )
        answer = draft_answer("TICKET-2", ledger, tmp_path / "other").read_text(encoding="utf-8")
        assert "No model of ours" not in answer and "issue a certificate" in answer
    ledger.withdraw("TICKET-2")
    with pytest.raises(CheckFailed, match="is withdrawn"):
        issue_certificate(
            "TICKET-2",
            ledger=ledger,
            bundle=case.bundle,
            signer=case.signer,
            out=tmp_path / "certificate",
        )


def test_the_command_takes_a_certificate_with_its_key_alone(made: Case, tmp_path: Path) -> None:
    words = [
        "certificate",
        "templates",
        REQUEST,
        "--ledger",
        str(made.folder / "ledger.db"),
        "--out",
        str(tmp_path / "out"),
    ]
    given = ["--certificate", str(made.issued.file), "--key", str(made.public)]
    assert CliRunner().invoke(main, [*words, *given[:2]]).exit_code == 2
    done = CliRunner().invoke(main, [*words, *given, "--json"])
    found = json.loads(done.stdout)
    assert (
        done.exit_code == 0
        and found["to_fill_in"] > 0
        and found["files"] == [str(tmp_path / "out" / "answer.md")]
    )
    other = CliRunner().invoke(
        main, [*(word.replace(REQUEST, "TICKET-16") for word in words), *given]
    )
    assert other.exit_code == 2 and "is about the request TICKET-17" in other.stderr
