"""A certificate proves that pictures are not in the sums; a proof of another release proves nothing."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from unplug.core import InputError, ReportError, write_json
from unplug.trust.bundle import read_trust
from unplug.trust.certificates import Absences, check_certificate
from unplug.trust.certificates.statements import payloads, sealed
from unplug.trust.ledger import CommittedList, prove_absence

from ..commands import called
from .conftest import LATER, PERSON, REQUEST, Case, a_ledger, record_release, refile

INSIDE = [bytes([number]) * 32 for number in (1, 3, 5)]
MINE = prove_absence(INSIDE, bytes([2]) * 32)
LIST = "reports/commitments.json"


@pytest.fixture
def listed(case: Case) -> Case:
    """A case whose bundle carries a list, with a ledger that records its release."""
    write_json(case.bundle / LIST, asdict(CommittedList.of(INSIDE)))
    refile(case.bundle, LIST)
    (case.folder / "ledger").mkdir()
    ledger = a_ledger(case.folder / "ledger")
    ledger.add([PERSON], id=REQUEST, identity="passport seen")
    record_release(ledger, case.bundle, REQUEST)
    return replace(case, ledger=ledger)


def proofs(file: Path, **requests: Any) -> Path:
    write_json(file, asdict(Absences(requests=requests)))
    return file


def problems(case: Case, file: Path) -> tuple[str, ...]:
    key = read_trust(case.public).keys[0]
    return check_certificate(file, key, case.bundle, now=LATER).problems


def test_it_says_so_and_whoever_has_the_bundle_checks_it(listed: Case) -> None:
    beside = listed.bundle.parent / f".{listed.bundle.name}.release"
    beside.mkdir()
    proofs(beside / ".absence.json", **{REQUEST: (MINE,), "TICKET-99": ()})
    issued = listed.issue(now=None)
    assert issued.certificate.absent == (MINE,) and problems(listed, issued.file) == ()
    assert "Not in the sums" in issued.page.read_text(encoding="utf-8")
    call = f"certificate verify {issued.file} --bundle {listed.bundle} --trust {listed.public}"
    assert called(call)["absent"] == 1
    # of a release without a ledger all proofs stand under no request
    given = proofs(listed.folder / "all.json", **{"": (MINE, MINE)})
    assert len(listed.issue(out="all", absence=given).certificate.absent) == 2
    # a neighbour that is none, and a commitment that is in
    for wrong in (
        replace(MINE, after=None),
        replace(MINE, commitment=INSIDE[1].hex()),
        prove_absence(INSIDE[:2], bytes([2]) * 32),
    ):
        issued.file.write_bytes(sealed(replace(issued.certificate, absent=(wrong,)), listed.signer))
        line = f"its proof that {wrong.commitment[:16]} is absent is of another release, or of none"
        assert problems(listed, issued.file) == (line,)


def test_a_proof_of_another_release_is_refused_and_nothing_written(
    listed: Case, made: Case
) -> None:
    other = proofs(listed.folder / "b.json", **{REQUEST: (prove_absence(INSIDE[1:], bytes(32)),)})
    with pytest.raises(InputError, match="is absent is of another release, or of none"):
        listed.issue(absence=other)
    (listed.folder / "c.json").write_text('{"requests": []}')
    with pytest.raises(ReportError, match=r"c\.json"):
        listed.issue(absence=listed.folder / "c.json")
    assert not (listed.folder / "new").exists()
    # a bundle without a list
    with pytest.raises(InputError, match="of another release, or of none"):
        made.issue(absence=proofs(listed.folder / "a.json", **{REQUEST: (MINE,)}), out="none")
    assert not (made.folder / "none").exists()


def test_a_certificate_without_proofs_is_the_bytes_that_it_always_was(made: Case) -> None:
    assert b'"absent"' not in payloads(made.issued.certificate)[0]
