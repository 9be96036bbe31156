"""``python -m benchmarks.designs --trunk DIR --data SPEC``: what models made to forget are worth, and that they forget exactly.

For each design and seed (of the split and of everything random): test and training error, of the trunk's own head and of
ordinary models on the same faces, and how well the error tells training from test faces before anything is forgotten. Then
random requests in sequence, each of one person, and what is left against a refit on the rest; what requests of several sizes
cost by `price`, and whole forget steps by the clock. JSON goes to OUT; docs/forgettable.md shows the tables.
"""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import table, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.statistics import auc
from unplug.sdk.training import describe_device, predict, recipe_of, split_of, to_tensors
from unplug.sdk.unlearning import DESIGNS, build_design, forget
from unplug.sdk.unlearning.designs.over_trunk import Kept, OverTrunk
from unplug.sdk.unlearning.designs.trunk import TrunkRows, rows_of

SCHEMA = "unplug-designs/1"
CPU = torch.device("cpu")
SIZES = (1, 5, 20)
DRAWS = 100


def row_of(name: str, model: Any, dataset: Dataset, split: Split) -> dict[str, Any]:
    """Errors on training and test faces, and the AUC of the attack that reads them."""
    train_N, test_N = (
        predict(model, to_tensors(dataset, ids, model.age_edges, CPU)).error_N for ids in (split.retain, split.test)
    )
    return {
        "model": name, "train_mae": float(train_N.mean()), "test_mae": float(test_N.mean()),
        "error_auc": float(auc(-train_N, -test_N)),
    }  # fmt: skip


def sequence(design: OverTrunk[Any], original: Checkpoint, rows: TrunkRows, requests: int, seed: int) -> dict[str, Any]:
    """Random people leave one after the other; what is left against a refit after 1, 10, 100, ... of them."""
    model, kept, own = copy.deepcopy(original.model), design.load(original), int(original.record["seed"])
    position = {name: index for index, name in enumerate(rows.ids)}
    pictures: dict[str, list[str]] = {}
    for name, person in zip(rows.ids, rows.people, strict=True):
        pictures.setdefault(person, []).append(name)
    people = np.random.default_rng(seed).permutation(sorted(pictures))[:requests]
    times, read, checked = [], [], []
    for number, person in enumerate(people, 1):
        gone = pictures[person]
        needed = rows.part([position[name] for name in design.reads(kept, gone)])
        started = time.perf_counter()
        kept = design.take(model, kept, gone, needed, own)
        design.fill(model, kept, original.record["design"])
        times.append(time.perf_counter() - started)
        read.append(len(needed.ids))
        if number in (1, 10, 100, len(people)):
            started = time.perf_counter()
            fresh = design.fit(model, kept, rows.part([position[name] for name in sorted(kept.committed)]), own)
            checked.append(
                {"requests": number, "left": len(fresh.committed), "refit_s": time.perf_counter() - started}
                | compared(kept, fresh)
            )
    return {
        "checked": checked, "pictures_read": float(np.mean(read)),
        "request_ms": {"median": 1e3 * float(np.median(times)), "p95": 1e3 * float(np.quantile(times, 0.95))},
    }  # fmt: skip


def compared(kept: Kept, fresh: Kept) -> dict[str, Any]:
    """Whether two states are the same bit for bit, and the largest difference of any number in them."""
    mine, theirs = (state.tensors({name: name for name in state.committed}) for state in (kept, fresh))
    worst = max(float((value.double() - theirs[name].double()).abs().max()) for name, value in mine.items())
    return {"equal": all(torch.equal(value, theirs[name]) for name, value in mine.items()), "largest_difference": worst}


def asked(original: Checkpoint, dataset: Dataset, size: int, draws: int) -> list[list[str]]:
    """Random requests of some people, all of their training pictures each."""
    pictures: dict[str, list[str]] = {}
    inside = set(split_of(original).retain)
    for sample in dataset.samples:
        if sample.id in inside:
            pictures.setdefault(sample.person, []).append(sample.id)
    generator, names = np.random.default_rng(size), sorted(pictures)
    return [
        [name for index in generator.choice(len(names), size, replace=False) for name in pictures[names[index]]]
        for _ in range(draws)
    ]


def costs(
    design: OverTrunk[Any], original: Checkpoint, dataset: Dataset, size: int, steps: int, folder: Path
) -> dict[str, Any]:
    """Mean price over `DRAWS` requests, and the wall time of whole steps from the pictures on."""
    requests = asked(original, dataset, size, DRAWS)
    price = [design.price(original, dataset, gone) for gone in requests]
    walls = []
    for number, gone in enumerate(requests[:steps]):
        done = forget(original, dataset, gone, None, folder / f"{design.name}-{size}-{number}", device=CPU, show=False)
        walls.append(done.record["forget"]["cost"]["wall_s"])
    return {
        "people": size, "price": float(np.mean(price)), "price_sd": float(np.std(price)),
        "wall_s": float(np.median(walls)) if walls else None,
    }  # fmt: skip


