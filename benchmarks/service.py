"""``python -m benchmarks.service --out docs/data/service.json``: many clients at once, and what
became of every request.

    python -m benchmarks.service --clients 200 --seconds 120 --out docs/data/service.json

A service of two worker processes on loopback, with releases that cost nothing
(`benchmarks.service_job`) and a small model of random weights, which takes the time of a trained
one. Clients do one thing after another, with a pause of 0.5 to 1.5 s between: submit a request
(some of them twice with one key, as after a lost answer), look at it, list what is due, ask the
model. With ``--lock 40`` somebody holds the database for 40 s in the middle: a submission that was
not acknowledged is sent again with its key, and once a second ``/ready`` is asked. At the end the
ledger is held against what was told: every request that was acknowledged is there once, nothing
else is, and no release was recorded twice.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import io
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import cores, table, versions, write_json

ROOT = Path(__file__).resolve().parent.parent
PORT, WORKERS = 8791, 2
KINDS = ("submit", "look", "due", "predict")
WEIGHTS = (4, 4, 1, 1)
PEOPLE = 1000
AGAIN = 0.1
"""So many submissions are sent a second time with the same key."""
PAUSE = (0.5, 1.5)
LATE = 3.0
"""Seconds after which ``/ready`` has to tell of a lock: what it waits itself, and what is between
two questions.
"""


@dataclass(kw_only=True)
class Seen:
    """What the clients were told."""

    milliseconds: dict[str, list[float]] = field(
        default_factory=lambda: collections.defaultdict(list)
    )
    statuses: collections.Counter[str] = field(default_factory=collections.Counter)
    keys: dict[str, set[str]] = field(default_factory=lambda: collections.defaultdict(set))
    news: collections.Counter[str] = field(default_factory=collections.Counter)
    ready: list[tuple[float, bool, bool]] = field(default_factory=list)
    """Seconds since the beginning, whether the database was locked, whether the service said that
    it is ready.
    """


class Connection:
    """One HTTP/1.1 connection that is kept; a client library would take more of this machine's time
    than the service.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", PORT)
        reader, writer = self._streams
        lines = [
            f"{method} {path} HTTP/1.1",
            "host: t",
            f"authorization: Bearer {self._token}",
            f"content-length: {len(body)}",
        ]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(
            int(line.split(":")[1]) for line in head if line.startswith("content-length:")
        )
        raw = await reader.readexactly(length)
        if "connection: close" in head:
            self.close()
        return int(head[0].split()[1]), json.loads(raw)

    def close(self) -> None:
        """Closes the connection, where one is open; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def client(number: int, token: str, until: float, seen: Seen, picture: bytes) -> None:
    """One client, until the time is over."""
    draw, ids, connection = random.Random(number), list[str](), Connection(token)
    sent, acknowledged = 0, True
    await asyncio.sleep(draw.uniform(0, PAUSE[1]))
    while time.monotonic() < until:
        kind = draw.choices(KINDS, WEIGHTS)[0] if ids else "submit"
        again = kind == "submit" and draw.random() < AGAIN
        if kind == "submit" and acknowledged:
            sent += 1
        for _ in range(2 if again else 1):
            started = time.perf_counter()
            try:
                status, answer = await asyncio.wait_for(
                    act(kind, connection, f"key-{number:04}-{sent}", ids, draw, picture), 60
                )
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                status, answer = 0, {"error": type(error).__name__}
                connection.close()
            seen.milliseconds[kind].append(1000 * (time.perf_counter() - started))
            seen.statuses[f"{kind} {status}"] += 1
            if kind == "submit":
                acknowledged = status in (200, 201)
            if kind == "submit" and acknowledged:
                seen.keys[f"key-{number:04}-{sent}"].add(answer["id"])
                seen.news[answer["id"]] += answer["new"]
                ids.append(answer["id"])
        await asyncio.sleep(draw.uniform(*PAUSE))
    connection.close()


async def act(
    kind: str, connection: Connection, key: str, own: list[str], draw: random.Random, picture: bytes
) -> Any:
    """One request of a kind."""
    if kind == "submit":
        body = json.dumps({"names": [f"subject:person-{int(key[4:8]) % PEOPLE}"]}).encode()
        return await connection.ask(
            "POST", "/requests", body, content_type="application/json", idempotency_key=key
        )
    if kind == "look":
        return await connection.ask("GET", f"/requests/{draw.choice(own)}")
    if kind == "due":
        return await connection.ask("GET", "/deadlines?within=40")
    return await connection.ask("POST", "/models/age/predict", picture, content_type="image/png")


@contextlib.contextmanager
def service(folder: Path, artifact: Path) -> Iterator[str]:
    """A running service over a new ledger; gives a token."""
    env = {
        **os.environ,
        "UNPLUG_LEDGER": str(folder / "ledger.db"),
        "UNPLUG_LEDGER_KEY": str(folder / "ledger-key"),
        "UNPLUG_KEY": str(folder / "key"),
        "UNPLUG_CHEAP_SECONDS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    os.environ.update(
        {name: env[name] for name in ("UNPLUG_LEDGER", "UNPLUG_LEDGER_KEY", "UNPLUG_KEY")}
    )
    command = [sys.executable, "-m", "unplug.sdk.cli"]
    subprocess.run(
        [*command, "ledger", "init", "--origin", "bench.example"],
        env=env,
        check=True,
        capture_output=True,
    )
    scopes = [
        word
        for scope in ("requests:write", "requests:read", "models")
        for word in ("--scope", scope)
    ]
    done = subprocess.run(
        [*command, "serve", "token", "add", "bench", *scopes],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    recipe = {
        "schema": "unplug-serve/1",
        "name": "age",
        "checkpoint": "none",
        "artifact": str(artifact),
        "data": f"synth:n={PEOPLE},subjects={PEOPLE}",
        "automatic": True,
        "runner": "benchmarks.service_job:run",
    }
    write_json(folder / "recipe.json", recipe)
    words = [
        "--recipe",
        str(folder / "recipe.json"),
        "--folder",
        str(folder / "service"),
        "--port",
        str(PORT),
    ]
    words += ["--workers", str(WORKERS), "--rate", "100000", "--burst", "100000"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "serve", *words], env=env, stderr=log, stdout=log)
    try:
        asyncio.run(until_ready())
        yield done.stdout.strip()
    finally:
        process.terminate()
        process.wait(60)


async def until_ready() -> None:
    """Waits until the service answers."""
    for _ in range(300):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if (await Connection("").ask("GET", "/ready"))[0] == 200:
                return
        await asyncio.sleep(0.2)
    raise SystemExit("the service did not start")


def model_file(folder: Path) -> tuple[Path, bytes]:
    """An exported nano age model of random weights, and a picture of 200 pixels."""
    import torch
    from PIL import Image

    from unplug.export import export_checkpoint
    from unplug.plugins import AgePredictor, save_checkpoint

    torch.manual_seed(0)
    save_checkpoint(
        AgePredictor(size="nano", image_size=64).eval(),
        folder / "model",
        record={},
        card="Random weights.",
    )
    made = export_checkpoint(
        folder / "model", targets=("onnx",), precisions=("fp32",), out=folder / "out"
    )
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)).save(
        out, "PNG"
    )
    return made[0].path, out.getvalue()


async def hold_database(
    ledger: Path, after: float, seconds: float, until: float, seen: Seen
) -> None:
    """Locks the ledger's file for some seconds, and asks once a second whether the service is
    ready.
    """
    begun, connection = time.monotonic(), sqlite3.connect(ledger, isolation_level=None)
    locked = False
    while (at := time.monotonic()) < until:
        if seconds and locked != (after <= at - begun < after + seconds):
            locked = not locked
            connection.execute("BEGIN IMMEDIATE" if locked else "ROLLBACK")
        asked = Connection("")
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            status, _ = await asyncio.wait_for(asked.ask("GET", "/ready"), 10)
            seen.ready.append((round(at - begun, 1), locked, status == 200))
        asked.close()
        await asyncio.sleep(1)
    connection.close()


async def run_clients(
    count: int, seconds: float, token: str, picture: bytes, ledger: Path, lock: float
) -> tuple[Seen, list[float]]:
    """All clients at once; and the host's load meanwhile."""
    seen, loads = Seen(), list[float]()
    until = time.monotonic() + seconds
    holder = asyncio.create_task(hold_database(ledger, (seconds - lock) / 2, lock, until, seen))
    clients = [
        asyncio.create_task(client(number, token, until, seen, picture)) for number in range(count)
    ]
    async for load in load_averages(until):
        loads.append(load)
    await asyncio.gather(*clients, holder)
    return seen, loads


