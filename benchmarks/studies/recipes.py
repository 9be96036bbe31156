"""Which recipe remembers least at no cost: validation error first, the gap that attacks read second
(docs/results/ages.md).

    python -m benchmarks.studies.recipes --out docs/data/recipes.json

Every variant is trained with every seed. Chosen is on *validation* people; what is then true of the
choice is told on *test* people, whom nobody looked at. MixUp (Zhang et al., 2018) lives here and is
no field of the recipe yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import read_json, versions, write_json
from unplug.sdk.evidence.statistics import auc
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import (
    ImageBatch,
    ImageSet,
    Recipe,
    edges_of,
    fit_new,
    load_sets,
    predict,
)

SCHEMA = "unplug-recipes/1"
BASE = Recipe(size="nano", image_size=32, epochs=20, batch_size=32)
VARIANTS: dict[str, dict[str, Any]] = {
    "no augmentation, no dropout": {"augment": "none", "dropout": 0.0},
    "flips, no dropout": {"augment": "flip", "dropout": 0.0},
    "standard, no dropout": {"dropout": 0.0},
    "standard, dropout 0.1": {},
    "standard, dropout 0.3": {"dropout": 0.3},
    "standard, dropout 0.1, 10 epochs": {"epochs": 10},
    "standard, dropout 0.1, 40 epochs": {"epochs": 40},
    "standard, dropout 0.1, MixUp 0.2": {"mixup": 0.2},
    "standard, dropout 0.1, MixUp 0.2, 40 epochs": {"mixup": 0.2, "epochs": 40},
}
"""What differs from `BASE`; 20 epochs where nothing is said."""
TIE = 0.1
"""Years of validation error within which variants count as equally good: about half of the range
between seeds.
"""


@dataclass(frozen=True, kw_only=True)
class MixedBatch(ImageBatch):
    """x = share a + (1 - share) b: labels are a's, and b's beside them."""

    other: ImageBatch
    share: float


@dataclass(frozen=True, kw_only=True)
class MixedSet(ImageSet):
    """An image set whose training views are pairs, mixed in a share that Beta(alpha, alpha) draws
    once a batch.
    """

    alpha: float = field(default=0.0)

    def view(self, batch: ImageBatch, kind: Any, generator: torch.Generator) -> ImageBatch:
        """The augmented batch, mixed with itself in another order."""
        seen = super().view(batch, kind, generator)
        order_B = torch.randperm(len(seen), generator=generator)
        seed = int(torch.randint(2**31, (1,), generator=generator))
        share = float(np.random.default_rng(seed).beta(self.alpha, self.alpha))
        names = [item.name for item in fields(ImageBatch)]
        other = ImageBatch(**{name: getattr(seen, name)[order_B] for name in names})
        image_BCHW = share * seen.image_BCHW + (1 - share) * other.image_BCHW
        mixed = {name: getattr(seen, name) for name in names} | {"image_BCHW": image_BCHW}
        return MixedBatch(**mixed, other=other, share=share)


@dataclass(frozen=True, kw_only=True)
class MixedTask(AgeTask):
    """L = share L(a) + (1 - share) L(b) on mixed batches."""

    def loss(self, model: Any, outputs: Any, batch: ImageBatch) -> torch.Tensor:
        """Training loss (B,), of both halves of a mixed batch."""
        if not isinstance(batch, MixedBatch):
            return super().loss(model, outputs, batch)
        first, second = (
            super().loss(model, outputs, batch),
            super().loss(model, outputs, batch.other),
        )
        return batch.share * first + (1 - batch.share) * second


def row_of(name: str, seed: int, spec: str) -> dict[str, Any]:
    """Trains one variant and measures it on the people of each set."""
    changes = dict(VARIANTS[name])
    mixup = float(changes.pop("mixup", 0.0))
    recipe = replace(BASE, **changes)
    dataset = load_dataset(spec, recipe.image_size, show=False)
    edges = edges_of(dataset)
    sets = load_sets(dataset, make_split(dataset, seed=seed), edges, torch.device("cpu"))
    task: AgeTask = (MixedTask if mixup else AgeTask)(recipe=recipe, edges=edges)
    train = sets.train
    if mixup:
        train = MixedSet(
            **{item.name: getattr(train, item.name) for item in fields(ImageSet)}, alpha=mixup
        )
    done = fit_new(task, train, sets.validation, seed=seed)
    answers = {
        part: predict(done.model, getattr(sets, part)) for part in ("train", "validation", "test")
    }
    row: dict[str, Any] = {
        "variant": name,
        "seed": seed,
        "train_mae": float(answers["train"].error_N.mean()),
        "wall_s": done.wall_s,
    }
    for part in ("validation", "test"):
        row[f"{part}_mae"] = float(answers[part].error_N.mean())
        row[f"{part}_error_auc"] = float(auc(-answers["train"].error_N, -answers[part].error_N))
        row[f"{part}_loss_auc"] = float(
            auc(answers["train"].confidence_N, answers[part].confidence_N)
        )
    return row


def chosen(rows: list[dict[str, Any]]) -> str:
    """Of the variants within `TIE` years of the best on validation people the one whose error tells
    least.
    """
    means = {
        name: [
            float(np.mean([row[key] for row in rows if row["variant"] == name]))
            for key in ("validation_mae", "validation_error_auc")
        ]
        for name in dict.fromkeys(row["variant"] for row in rows)
    }
    best = min(error for error, _ in means.values())
    near = [name for name, (error, _) in means.items() if error <= best + TIE]
    return str(min(near, key=lambda name: means[name][1]))


def markdown(facts: dict[str, Any]) -> str:
    """The table: means over seeds, and their range."""
    keys = ("validation_mae", "validation_error_auc", "test_mae", "test_error_auc", "test_loss_auc")
    lines = [
        "| recipe | validation MAE | error AUC | test MAE | error AUC | loss AUC |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["variant"] for row in facts["rows"]):
        rows = [row for row in facts["rows"] if row["variant"] == name]
        cells = []
        for key in keys:
            values, digits = [row[key] for row in rows], 2 if key.endswith("mae") else 3
            cells.append(
                f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to "
                f"{max(values):.{digits}f})"
            )
        mark = "**" if name == facts["chosen"] else ""
        lines.append(f"| {mark}{name}{mark} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.option("--data", "spec", default="synth:n=2400,subjects=800,seed=7", show_default=True)
@click.option(
    "--seeds", default=3, show_default=True, help="Of the split and of everything random."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("out/recipes.json"), show_default=True
)
def main(spec: str, seeds: int, out: Path) -> None:
    """Trains what is not there yet, writes JSON and prints the table."""
    rows: list[dict[str, Any]] = read_json(out)["rows"] if out.exists() else []
    for seed in range(seeds):
        for name in VARIANTS:
            if any((row["variant"], row["seed"]) == (name, seed) for row in rows):
                continue
            rows.append(row_of(name, seed, spec))
            click.echo(rows[-1])
            facts = {
                "schema": SCHEMA,
                "spec": spec,
                "base": BASE.to_dict(),
                "rows": rows,
                "chosen": chosen(rows),
                "versions": versions(),
            }
            write_json(out, facts)
    click.echo(markdown(read_json(out)))


if __name__ == "__main__":
    main()
