"""A request that several models hold is released when each of them was, whichever way it is told."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from unplug.core import InputError
from unplug.trust.ledger import Ledger, answered_in, models_left, releases_of

A, B, C, X, Y = (letter * 64 for letter in "abcef")


def touched(ledger: Ledger, *models: str, samples: int = 3) -> None:
    ledger.add(["subject:anna"], id="T-1")
    ledger.add(["subject:bea"], id="T-2")
    for model in models:
        ledger.record(
            "touched",
            ["T-1"],
            facts={"model_sha256": model, "samples": str(samples), "held_out": "0"},
        )


def release(ledger: Ledger, began: str, shipped: str, *ids: str) -> dict[str, str]:
    ledger.record(
        "release", ids, facts={"original_sha256": began, "model_sha256": shipped, "model": "age"}
    )
    return {id: request.state for id, request in ledger.requests().items()}


def test_the_last_model_releases_a_request(ledger: Ledger) -> None:
    touched(ledger, A, X)
    assert release(ledger, A, B, "T-1", "T-2") == {"T-1": "open", "T-2": "released"}
    assert [entry.kind for entry in ledger.requests()["T-1"].history][-1] == "step"
    known = tuple(releases_of(ledger.entries()))
    assert models_left("T-1", ledger.requests()["T-1"].history, known) == {X}
    assert (
        answered_in(B, known) == {"T-1"}
        and answered_in(X, known) == answered_in(A, known) == frozenset()
    )
    assert release(ledger, X, Y, "T-1")["T-1"] == "released"


def test_a_model_that_was_made_from_the_one_that_held_her_counts(ledger: Ledger) -> None:
    touched(ledger, A)
    assert release(ledger, A, B, "T-2")["T-1"] == "open"
    assert release(ledger, B, C, "T-1")["T-1"] == "released"


def test_a_model_of_somebody_else_does_not(ledger: Ledger) -> None:
    touched(ledger, A)
    assert release(ledger, X, Y, "T-1")["T-1"] == "open"
    assert release(ledger, A, B, "T-1")["T-1"] == "released"


def test_models_that_never_learned_her_and_requests_that_nobody_looked_up_wait_for_nothing(
    ledger: Ledger,
) -> None:
    touched(ledger, A, X, samples=0)
    assert set(release(ledger, C, B, "T-1", "T-2").values()) == {"released"}


def test_by_hand_one_has_to_say_which_of_several_models(ledger: Ledger) -> None:
    touched(ledger, A, X)
    with pytest.raises(InputError, match=r"2 models hold samples of it.*`original_sha256=HASH`"):
        ledger.record("release", ["T-1"])
    release(ledger, A, B, "T-1")
    ledger.record("release", ["T-1"])
    assert ledger.requests()["T-1"].state == "released", "one is left, so it was that one"


def test_what_goes_along_with_an_entry_is_there_with_it_or_not_at_all(ledger: Ledger) -> None:
    def make(connection: sa.Connection) -> None:
        connection.execute(sa.text("CREATE TABLE beside (x INTEGER)"))

    def make_and_fail(connection: sa.Connection) -> None:
        connection.execute(sa.text("CREATE TABLE never (x INTEGER)"))
        raise KeyError

    ledger.record("step", along=make)
    with pytest.raises(KeyError):
        ledger.record("step", along=make_and_fail)
    ledger.add(["subject:anna"], id="T-1")
    ledger.record("answered", ["T-1"])
    with pytest.raises(InputError, match="it is answered"):
        ledger.record(
            "release",
            ["T-1"],
            along=lambda connection: connection.execute(sa.text("DROP TABLE beside")) and None,
        )
    with ledger._database.reading() as session:
        tables = sa.inspect(session.connection).get_table_names()
    assert "beside" in tables and "never" not in tables
