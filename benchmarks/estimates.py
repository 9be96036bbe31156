"""``python -m benchmarks.estimates``: how far estimated latencies are from measured ones on this computer.

Exports age predictors and conditioning plugins of several sizes (random weights: a latency does not depend on them), times all
of them side by side, and predicts each from the others: once with one model left out, once with a whole architecture left out.
Beside it the simplest predictor, one throughput. JSON goes to OUT; docs/estimates.md shows the table.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import git_revision, installed_versions, write_json
from unplug.export import Artifact, export_checkpoint, load_artifact
from unplug.mobile_bench import BenchReport, HeldOut, Known, Plan, bench_artifacts, fit, leave_one_out, usable

SCHEMA = "unplug-estimates/1"
AGES = {"nano": (32, 64, 128, 224), "small": (48, 96, 160, 224), "base": (64, 128, 224)}
PLUGINS = {"nano": (256, 512), "base": (128, 256, 512)}
Predict = Callable[[Sequence[Known], Known], float]


def networks() -> list[tuple[str, str, Any]]:
    """(name, architecture, network) of everything that is timed."""
    import torch

    from unplug.plugins import PLUGIN_SIZES, AgePredictor, ConditioningPlugin

    torch.manual_seed(0)
    found: list[tuple[str, str, Any]] = []
    for size, sides in AGES.items():
        found += [(f"age {size} {side}", f"age {size}", AgePredictor(size=size, image_size=side)) for side in sides]
    for size, sides in PLUGINS.items():
        for side in sides:
            plugin = ConditioningPlugin(image_size=side, **PLUGIN_SIZES[size].config(4))
            found.append((f"plugin {size} {side}", f"plugin {size}", plugin))
    return found


def exported(folder: Path) -> list[tuple[str, str, Artifact]]:
    """Each network as a LiteRT file; those that lie there already are taken as they are."""
    from unplug.plugins import save_checkpoint

    found = []
    for name, architecture, network in networks():
        place = folder / name.replace(" ", "-")
        kept = sorted(place.glob("*.tflite"))
        if not kept:
            save_checkpoint(network.eval(), place / "checkpoint", record={}, card="Random weights, for timing alone.")
            kept = [export_checkpoint(place / "checkpoint", targets=["litert"], out=place)[0].path]
        found.append((name, architecture, load_artifact(kept[0])))
        click.echo(f"{name}: {(found[-1][2].card.flops or 0) / 2e6:.1f} M multiply-accumulates", err=True)
    return found


def by_fit(kept: Sequence[Known], row: Known) -> float:
    """The latency that the shipped predictor says."""
    return fit([item.features for item in kept], [item.median_ms for item in kept]).latency_ms(row.features)


def by_throughput(kept: Sequence[Known], row: Known) -> float:
    """The latency that multiply-accumulates over one fitted throughput give."""
    from math import exp, log

    return exp(sum(log(item.median_ms / item.features.total_macs) for item in kept) / len(kept)) * row.features.total_macs


def held_out(known: Sequence[Known], model_of: Callable[[Known], Hashable], predict: Predict) -> HeldOut:
    """The error where everything that is the same model by `model_of` is left out together."""
    found = leave_one_out(known, model_of=model_of, measured=lambda item: item.median_ms, predicted=predict)
    if found is None:
        raise ValueError("a single model leaves nothing to predict from")
    return found


def facts(report: BenchReport, files: list[tuple[str, str, Artifact]]) -> dict[str, Any]:
    """Measured beside predicted, and the errors."""
    names = {artifact.card.sha256: (name, architecture) for name, architecture, artifact in files}
    known, left_out = usable([report], "host", {artifact.card.sha256: artifact for _, _, artifact in files})
    rows = []
    for item in known:
        name, architecture = names[item.row.artifact_sha256]
        without = [other for other in known if other is not item]
        family = [other for other in known if names[other.row.artifact_sha256][1] != architecture]
        rows.append(
            {
                "name": name, "architecture": architecture, "macs": item.features.total_macs,
                "bytes": item.features.total_bytes,
                "operators": item.features.operators, "measured_ms": item.median_ms,
                "measured_ci95_ms": item.row.median_ci95_ms,
                "warnings": item.row.warnings, "without_model_ms": by_fit(without, item),
                "without_architecture_ms": by_fit(family, item), "throughput_ms": by_throughput(without, item),
            }
        )  # fmt: skip

    def architecture_of(item: Known) -> str:
        return names[item.row.artifact_sha256][1]

    errors = {
        "one model left out": held_out(known, lambda item: item.model, by_fit),
        "one architecture left out": held_out(known, architecture_of, by_fit),
        "one model left out, multiply-accumulates alone": held_out(known, lambda item: item.model, by_throughput),
        "one architecture left out, multiply-accumulates alone": held_out(known, architecture_of, by_throughput),
    }
    return {"rows": rows, "errors": {name: asdict(error) for name, error in errors.items()}, "left_out": left_out}


def markdown(found: dict[str, Any]) -> str:
    """The tables of docs/estimates.md, from the JSON of a run."""
    lines = ["| predicted from the others, with | measured / predicted | median off by | held-out rows |", "|---|---|--:|--:|"]
    for name, error in found["errors"].items():
        span = f"x{error['low']:.2f} to x{error['high']:.2f}"
        lines.append(f"| {name} | {span} | {error['median_error']:.0%} | {error['rows']} of {error['models']} |")
    lines += ["", "| model | M MACs | measured ms (95 %) | model left out | architecture left out |", "|---|--:|--:|--:|--:|"]
    for row in found["rows"]:
        low, high = row["measured_ci95_ms"] or (row["measured_ms"],) * 2
        cells = [
            f"{row[key]:.3g} (x{row['measured_ms'] / row[key]:.2f})" for key in ("without_model_ms", "without_architecture_ms")
        ]
        measured = f"{row['measured_ms']:.3g} ({low:.3g}–{high:.3g})"
        lines.append(f"| {row['name']} | {row['macs'] / 1e6:.1f} | {measured} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


@click.command()
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--iterations", type=click.IntRange(1, 10_000), default=40, show_default=True)
@click.option("--repeats", type=click.IntRange(2, 100), default=7, show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Folder for the files and the bench report; files in it are timed again."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/estimates.json"), show_default=True)
def main(threads: int, iterations: int, repeats: int, keep: Path | None, out: Path) -> None:
    """Times the networks, predicts each from the others, prints the tables and writes the numbers."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        files = exported(folder)
        plan = Plan(threads=threads, warmup=5, iterations=iterations, repeats=repeats)
        report = bench_artifacts([artifact for _, _, artifact in files], plan=plan)
        report.save(folder / "bench.json")
        found = facts(report, files)
    command = f"python -m benchmarks.estimates --threads {threads} --iterations {iterations} --repeats {repeats}"
    device = report.rows[0].device
    found = {"schema": SCHEMA, "command": command, "device": device, "threads": threads, "load_before": load} | found
    write_json(
        out,
        found
        | {
            "cores": os.cpu_count(),
            "versions": installed_versions(["ai-edge-litert", "numpy", "scipy"]),
            "git_revision": git_revision(),
        },
    )
    click.echo(markdown(found))


if __name__ == "__main__":
    main()
