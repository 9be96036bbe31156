"""The draft of the answer says what ledger and certificate know, leaves the rest open and visible,
and is no legal advice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.core import CheckFailed, InputError, OutputError
from unplug.trust.certificates import draft_answer

from ..commands import called, refused
from .conftest import PERSON, REQUEST, Case, a_ledger, a_trace

OPEN = "[TO FILL IN: "


def test_a_certificate_fills_what_it_knows(made: Case, tmp_path: Path) -> None:
    certificate = made.issued.certificate
    without = draft_answer(REQUEST, made.ledger, tmp_path / "a").read_text(encoding="utf-8")
    draft = draft_answer(REQUEST, made.ledger, tmp_path / "b", certificate)
    text = draft.read_text(encoding="utf-8")
    assert text.startswith("> This draft is no legal advice.") and REQUEST in text
    assert 0 < text.count(OPEN) < without.count(OPEN)
    assert not [word for word in ("lovelace", "/srv", "{{", "{%", "None") if word in text]
    assert all(f"- {line.place}: {line.outcome}" in text for line in certificate.places)
    assert "the labelling company" in text


def test_a_refusal_says_so_and_why_and_where_to_complain(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    ledger.add([PERSON], id=REQUEST)
    ledger.refuse(REQUEST, "it is *not* about a model <of ours>")
    answer = draft_answer(REQUEST, ledger, tmp_path / "out").read_text(encoding="utf-8")
    assert r"it is \*not\* about a model \<of ours\>" in answer
    assert "supervisory authority" in answer and "made to forget" not in answer
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

    def touched(id: str, samples: str, held_out: str) -> str:
        facts = {"model_sha256": "1" * 64, "data_digest": "2" * 64}
        facts |= {"samples": samples, "held_out": held_out}
        ledger.record("touched", [id], facts=facts)
        return draft_answer(id, ledger, tmp_path / f"draft-{id}").read_text(encoding="utf-8")

    ledger.add([PERSON], id=REQUEST)
    ledger.record("step", [REQUEST], facts={"trace_sha256": a_trace(tmp_path / "trace.json")})
    answer = touched(REQUEST, "0", "3")
    assert "No model of ours was trained on data about you" in answer and "We searched" in answer
    with pytest.raises(CheckFailed, match="unplug certificate templates TICKET-17"):
        case.issue(ledger=ledger)
    ledger.add([PERSON], id="TICKET-2")
    for samples, held_out in (("4", "3"), ("0", "0")):
        answer = touched("TICKET-2", samples, held_out)
        assert "No model of ours" not in answer and "issue a certificate" in answer


def test_the_command_takes_a_certificate_with_its_key_alone(made: Case, tmp_path: Path) -> None:
    def words(request: str) -> str:
        return (
            f"certificate templates {request} --ledger {made.folder}/ledger.db "
            f"--out {tmp_path}/out --certificate {made.issued.file}"
        )

    refused(words(REQUEST))
    told = called(f"{words(REQUEST)} --trust {made.public}")
    assert told["to_fill_in"] > 0 and told["files"] == [str(tmp_path / "out" / "answer.md")]
    other = refused(f"{words('TICKET-16')} --trust {made.public}")
    assert "is about the request TICKET-17" in other
