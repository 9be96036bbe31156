"""``python -m benchmarks.age_accuracy NAME=MODEL@SPEC ...``: error against parameters, beside what
others published.

Each model is asked about the test set of its split as `unplug evaluate` does, so without pictures
that lie in its training set under another name (UTKFace holds some twice); its mean absolute error
has a 95 % interval over people. Writes ``docs/data/age-accuracy.json``, of which
docs/results/ages.md shows a table. What others published was measured on splits and pictures of
theirs, and is marked so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import DataError, versions, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.evidence.assurance import ask
from unplug.sdk.evidence.statistics import mean_estimate
from unplug.sdk.learning.training import split_of

PUBLISHED: tuple[dict[str, Any], ...] = (
    {
        "name": "MobileAgeNet",
        "parameters": 3.23e6,
        "image_size": 224,
        "mae": 4.65,
        "conditions": (
            "a held-out set of UTKFace that its authors drew; the trunk is a pretrained "
            "MobileNetV3-Large"
        ),
        "source": (
            "Kumar et al., MobileAgeNet, arXiv 2604.17007, abstract; pixels: its training script "
            "in NN-Dataset"
        ),
    },
    {
        "name": "VOLO-D1, faces alone",
        "parameters": 27e6,
        "image_size": 224,
        "mae": 4.23,
        "conditions": "trained and tested on UTKFace as its authors split it",
        "source": (
            "Kuprashevich and Tolstykh, MiVOLO, arXiv 2307.04616, its repository; parameters: Yuan "
            "et al., VOLO, 2021"
        ),
    },
)


def measured(name: str, model: Path, spec: str) -> dict[str, Any]:
    """One row of a checkpoint that is here."""
    checkpoint = load_checkpoint(model, expect="age")
    (answers,) = ask([model], spec, show=False)
    people, retain = answers.people, split_of(checkpoint).retain
    if people.copies is None or people.copies.why is not None:
        raise DataError(
            f"data {spec}",
            "pictures of the training were not compared",
            "Give the data of the training",
        )
    mae = mean_estimate(np.abs(answers.expected_age_N - people.age_N), people.person_N, seed=0)
    recipe = checkpoint.record["recipe"]
    return {
        "name": name,
        "parameters": sum(item.numel() for item in checkpoint.model.parameters()),
        "image_size": checkpoint.model.image_size,
        "mae": mae.value,
        "low": mae.low,
        "high": mae.high,
        "test": len(people),
        "copies_left_out": people.copies.left_out,
        "training": len(retain),
        "epochs": recipe["epochs"],
        "sha256": checkpoint.sha256,
        "seconds": checkpoint.record["cost"]["wall_s"],
        "device": checkpoint.record["cost"]["device"],
        "conditions": (
            f"from scratch, {len(retain):,} training pictures, {recipe['epochs']} epochs"
            if "design" not in checkpoint.record
            else f"trunk from scratch on other pictures, {recipe['epochs']} epochs; {len(retain):,} pictures in the head"
        ),
    }


def markdown(report: dict[str, Any]) -> str:
    """A row a model, those that were measured here first."""
    lines = ["| model | parameters | pixels | MAE, years | conditions |", "|---|--:|--:|--:|---|"]
    for row in report["measured"]:
        mae = f"{row['mae']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        lines.append(
            f"| {row['name']} | {row['parameters'] / 1e6:.2f} M | {row['image_size']} | {mae} | "
            f"{row['conditions']} |"
        )
    for row in report["published"]:
        told = f"published, not measured here: {row['conditions']} ({row['source']})"
        parameters = f"{row['parameters'] / 1e6:.{0 if row['parameters'] >= 1e7 else 2}f} M"
        lines.append(
            f"| {row['name']} | {parameters} | {row['image_size']} | {row['mae']:.2f} | {told} |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="NAME=MODEL@SPEC...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("docs/data/age-accuracy.json"),
    show_default=True,
)
def main(models: tuple[str, ...], out: Path) -> None:
    """Measures, and writes the numbers."""
    rows = []
    for item in models:
        name, _, rest = item.partition("=")
        model, _, spec = rest.partition("@")
        rows.append(measured(name, Path(model), spec))
    write_json(
        out,
        {
            "schema": "unplug-age-accuracy/1",
            "measured": rows,
            "published": list(PUBLISHED),
            "versions": versions(),
            "command": "python -m benchmarks.age_accuracy NAME=MODEL@SPEC ...",
        },
    )


if __name__ == "__main__":
    main()
