"""Whether models that forgot are distributed as models that never saw: the tables of docs/goal.md.

    python -m benchmarks.goal ORIGINAL --data SPEC --fleet REFERENCES --forget forget.txt --work DIR --out goal.json

K originals of one recipe (ORIGINAL only names recipe and split; the seeds are others) and K models retrained without the people
of the request. Each original forgets all of them at once, and some of them alone, by `folds` at a release's budget; answers of
REFERENCES are the targets. Per picture of the forgotten the confidences of 2 K models are compared. With `--trunk` the exact
designs go the same way: models of K seeds forget, models of K other seeds never saw.

Shapes: K models, F pictures of forgotten people, B bootstrap replicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from unplug.core import json_sha256, read_json, versions, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.cli.base import settings
from unplug.sdk.data import load_dataset, read_forget_file
from unplug.sdk.fleet import Context, FleetJob, References, Result, load_references, read_result, run_jobs
from unplug.sdk.tasks import StoredTask, task_of
from unplug.sdk.training import ClassPredictions, Sets, classed, describe_device, predict, recipe_of
from unplug.sdk.unlearning import apply_method, build_design, build_method, estimate_retraining, own_split, request_split
from unplug.sdk.unlearning.designs.over_trunk import OverTrunk
from unplug.sdk.unlearning.designs.trunk import TrunkRows, check_apart, consented, rows_of

from .designs import compared

SCHEMA = "unplug-goal/1"
CPU = torch.device("cpu")
METHOD = "folds"
GOAL = {"shift": (-0.25, 0.25), "spread": (0.9, 1.1), "test": (0.0, 1.01), "retain": (0.0, 1.05)}
REPLICATES = 2000
ALONE = 4
"""People of the request whom each original also forgets alone."""
ORIGINALS, RETRAINED = 3_000_000, 3_500_000
"""First seeds."""
Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class World:
    """What the jobs share: the sets before and after the request, and who of it is forgotten alone."""

    task: StoredTask
    whole: Sets
    asked: Sets
    fleet: References
    people: tuple[int, ...]

    def sets(self, alone: int) -> Sets:
        """Of the request of everybody (-1), or of one of its people alone."""
        if alone < 0:
            return self.asked
        gone_T = self.whole.train.subject_N == self.people[alone]
        keep, gone = np.flatnonzero(~gone_T).tolist(), np.flatnonzero(gone_T).tolist()
        return replace(self.whole, train=self.whole.train.subset(keep), forget=self.whole.train.subset(gone))


def world(original: str, spec: str, forget: str, fleet: str) -> World:
    """Built once a process. Who is in a picture has the same number in both sets: it comes from the data."""
    checkpoint = load_checkpoint(Path(original))
    task = task_of(checkpoint, device=CPU)
    dataset = load_dataset(spec, task.image_size, show=False)
    asked = task.sets(dataset, request_split(checkpoint, dataset, read_forget_file(Path(forget), dataset)), CPU)
    whole = task.sets(dataset, own_split(checkpoint, dataset), CPU)
    place = {name: row for row, name in enumerate(whole.train.ids)}
    people = sorted({int(whole.train.subject_N[place[name]]) for name in asked.forget.ids})
    chosen = np.random.default_rng(0).choice(people, min(ALONE, len(people)), replace=False)
    return World(
        task=task, whole=whole, asked=asked, fleet=load_references(Path(fleet), checkpoint, task, dataset),
        people=tuple(chosen.tolist()),
    )  # fmt: skip


def train_job(own: World, seed: int, whole: bool) -> Result:
    """An original with its weights, or a retrained model."""
    sets = own.whole if whole else own.asked
    done = own.task.fit(sets.train, sets.validation, seed=seed, state=None, show=False, label="")
    weights = {f"weights/{name}": value.numpy() for name, value in done.model.state_dict().items()} if whole else {}
    return Result(tensors=weights | says(done.model, own.asked), facts={"wall_s": done.wall_s})


def forget_job(own: World, folder: str, number: int, alone: int, budget: float, options: dict[str, str]) -> Result:
    """An original forgets everybody (-1) or one person of the request."""
    sets, stored = own.sets(alone), read_result(Path(folder), f"original-{number:03d}").tensors
    model = own.task.build(own.whole.train)
    model.load_state_dict({name[8:]: torch.from_numpy(value) for name, value in stored.items() if name.startswith("weights/")})
    seed = ORIGINALS + number
    outside = own.fleet.out_of_fold(sets.forget.ids, seed)
    cost = estimate_retraining(model.eval(), sets, own.task)
    done, spent = apply_method(
        build_method(METHOD, options),
        model,
        sets,
        own.task,
        cost,
        budget,
        seed=seed,
        outside_FG=outside.logits(sets.forget.ids),
    )
    return Result(tensors=says(done, sets), facts={"wall_s": spent.wall_s, "compute": spent.compute / cost.cost.compute})


def says(model: torch.nn.Module, sets: Sets) -> dict[str, NDArray[Any]]:
    """Confidence on the forgotten pictures (F,), and mean error on test and retain set."""
    forget, test, retain = (classed(predict(model, part)) for part in (sets.forget, sets.test, sets.train))
    return {
        "phi_F": forget.confidence_N, "test": np.array(test.error_N.mean()), "retain": np.array(retain.error_N.mean()),
    }  # fmt: skip


def judged(
    own: Sequence[Mapping[str, Array]], never: Sequence[Mapping[str, Array]], person_F: NDArray[np.int64]
) -> dict[str, Any]:
    """Shift, spread and errors of K models over those of K models that never saw, with intervals over models and people.

        shift = mean_F (mean_K own - mean_K never) / sd_K never;   spread = exp mean_F ln(sd_K own / sd_K never)

    Both samples are drawn with replacement, and so are whole people.
    """
    phi = np.stack([item["phi_F"] for item in own]), np.stack([item["phi_F"] for item in never])
    errors = {name: [np.array([float(item[name]) for item in side]) for side in (own, never)] for name in ("test", "retain")}
    people, row_F = np.unique(person_F, return_inverse=True)

    def measured(one_K: NDArray[Any], other_K: NDArray[Any], weight_F: Array) -> list[float]:
        (mine_KF, theirs_KF), sd_F = (phi[0][one_K], phi[1][other_K]), phi[1][other_K].std(axis=0, ddof=1)
        shift_F = (mine_KF.mean(axis=0) - theirs_KF.mean(axis=0)) / sd_F
        ratio_F = np.log(mine_KF.std(axis=0, ddof=1) / sd_F)
        moments = [float(np.average(shift_F, weights=weight_F)), float(np.exp(np.average(ratio_F, weights=weight_F)))]
        return moments + [float(side[0][one_K].mean() / side[1][other_K].mean()) for side in errors.values()]

    rng, (mine, theirs) = np.random.default_rng(0), (len(own), len(never))
    value = measured(np.arange(mine), np.arange(theirs), np.ones(len(row_F)))
    drawn = []
    for _ in range(REPLICATES):
        weight_P = rng.multinomial(len(people), np.full(len(people), 1 / len(people)))
        drawn.append(measured(rng.integers(mine, size=mine), rng.integers(theirs, size=theirs), weight_P[row_F].astype(float)))
    low, high = np.percentile(np.array(drawn), [2.5, 97.5], axis=0)
    return {
        name: {"value": value[place], "low": float(low[place]), "high": float(high[place])} for place, name in enumerate(GOAL)
    }  # fmt: skip


def method_rows(
    original: Path,
    spec: str,
    fleet: Path,
    forget: Path,
    work: Path,
    models: int,
    budget: float,
    options: dict[str, str],
    workers: int,
) -> list[dict[str, Any]]:
    """Trains, forgets and compares: the originals, everybody at once, and one person at a time."""
    where = {"original": str(original.resolve()), "spec": spec, "forget": str(forget.resolve()), "fleet": str(fleet.resolve())}
    context, folder = Context(target="benchmarks.goal:world", arguments=where), work / "models"
    trained = [
        FleetJob(
            name=f"{kind}-{number:03d}", target="benchmarks.goal:train_job", arguments={"seed": first + number, "whole": whole}
        )
        for number in range(models)
        for kind, first, whole in (("original", ORIGINALS, True), ("retrained", RETRAINED, False))
    ]
    own = context.build()
    forgot = [
        FleetJob(
            name=f"forgot-{number:03d}{_alone(alone)}", target="benchmarks.goal:forget_job",
            arguments={"folder": str(folder.resolve()), "number": number, "alone": alone, "budget": budget, "options": options},
        )
        for number in range(models)
        for alone in range(-1, len(own.people))
    ]  # fmt: skip
    given = json_sha256([load_checkpoint(original).sha256, own.fleet.sha256, torch.__version__])
    for jobs in (trained, forgot):
        if failed := run_jobs(jobs, context, folder, workers=workers, fingerprint=given).failed:
            raise click.ClickException(next(iter(failed.values())))
    return compared_rows(own, Models(folder=folder, count=models))


def _alone(number: int) -> str:
    return "" if number < 0 else f"-alone-{number}"


@dataclass(frozen=True, kw_only=True)
class Models:
    """What the K models of each kind left in a folder."""

    folder: Path
    count: int

    def said(self, kind: str, end: str = "") -> list[dict[str, Array]]:
        """Of each model of a kind."""
        return [self._read(kind, number, end).tensors for number in range(self.count)]

    def mean(self, kind: str, key: str, end: str = "") -> float:
        """Of a fact of theirs."""
        return float(np.mean([self._read(kind, number, end).facts[key] for number in range(self.count)]))

    def _read(self, kind: str, number: int, end: str) -> Result:
        found = read_result(self.folder, f"{kind}-{number:03d}{end}")
        if found.refused is not None:
            raise click.ClickException(f"{kind}-{number:03d}{end}: {found.refused['what']}: {found.refused['why']}")
        return found


def compared_rows(own: World, found: Models) -> list[dict[str, Any]]:
    """Originals and forgotten ones beside retrained ones; of everybody at once, and of people forgotten alone, together."""
    person_F, never, before = own.asked.forget.subject_N, found.said("retrained"), found.said("original")
    everybody = {"people": len(np.unique(person_F)), "train_s": found.mean("retrained", "wall_s")}
    ends = [_alone(number) for number in range(len(own.people))]
    ids = [own.sets(number).forget.ids for number in range(len(own.people))]
    place = {name: row for row, name in enumerate(own.asked.forget.ids)}
    row_A = np.array([place[name] for names in ids for name in names])

    def picked(said: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        return [{**item, "phi_F": item["phi_F"][row_A]} for item in said]

    alone = [
        {
            "phi_F": np.concatenate([part["phi_F"] for part in parts]),
            **{name: np.array(np.mean([part[name] for part in parts])) for name in ("test", "retain")},
        }
        for parts in zip(*(found.said("forgot", end) for end in ends), strict=True)
    ]

    def cost(*ends: str) -> dict[str, float]:
        return {key: float(np.mean([found.mean("forgot", key, end) for end in ends])) for key in ("compute", "wall_s")}

    one = everybody | {"people": 1, "alone": len(ends)}
    return [
        {"who": "untouched", **everybody, **judged(before, never, person_F)},
        {"who": METHOD, **everybody, **judged(found.said("forgot"), never, person_F), **cost("")},
        {"who": "untouched", **one, **judged(picked(before), picked(never), person_F[row_A])},
        {"who": METHOD, **one, **judged(alone, picked(never), person_F[row_A]), **cost(*ends)},
    ]


def design_row(name: str, trunk: Path, original: Path, spec: str, forget: Path, models: int) -> dict[str, Any]:
    """K models that forget, beside refits of the same seeds (equal?) and of K other seeds (compared)."""
    base, given, design = load_checkpoint(trunk, expect="age"), load_checkpoint(original), build_design(name)
    assert isinstance(design, OverTrunk)
    dataset = load_dataset(spec, base.model.image_size)
    split = request_split(given, dataset, read_forget_file(forget, dataset))
    trunk_data = load_dataset(base.record["data"]["spec"], base.model.image_size)
    check_apart(dataset, trunk_data)
    model, facts, _ = design._begun(base, trunk_data, 0, CPU, False)
    known = consented(model, base, trunk_data, CPU)
    rows = rows_of(model, facts["grid"], dataset, [*split.retain, *split.forget], CPU)
    test, stay = rows_of(model, facts["grid"], dataset, split.test, CPU), len(split.retain)
    rest, gone = rows.part(range(stay)), rows.part(range(stay, len(rows.ids)))
    position = {name: row for row, name in enumerate(rows.ids)}
    own: list[dict[str, Any]] = []
    never: list[dict[str, Any]] = []
    equal = True
    for number in tqdm(range(2 * models), name):
        seed = ORIGINALS + number
        begun, empty = design.begin(model, known, seed)
        if number < models:
            kept = design.fit(model, empty, rows, seed)
            needed = rows.part([position[name] for name in design.reads(kept, split.forget)])
            kept = design.take(model, kept, split.forget, needed, seed)
            equal = equal and compared(kept, design.fit(model, design.begin(model, known, seed)[1], rest, seed))["equal"]
        else:
            kept = design.fit(model, empty, rest, seed)
        design.fill(model, kept, facts | begun)
        answers = [_answers(model, part) for part in (gone, test, rest)]
        said = {"phi_F": answers[0].confidence_N, "test": answers[1].error_N.mean(), "retain": answers[2].error_N.mean()}
        (own if number < models else never).append(said)
    person_F = np.unique(np.array(gone.people), return_inverse=True)[1]
    return {"who": name, "people": len(set(gone.people)), **judged(own, never, person_F), "equal": bool(equal)}


@torch.no_grad()
def _answers(model: Any, rows: TrunkRows) -> ClassPredictions:
    """What the network says over pooled features that are there already."""
    answer_NK = model.classifier(model.lift(rows.pooled_NC.float()).relu()).double().numpy()
    edges = np.array(model.age_edges)
    group_N = np.clip(np.searchsorted(edges, rows.age_N.numpy(), "right") - 1, 0, model.groups - 1)
    return ClassPredictions(
        logits_NG=answer_NK[:, :-1], age_N=answer_NK[:, -1].clip(edges[0], edges[-1]), true_age_N=rows.age_N.numpy(),
        true_group_N=group_N,
    )  # fmt: skip


def _trained(record: Mapping[str, Any]) -> dict[str, float]:
    """What the references cost, once for all requests: trainings of the recipe's length, and seconds."""
    models, folds = record["models"], record["folds"]
    return {"models": models, "retrainings": models * (folds - 1) / folds, "wall_s": record["cost"]["wall_s"]}


