"""How often a release's gates of forgetting hold by chance: requests of k people drawn from those of a demo's.

``python -m benchmarks.gate_calibration demo-0 --out docs/data/gate-calibration.json``, after
``unplug demo --method fcs --fraction 0.1 --out demo-0``. The *untouched original* plays the unlearned model: it must not pass.
So does *another retrained model*, which forgot exactly: it may be inconclusive, and must not be refused often.
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

from unplug.core import read_json, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.auditing import CheckpointPredictor, audit
from unplug.sdk.auditing.attack import Signals
from unplug.sdk.data import Split, load_dataset, read_forget_file
from unplug.sdk.releasing import DEMO_SPEC, Gates
from unplug.sdk.releasing.gates import forgetting_gates
from unplug.sdk.tasks import AgeTask
from unplug.sdk.training import Predictions, Sets, load_sets, recipe_of
from unplug.sdk.unlearning import request_split

SIZES = (1, 2, 5, 10, 20, 50)
RETAIN = 300
"""Samples of the retain set that are measured, for speed: they decide about use, not about forgetting."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A predictor that remembers what its model said of every forget sample."""

    name: str
    role: Any
    sha256: str
    said: Signals
    ids: tuple[str, ...]
    target: None = None
    precision: None = None

    def signals(self, sets: Sets) -> Signals:
        """What was said of the part of the forget set that this request names."""
        place = {name: index for index, name in enumerate(self.ids)}
        index_F = np.array([place[name] for name in sets.forget.ids])
        return replace(self.said, forget=_at(self.said.forget, index_F), person_F=sets.forget.subject_N)


def _at(said: Predictions, index_F: np.ndarray) -> Predictions:
    return replace(said, **{item.name: getattr(said, item.name)[index_F] for item in fields(said)})  # type: ignore[type-var]


def requests(sets: Sets, split: Split, draws: int, seed: int) -> Iterator[tuple[int, Sets, Split]]:
    """Size, sets and split of requests of some people."""
    people = np.unique(sets.forget.subject_N)
    for size in (size for size in SIZES if size <= len(people)):
        for draw in range(draws):
            chosen = np.random.default_rng([seed, size, draw]).choice(people, size, replace=False)
            index = np.flatnonzero(np.isin(sets.forget.subject_N, chosen))
            forget = sets.forget.subset(index.tolist())
            yield size, replace(sets, forget=forget), split.with_forget(forget.ids)


def outcomes(demo: Path, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """The verdict on each candidate for each request, and which gate decided it."""
    models = {name: load_checkpoint(demo / name) for name in ("original", "retrained", "reference-0")}
    dataset = load_dataset(DEMO_SPEC, models["original"].model.image_size, show=False)
    split = request_split(models["original"], dataset, read_forget_file(demo / "forget.txt", dataset))
    edges = tuple(models["original"].model.age_edges)
    sets = load_sets(dataset, split, edges, torch.device("cpu"))
    sets = replace(sets, train=sets.train.subset(range(RETAIN)))
    task = AgeTask(recipe=recipe_of(models["original"]), edges=edges)

    def recorded(name: str, role: Any, checkpoint: Checkpoint) -> Recorded:
        said = CheckpointPredictor(name=name, role=role, checkpoint=checkpoint, task=task).signals(sets)
        return Recorded(name=name, role=role, sha256=checkpoint.sha256, said=said, ids=tuple(sets.forget.ids))

    oracle = recorded("retrained", "retrained", models["retrained"])
    candidates = {
        "untouched original": recorded("unlearned", "unlearned", models["original"]),
        "another retrained model": recorded("unlearned", "unlearned", models["reference-0"]),
    }
    for size, part, named in tqdm(requests(sets, split, draws, seed), total=draws * len(SIZES), unit="request"):
        for name, candidate in candidates.items():
            found = audit([candidate, oracle], part, named, edges=edges, data={}, seed=seed, show=False)
            failed = [gate for gate in forgetting_gates(Gates(), found) if not gate.passed]
            verdict = "passes" if not failed else "inconclusive" if all(gate.inconclusive for gate in failed) else "refused"
            yield {"candidate": name, "people": size, "verdict": verdict, "gate": failed[0].name if failed else None}


def markdown(facts: dict[str, Any]) -> str:
    """Shares of verdicts by candidate and size of the request."""
    rows = Counter((run["candidate"], run["people"], run["verdict"]) for run in facts["runs"])
    names = list(dict.fromkeys(run["candidate"] for run in facts["runs"]))
    sizes = sorted({run["people"] for run in facts["runs"]})
    lines = ["| candidate | people | passes | inconclusive | refused |", "|---|--:|--:|--:|--:|"]
    for name in names:
        for size in sizes:
            counts = [rows[name, size, verdict] for verdict in ("passes", "inconclusive", "refused")]
            shares = " | ".join(f"{100 * count / sum(counts):.0f} %" for count in counts)
            lines.append(f"| {name} | {size} | {shares} |")
    return "\n".join(lines)


@click.command()
@click.argument("demos", nargs=-1, type=click.Path(path_type=Path))
@click.option("--draws", type=click.IntRange(min=1), default=100, show_default=True, help="Requests of each size and demo.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/gate-calibration.json"), show_default=True)
def main(demos: tuple[Path, ...], draws: int, seed: int, out: Path) -> None:
    """Draws requests, writes every verdict, prints the table; without a demo, of the file that is there."""
    if demos:
        runs = [run for demo in demos for run in outcomes(demo, draws, seed)]
        write_json(
            out, {"schema": "unplug-gate-calibration/1", "draws": draws, "seed": seed, "runs": runs, "versions": versions()}
        )
    click.echo(markdown(read_json(out)))


if __name__ == "__main__":
    main()
