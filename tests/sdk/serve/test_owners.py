"""Whose a request is: a token that may only write sees and withdraws its own, and has so many open
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.sdk.serve.conftest import Place

from unplug.core import InputError
from unplug.serve import ServeLimits, ServiceTables
from unplug.serve.app import make_app

Call = Callable[..., Any]


@contextmanager
def serving(place: Place) -> Iterator[Call]:
    """``call(headers, path, body, key)`` of a service that runs meanwhile."""
    with TestClient(make_app(place.settings)) as client:

        def call(headers: dict[str, str], path: str, body: Any, key: str = "key-one-1") -> Any:
            return client.post(path, json=body, headers={**headers, "Idempotency-Key": key})

        yield call


def test_another_token_s_request_is_as_if_it_were_not_there(anywhere: Place) -> None:
    mine, other = anywhere.token_for("requests:write"), anywhere.token_for("requests:write")
    reader = anywhere.token_for("requests:write", "requests:read")
    bea = {"names": ["subject:bea"]}
    with serving(anywhere) as call:
        ids = [
            call(mine, "/requests", bea).json()["id"],
            call(mine, "/requests", {**bea, "id": "T-1"}, "key-two-2").json()["id"],
        ]
        for id in ids:
            theirs, nobodys = (
                call(other, f"/requests/{name}/withdraw", {}) for name in (id, "R-nothing")
            )
            assert (theirs.status_code, theirs.content) == (
                nobodys.status_code,
                nobodys.content,
            ) and theirs.status_code == 404
        asked = [
            call(other, "/requests", {"names": [name], "id": "T-1"})
            for name in ("subject:bea", "a", "subject:nobody-of-it")
        ]
        assert {(item.status_code, item.text) for item in asked} == {
            (409, '{"status":409,"detail":"request T-1: its id is taken"}')
        }
        assert all(item.state == "open" for item in anywhere.ledger.requests().values())
        assert call(mine, "/requests", {**bea, "id": "T-1"}).status_code == 200, (
            "its own, once more"
        )
        assert call(mine, f"/requests/{ids[0]}/withdraw", {}).json()["state"] == "withdrawn"
        assert call(mine, f"/requests/{ids[0]}/withdraw", {}).json()["state"] == "withdrawn"
        assert call(reader, "/requests", {**bea, "id": "T-1"}).status_code == 200
        assert call(reader, "/requests/T-1/withdraw", {}).json()["state"] == "withdrawn"


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
    place = make_place(limits=ServeLimits(rate=1e5, burst=100_000, **limits))
    mine, other, two = (
        place.token_for("requests:write"),
        place.token_for("requests:write"),
        {"names": ["a", "subject:bea"]},
    )
    with serving(place) as call:
        assert call(mine, "/requests", {"names": ["subject:nobody"] * 4}).status_code == 409, (
            "holds no place"
        )
        first, second = (call(mine, "/requests", two, key) for key in ("key-one-1", "key-two-2"))
        assert (first.status_code, second.status_code) == (201, 201)
        full = call(mine, "/requests", two, "key-three")
        assert (
            full.status_code == 429
            and "open" in full.json()["detail"]
            and full.headers["retry-after"] == "60"
        )
        assert call(mine, "/requests", two, "key-two-2").status_code == 200, "was there"
        assert call(other, "/requests", two, "key-three").status_code == 201
        call(mine, f"/requests/{first.json()['id']}/withdraw", {})
        assert call(mine, "/requests", two, "key-three").status_code == 201
    assert len(place.ledger.requests()) == 4


def test_tables_of_the_first_version_are_brought_up_to_date(place: Place) -> None:
    mine = place.token_for("requests:write")
    with serving(place) as call:
        id = call(mine, "/requests", {"names": ["a"]}).json()["id"]
    with place.tables.writing() as connection:
        for name in ("owners", "recipes"):
            connection.execute(sa.text(f"DROP TABLE service_{name}"))
        for name in ("recipe", "recipe_sha256", "certificates"):
            connection.execute(sa.text(f"ALTER TABLE service_jobs DROP COLUMN {name}"))
        connection.execute(sa.text("UPDATE service_version SET version_num = '0001'"))
    tables = ServiceTables(place.where)
    with pytest.raises(InputError, match="older version"), tables.reading():
        pass
    tables.create()
    with serving(place) as call:
        assert call(mine, f"/requests/{id}/withdraw", {}).status_code == 404, (
            "nobody knows whose it is"
        )
        assert call(mine, "/requests", {"names": ["a"]}).status_code == 200, (
            "only its token can make that id of that key"
        )
        assert call(mine, f"/requests/{id}/withdraw", {}).status_code == 200