def _named(data: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of some data, without a folder of this machine."""
    kind, _, where = str(data["spec"]).partition(":")
    return {"spec": f"{kind}:{where}" if kind == "synth" else kind, "digest": data["digest"], "samples": data["samples"]}


def markdown(facts: dict[str, Any]) -> str:
    """The table of docs/goal.md, from the JSON that `main` writes."""
    lines = [
        "| models | K | people a request | shift of φ, sd | spread | test MAE | retain MAE | compute | seconds | goal |",
        "|---|--:|--:|---|---|---|---|--:|--:|---|",
    ]
    for row in facts["rows"]:
        shown = [f"{row[name]['value']:.3f} ({row[name]['low']:.3f} to {row[name]['high']:.3f})" for name in GOAL]
        cost = [f"{100 * row['compute']:.1f} %", f"{row['wall_s']:.2g}"] if "compute" in row else ["", ""]
        exact = "equal, bit for bit" if row.get("equal") else ""
        count = row.get("models", facts["models"])
        lines.append(
            f"| {row['who']} | {count} | {row['people']} | {' | '.join(shown)} | {' | '.join(cost)} | {exact or met(row)} |"
        )
    train = [row["train_s"] for row in facts["rows"] if "train_s" in row]
    lines.append(f"| retrained | {facts['models']} | any | 0 | 1 | 1 | 1 | 100 % | {np.mean(train):.2g} | by definition |")
    fleet = facts["fleet"]
    cost = f"{100 * fleet['retrainings']:,.0f} % | {fleet['wall_s']:,.0f}"
    lines.append(f"| references, once for all requests | {fleet['models']} | any |  |  |  |  | {cost} |  |")
    return "\n".join(lines)


def met(row: Mapping[str, Any]) -> str:
    """Which numbers are within the goal, and which surely: with the whole interval."""
    missed = [name for name, (low, high) in GOAL.items() if not low <= row[name]["value"] <= high]
    unsure = [name for name, (low, high) in GOAL.items() if not (low <= row[name]["low"] and row[name]["high"] <= high)]
    if missed:
        return f"missed: {', '.join(missed)}"
    return f"met; not surely: {', '.join(unsure)}" if unsure else "met, with the whole interval"


@click.command()
@click.argument("original", type=click.Path(path_type=Path))
@click.option("--data", "spec", required=True, metavar="SPEC")
@click.option("--fleet", type=click.Path(path_type=Path), required=True)
@click.option("--forget", type=click.Path(path_type=Path), required=True)
@click.option("--trunk", type=click.Path(path_type=Path), help="For exact designs: an age predictor that saw none of the data.")
@click.option(
    "--design", "designs", multiple=True, metavar="NAME=K", default=("closed-form=64", "shards=64"), show_default=True
)
@click.option("--models", type=int, default=64, show_default=True)
@click.option("--budget", type=float, default=0.05, show_default=True)
@click.option("--workers", type=int, default=1, show_default=True)
@click.option("--set", "pairs", multiple=True, metavar="KEY=VALUE", help="Of the method.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="A killed run goes on there.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(
    original: Path, spec: str, fleet: Path, forget: Path, trunk: Path | None, designs: tuple[str, ...], models: int,
    budget: float, workers: int, pairs: tuple[str, ...], work: Path, out: Path,
) -> None:  # fmt: skip
    """Trains, forgets, compares; writes JSON and prints the table."""
    options = settings(pairs)
    rows = method_rows(original, spec, fleet, forget, work, models, budget, options, workers)
    checkpoint = load_checkpoint(original)
    facts = {
        "schema": SCHEMA, "models": models, "budget": budget, "options": options, "data": _named(checkpoint.record["data"]),
        "recipe": recipe_of(checkpoint).to_dict(), "fleet": _trained(read_json(fleet / "references.json")),
        "rows": rows, "device": describe_device(CPU), "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    if trunk is not None:
        facts["trunk"] = _named(load_checkpoint(trunk).record["data"])
        for name, count in settings(designs).items():
            rows.append({"models": int(count), **design_row(name, trunk, original, spec, forget, int(count))})
            write_json(out, facts)
    click.echo(markdown(facts))


if __name__ == "__main__":
    main()
