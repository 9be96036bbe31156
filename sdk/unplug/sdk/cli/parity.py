"""``unplug parity``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, table

from .base import Common, Outcome, command
from .options import out_option, shipped_or_given

if TYPE_CHECKING:
    from unplug.export import Artifact, Explanation, ParityReport, TaskDelta

EXPLAINED = 4
"""Samples that --explain walks through the layers."""


@click.command()
@click.argument("artifacts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--checkpoint",
    required=True,
    type=click.Path(),
    callback=shipped_or_given,
    help="The checkpoint they were made from; a plugin that ships by its name.",
)
@click.option(
    "--samples",
    type=click.IntRange(1, 4096),
    default=16,
    show_default=True,
    help="Synthetic faces to compare on (a plugin: their edges).",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    help="Compare on the images of this folder instead (a plugin: condition images).",
)
@click.option(
    "--data",
    "spec",
    metavar="SPEC",
    help="Compare on samples of this data instead: of its test part, where known.",
)
@click.option(
    "--task",
    type=click.IntRange(1),
    metavar="N",
    help="With --data: compare errors in the task on N test samples too.",
)
@click.option(
    "--base",
    help="With --task, of a plugin: its diffusion base, where it is not the one in its record.",
)
@click.option(
    "--runtime", help="What runs the files, say tensorflow; default: that of each one's target."
)
@click.option(
    "--coreml-host",
    metavar="USER@MAC",
    help="Run Core ML packages by Core ML itself, on this Mac over ssh.",
)
@click.option(
    "--explain", is_flag=True, help="Walk the layers too, and name the first one out of tolerance."
)
@click.option(
    "--layers",
    type=click.Path(path_type=Path),
    default=Path("layers"),
    show_default=True,
    help="With --explain: folder for a picture and a JSON of each file's layers.",
)
@out_option("Parity report to write (JSON).", required=False)
@command
def parity(
    artifacts: tuple[Path, ...],
    checkpoint: Path,
    samples: int,
    images: Path | None,
    spec: str | None,
    task: int | None,
    base: str | None,
    runtime: str | None,
    coreml_host: str | None,
    explain: bool,
    layers: Path,
    out: Path | None,
    common: Common,
) -> Outcome:
    """Compare exported files with their checkpoint, per named output (exit 1 where one is out of
    tolerance).

    Of a folder, all exported files in it.
    """
    from unplug.export import artifacts_at, load_artifact, measure_parity
    from unplug.plugins import load_checkpoint
    from unplug.sdk.drawing.conditions import example_inputs, real_inputs
    from unplug.sdk.evidence.auditing import task_deltas
    from unplug.sdk.learning.data import load_dataset

    loaded = [load_artifact(file) for path in artifacts for file in artifacts_at(path)]
    if spec is not None and images is not None:
        raise InputError("--data and --images", "both say what to compare on", "Give one of them")
    if task is not None and spec is None:
        raise InputError(
            "--task", "there are no samples with labels", "Give the training data with --data"
        )
    if base is not None and task is None:
        raise InputError(
            "--base",
            "it is the diffusion base that a task's error needs",
            "Add --task N, or leave it out",
        )
    card = loaded[0].card
    if spec is not None:
        model = load_checkpoint(checkpoint, expect=card.model_type)
        dataset = load_dataset(spec, model.model.iospec.inputs[0].height, show=common.show)
        inputs = dict(
            real_inputs(model, dataset, samples, part="test", iospec=card.iospec, say=common.say)
        )
    else:
        inputs = example_inputs(card.model_type, card.iospec, samples, images=images)
    if coreml_host is not None:
        report = _by_coreml(coreml_host, loaded, checkpoint, inputs, runtime)
    else:
        report = measure_parity(loaded, checkpoint, inputs, runtime=runtime)
    if task is not None:
        here = {row.file for row in report.rows if row.status != "not_run"}
        runnable = [item for item in loaded if item.card.file in here]
        report = replace(report, task=task_deltas(model, dataset, runnable, most=task, base=base))
    if out is not None:
        report.save(out)
    text = parity_table(report)
    value: dict[str, Any] = asdict(report)
    if explain:
        few = {name: array[:EXPLAINED] for name, array in inputs.items()}
        found = [_explained(item, checkpoint, few, layers) for item in loaded]
        value["layers"] = [asdict(item) for item in found]
        text += "".join(f"\n{item}" for item in found) + f"\nPictures: {layers}"
    return Outcome(value=value, text=text, ok=report.passed)


def _by_coreml(
    host: str,
    loaded: Sequence[Artifact],
    checkpoint: Path,
    inputs: dict[str, Any],
    runtime: str | None,
) -> ParityReport:
    """The same comparison with what a Mac's own Core ML gives."""
    from unplug.export import reference_outputs
    from unplug.mobile_bench import parity_on_mac
    from unplug.plugins import view_of

    if runtime is not None:
        raise InputError(
            "--runtime and --coreml-host", "both say what runs the files", "Give one of them"
        )
    card = loaded[0].card
    reference = reference_outputs(checkpoint, card.iospec, inputs, view=view_of(card.model_type))
    return parity_on_mac(host, loaded, reference, inputs)