async def load_averages(until: float) -> AsyncIterator[float]:
    """The load average of a minute, every five seconds."""
    while time.monotonic() < until:
        yield os.getloadavg()[0]
        await asyncio.sleep(5)


def found_wrong(seen: Seen, folder: Path) -> dict[str, int]:
    """What is lost or doubled, and what there was: the ledger against what clients were told."""
    from unplug.trust.ledger import check_ledger, open_ledger

    ledger = open_ledger(str(folder / "ledger.db"))
    told = {id for ids in seen.keys.values() for id in ids}
    there = ledger.requests()
    _, findings = check_ledger(ledger, ledger.identity()[1])
    releases = [entry for entry in ledger.entries() if entry.kind == "release"]
    answered = collections.Counter(name for entry in releases for name in entry.requests)
    return {
        "acknowledged": len(told),
        "in_the_ledger": len(there),
        "lost": len(told - there.keys()),
        "unasked": len(there.keys() - told),
        "doubled": sum(len(ids) > 1 for ids in seen.keys.values()),
        "new_twice": sum(count > 1 for count in seen.news.values()),
        "releases": len(releases),
        "answered": len(answered),
        "answered_twice": sum(count > 1 for count in answered.values()),
        "findings": len(findings),
    }


def readiness(seen: Seen) -> dict[str, int]:
    """How often ``/ready`` said yes and no, while the database was locked for longer than a
    transaction takes, and else.
    """
    counts = collections.Counter[str]()
    since: float | None = None
    for at, locked, good in seen.ready:
        since = (at if since is None else since) if locked else None
        late = since is not None and at - since > LATE
        counts[
            f"{'locked' if late else 'just locked' if locked else 'open'}: "
            f"{'ready' if good else 'not ready'}"
        ] += 1
    return dict(sorted(counts.items()))


