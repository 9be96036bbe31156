"""How often a release's gates of forgetting hold by chance: requests of k random people, judged by
references.

    python -m benchmarks.gate_calibration ORIGINAL --data SPEC --fleet REFERENCES --certification
    FILE --out FILE

Two models play the unlearned one. The *untouched original* forgot nobody and must not pass. A
*model that never saw them* forgot exactly: one of the references, asked about people whom it left
out, judged by the other references. It may be inconclusive, and must rarely be refused. Both are
judged by the request alone, and as a release judges a request whose method is certified: then only
what this request surely shows still refuses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from tqdm import tqdm

from unplug.core import InputError, read_dataclass, read_json, versions, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.evidence.auditing import Certification, audit
from unplug.sdk.evidence.auditing.attack import Signals
from unplug.sdk.evidence.fleet import References, load_references
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.forgetting.unlearning import own_split
from unplug.sdk.learning.data import Split, load_dataset
from unplug.sdk.learning.training import Predictions, Sets, predict
from unplug.sdk.releasing import Gates
from unplug.sdk.releasing.gates import forgetting_gates
from unplug.trust.bundle import CERTIFIED, Gate

SCHEMA = "unplug-gate-calibration/3"
SIZES = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50)
RETAIN = 300
"""Samples of the retain set that are measured, for speed: they decide about use, not about
forgetting.
"""
WAYS = ("request alone", "method certified")
UNTOUCHED, NEVER = "untouched original", "model that never saw them"
COUNTED = ("candidate", "way", "people", "verdict", "runs")
USE = ("utility", "accuracy")
"""Gates about use, which this is not about."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A predictor that remembers what its model said of every sample; `ids` are those of `train`."""

    name: str
    role: Any
    sha256: str
    ids: tuple[str, ...]
    train: Predictions
    test: Predictions
    validation: Predictions
    target: None = None
    precision: None = None

    def signals(self, sets: Sets) -> Signals:
        """What was said of the people of a request, and of those who stay."""
        place = {name: row for row, name in enumerate(self.ids)}
        forget, retain = (
            rows_of(self.train, np.array([place[name] for name in part.ids]))
            for part in (sets.forget, sets.train)
        )
        return Signals(
            forget=forget,
            unseen=self.test,
            population=self.validation,
            retain=retain,
            person_F=sets.forget.subject_N,
            person_U=sets.test.subject_N,
        )


def rows_of(said: Predictions, index_F: np.ndarray) -> Predictions:
    """What was said of some samples, by their rows."""
    parts = {item.name: getattr(said, item.name) for item in fields(said)}  # type: ignore[arg-type]
    picked: Any = {
        name: value if value is None else value[index_F] for name, value in parts.items()
    }
    return type(said)(**picked)


@dataclass(frozen=True, kw_only=True)
class World:
    """Who may ask, and what may be said of them."""

    sets: Sets
    split: Split
    fleet: References
    original: Recorded
    edges: tuple[float, ...]

    def stranger(self, number: int) -> tuple[Recorded, References, np.ndarray]:
        """One of the references as the unlearned model, the others as references, and the people
        whom it never saw.
        """
        fleet = self.fleet
        rows = [
            fleet.rows(part.ids) for part in (self.sets.train, self.sets.test, self.sets.validation)
        ]
        answers = [fleet.said(np.full(len(row_N), number), row_N) for row_N in rows]
        candidate = Recorded(
            name="unlearned",
            role="unlearned",
            sha256=fleet.record.files[number],
            ids=tuple(self.sets.train.ids),
            train=answers[0],
            test=answers[1],
            validation=answers[2],
        )
        people = np.unique(self.sets.train.subject_N[~fleet.seen_MN[number, rows[0]]])
        return candidate, fleet.apart([fleet.record.files[number]]), people

    def request(self, people: np.ndarray) -> tuple[Sets, Split]:
        """Sets and split after some people asked; of those who stay `RETAIN` samples."""
        gone_T = np.isin(self.sets.train.subject_N, people)
        forget = self.sets.train.subset(np.flatnonzero(gone_T).tolist())
        stay = self.sets.train.subset(np.flatnonzero(~gone_T)[:RETAIN].tolist())
        return replace(self.sets, forget=forget, train=stay), self.split.with_forget(forget.ids)


