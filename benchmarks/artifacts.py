"""``python -m benchmarks.artifacts CHECKPOINT --data SPEC``: every target and precision of a model in one table.

Exports all of them, calibrated on what the model may remember, and measures each file on held-out samples: bytes, parity, the
error in the task (years, or a loss), what LiteRT's delegates take of it, and the time of one run here. With --calibrations,
int8-static is exported again with other numbers of samples, to see how many are enough. JSON goes to OUT; docs/export.md shows
the table.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import UnplugError, table, versions, write_json
from unplug.export import TARGETS, Artifact, Session, export_checkpoint, measure_parity, psnr_db, runtime_of
from unplug.mobile_bench import Plan, bench_artifacts
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.auditing import task_deltas
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import Dataset, load_dataset

SCHEMA = "unplug-artifacts/1"
COMPARED = ("litert", "coreml", "onnx")
ON_GPU = 4
"""Samples that are compared between GPU and CPU."""


def on_gpu(artifact: Artifact, inputs: dict[str, Any]) -> str:
    """Whether LiteRT's GPU delegate takes all of a file, with the parity of its outputs with the CPU's."""
    few = {name: array[:ON_GPU] for name, array in inputs.items()}
    try:
        here, there = Session(artifact, delegate="gpu").run(few), Session(artifact).run(few)
    except UnplugError as error:
        return str(error)
    worst = min(psnr_db(there[name], here[name]) for name in there)
    return f"all, {worst:.0f} dB from the CPU"


def row_of(artifact: Artifact, checkpoint: Checkpoint, dataset: Dataset, few: dict[str, Any], most: int) -> dict[str, Any]:
    """What one file weighs and is worth; `timed` adds how long it takes."""
    parity = measure_parity(artifact, checkpoint.path, few)
    card = artifact.card
    found: dict[str, Any] = {
        "file": card.file, "target": card.target, "precision": card.precision, "bytes": card.bytes,
        "calibration": None if card.calibration is None else card.calibration.samples, "runtime": runtime_of(artifact).name,
        "passed": parity.passed, "worst_db": min((row.psnr_db for row in parity.rows if row.psnr_db is not None), default=None),
        "seconds": card.seconds, "prepare_seconds": card.prepare_seconds,
    }  # fmt: skip
    (delta,) = task_deltas(checkpoint, dataset, [artifact], most=most)
    found["task"] = asdict(delta)
    if card.target == "litert":
        found["gpu"] = on_gpu(artifact, few)
    return found


def timed(artifacts: list[Artifact], rows: list[dict[str, Any]]) -> None:
    """Adds medians of one run with two threads, all files in turn; what runs on a stand-in is not timed."""
    report = bench_artifacts(artifacts, plan=Plan(threads=2, warmup=5, iterations=50))
    for row, found in zip(report.rows, rows, strict=True):
        if row.median_ms is not None and row.median_ci95_ms is not None:
            found["ms"] = {"median": row.median_ms, "low": row.median_ci95_ms[0], "high": row.median_ci95_ms[1]}
            found["delegate"] = {
                "name": row.delegate_got,
                "nodes": row.nodes_delegated,
                "of": row.nodes_total,
                "partitions": row.partitions,
            }


HEADER = ("file", "bytes", "of fp32", "worst dB", "error", "minus checkpoint", "ms, this host", "XNNPACK", "GPU delegate")


def cells(row: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """One line of the table."""
    whole = next(item["bytes"] for item in rows if item["target"] == row["target"] and item["precision"] == "fp32")
    task, ms, delegate = row["task"], row.get("ms"), row.get("delegate") or {}
    nodes = "" if delegate.get("nodes") is None else f"{delegate['nodes']} of {delegate['of']} in {delegate['partitions']}"
    return (
        row["file"], f"{row['bytes']:,}", f"{row['bytes'] / whole:.3f}",
        "" if row["worst_db"] is None else f"{row['worst_db']:.1f}",
        f"{task['error']:.4g} {task['unit']}", shown(task),
        "" if ms is None else f"{ms['median']:.3f} ({ms['low']:.3f}-{ms['high']:.3f})", nodes, row.get("gpu", ""),
    )  # fmt: skip


def markdown(facts: dict[str, Any]) -> str:
    """What docs/export.md shows of a run; a test holds the page to the JSON."""
    head = (
        f"{facts['parameters'] / 1e6:.2f} M parameters, {facts['flops'] / 2e9:.3f} GMAC; "
        f"calibrated on {facts['samples']['calibration']} samples, parity on {facts['samples']['parity']}, the error on "
        f"{facts['rows'][0]['task']['samples']} of the test part"
    )
    lines = [head, "", f"| {' | '.join(HEADER)} |", "|---|--:|--:|--:|--:|--:|--:|---|---|"]
    lines += [f"| {' | '.join(cells(row, facts['rows']))} |" for row in facts["rows"]]
    if facts["calibrations"]:
        lines += ["", "| samples that calibrate int8-static (LiteRT) | worst dB | minus checkpoint |", "|--:|--:|--:|"]
        for row in sorted(facts["calibrations"], key=lambda row: row["calibration"]):
            lines.append(f"| {row['calibration']} | {row['worst_db']:.1f} | {shown(row['task'])} |")
    return "\n".join(lines)


def shown(task: dict[str, Any]) -> str:
    """A difference in the task, with its interval."""
    ends = "" if task["low"] is None else f" ({task['low']:+.2g} to {task['high']:+.2g})"
    return f"{task['delta']:+.2g} {task['unit']}{ends}"


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--data", "spec", required=True, help="Data that the model was trained on.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/artifacts.json"), show_default=True)
@click.option("--samples", type=click.IntRange(1), default=128, show_default=True, help="For calibration.")
@click.option("--calibrations", default="", help="Other numbers of samples for int8-static, comma-separated.")
@click.option("--parity", "compared", type=click.IntRange(1), default=64, show_default=True, help="Samples for parity.")
@click.option("--most", type=click.IntRange(1), default=4096, show_default=True, help="Test samples for the error.")
def main(checkpoint: Path, spec: str, out: Path, samples: int, calibrations: str, compared: int, most: int) -> None:
    """Export, measure, time, print the table and write the JSON."""
    model = load_checkpoint(checkpoint)
    dataset = load_dataset(spec, model.model.iospec.inputs[0].shape[-1], on_bad="skip")
    few = dict(real_inputs(model, dataset, compared, part="test"))
    retained = dict(real_inputs(model, dataset, samples, part="retain"))
    with tempfile.TemporaryDirectory(prefix="unplug-artifacts-") as folder:
        artifacts = []
        for target in COMPARED:
            click.echo(f"exporting to {target}")
            artifacts += export_checkpoint(
                checkpoint, targets=[target], precisions=TARGETS.get(target).precisions, out=Path(folder), calibration=retained
            )
        rows = [row_of(item, model, dataset, few, most) for item in artifacts]
        timed(artifacts, rows)
        extra = []
        for count in (int(word) for word in calibrations.split(",") if word):
            part = dict(real_inputs(model, dataset, count, part="retain"))
            made = export_checkpoint(
                checkpoint, targets=["litert"], precisions=["int8-static"], out=Path(folder) / str(count), calibration=part
            )
            extra.append(row_of(made[0], model, dataset, few, most))
    facts = {
        "schema": SCHEMA, "checkpoint": checkpoint.name, "sha256": model.sha256, "data": spec.partition(":")[0],
        "parameters": artifacts[0].card.parameters, "flops": artifacts[0].card.flops,
        "samples": {"calibration": samples, "parity": compared}, "rows": rows, "calibrations": extra, "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    click.echo(table(HEADER, [cells(row, rows) for row in rows]))
    for row in extra:
        click.echo(f"int8-static from {row['calibration']} samples: {row['worst_db']:.1f} dB, {shown(row['task'])}")


if __name__ == "__main__":
    main()