def accuracy_markdown(facts: dict[str, Any]) -> str:
    """The table of errors of docs/forgettable.md, from the JSON that `main` writes: mean (each seed)."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in facts["rows"]:
        found.setdefault(row["model"], []).append(row)
    lines = ["| model | training MAE | test MAE | error AUC, training against test |", "|---|---|---|---|"]
    for name, rows in found.items():
        cells = [(_several([row[key] for row in rows], digits)) for key, digits in _COLUMNS]
        which = f", split {rows[0]['seed']} alone" if len(rows) == 1 else ""
        lines.append(f"| {name}{which} | {' | '.join(cells)} |")
    return "\n".join(lines)


_COLUMNS = (("train_mae", 2), ("test_mae", 2), ("error_auc", 3))


def _several(values: list[float], digits: int) -> str:
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({', '.join(f'{value:.{digits}f}' for value in values)})"


def cost_markdown(facts: dict[str, Any]) -> str:
    """The table of prices of docs/forgettable.md, from the JSON that `main` writes."""
    lines = ["| design | people | price, of the passes of a refit | whole step | refit |", "|---|---|---|---|---|"]
    for name, found in facts["designs"].items():
        for row in found["costs"]:
            lines.append(
                f"| {name} | {row['people']} | {100 * row['price']:.3g} % | {row['wall_s']:.2g} s | {found['refit_s']:.2g} s |"
            )
    return "\n".join(lines)


@click.command()
@click.option("--trunk", type=click.Path(path_type=Path), required=True, help="An age predictor that saw none of the data.")
@click.option("--data", "spec", required=True, metavar="SPEC")
@click.option("--ordinary", type=click.Path(path_type=Path), multiple=True, help="An ordinary model; may be repeated.")
@click.option("--seeds", type=int, default=5, show_default=True)
@click.option("--requests", type=int, default=1000, show_default=True)
@click.option("--steps", type=int, default=3, show_default=True, help="Whole forget steps of each size.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/designs.json"), show_default=True)
def main(trunk: Path, spec: str, ordinary: tuple[Path, ...], seeds: int, requests: int, steps: int, out: Path) -> None:
    """Fits, measures and forgets, and writes the JSON and the table."""
    base = load_checkpoint(trunk, expect="age")
    dataset = load_dataset(spec, base.model.image_size)
    consented = load_dataset(base.record["data"]["spec"], base.model.image_size)
    rows, designs = [], {}
    with tempfile.TemporaryDirectory(prefix="unplug-designs-") as folder:
        for name in DESIGNS:
            design = build_design(name)
            assert isinstance(design, OverTrunk)
            for seed in range(seeds):
                split = make_split(dataset, seed=seed)
                made = design.train(
                    dataset, split, recipe_of(base), Path(folder) / f"{name}-{seed}", trunk=base, trunk_data=consented,
                    seed=seed, device=CPU,
                )  # fmt: skip
                rows.append({"seed": seed} | row_of(name, made.model, dataset, split))
                if seed == 0:
                    model = made.model
                    found = rows_of(model, made.record["design"]["grid"], dataset, split.retain, CPU)
                    gone = asked(made, dataset, 1, 1)[0]
                    refitted = forget(made, dataset, gone, "retrain", Path(folder) / f"{name}-refit", device=CPU)
                    designs[name] = {
                        "sequence": sequence(design, made, found, requests, seed=0),
                        "costs": [costs(design, made, dataset, size, steps, Path(folder)) for size in SIZES],
                        "refit_s": refitted.record["forget"]["cost"]["wall_s"],
                        "bytes": {path.name: path.stat().st_size for path in sorted(made.path.glob("*.safetensors"))},
                    }
                    click.echo(designs[name])
        for seed in range(seeds):
            rows.append({"seed": seed} | row_of("trunk's own head", base.model, dataset, make_split(dataset, seed=seed)))
        for place in ordinary:
            given = load_checkpoint(place, expect="age")
            recipe = given.record["recipe"]
            shown = f"ordinary, {recipe['size']}, {recipe['epochs']} epochs"
            known = {"seed": given.record["seed"], "train_s": given.record["cost"]["wall_s"]}
            rows.append(known | row_of(shown, given.model, dataset, split_of(given, dataset)))
    write_json(
        out,
        {
            "schema": SCHEMA, "data": dataset.digest, "trunk": base.sha256, "rows": rows, "designs": designs,
            "device": describe_device(CPU), "versions": versions(),
        },
    )  # fmt: skip
    shown_rows = [
        [row["model"], str(row["seed"]), f"{row['train_mae']:.2f}", f"{row['test_mae']:.2f}", f"{row['error_auc']:.3f}"]
        for row in rows
    ]
    click.echo(table(["model", "seed", "train MAE", "test MAE", "error AUC"], shown_rows))


if __name__ == "__main__":
    main()
