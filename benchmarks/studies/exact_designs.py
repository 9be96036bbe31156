"""Models that were made to forget, on the data, the split and the forget set of a finished board,
with originals of their own.

``python -m benchmarks.studies.exact_designs --board DIR --original ORIGINAL --fleet FLEET --work
WORK --out docs/data/leaderboard-designs.json``; ORIGINAL is one of what the board's
``--models-out`` wrote, FLEET its references (``unplug references``). A design is another model, so
it has its own originals, and its own retrained models (other seeds, without the forget set) beside
which F is measured; error and accuracy stand beside the *ordinary* retrained models of the board,
which is what a user gives up. ``folds`` is no exact design: it forgets from the board's ordinary
originals, with answers of a fleet. Every model is kept in WORK; a second call goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn

from benchmarks.studies.leaderboard import (
    Bench,
    Board,
    Oracle,
    Pool,
    arrays_of,
    measure,
    measure_pool,
    weights_sha256,
)
from benchmarks.studies.leaderboard.intervals import as_measure, cluster_mean, difference
from benchmarks.studies.leaderboard.protocol import TEN_GROUPS
from benchmarks.studies.leaderboard.score import measure_cost
from unplug.core import table, use_threads, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.evidence.fleet import (
    FleetJob,
    Order,
    Result,
    has_result,
    load_references,
    pack,
    read_result,
    write_result,
)
from unplug.sdk.forgetting.tasks import task_of, train_age
from unplug.sdk.forgetting.unlearning import (
    ForgetProblem,
    Meter,
    apply_method,
    build_design,
    build_method,
    forget,
    summary,
)
from unplug.sdk.learning.data import Dataset, load_dataset, make_split
from unplug.sdk.learning.training import ImageSet, Recipe, seeded

SCHEMA = "unplug-exact-designs/1"
TRUNK_SPEC = "synth:n=1600,subjects=800,seed=21"
TRUNK_RECIPE = Recipe(
    size="nano",
    image_size=32,
    epochs=24,
    batch_size=64,
    augment="flip",
    dropout=0.0,
    lr=6e-3,
    weight_decay=0.05,
    edges=TEN_GROUPS,
)
"""One trunk for all: faces of other people, as a product would have it."""
OVER_TRUNK = ("closed-form", "shards")
WHAT = {
    "closed-form": "a ridge head over a trunk of other people",
    "shards": "20 shards of people by 3 slices, tails over the same trunk",
    "sisa": "5 shards of people by 3 slices, whole networks of the board's kind",
    "folds": (
        "not exact: the board's own originals, fitted to the answers of models that left the "
        "person out"
    ),
}
FROM = 10_000
"""Training seeds of retrained models, apart from those of the originals."""
CPU = torch.device("cpu")
Models = Iterator[tuple[str, Callable[[], Result]]]


@dataclass(frozen=True, kw_only=True)
class World:
    """The board, the trunk, and where results are kept."""

    board: Board
    trunk: Checkpoint
    trunk_data: Dataset
    work: Path

    def kept(self, name: str, make: Callable[[], Result]) -> Result:
        """A result of the folder, made where it is not there."""
        given = str(self.board.report.data["digest"])
        if not has_result(self.work, name, given):
            order = Order(
                job=FleetJob(name=name, target="unplug:design"), fingerprint=given, given=given
            )
            write_result(self.work, name, pack(make(), order))
        return read_result(self.work, name)


def result_of(local: Bench, model: nn.Module, wall_s: float, **facts: Any) -> Result:
    """What a model says of the board's sets."""
    return Result(
        tensors=measure(model, local.sets),
        facts={"wall_s": wall_s, "weights_sha256": weights_sha256(arrays_of(model)), **facts},
    )


def over_trunk(world: World, design: str, seed: int) -> dict[str, Result]:
    """Original, unlearned, refitted with the same seed, and retrained with another one."""
    local, dataset = world.board.local, world.board.local.dataset
    ids, results = local.split.forget, {}
    whole = replace(local.split, forget=())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def train(out: str, split: Any, own: int) -> Checkpoint:
            return build_design(design).train(
                dataset,
                split,
                TRUNK_RECIPE,
                folder / out,
                trunk=world.trunk,
                trunk_data=world.trunk_data,
                seed=own,
                device=CPU,
                show=False,
            )

        made = {
            "original": train("original", whole, seed),
            "retrained": train("retrained", local.split, seed + FROM),
        }
        for role, method in (("unlearned", None), ("refitted", "retrain")):
            made[role] = forget(
                made["original"], dataset, ids, method, folder / role, device=CPU, show=False
            )
        for role, checkpoint in made.items():
            cost = (checkpoint.record.get("forget") or {}).get("cost")
            results[role] = result_of(
                local, checkpoint.model.eval(), checkpoint.record["cost"]["wall_s"], cost=cost
            )
    return results


