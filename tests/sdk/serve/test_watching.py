"""What works in the background: whatever ends unasked is started again, and `/ready` says what does
not work.
"""

from __future__ import annotations

import asyncio
import ctypes
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from tests.sdk.serve.conftest import OPEN, Place, without_recipe

from unplug.core import OutputError
from unplug.serve import JobEvent, Jobs
from unplug.serve.app import make_app
from unplug.serve.hub import Hub
from unplug.serve.watching import StreamWatch
from unplug.trust.ledger import Ledger

ANNA = {"names": ["subject:anna-of-the-test"]}
SOON = 30.0


def submit(client: TestClient, key: str) -> int:
    return client.post("/requests", json=ANNA, headers={"Idempotency-Key": key}).status_code


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end_thread(name: str) -> None:
    """As when something that nobody thought of is raised in it."""
    (thread,) = (item for item in threading.enumerate() if item.name == name)
    assert (
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        )
        == 1
    )


def test_each_thread_and_task_that_ends_works_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def end_task(name: str) -> None:
        (task,) = (item for item in asyncio.all_tasks() if item.get_name() == name)
        task.cancel()

    def told() -> list[str]:
        return [
            str(getattr(item, "work", ""))
            for item in caplog.records
            if item.msg == "background work ended"
        ]

    with TestClient(make_app(place.settings), headers=place.headers) as client:
        assert client.portal is not None
        for number, name in enumerate(("inbox", "jobs", "hub", "batcher")):
            if name in ("inbox", "jobs"):
                end_thread(name)
            else:
                client.portal.call(end_task, name)
            until(lambda name=name: name in told())  # type: ignore[misc]
            until(lambda: client.get("/ready").status_code == 200)
            assert submit(client, f"key-number-{number}") == 201, name
        job = client.post("/releases").json()["id"]
        until(lambda: client.get(f"/releases/{job}").json()["state"] == "done")
        events = client.get("/events", headers={"last-event-id": "0-0"}).text
    assert told() == ["inbox", "jobs", "hub", "batcher"] and "event: done" in events


def test_ready_says_what_is_down(place: Place) -> None:
    async def end_for_good() -> None:
        for task in asyncio.all_tasks():
            if task.get_name() == "watch hub":
                task.cancel()

    with TestClient(make_app(place.settings), headers=place.headers) as client:
        assert client.get("/ready").json() == {
            "status": "ready",
            "database": True,
            "model": None,
            "down": [],
        }
        assert client.portal is not None
        client.portal.call(end_for_good)
        until(lambda: client.get("/ready").status_code == 503)
        assert (
            client.get("/ready").json()["down"] == ["hub"]
            and client.get("/health").status_code == 200
        )


def test_work_that_fails_again_and_again_is_told_as_down_until_it_works() -> None:
    watch, faults, done = (
        StreamWatch(pause_seconds=0.05),
        [OutputError("it", "is away"), ValueError("x")],
        threading.Event(),
    )

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

    def slow(self: Ledger, *args: object) -> object:
        entered.set()
        assert locked.wait(SOON)
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "add_all", slow)
    place = make_place(limits=replace(OPEN, total_seconds=2.0))
    with TestClient(make_app(without_recipe(place.settings)), headers=place.headers) as client:
        try:
            assert submit(client, "key-number-1") == 503 and entered.is_set()
            assert submit(client, "key-number-2") == 503
        finally:
            locked.set()
        until(lambda: client.get("/ready").status_code == 200)
        assert submit(client, "key-number-3") == 201
        assert submit(client, "key-number-1") == 200, "what had begun was added"
        assert submit(client, "key-number-2") == 201, (
            "what had not was given up, as its client was told"
        )


def test_a_locked_database_is_told_and_waited_for(place: Place) -> None:
    with TestClient(make_app(without_recipe(place.settings)), headers=place.headers) as client:
        held = sqlite3.connect(place.where, isolation_level=None)
        held.execute("BEGIN IMMEDIATE")
        sent = [
            threading.Thread(target=submit, args=(client, f"key-number-{number}"))
            for number in range(50)
        ]
        for thread in sent:
            thread.start()
        assert client.get("/ready").json() == {
            "status": "not ready",
            "database": False,
            "model": None,
            "down": [],
        }
        assert client.get("/requests").status_code == 200, "reading goes on"
        held.execute("ROLLBACK")
        held.close()
        for thread in sent:
            thread.join(SOON)
        assert client.get("/ready").status_code == 200
    assert len(place.ledger.requests()) == 50


def test_a_key_that_others_can_read_is_the_servers_fault_and_told(place: Place) -> None:
    key = place.folder / "ledger-key"
    with TestClient(make_app(without_recipe(place.settings)), headers=place.headers) as client:
        assert submit(client, "key-number-1") == 201
        key.chmod(0o644)
        said = client.post("/requests", json=ANNA, headers={"Idempotency-Key": "key-number-2"})
        assert said.status_code == 503 and str(place.folder) not in said.text
        assert client.get("/ready").status_code == 503
        key.chmod(0o600)
        assert client.get("/ready").status_code == 200 and submit(client, "key-number-2") == 201


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
    from types import SimpleNamespace

    monkeypatch.setattr(
        "unplug.serve.work.call_in_child", lambda *_, **__: SimpleNamespace(values=result)
    )
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        assert submit(client, "key-number-1") == 201
        job = client.post("/releases").json()["id"]
        until(lambda: client.get(f"/releases/{job}").json()["state"] == "failed")
        assert (
            client.get("/ready").status_code == 200 and place.ledger.entries()[-1].kind == "request"
        )
    assert Jobs(place.tables).counts() == {"failed": 1}


def test_a_release_that_finds_nothing_left_to_do_is_done(place: Place) -> None:
    """Two jobs were asked for, and the first answers all that is open when it begins."""
    with TestClient(make_app(place.settings), headers=place.headers) as client:
        first = Jobs(place.tables, recipe=place.settings.recipe_key).ask()[0].id
        until(lambda: client.get(f"/releases/{first}").json()["state"] == "done")
        assert client.get(f"/releases/{first}").json()["requests"] == []
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
        assert [item.event.kind for item in await hub.since(0)] == ["queued"], "readers see it once"
        watch.stop()
        await watch.end_tasks()

    asyncio.run(asyncio.wait_for(story(), SOON))