def percentiles(values: list[float]) -> dict[str, float]:
    """Number, median, p95, p99 and largest, in milliseconds."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {
        "n": len(values),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "max": float(max(values)),
    }


LABELS = {
    "submit": "submit a request",
    "look": "look at one",
    "due": "list what is due",
    "predict": "ask the model",
}


def markdown(facts: Mapping[str, Any]) -> str:
    """The table of docs/results/speed.md: milliseconds to an answer, by what was asked."""
    lines = ["| | answers | median ms | p95 | p99 | longest |", "|---|---:|---:|---:|---:|---:|"]
    for kind, label in {**LABELS, "all": "**all**"}.items():
        row = facts["latency_ms"][kind]
        lines.append(
            f"| {label} | {row['n']:,} | {row['p50']:.0f} | {row['p95']:.0f} | {row['p99']:.0f} | "
            f"{row['max']:.0f} |"
        )
    return "\n".join(lines)


def told(facts: Mapping[str, Any]) -> str:
    """The paragraph above that table: what ran, how busy the machine was, and what became of the
    requests.
    """
    checked, asked = facts["checked"], sum(facts["statuses"].values())
    bad = sum(
        count for name, count in facts["statuses"].items() if name.split()[1] not in ("200", "201")
    )
    return (
        f"{facts['clients']} clients for {facts['seconds']:.0f} s on loopback, {facts['workers']} "
        f"workers on {facts['cores']} "
        "hyperthreads that the clients ran on as well, SQLite; the machine's load was "
        f"{facts['load_before']:.1f} before and "
        f"{facts['load_mean']:.1f} on average meanwhile, its own in it. Of {asked:,} answers "
        f"({facts['per_second']:.0f} a second) {bad} were no success{locked(facts)}. "
        f"{checked['acknowledged']:,} requests were acknowledged, "
        f"{checked['in_the_ledger']:,} are in the ledger, {checked['lost']} lost, "
        f"{checked['doubled']} doubled; "
        f"{checked['releases']} releases answered {checked['answered']:,} of them, "
        f"{checked['answered_twice']} twice."
    )


def locked(facts: Mapping[str, Any]) -> str:
    """What happened while the database was locked."""
    if not facts["lock_s"]:
        return ""
    ready = facts["ready"]
    held = [ready.get(f"locked: {word}", 0) for word in ("not ready", "ready")]
    return (
        f", while somebody held the database for {facts['lock_s']:.0f} s in the middle: from "
        f"{LATE:.0f} s on `/ready` "
        f"answered {held[0]} of {sum(held)} times that it was not ready, and each client sent "
        "again what was not acknowledged"
    )


@click.command()
@click.option("--clients", type=click.IntRange(1, 1000), default=200, show_default=True)
@click.option("--seconds", type=float, default=120.0, show_default=True)
@click.option(
    "--lock",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds for which the database is locked.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/data/service.json"),
    show_default=True,
)
def main(clients: int, seconds: float, lock: float, out: Path) -> None:
    """Load a service, and hold its ledger against what it told."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        artifact, picture = model_file(folder)
        before = os.getloadavg()[0]
        with service(folder, artifact) as token:
            seen, loads = asyncio.run(
                run_clients(clients, seconds, token, picture, folder / "ledger.db", lock)
            )
        checked = found_wrong(seen, folder)
    every = [value for values in seen.milliseconds.values() for value in values]
    facts = {
        "schema": "unplug-service-load/1",
        "clients": clients,
        "seconds": seconds,
        "workers": WORKERS,
        "cores": cores(),
        "pause_s": list(PAUSE),
        "lock_s": lock,
        "ready": readiness(seen),
        "load_before": before,
        "load_mean": float(np.mean(loads)),
        "latency_ms": {kind: percentiles(values) for kind, values in seen.milliseconds.items()}
        | {"all": percentiles(every)},
        "per_second": len(every) / seconds,
        "statuses": dict(sorted(seen.statuses.items())),
        "checked": checked,
        "versions": versions(),
    }
    write_json(out, facts)
    click.echo(f"{told(facts)}\n\n{markdown(facts)}")
    click.echo(
        table(
            ["", ""],
            [[name, str(value)] for name, value in {**checked, **facts["statuses"]}.items()],
        )
    )


if __name__ == "__main__":
    main()
