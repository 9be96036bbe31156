"""The service, killed at random moments from the first request to the last certificate: each
request is released once.

UNPLUG_KILLS=100 UNPLUG_KILL_SEED=1 python -m pytest -s tests/sdk/serve/test_kills.py
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.sdk.serve.conftest import Place
from tests.sdk.serve.signing_job import BEFORE
from tests.sdk.serve.test_restart import Running
from tests.sdk.trust.certificates.conftest import whole_bundle
from tests.sdk.trust.ledger.conftest import _free_port

from unplug.core import read_json
from unplug.trust.bundle import load_signer, make_key
from unplug.trust.certificates import CertificatePolicy, check_certificate
from unplug.trust.ledger import check_ledger

pytestmark = pytest.mark.nightly
KILLS = int(os.environ.get("UNPLUG_KILLS", "6"))
SEED = int(os.environ.get("UNPLUG_KILL_SEED", "1"))
REQUESTS = 150 if KILLS >= 100 else 20
MOST_SECONDS = 6.0
"""Until it is killed: a release and its certificates take about four."""
STARTING = 0.2
"""Share of kills that come while it starts; the others count from when it is ready."""
LOOSE = CertificatePolicy(max_auc_above=1.0, max_auc_below=1.0)


def people(folder: Path) -> str:
    """Data of as many people as there are requests; nobody looks at a picture."""
    folder.mkdir()
    rows = [(f"face-{number}", f"person-{number}") for number in range(REQUESTS)]
    for id, _ in rows:
        (folder / id).touch()
    lines = ["path,age,subject", *(f"{id},30,{subject}" for id, subject in rows)]
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    return f"csv:{folder / 'labels.csv'}"


def submit_all(
    url: str, place: Place, pause: float, told: dict[str, str], stop: threading.Event
) -> None:
    """Each request, again with its key until it is acknowledged."""
    with httpx.Client(base_url=url, headers=place.headers, timeout=30) as client:
        for number in range(REQUESTS):
            body, key = {"names": [f"subject:person-{number}"]}, f"key-number-{number}"
            while key not in told and not stop.wait(pause):
                try:
                    answer = client.post("/requests", json=body, headers={"Idempotency-Key": key})
                except httpx.TransportError:
                    continue
                if answer.status_code in (200, 201):
                    told[key] = answer.json()["id"]


def settled(url: str, place: Place) -> bool:
    """Whether nobody waits and no certificate is due."""
    with httpx.Client(base_url=url, headers=place.headers, timeout=30) as client:
        if client.get("/requests", params={"state": "open"}).json()["requests"]:
            return False
        jobs = client.get("/releases", params={"limit": 500}).json()["jobs"]
        assert all(job["state"] != "failed" for job in jobs), jobs
        told = [path.read_text() for path in Path(place.settings.folder).glob("jobs/*/error.txt")]
        assert all(job["certificates"] != "failed" for job in jobs), told
        return all(job["certificates"] == "done" for job in jobs if job["requests"])


def test_killed_at_random_moments(make_place: Callable[..., Place], tmp_path: Path) -> None:
    whole_bundle(tmp_path / "whole").rename(tmp_path / "made")
    make_key(tmp_path / "key")
    place = make_place(
        data=people(tmp_path / "faces"),
        automatic=True,
        sign=str(tmp_path / "key"),
        runner="tests.sdk.serve.signing_job:run",
    )
    draw, port, told, stop = random.Random(SEED), _free_port(), dict[str, str](), threading.Event()
    url = f"http://127.0.0.1:{port}"
    pause = KILLS * MOST_SECONDS / 2 / REQUESTS
    sender = threading.Thread(target=submit_all, args=(url, place, pause, told, stop))
    sender.start()
    moments = []
    try:
        for _ in range(KILLS):
            running = Running(place, port)
            moments.append(round(draw.uniform(0, MOST_SECONDS), 2))
            if draw.random() > STARTING:
                running.until_ready()
            time.sleep(moments[-1])
            running.kill_all()
        running = Running(place, port)
        running.until_ready()
        sender.join(300)
        deadline = time.monotonic() + 300
        while not settled(url, place) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert settled(url, place) and not sender.is_alive()
        running.end()
    finally:
        stop.set()
        running.kill_all()
    print(f"seed {SEED}: killed after {moments} s")
    check(place, told)


def check(place: Place, told: dict[str, str]) -> None:
    """Each request once, none lost; each release from the model that the one before it left; a
    certificate of each.
    """
    ledger, there = place.ledger, place.ledger.requests()
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
    assert len(told) == REQUESTS and set(told.values()) == set(there), (
        "none is lost, and none is there twice"
    )
    releases = [entry for entry in ledger.entries() if entry.kind == "release"]
    answered = collections.Counter(name for entry in releases for name in entry.requests)
    assert set(answered) == set(there) and set(answered.values()) == {1}, "each is released once"
    folders = [Path(place.settings.folder) / "jobs" / entry.facts["job"] for entry in releases]
    assert [read_json(folder / BEFORE) for folder in folders] == [None, *map(str, folders[:-1])], (
        "from the right model"
    )
    chain = [(entry.facts["original_sha256"], entry.facts["model_sha256"]) for entry in releases]
    assert all(one[1] == two[0] for one, two in itertools.pairwise(chain))
    key = load_signer(str(place.folder / "key")).key
    for entry, folder in zip(releases, folders, strict=True):
        for id in entry.requests:
            file = (
                folder
                / "certificates"
                / f"certificate-{there[id].sequence}-{id}"
                / "certificate.intoto.jsonl"
            )
            assert (
                check_certificate(file, key, folder / "age.unplug", LOOSE, request=id).problems
                == ()
            )
    runs = json.dumps(
        {"releases": len(releases), "requests": len(answered), "certificates": len(answered)}
    )
    print(runs)
