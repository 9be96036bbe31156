"""Peak memory and wall time of the hostile corpus, by this checkout and by another one: the table of docs/hostile.md.

    python -m benchmarks.hostile --before OTHER_CHECKOUT --out docs/data/hostile.json --page docs/hostile.md

Memory is the largest sum of resident sets over a command and all its descendants, seen by looking every 20 ms. A command is
ended when it takes too much or too long, and the table says so: this machine is not to be brought down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import psutil
from tests.vectors.hostile.make import CASES, Case

from unplug.core import versions, write_json

PACKAGES = ("core", "plugins", "export", "mobile_bench", "sdk")
LOOK_S = 0.02
MARK = "<!-- table -->"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one command took. `ended`: why it was ended, or "". `code`: its exit code, None where it was ended."""

    peak_mib: float
    seconds: float
    code: int | None
    ended: str
    line: str


def measure(case: Case, checkout: Path, max_bytes: float, max_seconds: float) -> Cost:
    """Runs one case in a process of its own, with the packages of a checkout."""
    paths = os.pathsep.join(str(checkout / name) for name in PACKAGES)
    with tempfile.TemporaryDirectory(prefix="unplug-hostile-") as name:
        folder = Path(name)
        case.make(folder)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("UNPLUG_")}
        own = {"PYTHONPATH": paths, "UNPLUG_CACHE": str(folder / "cache"), "UNPLUG_CHILD_SECONDS": "20"}
        environment = {**plain, **own}
        command = [sys.executable, "-m", "unplug.sdk.cli", *(word.replace("{}", name) for word in case.command)]
        with (folder / "said").open("wb") as said:
            begun = time.monotonic()
            process = psutil.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=said)
            peak, ended = _watch(process, begun, max_bytes, max_seconds)
            seconds = time.monotonic() - begun
        lines = (folder / "said").read_text(errors="replace").replace(name, "").splitlines()
    line = lines[-1][:300] if lines else ""
    return Cost(peak_mib=peak / 2**20, seconds=seconds, code=None if ended else process.returncode, ended=ended, line=line)


def _watch(process: psutil.Popen, begun: float, max_bytes: float, max_seconds: float) -> tuple[int, str]:
    peak, ended = 0, ""
    while process.poll() is None and not ended:
        peak = max(peak, _resident(process))
        ended = "memory" if peak > max_bytes else "time" if time.monotonic() - begun > max_seconds else ""
        time.sleep(LOOK_S)
    if ended:
        for item in [*_tree(process)]:
            try:
                item.kill()
            except psutil.Error:
                continue
        process.wait()
    return peak, ended


def _tree(process: psutil.Popen) -> list[Any]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return [process]


def _resident(process: psutil.Popen) -> int:
    total = 0
    for item in _tree(process):
        try:
            total += item.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total


def markdown(facts: dict[str, Any]) -> str:
    """The table, worst first by what it took before."""
    rows = sorted(facts["rows"], key=lambda row: (-row["before"]["peak_mib"] - 1e6 * bool(row["before"]["ended"]), row["what"]))
    lines = ["| input | before | after |", "|---|---|---|"]
    lines += [f"| {row['what']} | {_shown(row['before'])} | {_shown(row['after'])} |" for row in rows]
    return "\n".join(lines) + "\n"


def _shown(cost: dict[str, Any]) -> str:
    more = "over " if cost["ended"] else ""
    end = f"ended by us ({cost['ended']})" if cost["ended"] else f"exit {cost['code']}"
    return f"{more}{cost['peak_mib']:,.0f} MiB, {more}{cost['seconds']:.1f} s, {end}"


@click.command()
@click.option("--before", required=True, type=click.Path(path_type=Path, exists=True), help="The other checkout.")
@click.option("--max-gib", default=6.0, show_default=True)
@click.option("--max-seconds", default=30.0, show_default=True)
@click.option("--only", default="", help="Cases whose line holds this text; the others are taken from --out.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/data/hostile.json"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/hostile.md"), show_default=True)
def main(before: Path, max_gib: float, max_seconds: float, only: str, out: Path, page: Path) -> None:
    """Measures every case twice and writes JSON and page."""
    found = {row["what"]: row for row in json.loads(out.read_text())["rows"]} if out.is_file() else {}
    here = Path(__file__).resolve().parents[1]
    for case in CASES:
        if only not in case.what:
            continue
        costs = {
            name: measure(case, place.resolve(), max_gib * 2**30, max_seconds)
            for name, place in (("before", before), ("after", here))
        }
        found[case.what] = {"what": case.what, **{name: asdict(cost) for name, cost in costs.items()}}
        click.echo(f"{case.what}: {' -> '.join(_shown(asdict(cost)) for cost in costs.values())}")
        facts = {
            "schema": "unplug-hostile/1", "max_gib": max_gib, "max_seconds": max_seconds,
            "rows": [found[item.what] for item in CASES if item.what in found], "versions": versions(),
        }  # fmt: skip
        write_json(out, facts)
    text = page.read_text(encoding="utf-8").split(MARK)
    page.write_text(f"{text[0]}{MARK}\n{markdown(json.loads(out.read_text()))}{MARK}{text[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
