"""Which loss is the default: every loss on the demo's faces, several seeds, unseen people.

``python -m benchmarks.losses docs/data/losses.json``
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from pathlib import Path

import torch

from unplug.core import table, versions, write_json
from unplug.sdk.data import load_dataset, make_split
from unplug.sdk.releasing import DEMO_RECIPE, DEMO_SPEC
from unplug.sdk.tasks import AgeTask
from unplug.sdk.training import LOSSES, edges_of, fit_new, load_sets, predict, summarize

SEEDS = (0, 1)
VARIANTS = (*((loss, 0.0) for loss in LOSSES), ("ce", 0.1))


def main(out: Path) -> None:
    """Trains every variant with every seed; prints test error and accuracy."""
    dataset = load_dataset(DEMO_SPEC, DEMO_RECIPE.image_size, show=False)
    edges = edges_of(dataset)
    sets = load_sets(dataset, make_split(dataset), edges, torch.device("cpu"))
    runs = []
    for seed in SEEDS:
        for loss, smoothing in VARIANTS:
            recipe = replace(DEMO_RECIPE, loss=loss, smoothing=smoothing)
            done = fit_new(AgeTask(recipe=recipe, edges=edges), sets.train, sets.validation, seed=seed)
            metrics = summarize(predict(done.model, sets.test), edges)
            runs.append(
                {"loss": loss, "smoothing": smoothing, "seed": seed, "mae": metrics["mae"], "accuracy": metrics["accuracy"]}
            )
            print(runs[-1], file=sys.stderr, flush=True)
    write_json(out, {"schema": "unplug-losses/1", "spec": DEMO_SPEC, "runs": runs, "versions": versions()})
    rows = []
    for loss, smoothing in VARIANTS:
        own = [run for run in runs if (run["loss"], run["smoothing"]) == (loss, smoothing)]
        errors = [run["mae"] for run in own]
        accuracy = statistics.mean(run["accuracy"] for run in own)
        name = f"{loss}, smoothing {smoothing:g}" if smoothing else loss
        rows.append((name, f"{statistics.mean(errors):.2f}", f"{min(errors):.2f}-{max(errors):.2f}", f"{100 * accuracy:.1f} %"))
    print(table(("loss", "MAE, unseen people", "range over seeds", "accuracy"), rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
