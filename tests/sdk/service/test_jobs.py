"""The queue: one job at a time, leases that end, fences that stop whoever slept."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from tests.sdk.service.conftest import Place

from unplug.core import InputError
from unplug.sdk.service import Jobs, ServiceTables
from unplug.sdk.service.jobs import MOST_ATTEMPTS


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_one_job_waits_and_one_runs(anywhere: Place) -> None:
    jobs = Jobs(anywhere.tables)
    assert jobs.claim("w", 10) is None
    first, new = jobs.ask()
    assert new and jobs.ask() == (first, False), "one that waits covers whoever asks meanwhile"
    taken = jobs.claim("w", 10)
    assert taken is not None and taken.id == first.id and (taken.fence, taken.attempts, taken.state) == (1, 1, "running")
    second, new = jobs.ask()
    assert new and second.id != first.id, "one that has begun covers nobody new"
    assert jobs.claim("x", 10) is None, "one at a time"
    assert jobs.pin(taken, ["A", "B"]) and jobs.report(taken, {"done": 1}) and jobs.keep_result(taken, {"requests": ["A"]})
    assert jobs.finish(taken)
    done = jobs.get(first.id)
    assert done is not None and done.state == "done" and done.requests == ("A", "B") and done.result == {"requests": ["A"]}
    then = jobs.claim("x", 10)
    assert then is not None and then.id == second.id
    assert [event.kind for event in jobs.events(0)] == ["queued", "taken", "queued", "begun", "progress", "done", "taken"]
    assert [event.number for event in jobs.events(0)] == list(range(1, 8)) and jobs.last_event() == 7
    assert [event.kind for event in jobs.events(5, job=first.id)] == ["done"]
    assert jobs.counts() == {"done": 1, "running": 1} and [item.id for item in jobs.newest(1)] == [second.id]


def test_who_lost_a_job_changes_nothing_any_more(anywhere: Place) -> None:
    clock = Clock()
    jobs = Jobs(anywhere.tables, clock)
    jobs.ask()
    slept = jobs.claim("slept", 10)
    clock.now += 9
    assert slept is not None and jobs.renew(slept, 10) and jobs.claim("other", 10) is None
    clock.now += 11
    other = jobs.claim("other", 10)
    assert other is not None and (other.id, other.fence, other.attempts) == (slept.id, 2, 2)
    assert not any((
        jobs.renew(slept, 10), jobs.pin(slept, ["Z"]), jobs.report(slept, {}), jobs.keep_result(slept, {"requests": ["Z"]}),
        jobs.give_back(slept), jobs.finish(slept, error="Z"), jobs.finish(slept),
    ))  # fmt: skip
    assert jobs.get(slept.id) == other, "not one word of the first one counted"
    assert jobs.finish(other) and not jobs.finish(other), "an end is an end"


def test_a_job_that_is_given_back_is_taken_at_once_and_not_counted(place: Place) -> None:
    jobs = Jobs(place.tables)
    jobs.ask()
    taken = jobs.claim("w", 1000)
    assert taken is not None and jobs.give_back(taken)
    again = jobs.claim("x", 1000)
    assert again is not None and (again.attempts, again.fence) == (1, 2)


def test_a_job_that_kills_its_workers_is_given_up(place: Place) -> None:
    clock = Clock()
    jobs = Jobs(place.tables, clock)
    asked, _ = jobs.ask()
    for _ in range(MOST_ATTEMPTS):
        assert jobs.claim("w", 1) is not None
        clock.now += 2
    assert jobs.claim("w", 1) is None
    given_up = jobs.get(asked.id)
    assert given_up is not None and given_up.state == "failed" and "ended 5 times without a word" in str(given_up.error)


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
