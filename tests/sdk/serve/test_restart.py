"""The real thing, killed: a worker, and the whole service with all its processes; on SQLite and on
PostgreSQL.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import httpx
import psutil
import pytest
from tests.sdk.serve.conftest import Place
from tests.sdk.trust.ledger.conftest import _free_port

from unplug.core import write_json
from unplug.trust.ledger import check_ledger

pytestmark = pytest.mark.nightly


class Running:
    """A service as ``unplug serve`` starts it."""

    def __init__(self, place: Place, port: int) -> None:
        assert place.settings.recipe is not None
        recipe = place.folder / "recipe.json"
        write_json(recipe, asdict(place.settings.recipe))
        words = (
            f"--ledger {place.where} --recipe {recipe} --folder {place.settings.folder} "
            f"--port {port} --workers 2 --lease 2 --rate 1000 --burst 1000"
        )
        self.log = place.folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "unplug.sdk.cli", "serve", *words.split()],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.url = f"http://127.0.0.1:{port}"

    def until_ready(self) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        raise AssertionError(self.log.read_text()[-3000:])

    def workers(self) -> list[psutil.Process]:
        """Processes that answer requests."""
        children = psutil.Process(self.process.pid).children()
        return [item for item in children if "spawn_main" in " ".join(item.cmdline())]

    def kill_all(self) -> None:
        """kill -9 of the server and of whatever it started, as when the machine goes off."""
        with contextlib.suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.process.pid)
            for item in [*server.children(recursive=True), server]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    item.kill()
        self.process.wait(30)

    def end(self) -> None:
        """SIGTERM, as an operator ends it."""
        self.process.terminate()
        self.process.wait(60)


def submit_for(
    running: Running, place: Place, seconds: float, keys: list[str], told: dict[str, str]
) -> None:
    """Submits one after another, and each again with its key until it is acknowledged, as a client
    does.
    """
    until = time.monotonic() + seconds
    with httpx.Client(base_url=running.url, headers=place.headers, timeout=30) as client:
        for key in keys:
            while time.monotonic() < until + 60:
                try:
                    answer = client.post(
                        "/requests",
                        json={"names": ["subject:bea"]},
                        headers={"Idempotency-Key": key},
                    )
                except httpx.TransportError:
                    time.sleep(0.1)
                    continue
                if answer.status_code in (200, 201):
                    told[key] = answer.json()["id"]
                    break
            if time.monotonic() > until:
                return


def killed_and_nothing_lost(place: Place) -> None:
    port = _free_port()
    running = Running(place, port)
    running.until_ready()
    told: dict[str, str] = {}
    keys = [f"key-number-{number}" for number in range(10_000)]
    sender = threading.Thread(target=submit_for, args=(running, place, 20.0, keys, told))
    sender.start()
    time.sleep(3)
    victim = running.workers()[0]
    os.kill(victim.pid, signal.SIGKILL)  # uvicorn starts another
    time.sleep(4)
    running.kill_all()
    running = Running(place, port)
    running.until_ready()
    sender.join(120)
    assert not sender.is_alive() and len(told) > 3
    with httpx.Client(base_url=running.url, headers=place.headers, timeout=30) as client:
        deadline = time.monotonic() + 90
        while (
            client.get("/requests", params={"state": "open"}).json()["requests"]
            and time.monotonic() < deadline
        ):
            time.sleep(0.3)
    assert len(running.workers()) == 2
    running.end()
    ledger = place.ledger
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
    there = ledger.requests()
    assert set(told.values()) <= there.keys() and len(set(told.values())) == len(told), (
        "every one is there, once"
    )
    assert len(there) - len(told) <= 1, "but for the one that was under way"
    releases = [entry for entry in ledger.entries() if entry.kind == "release"]
    answered = collections.Counter(name for entry in releases for name in entry.requests)
    assert set(answered) == set(there) and set(answered.values()) == {1}, (
        "each is answered by one release"
    )
    jobs = [entry.facts["job"] for entry in releases]
    assert len(set(jobs)) == len(jobs)
    runs = [
        (path.parent.name, path.read_text().split())
        for path in Path(place.settings.folder, "jobs").glob("*/runs")
    ]
    assert all(fences == sorted(set(fences), key=int) for _, fences in runs), (
        "each taking has a fence of its own"
    )
    assert any(len(fences) > 1 for _, fences in runs), "one was gone on with"


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_a_killed_worker_and_a_killed_service_lose_and_double_nothing(
    where: str,
    make_place: Callable[..., Place],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNPLUG_CHEAP_SECONDS", "2")
    killed_and_nothing_lost(
        make_place(
            None if where == "sqlite" else request.getfixturevalue("postgresql"), automatic=True
        )
    )


@pytest.mark.parametrize("when", ["ready", "starting"])
def test_workers_end_with_their_server(place: Place, when: str) -> None:
    running = Running(place, _free_port())
    if when == "ready":
        running.until_ready()
    deadline = time.monotonic() + 120
    while len(workers := running.workers()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)  # and they have not imported anything yet
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait(30)
    _, alive = psutil.wait_procs(workers, timeout=40)
    assert len(workers) == 2 and alive == [], "else they hold the port, and the next start fails"


def test_every_line_of_the_log_is_json_without_an_address(place: Place) -> None:
    running = Running(place, _free_port())
    running.until_ready()
    httpx.get(f"{running.url}/requests?who=subject:anna", headers=place.headers)
    running.end()
    lines = [line for line in running.log.read_text().splitlines() if line.startswith("{")]
    assert lines and all(json.loads(line) for line in lines)
    assert "anna" not in running.log.read_text() and "127.0.0.1:" not in "".join(lines)