def sharded(world: World, design: str, seed: int) -> dict[str, Result]:
    """The same of an ensemble of whole networks."""
    local, method, results = world.board.local, build_method(design), {}

    def train(data: ImageSet, own: int) -> tuple[nn.Module, float]:
        start = time.perf_counter()
        with seeded(own, -3) as generator:
            problem = ForgetProblem(
                retain=data,
                forget=local.sets.forget.subset([]),
                validation=local.sets.validation,
                task=local.task,
                meter=Meter(local.retrain, None),
                seed=own,
                generator=generator,
            )
            return method.train(problem).eval(), time.perf_counter() - start  # type: ignore[attr-defined]

    original, wall_s = train(local.whole, seed)
    results["original"] = result_of(local, original, wall_s)
    for role, own in (("refitted", seed), ("retrained", seed + FROM)):
        results[role] = result_of(local, *train(local.training_set("retrained"), own))
    model, cost = apply_method(
        method, original, local.sets, local.task, local.retrain, None, seed=seed
    )
    results["unlearned"] = result_of(
        local, model, cost.wall_s, cost=summary(cost, local.retrain, None)
    )
    return results


def pools(world: World, design: str, seeds: Sequence[int]) -> dict[str, Pool]:
    """The models of a design by role, made or read."""
    roles = ("original", "unlearned", "refitted", "retrained")
    results: dict[str, list[Result]] = {role: [] for role in roles}
    for seed in seeds:
        names = {role: f"{design}-{role}-{seed}" for role in roles}
        made: dict[str, Result] = {}
        for role, name in names.items():

            def make(role: str = role, seed: int = seed, made: dict[str, Result] = made) -> Result:
                if not made:
                    made |= (over_trunk if design in OVER_TRUNK else sharded)(world, design, seed)
                return made[role]

            results[role].append(world.kept(name, make))
    return {
        role: Pool(models=tuple(own), clusters=tuple(seeds), truths=world.board.truths)
        for role, own in results.items()
    }


def folds_pools(
    world: World, seeds: Sequence[int], original: Checkpoint, fleet: Path
) -> dict[str, Pool]:
    """Ordinary originals that were fitted to out-of-fold answers, beside the board's own retrained
    models.
    """
    local, board = world.board.local, world.board
    references = load_references(fleet, original, task_of(original, device=CPU), local.dataset)
    method, unlearned = build_method("folds"), []
    for seed in seeds:

        def make(seed: int = seed) -> Result:
            outside = references.out_of_fold(local.split.forget, seed).logits(local.sets.forget.ids)
            model, cost = apply_method(
                method,
                local.original(seed),
                local.sets,
                local.task,
                local.retrain,
                board.budget,
                seed=seed,
                outside_FG=outside,
            )
            return result_of(
                local, model, cost.wall_s, cost=summary(cost, local.retrain, board.budget)
            )

        unlearned.append(world.kept(f"folds-unlearned-{seed}", make))
    by_role = {
        "original": board.before.models,
        "unlearned": tuple(unlearned),
        "retrained": board.oracle.pool.models,
    }
    return {
        role: Pool(models=models[: len(seeds)], clusters=tuple(seeds), truths=board.truths)
        for role, models in by_role.items()
    }


def row_of(design: str, made: Mapping[str, Pool], ordinary: Pool) -> dict[str, Any]:
    """A design's numbers: F and attacks beside its own retrained models, use beside the ordinary
    ones.
    """
    oracle, unlearned = Oracle(made["retrained"]), made["unlearned"]
    metrics = {**measure_pool(unlearned, oracle)[0], **measure_cost(unlearned)}
    before = measure_pool(made["original"], oracle)[0]
    metrics["before_loss_auc"], metrics["before_f_ratio"] = before["loss_auc"], before["f_ratio"]
    for name in ("test_mae", "test_accuracy", "retain_mae"):
        pair = [cluster_mean(pool.per_model(name), pool.clusters) for pool in (unlearned, ordinary)]
        metrics[f"{name}_ordinary_gap"] = as_measure(difference(*pair), 0.0)
    same = [one.facts["weights_sha256"] for one in unlearned.models]
    refits = (
        [one.facts["weights_sha256"] for one in made["refitted"].models]
        if "refitted" in made
        else []
    )
    return {
        "design": design,
        "what": WHAT[design],
        "models": len(unlearned),
        "equal": sum(one == other for one, other in zip(same, refits, strict=True))
        if refits
        else None,
        "train_s": float(made["original"].per_model("wall_s").mean()),
        "metrics": {name: asdict(item) for name, item in metrics.items()},
    }


