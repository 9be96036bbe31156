"""What a search met becomes one line for each kind of place, without a path; the operator's word
is marked as such.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from unplug.core import InputError
from unplug.trust.certificates import (
    PLACES,
    TracedPlace,
    TraceFile,
    kept_facts,
    remainder,
    remainder_on_record,
    said_place,
)
from unplug.trust.certificates.places import SEARCHED, place_lines, read_trace

from .conftest import REQUEST, Case

KEPT = "kept: raw data (1), work folders (1), checkpoints (1)"


def test_something_is_told_of_every_kind_of_place(made: Case) -> None:
    lines = made.issued.certificate.places
    assert {line.place: (line.outcome, line.count, line.by) for line in lines} == {
        "raw data": ("kept", 1, "search"),
        "caches": ("deleted", 1, "search"),
        "work folders": ("kept", 1, "search"),
        "checkpoints": ("kept", 1, "search"),
        "references and folds": ("none found", 0, "search"),
        "earlier bundles": ("unknown", 1, "search"),
        "deltas": ("none found", None, "operator"),
        "lists and reports": ("none found", 0, "search"),
        "backups": ("kept", None, "operator"),
        "copies and phones": ("unknown", None, "nobody"),
    }


def test_nothing_searched_is_nothing_known() -> None:
    lines = place_lines([], [])
    assert tuple(line.place for line in lines) == PLACES
    assert {(line.outcome, line.by) for line in lines} == {("unknown", "nobody")}


def test_what_holds_is_told_apart_from_what_stays(made: Case) -> None:
    """By whoever verifies a certificate, and by whoever records an answer, as far as the ledger
    knows.
    """
    places = made.issued.certificate.places
    assert remainder(places) == f"{KEPT}, backups; not known: earlier bundles, copies and phones"
    assert remainder([replace(line, outcome="deleted", why="") for line in places]) == ""
    request = made.ledger.requests()[REQUEST]
    (search,) = [entry for entry in request.history if "trace_sha256" in entry.facts]
    facts = kept_facts(read_trace(made.trace, request, "server")[0])
    assert facts == {
        "kept raw data": "1",
        "kept work folders": "1",
        "kept checkpoints": "1",
        "unknown earlier bundles": "1",
    }
    beyond = f"by the search of entry {search.sequence}; not searched: deltas, backups"
    for recorded, words in (
        (facts, KEPT),
        # of an older ledger
        ({"holds": "2", "remembers": "1", "forgot": "4"}, "kept: 2 that holds, 1 that remembers"),
        ({"forgot": "4"}, "nothing found that is kept"),
    ):
        entry = replace(search, facts={**search.facts, **recorded})
        told = remainder_on_record(replace(request, history=(entry,)))
        assert told == f"{words}, {beyond}, copies and phones"


def a_search(*places: TracedPlace) -> TraceFile:
    return TraceFile(
        nonce="0",
        person="subject:ada",
        data="d",
        searched=("/srv",),
        places=places,
        purged=("/c/1.npy",),
        out_of_reach="",
    )


@pytest.mark.parametrize("kind", ["archive", "file", "files", "folder", "link"])
def test_none_found_needs_that_everything_was_looked_into(kind: str) -> None:
    closed = TracedPlace(path="/srv/a", kind=kind, standing="unknown", goes_by="it is encrypted")
    cached = TracedPlace(path="/c/1.npy", kind="cache: pixels", standing="holds")
    lines = {line.place: line for line in place_lines([a_search(closed, cached)], [])}
    assert {lines[name].outcome for name in SEARCHED if name != "caches"} == {"unknown"}
    why = "1 files or folders could not be looked into"
    assert lines["checkpoints"].why == f"none found, and {why}"
    assert (lines["caches"].outcome, lines["caches"].why) == ("deleted", why)


@pytest.mark.parametrize(
    ("everybody", "outcome", "why"),
    [(True, "none found", ""), (False, "unknown", "not everybody")],
)
def test_none_found_needs_that_everybody_was_searched_for(
    everybody: bool, outcome: str, why: str
) -> None:
    lines = place_lines([a_search()], [], everybody=everybody)
    assert {line.outcome for line in lines if line.place in SEARCHED} == {outcome}
    assert all(line.why.startswith(why) for line in lines if line.place in SEARCHED)


@pytest.mark.parametrize(
    "text",
    [
        "attic=deleted",
        "backups",
        "backups=lost",
        "backups=kept",
        "backups=unknown:",
        "backups=kept: a\nb",
        f"backups=kept: {'x' * 201}",
    ],
)
def test_a_word_that_says_too_little_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="`place="):
        said_place(text)


def test_two_words_on_one_place_are_refused() -> None:
    with pytest.raises(InputError, match="given twice"):
        place_lines([], [said_place("backups=deleted"), said_place("backups=kept: for a year")])
