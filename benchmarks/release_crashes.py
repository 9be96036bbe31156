"""A release on record, killed at every change and at random moments: two tables of
docs/results/robustness.md.

    python -m benchmarks.release_crashes --out docs/data/release-crashes.json

Two requests are in a ledger, an older bundle of the product was published, and `unplug release
--all-open --sign` answers both. Beside the law of `crash_walk` for the bundle and its folder there
is one for the record: the ledger verifies; what it says after a kill is the beginning of what it
says in the end, and after the rerun all of that, each entry once; where it says that a bundle was
published, that bundle lies there; and the head in the bundle's manifest is one of this ledger.
"""

from __future__ import annotations

import json
import math
import os
import random
import secrets
import shutil
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from unplug.core import use_threads, versions, write_json

from .crash_walk import Call, Point, Scenario, Task, Walk, begun, in_shards, summary, walk_all
from .crashes import DATA, OPEN, RELEASE, REQUEST, command, import_what_is_used

PARTS = ("end", "whole", "random-end", "random-whole")
LEDGER, KEY = "ledger.db", "UNPLUG_WALK_KEY"
SIGNED = f"--sign env:{KEY} --name age --ledger {LEDGER}"
FAILING = "--gate max_artifact_auc_shift=-1"
TOLD = ("stage", "ships", "name", "number", "samples", "model_sha256")
"""Facts of an entry that are the same in every run; the others are hashes over times and random
numbers.
"""


