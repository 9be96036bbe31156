"""What was released, of which model, by whom: the ledger says it, and every server goes on from
there.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.exported import save_age_model
from tests.sdk.serve.conftest import Place

from unplug.core import InputError, OutputError
from unplug.plugins import load_checkpoint
from unplug.serve import Jobs, ServeRecipe
from unplug.serve.app import make_app
from unplug.serve.release_run import Before, _start
from unplug.trust.ledger import Ledger

ANNA = {"names": ["subject:anna-of-the-test"], "id": "T-1"}
BEA = {"names": ["subject:bea"], "id": "T-2"}


def digest(text: str) -> str:
    """That stands for the weights of a model."""
    return (text.encode().hex() + "0" * 64)[:64]


class Runner:
    """Stands for the child that computes: notes what it was given, and returns a model of a name of
    its own.
    """

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []

    def __call__(self, _: str, values: Mapping[str, Any], **__: Any) -> Any:
        self.given.append(values)
        before = values["before"]
        began = before["weights"][-1] if before else digest(values["recipe"]["name"])
        shipped = digest(f"{values['recipe']['name']}{len(self.given)}")
        made = {
            "requests": values["requests"],
            "checkpoint": values["folder"],
            "weights": [began, shipped],
            "files": {},
        }
        return SimpleNamespace(values=made)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner()
    monkeypatch.setattr("unplug.serve.work.call_in_child", made)
    return made


def released(place: Place, *bodies: Mapping[str, Any]) -> str:
    """Submits, has it released, and gives the job's id."""
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        for number, body in enumerate(bodies):
            assert (
                client.post(
                    "/requests", json=body, headers={"Idempotency-Key": f"key-{number:04}"}
                ).status_code
                < 300
            )
        job: str = client.post("/releases").json()["id"]
        deadline = time.monotonic() + 30
        while (found := client.get(f"/releases/{job}").json()).get("state") not in (
            "done",
            "failed",
        ):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        assert found["state"] == "done", found["error"]
        return job


def named(place: Place, name: str) -> Place:
    """A server of another recipe on the same ledger."""
    assert place.settings.recipe is not None
    return replace(
        place, settings=replace(place.settings, recipe=replace(place.settings.recipe, name=name))
    )


def test_each_release_goes_on_from_the_one_before_it_of_its_own_model(
    place: Place, runner: Runner
) -> None:
    age, other = place, named(place, "other")
    first = released(age, ANNA)
    released(other, BEA)
    released(age, {**BEA, "id": "T-3"})
    assert [
        values["before"] and Path(values["before"]["checkpoint"]).name for values in runner.given
    ] == [None, None, first]
    assert [values["recipe"]["name"] for values in runner.given] == ["age", "other", "age"]


def test_a_job_that_an_older_version_gave_up_after_its_release_is_still_gone_on_from(
    place: Place, runner: Runner
) -> None:
    first = released(place, ANNA)
    with sqlite3.connect(place.where) as connection:
        connection.execute(
            "UPDATE service_jobs SET state = 'failed', error = 'its worker ended 5 times without a "
            "word'"
        )
    connection.close()
    released(place, BEA)
    assert Path(runner.given[1]["before"]["checkpoint"]).name == first
    with sqlite3.connect(place.where) as connection:
        connection.execute("DELETE FROM service_jobs")
    connection.close()
    with pytest.raises(AssertionError, match="InputError"):
        released(place, {**BEA, "id": "T-3"})


def test_a_request_that_two_models_hold_is_released_by_the_second(
    place: Place, runner: Runner
) -> None:
    place.ledger.add(ANNA["names"], id="T-1")
    for name in ("age", "other"):
        place.ledger.record(
            "touched",
            ["T-1"],
            facts={"model_sha256": digest(name), "samples": "1", "held_out": "0"},
        )
    released(place)
    assert place.ledger.requests()["T-1"].state == "open"
    released(place)
    assert len(runner.given) == 1, "this model has forgotten her already"
    released(named(place, "other"))
    assert place.ledger.requests()["T-1"].state == "released"


