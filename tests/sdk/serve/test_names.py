"""A request is answered only when all whom it names were found: it is told at once, or it stays
open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.sdk.serve.conftest import Place
from tests.sdk.serve.test_api import submit, until

from unplug.core import DataError, InputError
from unplug.serve import ServeRecipe, run_service
from unplug.serve.app import make_app
from unplug.serve.data_names import DataNames
from unplug.trust.ledger import Ledger

CASES = Path(__file__).resolve().parents[2] / "cases" / "serve-half-known"
DATA = "synth:n=40,subjects=20,seed=3"
HALF = ["subject:person-11", "subject:person-1O"]
Client = tuple[TestClient, Place]


@pytest.fixture
def asked(make_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("UNPLUG_CHEAP_SECONDS", "0.01")
    place = make_place(data=DATA)
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        yield client, place


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            json.loads((CASES / "half.json").read_text()),
            "1 of 2 names are unknown to the data (number 2)",
        ),
        (
            json.loads((CASES / "typo.json").read_text()),
            "1 of 1 names are unknown to the data (number 1)",
        ),
        ({"names": ["subject:person-3", " "]}, "1 of 2 names are empty (number 2)"),
        ({"names": ["person-3"]}, "1 of 1 names are unknown to the data (number 1)"),
        ({"names": ["subject:Person-3"]}, "1 of 1 names are unknown to the data (number 1)"),
    ],
)
def test_names_that_the_data_do_not_hold_are_told_at_once(
    asked: Client, body: Any, why: str
) -> None:
    client, place = asked
    refused = submit(client, "key-one-1", body)
    assert refused.status_code == 409 and refused.json() == {
        "status": 409,
        "detail": f"the request: {why}",
    }
    assert place.ledger.requests() == {} and "person" not in refused.text


def test_white_space_means_the_same_at_every_door(asked: Client) -> None:
    client, place = asked
    first = submit(
        client, "key-one-1", {"id": "T-1", "names": ["subject: person-12", "subject:person-12 "]}
    )
    assert (first.status_code, first.json()["names"]) == (201, 1)
    assert (
        submit(client, "key-two-2", {"id": "T-1", "names": ["subject:person-12"]}).status_code
        == 200
    )
    assert not place.ledger.add([" subject:person-12\n"], id="T-1")[1]


def test_a_name_in_another_unicode_form_and_one_of_a_spreadsheet(
    make_place: Callable[..., Place],
) -> None:
    place = make_place()
    (place.folder / "c.png").touch()
    with (place.folder / "labels.csv").open("a") as table:
        table.write("\nc.png,30,Jose\u0301\n")
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        assert (
            submit(client, "key-one-1", {"id": "T-1", "names": ["subject:Jos\u00e9"]}).status_code
            == 201
        )
        assert (
            submit(client, "key-two-2", {"id": "T-1", "names": ["subject:Jose\u0301 "]}).status_code
            == 200
        )
        refused = submit(client, "key-three", {"names": ["subject:1.00012E+11"]})
        assert refused.status_code == 409 and "a spreadsheet rounded it" in refused.json()["detail"]
        day = client.get("/deadlines").json()["today"]
        assert client.get("/requests/T-1").json()["received"] == day


def states(ledger: Ledger) -> dict[str, str]:
    return {id: request.state for id, request in ledger.requests().items()}


def test_half_a_request_stays_open_until_its_other_name_is_withdrawn(asked: Client) -> None:
    """It came by a door that knew no data; one of the others may be of another model's data."""
    client, place = asked
    place.ledger.add(HALF, id="half")
    place.ledger.add(["subject:person-5", "subject:of-another-model"], id="two-models")
    job = until(client, client.post("/releases").json()["id"], "done", "failed")
    assert (job["state"], job["error"], job["requests"]) == ("failed", "InputError", [])
    told = (Path(place.settings.folder) / "jobs" / job["id"] / "error.txt").read_text()
    assert "2 name somebody else (half: 1 unknown)" in told and "person" not in told.replace(
        "--person", ""
    )
    place.ledger.add(["subject:person-3"], id="whole")
    job = until(client, client.post("/releases").json()["id"], "done", "failed")
    assert job["requests"] == ["whole"]
    assert states(place.ledger) == {"half": "open", "two-models": "open", "whole": "released"}

    wrong = client.post("/requests/half/withdraw", json={"names": ["subject:person-10"]})
    assert wrong.status_code == 409 and "does not hold 1 of the 1 names" in wrong.json()["detail"]
    for _ in range(2):
        left = client.post(
            "/requests/half/withdraw", json={"names": [HALF[1]], "reason": "mistyped"}
        ).json()
        assert (left["state"], left["names"]) == ("open", 1)
    assert [entry.kind for entry in place.ledger.requests()["half"].history] == [
        "request",
        "withdrawn",
    ]
    job = until(client, client.post("/releases").json()["id"], "done", "failed")
    assert job["requests"] == ["half"] and states(place.ledger)["half"] == "released"
    assert submit(client, "key-one-1", {"id": "half", "names": HALF}).status_code == 200, (
        "it is the same request still"
    )


