"""A request is answered only when all whom it names were met: it is told at once, or it stays
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
from tests.sdk.serve.conftest import Api, Place

from unplug.core import DataError, InputError
from unplug.serve import ServeRecipe, release_run, run_service
from unplug.serve.data_names import DataNames

CASES = Path(__file__).resolve().parents[2] / "cases" / "serve-half-known"
DATA = "synth:n=40,subjects=20,seed=3"
HALF = ["subject:person-11", "subject:person-1O"]
UNKNOWN = "1 of 1 names are unknown to the data (number 1)"


@pytest.fixture
def known(make_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("UNPLUG_CHEAP_SECONDS", "0.01")
    return make_place(data=DATA)


@pytest.fixture
def api(known: Place) -> Iterator[Api]:
    with Api(known) as api:
        yield api


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            json.loads((CASES / "half.json").read_text()),
            "1 of 2 names are unknown to the data (number 2)",
        ),
        (json.loads((CASES / "typo.json").read_text()), UNKNOWN),
        ({"names": ["subject:person-3", " "]}, "1 of 2 names are empty (number 2)"),
        ({"names": ["person-3"]}, UNKNOWN),
        ({"names": ["subject:Person-3"]}, UNKNOWN),
    ],
)
def test_names_that_the_data_do_not_hold_are_told_at_once(
    api: Api, known: Place, body: Any, why: str
) -> None:
    refused = api.submit("key-one-1", body)
    assert refused.status_code == 409
    assert refused.json() == {"status": 409, "detail": f"the request: {why}"}
    assert known.ledger.requests() == {} and "person" not in refused.text


def test_a_name_is_one_however_it_is_written(make_place: Callable[..., Place]) -> None:
    place = make_place()
    (place.folder / "c.png").touch()
    with (place.folder / "labels.csv").open("a") as table:
        table.write("\nc.png,30,Jose\u0301\n")
    with Api(place) as api:

        def status(key: str, *names: str) -> int:
            return int(api.submit(key, {"id": "T-1", "names": names}).status_code)

        assert status("key-one-1", "subject: Jos\u00e9", "subject:Jos\u00e9 ") == 201
        assert status("key-two-2", "subject:Jose\u0301 ") == 200
        assert not place.ledger.add([" subject:Jose\u0301\n"], id="T-1")[1]
        request = api.get("/requests/T-1").json()
        assert request["names"] == 1
        assert request["received"] == api.get("/deadlines").json()["today"]
        refused = api.submit("key-three", {"names": ["subject:1.00012E+11"]})
        assert refused.status_code == 409 and "a spreadsheet rounded it" in refused.json()["detail"]


def states(place: Place) -> dict[str, str]:
    return {id: request.state for id, request in place.ledger.requests().items()}


def test_half_a_request_stays_open_until_its_other_name_is_withdrawn(
    api: Api, known: Place
) -> None:
    """It came by a door that knew no data; one of the others may be of another model's data."""
    known.ledger.add(HALF, id="half")
    known.ledger.add(["subject:person-5", "subject:of-another-model"], id="two-models")
    job = api.ended()
    assert (job["state"], job["error"], job["requests"]) == ("failed", "InputError", [])
    told = (Path(known.settings.folder) / "jobs" / job["id"] / "error.txt").read_text()
    assert "2 name somebody else (half: 1 unknown)" in told
    assert "person" not in told.replace("--person", "")
    known.ledger.add(["subject:person-3"], id="whole")
    assert api.ended()["requests"] == ["whole"]
    assert states(known) == {"half": "open", "two-models": "open", "whole": "released"}

    wrong = api.post("/requests/half/withdraw", json={"names": ["subject:person-10"]})
    assert wrong.status_code == 409 and "does not hold 1 of the 1 names" in wrong.json()["detail"]
    for _ in range(2):
        mistyped = {"names": [HALF[1]], "reason": "mistyped"}
        left = api.post("/requests/half/withdraw", json=mistyped).json()
        assert (left["state"], left["names"]) == ("open", 1)
    kinds = [entry.kind for entry in known.ledger.requests()["half"].history]
    assert kinds == ["request", "withdrawn"]
    assert api.ended()["requests"] == ["half"] and states(known)["half"] == "released"
    again = api.submit("key-one-1", {"id": "half", "names": HALF})
    assert again.status_code == 200, "it is the same request still"


