"""`make bench`: images per second of drawing, decoding, training and forgetting, several rounds in
one run.

Every row is measured in turn in each round, so that a drifting clock does not favour one; the table
gives the median, the spread between rounds, and the ratio to a reference row where there is one.
JSON goes to out/bench-rows.json.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import nn

from unplug.core import table, versions, write_json
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.forgetting.unlearning import Cost, RetrainCost, apply_method, build_method
from unplug.sdk.learning.data import (
    decode_file,
    load_dataset,
    make_split,
    parse_spec,
    pick_forget,
    resolve_names,
)
from unplug.sdk.learning.training import (
    Recipe,
    describe_device,
    edges_of,
    fit_new,
    load_sets,
    new_model,
    pick_device,
)

ROUNDS = 5
OUT = Path("out/bench-rows.json")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing to measure: `run` does `images` images' worth of work."""

    name: str
    images: int
    run: Callable[[], object]
    reference: str | None = None


def rows(folder: Path) -> list[Row]:
    """What is measured, one row a measurement."""
    device = pick_device()
    source = parse_spec("synth:n=64,subjects=64,seed=5")
    samples = source.listing().samples
    for sample in samples:
        Image.fromarray(source.decode(sample, 200)).save(folder / f"{sample.id}.jpg", quality=92)
    files = sorted(folder.glob("*.jpg"))
    made = [
        Row(
            name="synth, 64 px, one core",
            images=64,
            run=lambda: [source.decode(sample, 64) for sample in samples],
        ),
        Row(
            name="synth, 256 px, one core",
            images=64,
            run=lambda: [source.decode(sample, 256) for sample in samples],
        ),
        Row(
            name="decode JPEG 200 px to 64 px, one core",
            images=64,
            run=lambda: [decode_file(path, 64) for path in files],
        ),
    ]
    dataset = load_dataset("synth:n=800,subjects=270,seed=0", 64, show=False)
    split = make_split(dataset)
    ids = resolve_names(pick_forget(dataset, split, fraction=0.1, seed=0), dataset, "bench")
    edges = edges_of(dataset)
    sets = load_sets(dataset, split.with_forget(ids), edges, device)
    count = len(sets.train)
    for size in ("nano", "small"):
        recipe = Recipe(size=size, epochs=1, image_size=64)
        task = AgeTask(recipe=recipe, edges=edges)
        model = new_model(task, sets.train, 0)
        cost = RetrainCost(cost=Cost(forward=count, backward=count, wall_s=1e9), source="one epoch")

        def train(task: AgeTask = task) -> object:
            return fit_new(task, sets.train, sets.validation, seed=0)

        made.append(Row(name=f"train {size}, one epoch", images=count, run=train))
        for name in ("finetune", "ct", "msg"):

            def unlearn(
                name: str = name,
                model: nn.Module = model,
                task: AgeTask = task,
                cost: RetrainCost = cost,
            ) -> object:
                return apply_method(build_method(name), model, sets, task, cost, 1.25, seed=0)

            made.append(
                Row(
                    name=f"forget {size} by {name}, one epoch",
                    images=count,
                    run=unlearn,
                    reference=f"train {size}, one epoch",
                )
            )
    return made


def main() -> None:
    """Measures every row `ROUNDS` times, in turn, after one round that is thrown away."""
    with tempfile.TemporaryDirectory() as name:
        measured = rows(Path(name))
        rates: dict[str, list[float]] = {row.name: [] for row in measured}
        for number in range(ROUNDS + 1):
            for row in measured:
                started = time.perf_counter()
                row.run()
                if number:
                    rates[row.name].append(row.images / (time.perf_counter() - started))
    lines = []
    for row in measured:
        speeds = rates[row.name]
        ratio = ""
        if row.reference is not None:
            pairs = [a / b for a, b in zip(speeds, rates[row.reference], strict=True)]
            ratio = f"{statistics.median(pairs):.2f} ({min(pairs):.2f}-{max(pairs):.2f})"
        lines.append(
            (
                row.name,
                f"{statistics.median(speeds):.0f}",
                f"{min(speeds):.0f}-{max(speeds):.0f}",
                ratio,
            )
        )
    print(f"{describe_device(torch.device('cpu'))}; {ROUNDS} rounds, median and range")
    print(table(("what", "images/s", "range", "ratio to training"), lines))
    write_json(
        OUT,
        {
            "schema": "unplug-rows/1",
            "images_per_second": rates,
            "rounds": ROUNDS,
            "versions": versions(),
        },
    )
    print(f"raw numbers: {OUT}")


if __name__ == "__main__":
    main()
