"""What was released, of which model, by whom: the ledger says it, and every server goes on from
there.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.exported import save_age_model
from tests.sdk.serve.conftest import Api, Place

from unplug.core import InputError, OutputError
from unplug.plugins import load_checkpoint
from unplug.serve import Jobs, ServeRecipe
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
        name, before = values["recipe"]["name"], values["before"]
        began = before["weights"][-1] if before else digest(name)
        made = {
            "requests": values["requests"],
            "checkpoint": values["folder"],
            "weights": [began, digest(f"{name}{len(self.given)}")],
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
    with Api(place) as api:
        for number, body in enumerate(bodies):
            assert api.submit(f"key-{number:04}", body).status_code < 300
        job = api.ended()
    assert job["state"] == "done", job["error"]
    return str(job["id"])


def named(place: Place, name: str) -> Place:
    """A server of another recipe on the same ledger."""
    assert place.settings.recipe is not None
    recipe = replace(place.settings.recipe, name=name)
    return replace(place, settings=replace(place.settings, recipe=recipe))


def execute(place: Place, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(place.where)) as connection, connection:
        connection.execute(statement)


def state_of(place: Place, id: str) -> str:
    return place.ledger.requests()[id].state


def touched_by_both(place: Place) -> None:
    """A request that the models of both recipes hold."""
    place.ledger.add(ANNA["names"], id="T-1")
    for name in ("age", "other"):
        facts = {"model_sha256": digest(name), "samples": "1", "held_out": "0"}
        place.ledger.record("touched", ["T-1"], facts=facts)


def test_each_release_goes_on_from_the_one_before_it_of_its_own_model(
    place: Place, runner: Runner
) -> None:
    first = released(place, ANNA)
    released(named(place, "other"), BEA)
    released(place, {**BEA, "id": "T-3"})
    befores = [values["before"] for values in runner.given]
    assert befores[:2] == [None, None] and Path(befores[2]["checkpoint"]).name == first
    assert [values["recipe"]["name"] for values in runner.given] == ["age", "other", "age"]


def test_a_job_that_an_older_version_gave_up_after_its_release_is_still_gone_on_from(
    place: Place, runner: Runner
) -> None:
    first = released(place, ANNA)
    execute(place, "UPDATE service_jobs SET state = 'failed', error = 'its worker ended 5 times'")
    released(place, BEA)
    assert Path(runner.given[1]["before"]["checkpoint"]).name == first
    execute(place, "DELETE FROM service_jobs")
    with pytest.raises(AssertionError, match="InputError"):
        released(place, {**BEA, "id": "T-3"})


def test_a_request_that_two_models_hold_is_released_by_the_second(
    place: Place, runner: Runner
) -> None:
    touched_by_both(place)
    for _ in range(2):
        released(place)
        assert state_of(place, "T-1") == "open"
    assert len(runner.given) == 1, "this model has forgotten her already"
    released(named(place, "other"))
    assert state_of(place, "T-1") == "released"


def test_a_runner_that_does_not_say_of_which_model_it_is_stops_nobody_else(place: Place) -> None:
    """The runner of the tests returns no weights; one request is in two models."""
    touched_by_both(place)
    released(place, BEA)
    assert (state_of(place, "T-1"), state_of(place, "T-2")) == ("open", "released")


def test_the_ledgers_entry_and_the_end_of_the_job_are_one_act(
    place: Place, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is cut, both are there or neither; then it is done anew."""
    failed, real = threading.Event(), Jobs.complete

    def cut(self: Jobs, *args: Any, **more: Any) -> bool:
        done = real(self, *args, **more)
        if not failed.is_set():
            failed.set()
            states = [job.state for job in Jobs(place.tables).newest(9)]
            assert states == ["running"], "others see nothing yet"
            raise OutputError("the disk", "it is full")
        return done

    monkeypatch.setattr(Jobs, "complete", cut)
    released(place, ANNA)
    kinds = [entry.kind for entry in place.ledger.entries()]
    assert failed.is_set() and kinds == ["opened", "request", "release"] and len(runner.given) == 1


@pytest.mark.parametrize("fault", ["a key that others could read for a moment", "a lost fence"])
def test_what_was_computed_waits_until_the_ledger_takes_it_and_is_recorded_once(
    place: Place, runner: Runner, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    met, real = threading.Event(), Ledger.record

    def record(self: Ledger, kind: str, *args: Any, **more: Any) -> Any:
        if kind == "release" and not met.is_set():
            met.set()
            if fault == "a lost fence":
                execute(place, "UPDATE service_jobs SET fence = fence + 1, lease = 0")
            else:
                raise InputError("the key", "others can read it")
        return real(self, kind, *args, **more)

    monkeypatch.setattr(Ledger, "record", record)
    released(place, ANNA)
    assert met.is_set() and len(runner.given) == 1 and state_of(place, "T-1") == "released"
    assert [entry.kind for entry in place.ledger.entries()].count("release") == 1


def test_a_new_model_in_the_recipe_is_started_from(tmp_path: Path) -> None:
    old, new, left = (
        load_checkpoint(save_age_model(tmp_path / name, seed))
        for seed, name in enumerate(("old", "new", "left"))
    )
    weights = (old.sha256, left.sha256)
    before = Before(checkpoint=str(left.path), bundle=None, number=1, weights=weights)

    def start(path: Path, before: Before | None = before) -> str:
        recipe = ServeRecipe(name="age", checkpoint=str(path), data="synth:")
        return str(_start(recipe, before).sha256)

    assert start(old.path) == left.sha256 and start(tmp_path / "gone") == left.sha256
    assert start(new.path) == new.sha256, "it was trained anew, and what it may know is checked"
    with pytest.raises(InputError):
        start(tmp_path / "gone", None)


def test_two_recipes_of_one_name_are_refused_at_the_start(place: Place) -> None:
    other = replace(place.settings, folder=str(place.folder / "elsewhere"))
    jobs = Jobs(place.tables, recipe=other.recipe_key)
    deadline = time.monotonic() + 30
    with Api(place):
        while True:
            try:
                jobs.hold_name(2)
            except InputError as error:
                assert "another recipe or `folder` has that name" in str(error)
                assert "give this recipe another name" in str(error)
                break
            jobs.leave_name()
            assert time.monotonic() < deadline
    jobs.hold_name(2)
