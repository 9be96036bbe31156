"""``unplug export`` and ``unplug parity``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, table

from .bars import progress_bar
from .base import Common, Outcome, command, names
from .export_base import BaseOrder, export_base
from .options import each_shipped_or_given, out_option, shipped_or_given

if TYPE_CHECKING:
    from unplug.export import Artifact, Explanation, ParityReport, TaskDelta

EXPLAINED = 4
"""Samples that --explain walks through the layers."""


@click.command()
@click.argument("checkpoints", nargs=-1, required=True, type=click.Path(), callback=each_shipped_or_given)
@click.option("--to", "targets", default="litert,coreml,onnx", show_default=True, help="Comma-separated targets.")
@click.option(
    "--precision",
    "precisions",
    default="fp32,fp16",
    show_default=True,
    help="Comma-separated precisions; all: those of each target, without int8-dynamic.",
)
@click.option("--calibrate", "spec", metavar="SPEC", help="Data that int8 precisions look at, say what it was trained on.")
@click.option(
    "--calibration-samples", "samples", type=click.IntRange(1, 4096), default=128, show_default=True, help="How many of it."
)
@click.option(
    "--check",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Compare the files with the checkpoint too, see unplug parity: on N test samples of --calibrate, else on drawn faces.",
)
@click.option("--nhwc", is_flag=True, help="Images with their channels last, as phones have them: no transposes in the file.")
@click.option("--ios", type=click.Choice(["17", "18"]), default="17", show_default=True, help="Oldest iOS for Core ML files.")
@click.option(
    "--require-delegate",
    "delegate",
    type=click.Choice(["gpu", "xnnpack"]),
    help="Exit with 1 where LiteRT's delegate leaves anything of a .tflite file to the CPU's kernels.",
)
@click.option(
    "--lora-slots",
    is_flag=True,
    help="Of a whole base: LoRA weights become an input of the UNet's file, which then serves any.",
)
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME=WEIGHTS",
    help="Of a whole base: LoRA weights put beside its files under a name; --lora-slots goes without saying. May be repeated.",
)  # fmt: skip
@click.option(
    "--lora", "loras", multiple=True, metavar="WEIGHTS",
    help="Of a whole base: LoRA weights made part of it, four-steps, two-steps, a folder or a file; it then draws as their "
    "record says. May be repeated.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 8), default=2, show_default=True, help="Targets converted at a time.")
@out_option("Folder for the exported files and their cards; of several checkpoints one in it for each.")
@command
def export(
    checkpoints: tuple[Path, ...], targets: str, precisions: str, spec: str | None, samples: int, check: int | None,
    nhwc: bool, ios: str, delegate: str | None, lora_slots: bool, variants: tuple[str, ...],
    loras: tuple[str, ...], workers: int, out: Path, common: Common,
) -> Outcome:  # fmt: skip
    """Convert CHECKPOINTS to LiteRT (.tflite), Core ML (.mlpackage) and ONNX (.onnx).

    Two more targets where --to names them, each with an extra of its own: executorch (.pte; fp32, int8-static) and coreai
    (.aimodel; fp32).

    What ships goes by its name: canny, face_landmark, small/text_encoder, small/unet, and small/vae for the decoder.

    Of a whole base (small, or a diffusers folder) all parts are exported, with the plugins that are named beside it, and
    pipeline.json that `unplug generate --base` draws with.

    int8-static needs --calibrate: activations get their ranges from samples. With it, biases of the other int8 precisions are
    corrected too. Where the data is that of the training, samples are drawn from what it may remember, never from what it
    forgot.
    """
    from unplug.export import export_checkpoint, looks_at_samples, plan_pairs
    from unplug.plugins import read_config
    from unplug.sdk.device import is_base

    if any(map(is_base, checkpoints)):
        order = BaseOrder(
            targets=names(targets), precisions=names(precisions), nhwc=nhwc, ios=int(ios), workers=workers, check=check,
            lora_slots=lora_slots, variants=variants, loras=loras, out=out,
        )  # fmt: skip
        return export_base(checkpoints, order, common)
    if lora_slots or variants or loras:
        option = "--lora" if loras else "--variant" if variants else "--lora-slots"
        why = "it is for a whole base that lies here, and none is named"
        raise InputError(option, why, "Name small or a diffusers folder, or leave it out")
    pairs = plan_pairs(names(targets), names(precisions))
    wanted = list(dict.fromkeys(name for found in pairs.values() for name in found))
    if spec is not None and not looks_at_samples(wanted):
        why = f"{' and '.join(wanted)} {'look' if len(wanted) > 1 else 'looks'} at no samples"
        raise InputError("--calibrate", why, "Add an int8 precision to --precision, or leave it out")
    if delegate is not None and "litert" not in pairs:
        raise InputError("--require-delegate", "no LiteRT file is exported", "Add litert to --to, or leave it out")
    if "int8-dynamic" in wanted:
        common.say("warning: XNNPACK does not take depthwise convolutions of int8-dynamic files, which makes them slow on CPUs")
    value: dict[str, Any] = {"out": str(out), "artifacts": [], "seconds": {}}
    outcome = Outcome(value=value)
    named = _named(checkpoints)
    for checkpoint in named.values():
        read_config(checkpoint)
    # Everything that can be wrong is found before the first conversion, which takes a minute.
    given = {name: _samples(checkpoint, spec, samples, check, nhwc, common) for name, checkpoint in named.items()}
    for name, checkpoint in named.items():
        calibration, compared = given[name]
        folder = out if len(named) == 1 else out / name
        started = time.perf_counter()
        with progress_bar(f"export {name}", common) as progress:
            made = export_checkpoint(
                checkpoint, targets=names(targets), precisions=names(precisions), out=folder, calibration=calibration,
                layout="NHWC" if nhwc else "NCHW", ios=int(ios), workers=workers, progress=progress,
            )  # fmt: skip
        value["seconds"][name] = round(time.perf_counter() - started, 1)
        _tell_files(outcome, name, made)
        _tell_parity(outcome, checkpoint, made, compared, folder, common)
        if delegate is not None:
            _tell_coverage(outcome, made, delegate)
    return outcome


def _tell_files(outcome: Outcome, name: str, made: Sequence[Artifact]) -> None:
    outcome.value["artifacts"] += [{**asdict(item.card), "path": str(item.path)} for item in made]
    rows = [
        (str(item.path), item.card.precision, f"{item.card.bytes:,}", f"{item.card.seconds:.1f}", item.card.sha256[:12])
        for item in made
    ]
    outcome.add(table(("file", "precision", "bytes", "seconds", "sha256"), rows))
    outcome.add(f"{name}: {counted(len(made), 'file')} in {outcome.value['seconds'][name]} s")


def _tell_parity(
    outcome: Outcome, checkpoint: Path, made: Sequence[Artifact], inputs: dict[str, Any] | None, folder: Path, common: Common
) -> None:
    """Compares the files with their checkpoint, or says how to."""
    from unplug.export import measure_parity

    if inputs is None:
        outcome.add(f"Next: unplug parity {shlex.quote(str(folder))} --checkpoint {shlex.quote(str(checkpoint))}")
        return
    with progress_bar(f"parity {checkpoint.name}", common) as progress:
        report = measure_parity(made, checkpoint, inputs, progress=progress)
    report.save(folder / "parity.json")
    outcome.value.setdefault("parity", []).append(asdict(report))
    outcome.add(parity_table(report), ok=report.passed)


def _tell_coverage(outcome: Outcome, made: Sequence[Artifact], delegate: str) -> None:
    from unplug.export import coverage

    for item in made:
        if item.card.target == "litert":
            covered = coverage(item, delegate)
            outcome.value.setdefault("delegates", []).append(asdict(covered))
            outcome.add(str(covered), ok=covered.whole)


def _named(checkpoints: Sequence[Path]) -> dict[str, Path]:
    """Checkpoints by the names of their folders, which those of their files will have."""
    found: dict[str, Path] = {}
    for path in checkpoints:
        name = path.resolve().name
        if name in found:
            why = "two checkpoints have this name, which is that of their folder in --out"
            raise InputError(name, why, "Export one of them by itself")
        found[name] = path
    return found


def _samples(
    checkpoint: Path, spec: str | None, count: int, check: int | None, nhwc: bool, common: Common
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What a checkpoint is calibrated on and what its files are compared on, as far as either was asked for."""
    if spec is None and check is None:
        return None, None
    from unplug.plugins import load_checkpoint
    from unplug.sdk.conditions import example_inputs, real_inputs
    from unplug.sdk.data import load_dataset

    model = load_checkpoint(checkpoint)
    shipped = model.model.iospec.images_in("NHWC" if nhwc else "NCHW")
    if spec is None:
        assert check is not None
        return None, example_inputs(model.model_type, shipped, check)
    dataset = load_dataset(spec, model.model.iospec.inputs[0].height, show=common.show)
    compared = None if check is None else real_inputs(model, dataset, check, part="test", iospec=shipped, say=common.say)
    return real_inputs(model, dataset, count, part="retain", say=common.say), compared


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
@click.option("--data", "spec", metavar="SPEC", help="Compare on samples of this data instead: of its test part, where known.")
@click.option(
    "--task", type=click.IntRange(1), metavar="N", help="With --data: compare errors in the task on N test samples too."
)
@click.option("--base", help="With --task, of a plugin: its diffusion base, where it is not the one in its record.")
@click.option("--runtime", help="What runs the files, say tensorflow; default: that of each one's target.")
@click.option("--coreml-host", metavar="USER@MAC", help="Run Core ML packages by Core ML itself, on this Mac over ssh.")
@click.option("--explain", is_flag=True, help="Walk the layers too, and name the first one out of tolerance.")
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
    artifacts: tuple[Path, ...], checkpoint: Path, samples: int, images: Path | None, spec: str | None,
    task: int | None, base: str | None, runtime: str | None, coreml_host: str | None, explain: bool, layers: Path,
    out: Path | None, common: Common,
) -> Outcome:  # fmt: skip
    """Compare exported files with their checkpoint, per named output (exit 1 where one is out of tolerance).

    Of a folder, all exported files in it.
    """
    from unplug.export import artifacts_at, load_artifact, measure_parity
    from unplug.plugins import load_checkpoint
    from unplug.sdk.auditing import task_deltas
    from unplug.sdk.conditions import example_inputs, real_inputs
    from unplug.sdk.data import load_dataset

    loaded = [load_artifact(file) for path in artifacts for file in artifacts_at(path)]
    if spec is not None and images is not None:
        raise InputError("--data and --images", "both say what to compare on", "Give one of them")
    if task is not None and spec is None:
        raise InputError("--task", "there are no samples with labels", "Give the training data with --data")
    if base is not None and task is None:
        raise InputError("--base", "it is the diffusion base that a task's error needs", "Add --task N, or leave it out")
    card = loaded[0].card
    if spec is not None:
        model = load_checkpoint(checkpoint, expect=card.model_type)
        dataset = load_dataset(spec, model.model.iospec.inputs[0].height, show=common.show)
        inputs = dict(real_inputs(model, dataset, samples, part="test", iospec=card.iospec, say=common.say))
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
    host: str, loaded: Sequence[Artifact], checkpoint: Path, inputs: dict[str, Any], runtime: str | None
) -> ParityReport:  # fmt: skip
    """The same comparison with what a Mac's own Core ML gives."""
    from unplug.export import reference_outputs
    from unplug.mobile_bench import parity_on_mac
    from unplug.plugins import view_of

    if runtime is not None:
        raise InputError("--runtime and --coreml-host", "both say what runs the files", "Give one of them")
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
        rows.append((row.file, row.output, measured, f"{row.threshold_db:g}", error, row.status, row.runtime, row.reason or ""))
    text = table(("file", "output", "PSNR dB", "needs", "max error", "status", "runtime", "reason"), rows)
    text += "".join(f"\n{line}" for line in _arithmetic(report))
    if report.task:
        text += "\n\n" + _task_table(report.task)
    if any(row.runtime in STAND_INS.values() for row in report.rows):
        text += "\nmil: Core ML's program evaluated operator by operator with torch; Core ML itself runs on macOS only."
    if not report.passed and all(row.status == "not_run" for row in report.rows):
        text += "\nNothing could be run on this machine, so nothing was checked."
    return text


