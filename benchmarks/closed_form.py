"""``python -m benchmarks.closed_form --trunk DIR --data SPEC``: what a closed-form head is worth, and that it forgets exactly.

For each seed (of the split and of the random features): test and training error of the head, of the trunk's own head on the
same faces, and how well the error tells training from test faces before anything is forgotten. Then random requests in
sequence, each of one person: the sums and the head after all of them against a refit on the rest. JSON goes to OUT;
docs/closed-form.md shows the table.
"""

from __future__ import annotations

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
from unplug.sdk.training import predict, recipe_of, split_of, to_tensors
from unplug.sdk.unlearning import ClosedForm
from unplug.sdk.unlearning.designs.closed_form import HeadSums, contribution, load_sums

SCHEMA = "unplug-closed-form/1"
CPU = torch.device("cpu")


def errors(model: Any, dataset: Dataset, ids: tuple[str, ...]) -> Any:
    """Absolute errors in years (N,) of a model on some samples of a data set."""
    return predict(model, to_tensors(dataset, ids, model.age_edges, CPU)).error_N


def row_of(name: str, model: Any, dataset: Dataset, split: Split) -> dict[str, Any]:
    """Errors on training and test faces, and the AUC of the attack that reads them."""
    train_N, test_N = errors(model, dataset, split.retain), errors(model, dataset, split.test)
    return {
        "model": name, "train_mae": float(train_N.mean()), "test_mae": float(test_N.mean()),
        "error_auc": float(auc(-train_N, -test_N)),
    }  # fmt: skip


def sequence(original: Checkpoint, dataset: Dataset, requests: int, seed: int) -> dict[str, Any]:
    """Random people leave one after the other; what is left against a refit, and milliseconds a request."""
    facts, settings = original.record["design"], ClosedForm(**original.record["design"]["settings"])
    data = to_tensors(dataset, split_of(original).retain, original.model.age_edges, CPU)
    people = np.random.default_rng(seed).permutation(np.unique(data.subject_N))[:requests]
    sums, times = load_sums(original), []
    for person in people:
        rows = np.flatnonzero(data.subject_N == person)
        started = time.perf_counter()
        sums.remove(contribution(original.model, facts["grid"], data.subset(rows.tolist())))
        weight_KD, bias_K = sums.solve(settings.ridge)
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    fresh = HeadSums.empty(settings.random_features, original.model.groups)
    fresh.add(
        contribution(original.model, facts["grid"], data.subset(np.flatnonzero(~np.isin(data.subject_N, people)).tolist()))
    )
    again_KD, other_K = fresh.solve(settings.ridge)
    refit_s = time.perf_counter() - started
    return {
        "requests": len(people), "left": len(fresh.committed),
        "sums_equal": all(torch.equal(value, fresh.tensors()[name]) for name, value in sums.tensors().items()),
        "largest_difference": float(torch.cat([(weight_KD - again_KD).abs().flatten(), (bias_K - other_K).abs()]).max()),
        "request_ms": {"median": 1e3 * float(np.median(times)), "p95": 1e3 * float(np.quantile(times, 0.95))},
        "refit_s": refit_s,
    }  # fmt: skip


def markdown(facts: dict[str, Any]) -> str:
    """The table of docs/closed-form.md, from the JSON that `main` writes."""
    head = ("| model | seed | training MAE | test MAE | error AUC, training against test |", "|---|---|---|---|---|")
    rows = (
        f"| {row['model']} | {row['seed']} | {row['train_mae']:.2f} | {row['test_mae']:.2f} | {row['error_auc']:.3f} |"
        for row in sorted(facts["rows"], key=lambda row: (row["model"], row["seed"]))
    )
    return "\n".join((*head, *rows))


@click.command()
@click.option("--trunk", type=click.Path(path_type=Path), required=True, help="An age predictor that saw none of the data.")
@click.option("--data", "spec", required=True, metavar="SPEC")
@click.option("--ordinary", type=click.Path(path_type=Path), help="An ordinary model of the split of seed 0.")
@click.option("--seeds", type=int, default=5, show_default=True)
@click.option("--requests", type=int, default=1000, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/closed-form.json"), show_default=True)
def main(trunk: Path, spec: str, ordinary: Path | None, seeds: int, requests: int, out: Path) -> None:
    """Fits, measures and forgets, and writes the JSON and the table."""
    base = load_checkpoint(trunk, expect="age")
    dataset = load_dataset(spec, base.model.image_size)
    consented = load_dataset(base.record["data"]["spec"], base.model.image_size)
    rows, first = [], None
    with tempfile.TemporaryDirectory(prefix="unplug-closed-form-") as folder:
        for seed in range(seeds):
            split = make_split(dataset, seed=seed)
            made = ClosedForm().train(
                dataset, split, recipe_of(base), Path(folder) / f"seed{seed}", trunk=base, trunk_data=consented, seed=seed,
                device=CPU,
            )  # fmt: skip
            first = first or made
            rows.append(
                {"seed": seed, "fit_s": made.record["cost"]["wall_s"]} | row_of("closed form", made.model, dataset, split)
            )
            rows.append({"seed": seed} | row_of("trunk's own head", base.model, dataset, split))
        if ordinary is not None:
            given = load_checkpoint(ordinary, expect="age")
            recipe = given.record["recipe"]
            name = f"ordinary, {recipe['size']}, {recipe['epochs']} epochs"
            rows.append({"seed": given.record["seed"]} | row_of(name, given.model, dataset, split_of(given, dataset)))
        assert first is not None
        exact = sequence(first, dataset, requests, seed=0)
    write_json(
        out,
        {
            "schema": SCHEMA,
            "data": dataset.digest,
            "trunk": base.sha256,
            "rows": rows,
            "sequence": exact,
            "versions": versions(),
        },
    )
    shown = [
        [row["model"], str(row["seed"]), f"{row['train_mae']:.2f}", f"{row['test_mae']:.2f}", f"{row['error_auc']:.3f}"]
        for row in rows
    ]
    click.echo(table(["model", "seed", "train MAE", "test MAE", "error AUC"], shown))
    click.echo(exact)


if __name__ == "__main__":
    main()
