"""What a search found becomes one line for each kind of place, without a path; the operator's word is marked as such."""

from __future__ import annotations

import pytest

from unplug.core import InputError
from unplug.sdk.certificates import PLACES, said_place
from unplug.sdk.certificates.places import place_lines

from .conftest import Case


def test_every_kind_of_place_is_said_something_of(made: Case) -> None:
    found = {line.place: (line.outcome, line.count, line.by) for line in made.issued.certificate.places}
    assert found == {
        "raw data": ("kept", 1, "search"), "caches": ("deleted", 1, "search"), "work folders": ("kept", 1, "search"),
        "checkpoints": ("kept", 1, "search"), "references and folds": ("none found", 0, "search"),
        "earlier bundles": ("unknown", 1, "search"), "deltas": ("none found", None, "operator"),
        "lists and reports": ("none found", 0, "search"), "backups": ("kept", None, "operator"),
        "copies and phones": ("unknown", None, "nobody"),
    }  # fmt: skip


def test_nothing_searched_is_nothing_known() -> None:
    lines = place_lines([], [])
    assert tuple(line.place for line in lines) == PLACES
    assert {(line.outcome, line.by) for line in lines} == {("unknown", "nobody")}


@pytest.mark.parametrize(
    "text", ["attic=deleted", "backups", "backups=lost", "backups=kept", "backups=unknown:", "backups=kept: a\nb",
             f"backups=kept: {'x' * 201}"],
)  # fmt: skip
def test_a_word_that_says_too_little_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--place"):
        said_place(text)


def test_two_words_on_one_place_are_refused() -> None:
    with pytest.raises(InputError, match="given twice"):
        place_lines([], [said_place("backups=deleted"), said_place("backups=kept: for a year")])
