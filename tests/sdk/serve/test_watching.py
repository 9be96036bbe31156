"""What works in the background: whatever ends unasked is started again, and `/ready` says what does
not work.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sdk.serve.conftest import OPEN, Api, Place, until

from unplug.core import OutputError
from unplug.serve import JobEvent, Jobs
from unplug.serve.hub import Hub
from unplug.serve.watching import StreamWatch
from unplug.trust.ledger import Ledger

SOON = 30.0


def end_thread(name: str) -> None:
    """As when something that nobody thought of is raised in it."""
    (thread,) = (one for one in threading.enumerate() if one.name == name)
    number, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error) == 1


def task(name: str) -> asyncio.Task[Any]:
    (one,) = (task for task in asyncio.all_tasks() if task.get_name() == name)
    return one


def answered(api: Api, number: int) -> int:
    return int(api.submit(f"key-number-{number}").status_code)


def is_ready(api: Api) -> bool:
    return api.get("/ready").status_code == 200


def test_each_thread_and_task_that_ends_works_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def end_task(name: str) -> None:
        task(name).cancel()

    def told() -> list[str]:
        ended = [line for line in caplog.records if line.msg == "background work ended"]
        return [str(getattr(line, "work", "")) for line in ended]

    names = ["inbox", "jobs", "hub", "batcher"]
    with Api(place) as api:
        assert api.portal is not None
        for number, name in enumerate(names):
            if name in ("inbox", "jobs"):
                end_thread(name)
            else:
                api.portal.call(end_task, name)
            until(lambda number=number: told() == names[: number + 1])
            until(lambda: is_ready(api))
            assert answered(api, number) == 201, name
        assert api.ended()["state"] == "done"
        events = api.get("/events", headers={"last-event-id": "0-0"}).text
    assert told() == names and "event: done" in events


READY = {"status": "ready", "database": True, "model": None, "down": []}


def test_ready_says_what_is_down(place: Place) -> None:
    async def end_for_good() -> None:
        task("watch hub").cancel()

    with Api(place) as api:
        assert api.get("/ready").json() == READY
        assert api.portal is not None
        api.portal.call(end_for_good)
        until(lambda: not is_ready(api))
        assert api.get("/ready").json()["down"] == ["hub"]
        assert api.get("/health").status_code == 200


def test_work_that_fails_again_and_again_is_told_as_down_until_it_works() -> None:
    watch, done = StreamWatch(pause_seconds=0.05), threading.Event()
    faults = [OutputError("it", "is away"), ValueError("x")]

    def run() -> None:
        if faults:
            raise faults.pop()
        done.wait(SOON)

    watch.thread("work", run)
    until(lambda: not faults)
    until(lambda: watch.down() == ())
    done.set()
    watch.stop()


def test_a_request_that_waited_too_long_takes_nobody_with_it(
    make_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is cancelled while the ledger is locked: the next ones are answered all the same."""
    locked, entered, real = threading.Event(), threading.Event(), Ledger.add_all

    def slow(self: Ledger, *args: Any) -> object:
        entered.set()
        assert locked.wait(SOON)
        return real(self, *args)

    monkeypatch.setattr(Ledger, "add_all", slow)
    place = make_place(limits=replace(OPEN, total_seconds=1.0))
    with Api(place, releases=False) as api:
        try:
            assert answered(api, 1) == 503 and entered.is_set()
            assert answered(api, 2) == 503
        finally:
            locked.set()
        until(lambda: is_ready(api))
        assert answered(api, 3) == 201
        assert answered(api, 1) == 200, "what had begun was added"
        assert answered(api, 2) == 201, "what had not was given up, as its client was told"


def test_a_locked_database_is_told_and_waited_for(place: Place) -> None:
    with Api(place, releases=False) as api, ThreadPoolExecutor(50) as clients:
        with contextlib.closing(sqlite3.connect(place.where, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            sent = [clients.submit(answered, api, number) for number in range(50)]
            down = {"status": "not ready", "database": False}
            assert api.get("/ready").json() == READY | down
            assert api.get("/requests").status_code == 200, "reading goes on"
        assert {client.result(SOON) for client in sent} == {201} and is_ready(api)
    assert len(place.ledger.requests()) == 50


def test_a_key_that_others_can_read_is_the_servers_fault_and_told(place: Place) -> None:
    key = place.folder / "ledger-key"
    with Api(place, releases=False) as api:
        key.chmod(0o644)
        refused = api.submit("key-number-1")
        assert refused.status_code == 503 and str(place.folder) not in refused.text
        assert not is_ready(api)
        key.chmod(0o600)
        assert is_ready(api) and answered(api, 1) == 201


@pytest.mark.parametrize(
    "result",
    [
        {"requests": [{}]},
        {"requests": ["strange"]},
        {"requests": [], "files": {"a": 1}},
        {"requests": [], "checkpoint": "/nope"},
        {"requests": [], "bundle": "a\0b"},
    ],
)
def test_a_runner_that_returns_nonsense_fails_its_job_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch, result: dict[str, object]
) -> None:
    made = SimpleNamespace(values=result)
    monkeypatch.setattr("unplug.serve.work.call_in_child", lambda *_, **__: made)
    with Api(place) as api:
        assert answered(api, 1) == 201
        assert api.ended()["state"] == "failed" and is_ready(api)
    assert place.ledger.entries()[-1].kind == "request"


def test_a_release_that_meets_nothing_left_to_do_is_done(place: Place) -> None:
    """Two jobs were asked for, and the first answers all that is open when it begins."""
    with Api(place) as api:
        job, _ = Jobs(place.tables, recipe=place.settings.recipe_key).ask()
        ended = api.ended(job.id)
    assert (ended["state"], ended["requests"]) == ("done", [])
    assert [entry.kind for entry in place.ledger.entries()] == ["opened"]


def test_the_hub_tells_again_what_could_not_be_told(place: Place) -> None:
    told: list[str] = []

    async def on_event(event: JobEvent) -> None:
        told.append(event.kind)
        if told == ["queued"]:
            raise OutputError("the database", "is away")

    async def story() -> None:
        hub = Hub(place.ledger, Jobs(place.tables), 0.01, on_event)
        await hub.start()
        watch = StreamWatch(pause_seconds=0.01)
        watch.task("hub", hub.run)
        await asyncio.to_thread(Jobs(place.tables).ask)
        while told != ["queued", "queued"]:
            await asyncio.sleep(0.01)
        assert [told.event.kind for told in await hub.since(0)] == ["queued"], "readers see it once"
        watch.stop()
        await watch.end_tasks()

    asyncio.run(asyncio.wait_for(story(), SOON))
