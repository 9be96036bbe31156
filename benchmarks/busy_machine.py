"""A training step, an epoch, a picture and the demo: alone and beside busy processes, by how torch's threads wait.

    python -m benchmarks.busy_machine --out docs/data/busy-machine.json

Every way takes its turn once a round, so that a drifting machine favours none; a median and the whole range are
printed. ``spinning`` is what libgomp does when it is left alone, ``chosen`` what `unplug.core.waiting` decides.
The demo takes minutes a run, and is left to ``--demo``, which ends it after ``--limit`` seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from unplug.core import cores, table, versions, write_json
from unplug.core.waiting import CHOSEN, USERS

WAYS: dict[str, dict[str, str]] = {
    "spinning": {"GOMP_SPINCOUNT": "300000"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "3,000 spins": {"GOMP_SPINCOUNT": "3000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "chosen": {},
}
STEP = """
import time
from unplug.plugins import AgePredictor  # before torch, which reads at once how its threads are to wait
import torch
model = AgePredictor().train().to(memory_format=torch.channels_last)
images, optimizer = torch.rand(32, 3, 64, 64), torch.optim.AdamW(model.parameters(), lr=1e-3)
for number in range(13):
    if number == 3:
        started = time.perf_counter()
    model(images)["age_logits"].square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print((time.perf_counter() - started) / 10)
"""
EPOCH = ["train", "age", "--data", "synth:n=600,subjects=200", "--size", "nano", "--image-size", "48", "--epochs", "1", "--out"]
PICTURE = ["generate", "--prompt", "a child, smiling", "--steps", "6", "-o"]


@contextmanager
def beside(count: int) -> Iterator[None]:
    """That many processes that do nothing but compute."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def environment(way: str) -> dict[str, str]:
    """This process's, with the way's own variables about threads and no other."""
    own = {name: value for name, value in os.environ.items() if name not in (*USERS, CHOSEN)}
    return {**own, **WAYS[way]}


def unplug(arguments: list[str], way: str, limit: float) -> float | None:
    """Seconds of a command, or None where it took longer than `limit`."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "unplug.sdk.cli", *arguments]
    try:
        subprocess.run(command, env=environment(way), capture_output=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return time.perf_counter() - started


def measure(what: str, way: str, limit: float) -> float | None:
    """Seconds of one run of the work."""
    with tempfile.TemporaryDirectory(prefix="unplug-busy-") as name:
        out = Path(name) / "out"
        if what == "training step":
            command = [sys.executable, "-c", STEP]
            done = subprocess.run(command, env=environment(way), capture_output=True, check=True, text=True)
            return float(done.stdout)
        if what == "training epoch":
            return unplug([*EPOCH, str(out)], way, limit)
        if what == "picture":
            return unplug([*PICTURE, f"{out}.png"], way, limit)
        return unplug(["demo", "--out", str(out)], way, limit)


def shown(runs: list[float | None], limit: float) -> str:
    """Median and range of runs, in seconds."""
    whole = [run for run in runs if run is not None]
    if len(whole) < len(runs):
        return f"> {limit:,.0f}"
    return f"{statistics.median(whole):.3g} ({min(whole):.3g} to {max(whole):.3g})"


def markdown(facts: dict[str, Any]) -> str:
    """The table of a run, seconds."""
    rows = [
        [row["what"], row["way"], *(shown(row["seconds"][str(count)], facts["limit_s"]) for count in facts["busy"])]
        for row in facts["rows"]
    ]
    return table(["work", "threads wait", *(f"beside {count}" for count in facts["busy"])], rows)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--rounds", type=int, default=3, show_default=True)
@click.option("--busy", type=int, multiple=True, default=(0, 2), show_default=True, help="Busy processes beside it.")
@click.option("--limit", type=float, default=900.0, show_default=True, help="Seconds after which a run is ended.")
@click.option("--demo", is_flag=True, help="The demo too, by default and as chosen.")
@click.option("--step", "only_step", is_flag=True, help="The training step alone.")
def main(out: Path, rounds: int, busy: tuple[int, ...], limit: float, demo: bool, only_step: bool) -> None:
    """Measures every work in every way and writes OUT."""
    plan = [("training step", way) for way in WAYS]
    commands = () if only_step else ("training epoch", "picture")
    plan += [(what, way) for what in commands for way in ("spinning", "passive", "chosen")]
    plan += [("demo", way) for way in ("spinning", "chosen")] if demo else []
    found: dict[tuple[str, str], dict[str, list[float | None]]] = {item: {str(count): [] for count in busy} for item in plan}
    for number in range(rounds):
        for count in busy:
            for item in plan:
                if item[0] == "demo" and number:
                    continue
                with beside(count):
                    found[item][str(count)].append(measure(*item, limit))
                print(*item, count, found[item][str(count)][-1], file=sys.stderr, flush=True)
    facts = {
        "schema": "unplug-busy-machine/1", "cores": cores(), "busy": list(busy), "limit_s": limit, "versions": versions(),
        "rows": [{"what": what, "way": way, "seconds": found[what, way]} for what, way in plan],
    }  # fmt: skip
    write_json(out, facts)
    print(markdown(facts))


if __name__ == "__main__":
    main()