def test_a_runner_that_does_not_say_of_which_model_it_is_stops_nobody_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner of the tests returns no weights; one request is in two models."""
    place.ledger.add(ANNA["names"], id="T-1")
    for name in ("age", "other"):
        place.ledger.record(
            "touched",
            ["T-1"],
            facts={"model_sha256": digest(name), "samples": "1", "held_out": "0"},
        )
    released(place, BEA)
    assert {id: item.state for id, item in place.ledger.requests().items()} == {
        "T-1": "open",
        "T-2": "released",
    }


def test_the_ledgers_entry_and_the_end_of_the_job_are_one_act(
    place: Place, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cut, both are there or neither; then it is done anew."""
    failed, real = threading.Event(), Jobs.complete

    def cut(self: Jobs, *args: Any, **said: Any) -> bool:
        done = real(self, *args, **said)
        if not failed.is_set():
            failed.set()
            assert [job.state for job in Jobs(place.tables).newest(9)] == ["running"], (
                "others see nothing yet"
            )
            raise OutputError("the disk", "it is full")
        return done

    monkeypatch.setattr(Jobs, "complete", cut)
    released(place, ANNA)
    kinds = [entry.kind for entry in place.ledger.entries()]
    assert failed.is_set() and kinds == ["opened", "request", "release"] and len(runner.given) == 1


def test_what_was_computed_waits_until_the_ledger_takes_it(
    place: Place, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that others could read for a moment costs no release."""
    refused, real = threading.Event(), Ledger.record

    def record(self: Ledger, kind: str, *args: Any, **said: Any) -> Any:
        if kind == "release" and not refused.is_set():
            refused.set()
            raise InputError("the key", "others can read it")
        return real(self, kind, *args, **said)

    monkeypatch.setattr(Ledger, "record", record)
    released(place, ANNA)
    assert (
        refused.is_set()
        and len(runner.given) == 1
        and place.ledger.requests()["T-1"].state == "released"
    )


def test_a_lost_fence_records_nothing(
    place: Place, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept, real = threading.Event(), Ledger.record

    def record(self: Ledger, kind: str, *args: Any, **said: Any) -> Any:
        if kind == "release" and not slept.is_set():
            slept.set()
            with sqlite3.connect(place.where) as connection:
                connection.execute("UPDATE service_jobs SET fence = fence + 1, lease = 0")
            connection.close()
        return real(self, kind, *args, **said)

    monkeypatch.setattr(Ledger, "record", record)
    released(place, ANNA)
    assert [entry.kind for entry in place.ledger.entries()].count("release") == 1


def test_a_new_model_in_the_recipe_is_started_from(tmp_path: Path) -> None:
    made = [
        save_age_model(tmp_path / name, seed) for seed, name in enumerate(("old", "new", "left"))
    ]
    old, new, left = map(load_checkpoint, made)
    weights = (old.sha256, left.sha256)
    before = Before(checkpoint=str(left.path), bundle=None, number=1, weights=weights)

    def start(path: Path) -> str:
        return str(
            _start(ServeRecipe(name="age", checkpoint=str(path), data="synth:"), before).sha256
        )

    assert start(old.path) == left.sha256 and start(tmp_path / "gone") == left.sha256
    assert start(new.path) == new.sha256, "it was trained anew, and what it may know is checked"
    with pytest.raises(InputError):
        _start(ServeRecipe(name="age", checkpoint=str(tmp_path / "gone"), data="synth:"), None)


def test_two_recipes_of_one_name_are_refused_at_the_start(
    place: Place, make_place: Callable[..., Place]
) -> None:
    with TestClient(make_app(place.settings), headers=place.headers):
        deadline = time.monotonic() + 30
        other = replace(place.settings, folder=str(place.folder / "elsewhere"))
        while True:
            try:
                Jobs(place.tables, recipe=other.recipe_key).hold_name(2)
            except InputError as error:
                assert "another recipe or `folder` has that name" in str(
                    error
                ) and "give this recipe another name" in str(error)
                break
            Jobs(place.tables, recipe=other.recipe_key).leave_name()
            assert time.monotonic() < deadline
    Jobs(place.tables, recipe=other.recipe_key).hold_name(2)
