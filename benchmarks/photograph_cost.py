"""What one model of photographs costs: ``small`` at 64 pixels, by the clock of its own thread.

``python -m benchmarks.photograph_cost --data utkface:DIR --out docs/data/leaderboard-photographs.json`` trains one epoch and
writes CPU seconds, which other work on the machine changes little. docs/leaderboard.md says what a board would take.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import torch

from unplug.core import seconds, use_threads, versions, write_json
from unplug.sdk.data import load_dataset, make_split
from unplug.sdk.studies.leaderboard.protocol import TEN_GROUPS
from unplug.sdk.tasks import AgeTask
from unplug.sdk.training import Recipe, describe_device, fit_new, load_sets

SCHEMA = "unplug-photograph-cost/1"
RECIPE = Recipe(size="small", image_size=64, epochs=1, batch_size=64, augment="flip", dropout=0.0, lr=6e-3, weight_decay=0.02)
PHOTOGRAPHS, EPOCHS, MODELS = 1000, 24, 48
"""Of one training; as the `utkface` board has it; originals, retrained models and those of `retrain@exact`, 16 each."""
CPU = torch.device("cpu")


def photographs_markdown(found: dict[str, Any]) -> str:
    """What a board of photographs at 64 pixels would take."""
    one = found["epoch_s"] * found["epochs"]
    return (
        f"\n**Not at 64 pixels.** `{found['size']}` at {found['image_size']} pixels takes {found['epoch_s']:.1f} s of "
        f"one thread for an epoch of {found['photographs']:,} photographs ({found['device']}): {seconds(one)} for "
        f"{found['epochs']} epochs, {seconds(found['models'] * one)} for the {found['models']} trainings of a board of 16 "
        "originals, 16 retrained models and 16 more for its check of itself, before anything is unlearned. It was not run. "
        "`python -m benchmarks.photograph_cost --data utkface:DIR --out docs/data/leaderboard-photographs.json`\n"
    )


@click.command()
@click.option("--data", "spec", required=True, metavar="SPEC", help="utkface:DIR.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
def main(spec: str, out: Path) -> None:
    """Trains one epoch and writes what it took."""
    use_threads(1)
    dataset = load_dataset(spec, RECIPE.image_size, show=False)
    split = make_split(dataset, seed=0)
    sets = load_sets(dataset, split.with_forget(split.train[:1]), TEN_GROUPS, CPU)
    task, part = AgeTask(recipe=RECIPE, edges=TEN_GROUPS), sets.train.subset(list(range(PHOTOGRAPHS)))
    start = time.process_time()
    fit_new(task, part, sets.validation.subset(list(range(PHOTOGRAPHS // 10))), seed=0)
    facts = {
        "schema": SCHEMA, "size": RECIPE.size, "image_size": RECIPE.image_size, "photographs": PHOTOGRAPHS,
        "epoch_s": round(time.process_time() - start, 2), "epochs": EPOCHS, "models": MODELS,
        "device": describe_device(CPU), "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    click.echo(photographs_markdown(facts))


if __name__ == "__main__":
    main()
