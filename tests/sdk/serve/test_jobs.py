"""The queue: one job at a time, leases that end, fences that stop whoever slept."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.sdk.serve.conftest import Api, Place

from unplug.core import InputError
from unplug.serve import Jobs, ReleaseJob, ServiceTables
from unplug.serve.jobs import MOST_ATTEMPTS, RecipeKey
from unplug.serve.tables import jobs as table


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def complete(place: Place, jobs: Jobs, job: ReleaseJob, **said: Any) -> bool:
    with place.tables.writing() as connection:
        return jobs.complete(connection, job, **said)


def claimed(jobs: Jobs, worker: str, lease: float = 10) -> ReleaseJob:
    job = jobs.claim(worker, lease)
    assert job is not None
    return job


def got(jobs: Jobs, id: str) -> ReleaseJob:
    job = jobs.get(id)
    assert job is not None
    return job


def test_one_job_waits_and_one_runs(anywhere: Place) -> None:
    jobs = Jobs(anywhere.tables)
    assert jobs.claim("w", 10) is None
    first, new = jobs.ask()
    assert new and jobs.ask() == (first, False), "one that waits covers whoever asks meanwhile"
    taken = claimed(jobs, "w")
    assert taken.id == first.id
    assert (taken.fence, taken.attempts, taken.state) == (1, 1, "running")
    second, new = jobs.ask()
    assert new and second.id != first.id, "one that has begun covers nobody new"
    assert jobs.claim("x", 10) is None, "one at a time"
    assert jobs.pin(taken, ["A", "B"]) and jobs.report(taken, {"done": 1})
    assert jobs.keep_result(taken, {"requests": ["A"]}) and complete(anywhere, jobs, taken)
    done = got(jobs, first.id)
    assert (done.state, done.requests) == ("done", ("A", "B"))
    assert done.result == {"requests": ["A"]} and claimed(jobs, "x").id == second.id
    kinds = ["queued", "taken", "queued", "begun", "progress", "done", "taken"]
    assert [(event.number, event.kind) for event in jobs.events(0)] == [*enumerate(kinds, 1)]
    assert jobs.last_event() == 7
    assert [event.kind for event in jobs.events(5, job=first.id)] == ["done"]
    assert jobs.counts() == {"done": 1, "running": 1}
    assert [job.id for job in jobs.newest(1)] == [second.id]


def test_who_lost_a_job_changes_nothing_any_more(anywhere: Place) -> None:
    clock = Clock()
    jobs = Jobs(anywhere.tables, clock)
    jobs.ask()
    slept = claimed(jobs, "slept")
    clock.now += 9
    assert jobs.renew(slept, 10) and jobs.claim("other", 10) is None
    clock.now += 11
    other = claimed(jobs, "other")
    assert (other.id, other.fence, other.attempts) == (slept.id, 2, 2)
    assert not any(
        (
            jobs.renew(slept, 10),
            jobs.pin(slept, ["Z"]),
            jobs.report(slept, {}),
            jobs.keep_result(slept, {"requests": ["Z"]}),
            jobs.give_back(slept),
            jobs.fail(slept, "Z"),
            complete(anywhere, jobs, slept),
        )
    )
    assert jobs.get(slept.id) == other, "not one word of the first one counted"
    assert complete(anywhere, jobs, other) and not complete(anywhere, jobs, other), (
        "an end is an end"
    )
    assert not jobs.fail(other, "Z")


def test_a_job_that_is_given_back_is_taken_at_once_and_not_counted(place: Place) -> None:
    jobs = Jobs(place.tables)
    jobs.ask()
    assert jobs.give_back(claimed(jobs, "w", 1000))
    again = claimed(jobs, "x", 1000)
    assert (again.attempts, again.fence) == (1, 2)


def test_a_job_that_kills_its_workers_is_given_up(place: Place) -> None:
    clock = Clock()
    jobs = Jobs(place.tables, clock)
    asked, _ = jobs.ask()
    for _ in range(MOST_ATTEMPTS):
        claimed(jobs, "w", 1)
        clock.now += 2
    assert jobs.claim("w", 1) is None
    given_up = got(jobs, asked.id)
    assert given_up.state == "failed" and "ended 5 times without a word" in str(given_up.error)


def test_a_job_with_a_result_is_never_given_up(place: Place) -> None:
    clock = Clock()
    jobs = Jobs(place.tables, clock)
    jobs.ask()
    for number in range(3 * MOST_ATTEMPTS):
        taken = claimed(jobs, "w", 1)
        assert taken.attempts == number + 1
        assert number > 0 or jobs.keep_result(taken, {"requests": ["A"]})
        clock.now += 2
    assert jobs.counts() == {"running": 1}


def test_certificates_are_work_of_their_own_that_can_fail_without_the_release(place: Place) -> None:
    clock = Clock()
    jobs = Jobs(place.tables, clock)
    jobs.ask()
    job = claimed(jobs, "w")
    assert complete(place, jobs, job, certify=True)
    jobs.ask()
    taken = claimed(jobs, "w")
    assert (taken.id, taken.state, taken.certificates) == (job.id, "done", "due")
    then = claimed(jobs, "x")
    assert then.id != job.id and jobs.fail(then, "Z"), "others go on meanwhile"
    assert not jobs.fail(taken, "Z") and not complete(place, jobs, taken), "its end was before"
    for _ in range(MOST_ATTEMPTS):
        clock.now += 20
        taken = jobs.claim("w", 10) or taken
    assert taken.fence == 1 + MOST_ATTEMPTS
    given_up = got(jobs, job.id)
    assert (given_up.state, given_up.certificates) == ("done", "failed")
    assert not jobs.certified(taken, {"a": "b"}), "and who slept changes nothing"


def test_servers_of_two_recipes_take_their_own_jobs_alone(anywhere: Place) -> None:
    age, plugin = (
        Jobs(anywhere.tables, recipe=RecipeKey(name=name, sha256=name))
        for name in ("age", "plugin")
    )
    first, _ = age.ask()
    assert first.model == "age" and plugin.claim("p", 10) is None
    second, new = plugin.ask()
    assert new and second.id != first.id
    # neither waits for the other
    assert (claimed(age, "a").id, claimed(plugin, "p").id) == (first.id, second.id)


def test_a_name_stands_for_one_recipe_and_goes_to_the_next_with_what_waits(place: Place) -> None:
    clock = Clock()
    old, new = (
        Jobs(place.tables, clock, RecipeKey(name="age", sha256=text)) for text in ("old", "new")
    )
    nobodys, _ = Jobs(place.tables, clock).ask()
    old.hold_name(10)
    taken = claimed(old, "w", 5)
    assert taken.id == nobodys.id, "of a version that did not say whose it is"
    clock.now += 9
    with pytest.raises(InputError, match="another recipe or `folder` has that name"):
        new.hold_name(10)
    old.hold_name(10)
    clock.now += 11
    new.hold_name(10)
    again = new.claim("v", 5)
    assert again == replace(taken, fence=2, attempts=2), (
        "the operator changed the recipe: the job goes on"
    )
    with pytest.raises(InputError, match="another recipe"):
        old.hold_name(10)
    new.leave_name()
    old.hold_name(10)


def test_tables_of_a_newer_version_and_none_are_refused(place: Place) -> None:
    def write(statement: str) -> None:
        with contextlib.closing(sqlite3.connect(place.where)) as connection, connection:
            connection.execute(statement)

    write("UPDATE service_version SET version_num = '9999'")
    with pytest.raises(InputError, match="does not know"):
        Jobs(ServiceTables(place.where)).ask()
    write("DELETE FROM service_version")
    with pytest.raises(InputError, match="no service was set up there"):
        Jobs(ServiceTables(place.where)).ask()


def ended(place: Place, files: Any) -> str:
    """The id of a release that is done, whose runner told of these files."""
    jobs = Jobs(place.tables)
    jobs.ask()
    job = claimed(jobs, "w")
    assert jobs.keep_result(job, {"requests": [], "files": files}) and complete(place, jobs, job)
    return job.id


def test_a_bundle_is_given_away_until_a_later_release_is_done(place: Place) -> None:
    def made(text: str) -> str:
        id = ended(place, {})
        folder = Path(place.settings.folder) / "jobs" / id
        folder.mkdir(parents=True)
        files = {name: str(folder / name) for name in ("age.zip", "certificate-3-R-1.html")}
        for path in files.values():
            Path(path).write_text(text)
        with place.tables.writing() as connection:
            result = json.dumps({"requests": [], "files": files})
            connection.execute(sa.update(table).where(table.c.id == id).values(result=result))
        return id

    with Api(place, releases=False) as api:

        def files(id: str) -> list[str]:
            files: list[str] = api.job(id)["files"]
            jobs = {job["id"]: job for job in api.get("/releases").json()["jobs"]}
            assert jobs[id]["files"] == files
            return files

        def fetch(id: str, name: str = "age.zip") -> Any:
            return api.get(f"/releases/{id}/files/{name}")

        first = made("one")
        assert fetch(first).text == "one" and len(files(first)) == 2
        second = made("two")
        gone = fetch(first)
        assert gone.status_code == 410 and "later release" in gone.json()["detail"]
        assert fetch(first, "certificate-3-R-1.html").text == "one", "it certifies still"
        assert files(first) == ["certificate-3-R-1.html"] and len(files(second)) == 2
        assert fetch(second).text == "two" and fetch(first, "other.zip").status_code == 404


@pytest.mark.parametrize(
    "files", [None, 5, ["a"], {"a": 1}, {"\ud800": "/x"}, {"a\nb": "/x"}, {"a": "x\0"}, {"a": None}]
)
def test_what_a_runner_tells_of_files_takes_no_list_down(place: Place, files: Any) -> None:
    id = ended(place, files)
    with Api(place, releases=False) as api:
        assert api.get("/releases").json()["jobs"][0]["files"] == api.job(id)["files"] == []
        assert api.get(f"/releases/{id}/files/a").status_code == 404