def test_the_release_itself_answers_whole_requests_alone(
    known: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a job was begun by a version that took every request for one it can answer."""
    assert known.settings.recipe is not None
    seen: list[tuple[str, ...]] = []
    for name, stand_in in (
        ("unplug.plugins.load_checkpoint", lambda *_: SimpleNamespace(sha256="0" * 64, record={})),
        (
            "unplug.sdk.forgetting.tasks.task_of",
            lambda *_, **__: SimpleNamespace(image_size=16),
        ),
        ("unplug.sdk.releasing.release", lambda *args, **_: seen.append(args[2])),
    ):
        monkeypatch.setattr(name, stand_in, raising=False)
    names = {"whole": ["subject:person-3 "], "half": HALF, "typo": ["subject:persn-12"]}
    for id in names:
        known.ledger.add(names[id], id=id)
    values = {"ledger": known.where, "requests": [*names]}
    answered, _ = release_run._release(
        known.settings.recipe, values, None, tmp_path / "o", tmp_path / "w", print
    )
    assert tuple(answered) == ("whole",) and seen == [("face-03", "face-23")]


def test_data_that_grow_shrink_or_go_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.serve.data_names.AGAIN_SECONDS", 0.0)
    table, names = place.folder / "labels.csv", {"names": ["subject:cleo"]}
    before = table.read_text()
    with Api(place) as api:
        assert api.submit("key-one-1", names).status_code == 409
        (place.folder / "c.png").touch()
        table.write_text(f"{before}\nc.png,30,cleo\n")
        # the list is read again before somebody is a stranger
        assert api.submit("key-one-1", names).status_code == 201
        table.write_text(before)
        assert api.submit("key-one-1", names).status_code == 200, "a lost answer, asked for again"
        table.unlink()
        away = api.submit("key-two-2", {"names": ["subject:dora"]})
        assert away.status_code == 503 and away.headers["retry-after"]
        assert str(place.folder) not in away.text
    new = replace(place.settings, folder=str(place.folder / "new"))
    with pytest.raises(DataError, match=r"labels\.csv"):  # and a server does not start on them
        run_service(new, host="127.0.0.1", port=1)
    assert not (place.folder / "new").exists()


def test_paths_of_a_recipe_lead_from_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    file, needed = tmp_path / "recipe.json", {"schema": "unplug-serve/1", "name": "age"}
    needed |= {"checkpoint": "age", "data": DATA}

    def loaded(**more: str) -> ServeRecipe:
        file.write_text(json.dumps(needed | more))
        return ServeRecipe.load(file)

    for data, place in {
        "csv:no.csv": f"csv:{tmp_path}/no.csv",
        "webdataset:a/{0..3}.tar": f"webdataset:{tmp_path}/a/{{0..3}}.tar",
        "csv:/a/b.csv": "csv:/a/b.csv",
        "csv:~/b.csv": f"csv:{Path.home()}/b.csv",
        DATA: DATA,
    }.items():
        assert loaded(data=data).data == place
    assert loaded(sign="key.pem").sign == f"{tmp_path}/key.pem"
    for sign in ("/a/key.pem", "env:KEY", "command:a b"):
        assert loaded(sign=sign).sign == sign
    file.write_text(json.dumps(needed)[:-1] + ', "name": "other"}')
    with pytest.raises(InputError, match="twice"):
        ServeRecipe.load(file)


def test_who_asks_for_strangers_does_not_have_the_data_listed_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, listed = DataNames(DATA), list[int]()
    real = DataNames.now
    monkeypatch.setattr(DataNames, "now", lambda self: (listed.append(1), real(self))[1])
    for _ in range(5):
        assert names.known(["subject:nobody"]).alike("subject:nobody") == ()
    known = names.known(["subject:person-3 "])
    assert known.alike("subject: person-3") == ("subject:person-3",) and len(listed) == 1
