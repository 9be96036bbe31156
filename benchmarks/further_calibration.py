"""How often the gate `further attacks` refuses a model that never saw the people: its false alarms, by simulation.

``python -m benchmarks.further_calibration --work WORK``. Half of the people of a training set are kept aside; M models are
trained on the others with seeds of their own, so none of them saw anybody of those kept aside. A draw takes k of these people
as the forget set and other ones as the unseen, one model in the place of the unlearned one and another as the oracle, runs the
attacks that a release runs (`criticise`) and asks its gate. Every refusal is a false alarm. Models are asked once about all:
a draw picks of what they said. JSON goes to docs/data/further-calibration.json; docs/auditing.md shows the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from scipy.stats import beta
from tqdm import tqdm

from unplug.core import use_threads, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.auditing import AuditReport, CheckpointPredictor, audit, criticise, inherent
from unplug.sdk.auditing.attack import Others, Signals
from unplug.sdk.auditing.evidence import AuditEvidence, gather
from unplug.sdk.data import Split, load_dataset, make_split
from unplug.sdk.releasing.gates import further_gate
from unplug.sdk.tasks import AgeTask, train_age
from unplug.sdk.training import Recipe, Sets, edges_of

from .gate_calibration import rows_of

SCHEMA = "unplug-further-calibration/1"
SPEC = "synth:n=1600,subjects=800,seed=41"
RECIPE = Recipe(size="nano", image_size=32, epochs=24, batch_size=64, augment="flip", dropout=0.0, lr=6e-3, weight_decay=0.05)
SIZES = (5, 10, 20, 40)
UNSEEN = 120
"""Unseen people of a draw."""
CPU = torch.device("cpu")
OUT = Path(__file__).parents[1] / "docs" / "data" / "further-calibration.json"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A model that was asked about everybody; rows of that are the samples of this request, persons who is in them."""

    name: str
    role: Any
    sha256: str
    said: Signals
    row_F: np.ndarray
    row_U: np.ndarray
    person_F: np.ndarray
    person_U: np.ndarray
    target: None = None
    precision: None = None

    def signals(self, sets: Sets) -> Signals:
        """What it said of the sets."""
        forget, unseen = (rows_of(self.said.forget, rows) for rows in (self.row_F, self.row_U))
        own = replace(self.said, forget=forget, unseen=unseen, views=(), others=None, inside=None)
        return replace(own, person_F=self.person_F, person_U=self.person_U)

    def further(self, own: Signals, sets: Sets, evidence: AuditEvidence) -> Signals:
        """The same with what it said of views and other pictures, and the features of its last layer."""
        others, inside = self.said.others, self.said.inside
        assert others is not None and inside is not None
        of_F, of_U = (np.flatnonzero(np.isin(others.person_F, people)) for people in (self.person_F, self.person_U))
        return replace(
            own, views=tuple((rows_of(said, self.row_F), rows_of(said, self.row_U)) for said, _ in self.said.views),
            others=Others(
                forget=rows_of(others.forget, of_F), unseen=rows_of(others.forget, of_U), person_F=others.person_F[of_F],
                person_U=others.person_F[of_U],
            ),
            inside=replace(inside, forget_FC=inside.forget_FC[self.row_F], unseen_UC=inside.forget_FC[self.row_U]),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class World:
    """Sets whose forget set is everybody who was kept aside, and what every model says of them."""

    sets: Sets
    split: Split
    evidence: AuditEvidence
    task: AgeTask
    said: tuple[tuple[str, Signals], ...]

    def draw(self, people: np.ndarray, size: int, numbers: np.ndarray) -> tuple[Sets, list[Recorded]]:
        """The sets of a request of the first people, the others unseen; the candidate and its oracle."""
        everybody, person_N = self.sets.forget, np.asarray(self.sets.forget.subject_N)
        row_F, row_U = (np.flatnonzero(np.isin(person_N, own)) for own in (people[:size], people[size:]))
        sets = replace(self.sets, forget=everybody.subset(row_F.tolist()), test=everybody.subset(row_U.tolist()))
        roles = zip(("unlearned", "retrained"), numbers.tolist(), strict=True)
        return sets, [
            Recorded(
                name=role, role=role, sha256=self.said[number][0], said=self.said[number][1], row_F=row_F, row_U=row_U,
                person_F=person_N[row_F], person_U=person_N[row_U],
            )
            for role, number in roles
        ]  # fmt: skip


def opened(work: Path, models: int, say: Any) -> World:
    """Trains what is missing of the models, and asks each about everybody."""
    dataset = load_dataset(SPEC, RECIPE.image_size, show=False)
    split = make_split(dataset, seed=0)
    by_id = {sample.id: sample.person for sample in dataset.samples}
    people = sorted({by_id[name] for name in split.train})
    aside = set(np.random.default_rng(0).permutation(people)[: len(people) // 2].tolist())
    split = split.with_forget([name for name in split.train if by_id[name] in aside])
    task = AgeTask(recipe=RECIPE, edges=edges_of(dataset))
    sets = task.sets(dataset, split, CPU)
    evidence = gather(sets, dataset, task)

    def made(number: int) -> Checkpoint:
        path = work / f"model-{number}"
        if (path / "unplug.json").is_file():
            return load_checkpoint(path)
        say(f"model {number} of {models}")
        return train_age(dataset, split, RECIPE, path, seed=number, device=CPU, show=False, role="retrained")

    said = []
    for number in range(models):
        checkpoint = made(number)
        predictor = CheckpointPredictor(name="model", role="unlearned", checkpoint=checkpoint, task=task)
        said.append((checkpoint.sha256, predictor.further(predictor.signals(sets), sets, evidence)))
    return World(sets=sets, split=split, evidence=evidence, task=task, said=tuple(said))


def outcomes(world: World, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """Of every draw the size of the request and what the gate said."""
    everybody = np.unique(world.sets.forget.subject_N)
    for size in SIZES:
        base: AuditReport | None = None
        for draw in range(draws):
            rng = np.random.default_rng([seed, size, draw])
            numbers = rng.choice(len(world.said), 2, replace=False)
            sets, models = world.draw(rng.choice(everybody, size + UNSEEN, replace=False), size, numbers)
            base = base or audit(
                models, sets, world.split, edges=world.task.edges, data={}, attacks=["loss"], seed=seed, show=False
            )  # of a request of this size; what differs between draws is computed below
            found = criticise(base, models, sets, world.evidence, seed=draw)  # type: ignore[arg-type]
            (gate,) = further_gate(found)
            yield {"people": size, "refused": not gate.passed, "models": numbers.tolist(), "ratios": ratios(found)}


def ratios(report: AuditReport) -> dict[str, float]:
    """By judged attack |AUC - the oracle's| over half the width of its interval: above 1 the interval leaves out zero."""
    gaps = {
        name: item.minus_retrained_together for name, item in report.model("unlearned").further.items() if not inherent(name)
    }
    return {
        name: round(2 * abs(gap.value) / (gap.high - gap.low), 4)
        for name, gap in gaps.items()
        if gap is not None and gap.low is not None and gap.high is not None and gap.high > gap.low
    }


def upper(refused: int, draws: int) -> float:
    """The one-sided 95 % limit of a rate, after Clopper and Pearson; draws share models and strangers, so it is a little low.

    Example:
        >>> round(upper(0, 59), 3)
        0.05
    """
    return float(beta.ppf(0.95, refused + 1, draws - refused)) if refused < draws else 1.0


def further_markdown(facts: dict[str, Any]) -> str:
    """The rate of false alarms by the size of the request, and over all."""
    lines = ["| people | draws | refused | rate | at most (95 %) | with intervals as they are |", "|--:|--:|--:|--:|--:|--:|"]
    sizes: list[int | None] = [*sorted({run["people"] for run in facts["runs"]}), None]
    for size in sizes:
        mine = [run for run in facts["runs"] if size in (None, run["people"])]
        own, plain = [run["refused"] for run in mine], [max(run["ratios"].values()) > 1.0 for run in mine]
        rate, limit, before = 100 * sum(own) / len(own), 100 * upper(sum(own), len(own)), 100 * sum(plain) / len(own)
        lines.append(f"| {size or 'all'} | {len(own)} | {sum(own)} | {rate:.1f} % | {limit:.1f} % | {before:.1f} % |")
    return "\n".join(lines)


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder of the models; what is there is used.")
@click.option("--models", type=click.IntRange(min=2), default=12, show_default=True, help="M.")
@click.option("--draws", type=click.IntRange(min=1), default=250, show_default=True, help="Requests of each size.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, show_default=False, help="JSON to write.")
def main(work: Path, models: int, draws: int, seed: int, out: Path) -> None:
    """Draws requests, writes every outcome, prints the table."""
    use_threads(1)
    world = opened(work, models, click.echo)
    runs = list(tqdm(outcomes(world, draws, seed), total=len(SIZES) * draws, unit="draw"))
    facts = {
        "schema": SCHEMA, "data": SPEC, "recipe": RECIPE.to_dict(), "models": models, "draws": draws, "seed": seed,
        "aside": len(np.unique(world.sets.forget.subject_N)), "unseen": UNSEEN,
        "runs": runs, "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    click.echo(further_markdown(facts))


if __name__ == "__main__":
    main()