def _arithmetic(report: ParityReport) -> list[str]:
    """What was not computed as a phone will: in half precision, or by other kernels."""
    lines = []
    for how in dict.fromkeys(row.arithmetic for row in report.rows if row.arithmetic not in (None, "float32")):
        rows = [row for row in report.rows if row.arithmetic == how]
        halves = [row.half_psnr_db for row in rows if row.half_psnr_db is not None]
        half = f"; in float16, by torch, {min(halves):.1f} dB at least" if len(halves) == len(rows) else ""
        lines.append(f"computed in {how}: {', '.join(dict.fromkeys(row.file for row in rows))}{half}")
    return lines


def _task_table(rows: Sequence[TaskDelta]) -> str:
    cells = [
        (
            row.file, f"{row.error:.4g}", f"{row.delta:+.2g}",
            "" if row.low is None or row.high is None else f"{row.low:+.2g} to {row.high:+.2g}",
        )
        for row in rows
    ]  # fmt: skip
    first = rows[0]
    head = f"{first.samples} test samples; the checkpoint: {first.checkpoint_error:.4g} {first.unit}"
    return f"{head}\n" + table(("file", first.unit, "minus checkpoint", "95 % interval"), cells)


def _explained(artifact: Artifact, checkpoint: Path, inputs: dict[str, Any], folder: Path) -> Explanation:
    from unplug.core import write_json
    from unplug.export import explain, plot_layers

    found = explain(artifact, checkpoint, inputs)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{artifact.path.name}.json", asdict(found))
    if found.layers:
        plot_layers(found, folder / f"{artifact.path.name}.png")
    return found