def designs_markdown(found: dict[str, Any]) -> str:
    """Where models that were made to forget stand, beside ordinary ones."""
    heads = (
        "design",
        "equal to its refit",
        "score",
        "F / F_null",
        "the same, before",
        "loss AUC (own retrained)",
        "the same, before",
        "test MAE, minus ordinary retrained, years",
        "test accuracy, minus ordinary retrained, points",
        "compute (of retraining)",
        "wall time, s",
    )
    lines = [f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 1)}"]
    for row in found["rows"]:
        numbers = row["metrics"]
        aim = f" ({numbers['loss_auc']['oracle']:.3f})"
        cells = [
            row["design"],
            "not exact" if row["equal"] is None else f"{row['equal']} of {row['models']}",
            span(numbers["score"], 3),
            span(numbers["f_ratio"], 2),
            span(numbers["before_f_ratio"], 2),
            f"{numbers['loss_auc']['value']:.3f}{aim}",
            f"{numbers['before_loss_auc']['value']:.3f}",
            span(numbers["test_mae_ordinary_gap"], 2, "+"),
            span(numbers["test_accuracy_ordinary_gap"], 1, "+", 100.0),
            span(numbers["compute"], 1, "", 100.0) + " %",
            span(numbers["wall_s"], 2),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def span(item: dict[str, float], digits: int, sign: str = "", scale: float = 1.0) -> str:
    """A number with its interval, where it has one."""
    text, low, high = (
        "" if item[name] is None else f"{scale * item[name]:{sign}.{digits}f}".replace("-", "−")
        for name in ("value", "low", "high")
    )
    return f"{text} ({low} to {high})" if low else text


@click.command()
@click.option(
    "--board",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Folder of a finished leaderboard.",
)
@click.option(
    "--original",
    type=click.Path(path_type=Path),
    required=True,
    help="An original of it, as a checkpoint.",
)
@click.option(
    "--fleet", type=click.Path(path_type=Path), required=True, help="References of that original."
)
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the trunk and of every model.",
)
@click.option("--models", default=16, show_default=True, help="K = N of each design.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
def main(board: Path, original: Path, fleet: Path, work: Path, models: int, out: Path) -> None:
    """Trains, forgets from and refits every design; writes a row of each."""
    use_threads(1)
    opened, data = Board.open(board), load_dataset(TRUNK_SPEC, TRUNK_RECIPE.image_size, show=False)
    place = work / "trunk"
    split = make_split(data, seed=0, validation=0.1, test=0.1)
    trunk = (
        load_checkpoint(place)
        if (place / "unplug.json").is_file()
        else train_age(data, split, TRUNK_RECIPE, place, seed=0, device=CPU, show=False)
    )
    world = World(board=opened, trunk=trunk, trunk_data=data, work=work / "results")
    seeds, ordinary = list(range(models)), opened.oracle.pool
    made = {name: pools(world, name, seeds) for name in (*OVER_TRUNK, "sisa")}
    made["folds"] = folds_pools(world, seeds, load_checkpoint(original), fleet)
    rows = [row_of(name, own, ordinary) for name, own in made.items()]
    facts = {
        "schema": SCHEMA,
        **opened.facts(),
        "models": models,
        "trunk": TRUNK_SPEC,
        "trunk_recipe": TRUNK_RECIPE.to_dict(),
        "trunk_pictures": len(split.train),
        "ordinary_s": float(ordinary.per_model("wall_s").mean()),
        "ordinary_test_mae": float(ordinary.per_model("test_mae").mean()),
    }
    write_json(out, {**facts, "rows": rows, "versions": versions()})
    cells = [
        (row["design"], f"{row['metrics']['f_ratio']['value']:.2f}", str(row["equal"]))
        for row in rows
    ]
    print(table(("design", "F / F_null", "equal to its refit"), cells))


if __name__ == "__main__":
    main()