def opened(original: Path, spec: str, fleet: Path) -> World:
    """Loads original, data and references, and asks the original about everybody."""
    checkpoint = load_checkpoint(original)
    task = task_of(checkpoint, device=torch.device("cpu"))
    dataset = load_dataset(spec, task.image_size, show=False)
    split = own_split(checkpoint, dataset)
    sets = task.sets(dataset, split, torch.device("cpu"))
    train, test, validation = (
        predict(checkpoint.model, part) for part in (sets.train, sets.test, sets.validation)
    )
    recorded = Recorded(
        name="original",
        role="original",
        sha256=checkpoint.sha256,
        ids=tuple(sets.train.ids),
        train=train,
        test=test,
        validation=validation,
    )
    references = load_references(fleet, checkpoint, task, dataset)
    return World(
        sets=sets, split=split, fleet=references, original=recorded, edges=tuple(task.edges)
    )


def outcomes(
    world: World, certified: Certification, draws: int, seed: int
) -> Iterator[tuple[str, str, int, str]]:
    """The verdict on each candidate for each request, both ways."""
    everybody = np.unique(world.sets.train.subject_N)
    untouched = replace(world.original, name="unlearned", role="unlearned")
    for size in SIZES:
        for draw in range(draws):
            rng = np.random.default_rng([seed, size, draw])
            never, others, strangers = world.stranger(int(rng.integers(world.fleet.record.models)))
            for who, candidate, fleet, people in (
                (UNTOUCHED, untouched, world.fleet, everybody),
                (NEVER, never, others, strangers),
            ):
                sets, split = world.request(rng.choice(people, size, replace=False))
                report = audit(
                    [candidate, world.original],
                    sets,
                    split,
                    edges=world.edges,
                    data={},
                    fleet=fleet,
                    seed=seed,
                    show=False,
                )
                for way, evidence in zip(WAYS, (None, certified), strict=True):
                    gates = [
                        gate
                        for gate in forgetting_gates(Gates(), report, evidence)
                        if not gate.name.startswith(USE) and gate.name != CERTIFIED
                    ]
                    yield who, way, size, _verdict(gates)


def _verdict(gates: list[Gate]) -> str:
    failed = [gate for gate in gates if not gate.passed]
    if not failed:
        return "passes"
    return "inconclusive" if all(gate.inconclusive for gate in failed) else "refused"


def markdown(facts: dict[str, Any]) -> str:
    """Shares of verdicts by candidate, way and size of the request."""
    rows = facts["counts"]
    count = Counter(
        {(row["candidate"], row["way"], row["people"], row["verdict"]): row["runs"] for row in rows}
    )
    lines = [
        "| candidate | people | request alone: passes | inconclusive | refused | method certified: "
        "passes | refused |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in dict.fromkeys(row["candidate"] for row in rows):
        for size in sorted({row["people"] for row in rows}):
            cells = []
            for way, verdicts in zip(
                WAYS, (("passes", "inconclusive", "refused"), ("passes", "refused")), strict=True
            ):
                total = sum(
                    count[name, way, size, verdict]
                    for verdict in ("passes", "inconclusive", "refused")
                )
                cells += [
                    f"{100 * count[name, way, size, verdict] / total:.0f} %" for verdict in verdicts
                ]
            lines.append(f"| {name} | {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.argument("original", type=click.Path(path_type=Path))
@click.option("--data", "spec", required=True, metavar="SPEC")
@click.option("--fleet", type=click.Path(path_type=Path), required=True)
@click.option(
    "--certification",
    type=click.Path(path_type=Path),
    required=True,
    help="Any; only that there is one counts.",
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="Requests of each size.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/gate-calibration.json"),
    show_default=True,
)
def main(
    original: Path, spec: str, fleet: Path, certification: Path, draws: int, seed: int, out: Path
) -> None:
    """Draws requests, counts the verdicts, prints the table."""
    certified = read_dataclass(Certification, certification, InputError)
    world = opened(original, spec, fleet)
    total = len(SIZES) * draws * 2 * len(WAYS)
    verdicts = Counter(tqdm(outcomes(world, certified, draws, seed), total=total, unit="verdict"))
    counts = [dict(zip(COUNTED, (*key, runs), strict=True)) for key, runs in verdicts.items()]
    facts = {
        "schema": SCHEMA,
        "data": spec,
        "draws": draws,
        "seed": seed,
        "counts": counts,
        "versions": versions(),
    }
    write_json(out, facts)
    click.echo(markdown(read_json(out)))


if __name__ == "__main__":
    main()