def _key() -> str:
    """A private key for bundles, as text."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    form = serialization.PrivateFormat.PKCS8
    made = ec.generate_private_key(ec.SECP256R1())
    return made.private_bytes(
        serialization.Encoding.PEM, form, serialization.NoEncryption()
    ).decode()


def use_keys(kept: Path | None = None) -> None:
    """Makes the keys of this process and its forks: files of a folder that was built again would
    have other permissions.

    Args:
        kept: a file that holds them for a walk that goes on.
    """
    from unplug.trust.ledger import LedgerSigner

    if kept is not None and kept.is_file():
        os.environ |= json.loads(kept.read_text())
        return
    keys = {
        KEY: _key(),
        "UNPLUG_LEDGER_KEY": LedgerSigner(
            name="walk.example", seed=secrets.token_bytes(32)
        ).secret_text,
    }
    os.environ |= keys
    if kept is not None:
        kept.touch(0o600)
        kept.write_text(json.dumps(keys))


def of_bundle(out: Path) -> str:
    """A signed bundle but for its signature and the ledger's head, which hold times, as text;
    raises where it is not whole.
    """
    from unplug.core import json_sha256
    from unplug.trust.bundle import Trust, load_signer, verify_bundle

    manifest = asdict(verify_bundle(out, Trust(keys=(load_signer(f"env:{KEY}").key,))))
    manifest["lineage"]["ledger_head"] = None
    return (
        f"release {manifest['publication']['release']} "
        f"{json_sha256(json.loads(json.dumps(manifest, default=str)))}"
    )


def story(root: Path) -> str:
    """What the ledger of a folder tells, a line an entry; raises where it does not verify, or
    speaks of another bundle.
    """
    from unplug.trust.bundle import bundle_id, read_manifest
    from unplug.trust.ledger import check_ledger, open_ledger, refuse_findings

    lines = []
    with (
        tempfile.TemporaryDirectory() as copies
    ):  # whoever opens a database puts it right: the rerun shall have to
        for path in root.glob(f"{LEDGER}*"):
            shutil.copy(path, copies)
        ledger = open_ledger(str(Path(copies) / LEDGER))
        origin, verifier = ledger.identity()
        refuse_findings("the ledger", check_ledger(ledger, verifier)[1])
        entries, rows = ledger.entries(), ledger.rows()
    for entry in entries:
        told = [f"{name} {entry.facts[name]}" for name in TOLD if name in entry.facts]
        lines.append(
            f"{entry.kind} of {', '.join(entry.requests) or 'no request'}: {', '.join(told)}\n"
        )
    published = [entry.facts["bundle_sha256"] for entry in entries if entry.kind == "release"]
    if (root / "out").exists():
        size, _, head = (read_manifest(root / "out").lineage.ledger_head or "0:").partition(":")
        if rows[int(size) - 1].checkpoint(origin).root.hex() != head:
            raise ValueError("the head in the manifest is not one of the ledger")
        ahead = not published or published[-1] != bundle_id(root / "out")
        if ahead and entries[-1].kind != "try":
            raise ValueError("another bundle lies there than the ledger says")
    elif published:
        raise ValueError("the bundle that the ledger says was published is gone")
    return "".join(lines)


def _refused(call: Call) -> Call:
    """A call that must end with 1: a gate does not hold."""

    def run() -> None:
        try:
            call()
        except SystemExit as ended:
            if ended.code != 1:
                raise

    return run


def _ask(id: str, *people: str) -> Call:
    names = " ".join(f"--person {name}" for name in people)
    return command(f"ledger add --ledger {LEDGER} --id {id} {DATA} {names}")


ON_RECORD = (
    *REQUEST,
    command(f"ledger init --ledger {LEDGER}"),
    lambda: Path("first.txt").write_text("subject:person-14\n"),
    _ask("T-0", "subject:person-14"),
    command(RELEASE.replace("forget.txt", "first.txt") + f" {SIGNED} {OPEN} --all-open --out out"),
    lambda: shutil.copytree("out", "older"),
    lambda: Path("forget.txt").write_text(
        "subject:person-2\nsubject:person-11\nsubject:person-14\n"
    ),
    _ask("T-1", "subject:person-2"),
    _ask("T-2", "subject:person-11", "subject:person-14"),
)
SECOND = f"{RELEASE} {SIGNED} --all-open --supersedes older --out out"
FINISHED = _refused(command(f"{SECOND} {FAILING}"))
"""Leaves all stages finished, and a failed gate on record."""


def scenarios(every: int) -> tuple[Scenario, Scenario]:
    """The end of a release, whose stages are finished, and a whole one; `every`: see `Scenario`."""
    shared: dict[str, Any] = {"identify": of_bundle, "story": story, "replay": True, "tries": 3}
    return (
        Scenario(
            name="ledger, bundle, signature, publication",
            before=(*ON_RECORD, FINISHED),
            command=command(f"{SECOND} {OPEN}"),
            every=every,
            **shared,
        ),
        Scenario(
            name="the whole release",
            before=ON_RECORD,
            command=command(f"{SECOND} {OPEN}"),
            every=every,
            **shared,
        ),
    )


def short(every: int) -> Scenario:
    """A small one for tests: one request, no older bundle, all stages finished."""
    asked = (
        *REQUEST,
        command(f"ledger init --ledger {LEDGER}"),
        lambda: Path("forget.txt").write_text("subject:person-2\nsubject:person-11\n"),
        _ask("T-1", "subject:person-2", "subject:person-11"),
    )
    words = f"{RELEASE} {SIGNED} --request T-1 --out out"
    return Scenario(
        name="ledger, bundle, signature, publication, short",
        before=(*asked, _refused(command(f"{words} {FAILING}"))),
        command=command(f"{words} {OPEN}"),
        identify=of_bundle,
        story=story,
        replay=True,
        tries=3,
        every=every,
    )


def at_random(
    scenario: Scenario, place: Path, moments: int, seed: int, minutes: float = math.inf
) -> dict[str, Any]:
    """Real kills of a run and all of its processes, at moments that are drawn evenly from the time
    that it takes.

    Args:
        scenario: what is killed.
        place, minutes: see `walk_all`.
        moments: so many.
        seed: of the moments.
    """
    started = time.perf_counter()
    walk, points = begun(scenario, place)
    timed = place / "lasts"
    if not timed.is_file():
        timed.write_text(str(walk.lasts()))
    lasts, drawn = float(timed.read_text()), random.Random(seed)
    at, done = (
        [drawn.uniform(0.0, lasts) for _ in range(moments)],
        {point.number for point in points},
    )
    left: list[Task] = [
        partial(_kill_after, number=number, at=at)
        for number in range(moments)
        if number not in done
    ]
    points += in_shards(left, [walk], place, minutes)
    return {
        "command": scenario.name,
        "moments": len(points),
        "run_seconds": round(lasts, 1),
        "kills": summary(points),
        "wrong": [asdict(point) for point in points if point.wrong],
        "seconds": round(time.perf_counter() - started),
    }


def _kill_after(walk: Walk, number: int, at: list[float]) -> list[Point]:
    return [walk.kill_after(at[number], number)]


def markdown(facts: dict[str, Any]) -> str:
    """Both tables: at every change, and at random moments."""
    head = (
        "| what is killed | changes | kills | older / new | power cuts | older / new | not well |"
    )
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in facts["walks"]:
        changes = (
            f"{row['changes']}" if row["every"] == 1 else f"{row['changes']}, 1 in {row['every']}"
        )
        cells = [row["command"], changes]
        for kind in ("kills", "power_cuts"):
            counts = row[kind]
            of = f" of {counts['points'] + counts['left']}" if "left" in counts else ""
            cells += [f"{counts['points']}{of} computed", f"{counts['older']} / {counts['new']}"]
        lines.append(
            f"| {' | '.join(cells)} | {row['kills']['wrong'] + row['power_cuts']['wrong']} |"
        )
    lines += [
        "",
        "| killed at random | moments | a run takes | older / new | not well |",
        "|---|---|---|---|---|",
    ]
    for row in facts["random"]:
        counts = row["kills"]
        cells = [
            row["command"],
            str(row["moments"]),
            f"{row['run_seconds']} s",
            f"{counts['older']} / {counts['new']}",
        ]
        lines.append(f"| {' | '.join(cells)} | {counts['wrong']} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--every", default=1, show_default=True, help="Walk over one point in so many.")
@click.option("--moments", default=100, show_default=True, help="Random kills of each.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(PARTS),
    help="The rest is taken from --out; may be repeated.",
)
@click.option("--workers", default=2, show_default=True)
@click.option("--minutes", default=math.inf, help="Of each part; no point is begun after them.")
@click.option(
    "--place",
    type=click.Path(path_type=Path),
    help="Keeps what was found, so that a walk goes on in the same place.",
)
@click.option("--seed", default=0, show_default=True, help="Of the random moments.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/data/release-crashes.json"),
    show_default=True,
)
def main(
    every: int,
    moments: int,
    only: tuple[str, ...],
    workers: int,
    minutes: float,
    place: Path | None,
    seed: int,
    out: Path,
) -> None:
    """Walks over a release on record, kills it at random moments, and writes the JSON."""
    use_threads(1)
    versions()  # asks git, once for all forks
    end, whole = scenarios(every)
    row: dict[str, Any]
    with tempfile.TemporaryDirectory(prefix="unplug-release-crashes-") as name:
        place = place or Path(name)
        place.mkdir(parents=True, exist_ok=True)
        use_keys(place / "keys")
        import_what_is_used([*whole.before, whole.command], Path(name) / "import")
        for part in only or PARTS:
            scenario = end if part.endswith("end") else whole
            if part.startswith("random"):
                kind, row = "random", at_random(scenario, place / part, moments, seed, minutes)
            else:
                kind, row = "walks", walk_all(scenario, place / part, workers, minutes)
            click.echo(json.dumps(row, indent=1))
            empty = {"schema": "unplug-release-crashes/1", "walks": [], "random": []}
            facts = json.loads(out.read_text()) if out.is_file() else empty
            facts[kind] = [item for item in facts[kind] if item["command"] != row["command"]] + [
                row
            ]
            write_json(out, {**facts, "versions": versions()})


if __name__ == "__main__":
    main()
