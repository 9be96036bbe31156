"""How often the p of one person is small, where a model never saw her and where it did: a table of
docs/results/evidence.md.

    python -m benchmarks.person_calibration --out docs/data/person_calibration.json

References are trained as `unplug references` trains them, in several numbers of folds. Then models
are trained by the same recipe on all but a tenth of the people, which is what retraining for a
request gives: each of those people should be one among strangers (a share ALPHA of all p below
ALPHA), each of as many others should stand out if the recipe remembers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import versions, write_json
from unplug.sdk.evidence.auditing import Signals, person_rows
from unplug.sdk.evidence.fleet import References, load_references, train_references
from unplug.sdk.forgetting.tasks import StoredTask, task_of, train_age
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.learning.training import Recipe, SampleSet, Sets, predict

ALPHA = 0.05
HELD_OUT = 0.1
FIRST_SEED = 500
RESAMPLES = 2000
CPU = torch.device("cpu")
RECIPES: dict[str, tuple[Recipe, tuple[int, ...]]] = {
    "as shipped, 12 epochs": (Recipe(size="nano", image_size=32, epochs=12, batch_size=32), (2, 4)),
    "no augmentation, 40 epochs": (
        Recipe(size="nano", image_size=32, epochs=40, batch_size=32, augment="none", dropout=0.0),
        (4,),
    ),
}
"""A recipe, and in how many folds: one that remembers little, and one that learns its pictures by
heart.
"""


def of_people(part: SampleSet, people: Sequence[int]) -> Any:
    """The samples of some people."""
    return part.subset(np.flatnonzero(np.isin(part.subject_N, people)).tolist())


def p_values(
    model: torch.nn.Module, sets: Sets, people: Sequence[int], fleet: References
) -> list[list[float]]:
    """p of the confidence and of the error of each person."""
    asked = replace(sets, forget=of_people(sets.train, people))
    parts = (
        predict(model, part) for part in (asked.forget, asked.test, asked.validation, asked.train)
    )
    signals = Signals(**dict(zip(("forget", "unseen", "population", "retain"), parts, strict=True)))
    rows = person_rows(signals, fleet, asked)
    return [
        [row.confidence.p_value, *(() if row.error is None else (row.error.p_value,)), row.p_value]
        for row in rows
    ]


def share_up_to(p_TP: np.ndarray, level: float) -> dict[str, float]:
    """Share of all p at or below a level, with an interval over models: people of one model are not
    independent.
    """
    own_T = (p_TP <= level).mean(axis=1)
    rng = np.random.default_rng(0)
    drawn = own_T[rng.integers(0, len(own_T), size=(RESAMPLES, len(own_T)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"value": float(own_T.mean()), "low": float(low), "high": float(high)}


def held_out_model(
    task: StoredTask, sets: Sets, number: int
) -> tuple[torch.nn.Module, list[int], list[int]]:
    """A model of all but a tenth of the people; those, and as many of the others."""
    rng = np.random.default_rng([number, 7])
    people = rng.permutation(np.unique(sets.train.subject_N))
    count = max(1, round(HELD_OUT * len(people)))
    out, rest = people[:count], people[count:]
    kept = of_people(sets.train, rest.tolist())
    model = task.fit(
        kept, sets.validation, seed=FIRST_SEED + number, state=None, show=False, label=""
    ).model
    return model, out.tolist(), rest[:count].tolist()


def markdown(facts: dict[str, Any]) -> str:
    """The table."""
    lines = [
        "| recipe | folds | models without her | unseen people | never seen: confidence | error | "
        "both | seen: both |",
        "|---|--:|--:|--:|---|---|---|---|",
    ]
    for row in facts["rows"]:
        cells = [
            row["recipe"],
            f"{row['folds']}",
            f"{row['never_saw']} of {row['models']}",
            f"{row['unseen_people']}",
        ]
        shown = [row[name]["never_0.05"] for name in ("confidence", "error", "both")] + [
            row["both"]["seen_0.05"]
        ]
        cells += [
            f"{100 * it['value']:.1f} % ({100 * it['low']:.1f} to {100 * it['high']:.1f})"
            for it in shown
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--data", "spec", default="synth:n=600,subjects=200", show_default=True)
@click.option("--models", default=16, show_default=True)
@click.option(
    "--targets", default=10, show_default=True, help="Models that never saw a tenth of the people."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/data/person_calibration.json"),
    show_default=True,
)
def main(spec: str, models: int, targets: int, out: Path) -> None:
    """Trains, asks and writes JSON and page."""
    rows: list[dict[str, Any]] = []
    for name, (recipe, folds) in RECIPES.items():
        with tempfile.TemporaryDirectory(prefix="unplug-person-") as place:
            for row in calibrated(spec, recipe, folds, models, targets, Path(place)):
                rows.append({"recipe": name, **row})
                click.echo(rows[-1])
                facts = {
                    "data": spec,
                    "recipes": {key: item.to_dict() for key, (item, _) in RECIPES.items()},
                    "rows": rows,
                }
                write_json(
                    out, {"schema": "unplug-person-calibration/1", **facts, "versions": versions()}
                )


def calibrated(
    spec: str, recipe: Recipe, folds: Sequence[int], models: int, targets: int, place: Path
) -> Iterator[dict[str, Any]]:
    """A row a number of folds, of one recipe."""
    dataset = load_dataset(spec, recipe.image_size, show=False)
    split = make_split(dataset)
    original = train_age(dataset, split, recipe, place / "original", seed=0, device=CPU, show=False)
    task = task_of(original, device=CPU)
    sets = task.sets(dataset, split, CPU)
    asked = [held_out_model(task, sets, number) for number in range(targets)]
    for count in folds:
        folder = place / f"references-{count}"
        record = train_references(
            original, dataset, folder, models=models, folds=count, device=CPU, show=True
        )
        fleet = load_references(folder, original, task, dataset)
        p_by_side = {
            side: np.array([p_values(item[0], sets, item[place], fleet) for item in asked])
            for side, place in (("never", 1), ("seen", 2))
        }
        shares = {
            statistic: {
                f"{side}_{level}": share_up_to(p_TPS[:, :, column], level)
                for side, p_TPS in p_by_side.items()
                for level in (ALPHA, 0.5)
            }
            for column, statistic in enumerate(("confidence", "error", "both"))
        }
        yield {
            "folds": count,
            "models": models,
            "never_saw": models // count,
            "targets": targets,
            "people_a_target": p_by_side["never"].shape[1],
            "unseen_people": len(np.unique(sets.test.subject_N)),
            **shares,
            "seconds_a_model": record.cost.wall_s / models,
        }


if __name__ == "__main__":
    main()
