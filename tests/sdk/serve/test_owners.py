"""Whose a request is: a token that may only write sees and withdraws its own, and has so many open
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.sdk.serve.conftest import OPEN, Api, Place

from unplug.core import InputError
from unplug.serve import ServiceTables

Call = Callable[..., Any]


@contextmanager
def serving(place: Place) -> Iterator[Call]:
    """``call(headers, path, body, key)`` of a service that runs meanwhile."""
    with Api(place, headers={}) as api:

        def call(headers: dict[str, str], path: str, body: Any, key: str = "key-one-1") -> Any:
            return api.post(path, json=body, headers={**headers, "Idempotency-Key": key})

        yield call


BEA = {"names": ["subject:bea"]}


def test_another_token_s_request_is_as_if_it_were_not_there(anywhere: Place) -> None:
    mine, other = anywhere.token_for("requests:write"), anywhere.token_for("requests:write")
    reader = anywhere.token_for("requests:write", "requests:read")
    with serving(anywhere) as call:

        def withdraw(headers: dict[str, str], id: str) -> Any:
            return call(headers, f"/requests/{id}/withdraw", {})

        first = call(mine, "/requests", BEA).json()["id"]
        call(mine, "/requests", {**BEA, "id": "T-1"}, "key-two-2")
        for id in (first, "T-1"):
            theirs, nobodys = withdraw(other, id), withdraw(other, "R-nothing")
            assert theirs.status_code == nobodys.status_code == 404
            assert theirs.content == nobodys.content
        for name in ("subject:bea", "a", "subject:nobody-of-it"):
            asked = call(other, "/requests", {"names": [name], "id": "T-1"})
            assert asked.status_code == 409
            assert asked.text == '{"status":409,"detail":"request T-1: its id is taken"}'
        assert all(request.state == "open" for request in anywhere.ledger.requests().values())
        for headers, id in ((mine, first), (reader, "T-1")):
            again = call(headers, "/requests", {**BEA, "id": "T-1"})
            assert again.status_code == 200, "its own, once more"
            assert withdraw(headers, id).json()["state"] == "withdrawn"


def test_names_that_the_data_lack_are_only_counted_for_who_may_not_read(place: Place) -> None:
    names = {"names": ["subject:nobody", "a", "subject:anna", "subject:bea"]}
    with serving(place) as call:
        told = call(place.token_for("requests:write"), "/requests", names)
        assert told.json()["detail"] == "the request: 2 of 4 names are unknown to the data"
        assert call(place.headers, "/requests", names).json()["detail"].endswith("(number 1, 3)")


@pytest.mark.parametrize("limits", [{"open_requests": 2}, {"open_names": 4}])
def test_a_token_has_so_much_open_at_once(
    make_place: Callable[..., Place], limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.serve.owners.AGAIN_SECONDS", 0.0)
    place = make_place(limits=replace(OPEN, **limits))
    mine, other = place.token_for("requests:write"), place.token_for("requests:write")
    with serving(place) as call:

        def ask(headers: dict[str, str], key: str, *names: str) -> Any:
            return call(headers, "/requests", {"names": names or ["a", "subject:bea"]}, key)

        nobody = ask(mine, "key-one-1", *["subject:nobody"] * 4)
        assert nobody.status_code == 409, "holds no place"
        first, second = ask(mine, "key-one-1"), ask(mine, "key-two-2")
        assert (first.status_code, second.status_code) == (201, 201)
        full = ask(mine, "key-three")
        assert full.status_code == 429 and "open" in full.json()["detail"]
        assert full.headers["retry-after"] == "60"
        assert ask(mine, "key-two-2").status_code == 200, "was there"
        assert ask(other, "key-three").status_code == 201
        call(mine, f"/requests/{first.json()['id']}/withdraw", {})
        assert ask(mine, "key-three").status_code == 201
    assert len(place.ledger.requests()) == 4


def test_tables_of_the_first_version_are_brought_up_to_date(place: Place) -> None:
    mine, names = place.token_for("requests:write"), {"names": ["a"]}
    with serving(place) as call:
        id = call(mine, "/requests", names).json()["id"]
    with place.tables.writing() as connection:
        for statement in (
            "DROP TABLE service_owners",
            "DROP TABLE service_recipes",
            "ALTER TABLE service_jobs DROP COLUMN recipe",
            "ALTER TABLE service_jobs DROP COLUMN recipe_sha256",
            "ALTER TABLE service_jobs DROP COLUMN certificates",
            "UPDATE service_version SET version_num = '0001'",
        ):
            connection.execute(sa.text(statement))
    tables = ServiceTables(place.where)
    with pytest.raises(InputError, match="older version"), tables.reading():
        pass
    tables.create()
    with serving(place) as call:
        withdraw = f"/requests/{id}/withdraw"
        assert call(mine, withdraw, {}).status_code == 404, "nobody knows whose it is"
        again = call(mine, "/requests", names)
        assert again.status_code == 200, "only its token can make that id of that key"
        assert call(mine, withdraw, {}).status_code == 200