def parity_table(report: ParityReport) -> str:
    """One line an output of a file."""
    from unplug.export import STAND_INS

    rows = []
    for row in report.rows:
        measured = "exact" if row.exact else "" if row.psnr_db is None else f"{row.psnr_db:.1f}"
        error = "" if row.max_abs_error is None else f"{row.max_abs_error:.2e}"
        rows.append(
            (
                row.file,
                row.output,
                measured,
                f"{row.threshold_db:g}",
                error,
                row.status,
                row.runtime,
                row.reason or "",
            )
        )
    text = table(
        ("file", "output", "PSNR dB", "needs", "max error", "status", "runtime", "reason"), rows
    )
    text += "".join(f"\n{line}" for line in _arithmetic(report))
    if report.task:
        text += "\n\n" + _task_table(report.task)
    if any(row.runtime in STAND_INS.values() for row in report.rows):
        text += (
            "\nmil: Core ML's program evaluated operator by operator with torch; Core ML itself "
            "runs on macOS only."
        )
    if not report.passed and all(row.status == "not_run" for row in report.rows):
        text += "\nNothing could be run on this machine, so nothing was checked."
    return text


def _arithmetic(report: ParityReport) -> list[str]:
    """What was not computed as a phone will: in half precision, or by other kernels."""
    lines = []
    for how in dict.fromkeys(
        row.arithmetic for row in report.rows if row.arithmetic not in (None, "float32")
    ):
        rows = [row for row in report.rows if row.arithmetic == how]
        halves = [row.half_psnr_db for row in rows if row.half_psnr_db is not None]
        half = (
            f"; in float16, by torch, {min(halves):.1f} dB at least"
            if len(halves) == len(rows)
            else ""
        )
        lines.append(
            f"computed in {how}: {', '.join(dict.fromkeys(row.file for row in rows))}{half}"
        )
    return lines


def _task_table(rows: Sequence[TaskDelta]) -> str:
    cells = [
        (
            row.file,
            f"{row.error:.4g}",
            f"{row.delta:+.2g}",
            "" if row.low is None or row.high is None else f"{row.low:+.2g} to {row.high:+.2g}",
        )
        for row in rows
    ]
    first = rows[0]
    head = (
        f"{first.samples} test samples; the checkpoint: {first.checkpoint_error:.4g} {first.unit}"
    )
    return f"{head}\n" + table(("file", first.unit, "minus checkpoint", "95 % interval"), cells)


def _explained(
    artifact: Artifact, checkpoint: Path, inputs: dict[str, Any], folder: Path
) -> Explanation:
    from unplug.core import write_json
    from unplug.export import explain, plot_layers

    found = explain(artifact, checkpoint, inputs)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{artifact.path.name}.json", asdict(found))
    if found.layers:
        plot_layers(found, folder / f"{artifact.path.name}.png")
    return found