def test_the_release_itself_answers_whole_requests_alone(
    asked: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a job was begun by a version that took every request for one it can answer."""
    from unplug.serve import release_run

    _, place = asked
    assert place.settings.recipe is not None
    seen: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "unplug.plugins.load_checkpoint", lambda *_: SimpleNamespace(sha256="0" * 64), raising=False
    )
    monkeypatch.setattr(
        "unplug.sdk.forgetting.tasks.task_of",
        lambda *_, **__: SimpleNamespace(image_size=16),
        raising=False,
    )
    monkeypatch.setattr(
        "unplug.sdk.releasing.release", lambda *args, **_: seen.append(args[2]), raising=False
    )
    for id, names in {
        "whole": ["subject:person-3 "],
        "half": HALF,
        "typo": ["subject:persn-12"],
    }.items():
        place.ledger.add(names, id=id)
    values = {"ledger": place.where, "requests": ["whole", "half", "typo"]}
    answered, _ = release_run._release(
        place.settings.recipe, values, None, tmp_path / "o", tmp_path / "w", print
    )
    assert tuple(answered) == ("whole",) and seen == [("face-03", "face-23")]


def test_data_that_grow_shrink_or_go_away(
    make_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.serve.data_names.AGAIN_SECONDS", 0.0)
    place = make_place()
    table = place.folder / "labels.csv"
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        names = {"names": ["subject:cleo"]}
        assert submit(client, "key-one-1", names).status_code == 409
        (place.folder / "c.png").touch()
        before = table.read_text()
        table.write_text(f"{before}\nc.png,30,cleo\n")
        assert submit(client, "key-one-1", names).status_code == 201, (
            "the list is read again before somebody is a stranger"
        )
        table.write_text(before)
        assert submit(client, "key-one-1", names).status_code == 200, (
            "a lost answer is asked for again"
        )
        table.unlink()
        away = submit(client, "key-two-2", {"names": ["subject:dora"]})
        assert (
            away.status_code == 503
            and away.headers["retry-after"]
            and str(place.folder) not in away.text
        )
    with pytest.raises(DataError, match=r"labels\.csv"):  # and a server does not start on them
        run_service(
            replace(place.settings, folder=str(place.folder / "new")), host="127.0.0.1", port=1
        )
    assert not (place.folder / "new").exists()


def test_paths_of_a_recipe_lead_from_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, recipe = (
        Path("~").expanduser(),
        {"schema": "unplug-serve/1", "name": "age", "checkpoint": "age"},
    )
    monkeypatch.chdir("/")

    def loaded(**more: str) -> ServeRecipe:
        (tmp_path / "recipe.json").write_text(json.dumps(recipe | {"data": DATA} | more))
        return ServeRecipe.load(tmp_path / "recipe.json")

    places = {
        "csv:no.csv": f"csv:{tmp_path}/no.csv",
        "webdataset:a/{0..3}.tar": f"webdataset:{tmp_path}/a/{{0..3}}.tar",
        "csv:/a/b.csv": "csv:/a/b.csv",
        "csv:~/b.csv": f"csv:{home}/b.csv",
        DATA: DATA,
    }
    assert {data: loaded(data=data).data for data in places} == places
    keys = {
        "key.pem": f"{tmp_path}/key.pem",
        "/a/key.pem": "/a/key.pem",
        "env:KEY": "env:KEY",
        "command:a b": "command:a b",
    }
    assert {sign: loaded(sign=sign).sign for sign in keys} == keys
    (tmp_path / "recipe.json").write_text(
        json.dumps(recipe | {"data": DATA})[:-1] + ', "name": "other"}'
    )
    with pytest.raises(InputError, match="twice"):
        ServeRecipe.load(tmp_path / "recipe.json")


def test_who_asks_for_strangers_does_not_have_the_data_listed_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, listed = DataNames(DATA), list[int]()
    real = DataNames.now
    monkeypatch.setattr(DataNames, "now", lambda self: (listed.append(1), real(self))[1])
    for _ in range(5):
        assert names.known(["subject:nobody"]).alike("subject:nobody") == ()
    assert (
        names.known(["subject:person-3 "]).alike("subject: person-3") == ("subject:person-3",)
        and len(listed) == 1
    )
