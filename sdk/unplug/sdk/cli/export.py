"""``unplug export``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, table

from .bars import progress_bar
from .base import Common, Outcome, command, names
from .export_base import BaseOrder, export_base
from .options import each_shipped_or_given, out_option
from .parity import parity_table

if TYPE_CHECKING:
    from unplug.export import Artifact


@click.command()
@click.argument(
    "checkpoints", nargs=-1, required=True, type=click.Path(), callback=each_shipped_or_given
)
@click.option(
    "--to",
    "targets",
    default="litert,coreml,onnx",
    show_default=True,
    help="Comma-separated targets.",
)
@click.option(
    "--precision",
    "precisions",
    default="fp32,fp16",
    show_default=True,
    help="Comma-separated precisions; all: those of each target, without int8-dynamic.",
)
@click.option(
    "--calibrate",
    "spec",
    metavar="SPEC",
    help="Data that int8 precisions look at, say what it was trained on.",
)
@click.option(
    "--calibration-samples",
    "samples",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    help="How many of it.",
)
@click.option(
    "--check",
    type=click.IntRange(1, 4096),
    metavar="N",
    help=(
        "Compare the files with the checkpoint too, see unplug parity: on N test samples of "
        "--calibrate, else on drawn faces."
    ),
)
@click.option(
    "--nhwc",
    is_flag=True,
    help="Images with their channels last, as phones have them: no transposes in the file.",
)
@click.option(
    "--ios",
    type=click.Choice(["17", "18"]),
    default="17",
    show_default=True,
    help="Oldest iOS for Core ML files.",
)
@click.option(
    "--require-delegate",
    "delegate",
    type=click.Choice(["gpu", "xnnpack"]),
    help=(
        "Exit with 1 where LiteRT's delegate leaves anything of a .tflite file to the CPU's "
        "kernels."
    ),
)
@click.option(
    "--lora-slots",
    is_flag=True,
    help="Of a whole base: LoRA weights become an input of the UNet's file, which then serves any.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME=WEIGHTS",
    help=(
        "Of a whole base: LoRA weights put beside its files under a name; --lora-slots goes "
        "without saying. May be repeated."
    ),
)
@click.option(
    "--lora",
    "loras",
    multiple=True,
    metavar="WEIGHTS",
    help="Of a whole base: LoRA weights made part of it, four-steps, two-steps, a folder or a file; it then draws as their "
    "record says. May be repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="Targets converted at a time.",
)
@out_option(
    "Folder for the exported files and their cards; of several checkpoints one in it for each."
)
@command
def export(
    checkpoints: tuple[Path, ...],
    targets: str,
    precisions: str,
    spec: str | None,
    samples: int,
    check: int | None,
    nhwc: bool,
    ios: str,
    delegate: str | None,
    lora_slots: bool,
    variants: tuple[str, ...],
    loras: tuple[str, ...],
    workers: int,
    out: Path,
    common: Common,
) -> Outcome:
    """Convert CHECKPOINTS to LiteRT (.tflite), Core ML (.mlpackage) and ONNX (.onnx).

    Two more targets where --to names them, each with an extra of its own: executorch (.pte; fp32,
    int8-static) and coreai (.aimodel; fp32).

    What ships goes by its name: canny, face_landmark, small/text_encoder, small/unet, and small/vae
    for the decoder.

    Of a whole base (small, or a diffusers folder) all parts are exported, with the plugins that are
    named beside it, and pipeline.json that `unplug generate --base` draws with.

    int8-static needs --calibrate: activations get their ranges from samples. With it, biases of the
    other int8 precisions are corrected too. Where the data is that of the training, samples are
    drawn from what it may remember, never from what it forgot.
    """
    from unplug.export import export_checkpoint, looks_at_samples, plan_pairs
    from unplug.plugins import read_config
    from unplug.sdk.drawing.device import is_base

    if any(map(is_base, checkpoints)):
        order = BaseOrder(
            targets=names(targets),
            precisions=names(precisions),
            nhwc=nhwc,
            ios=int(ios),
            workers=workers,
            check=check,
            lora_slots=lora_slots,
            variants=variants,
            loras=loras,
            out=out,
        )
        return export_base(checkpoints, order, common)
    if lora_slots or variants or loras:
        option = "--lora" if loras else "--variant" if variants else "--lora-slots"
        why = "it is for a whole base that lies here, and none is named"
        raise InputError(option, why, "Name small or a diffusers folder, or leave it out")
    pairs = plan_pairs(names(targets), names(precisions))
    wanted = list(dict.fromkeys(name for found in pairs.values() for name in found))
    if spec is not None and not looks_at_samples(wanted):
        why = f"{' and '.join(wanted)} {'look' if len(wanted) > 1 else 'looks'} at no samples"
        raise InputError(
            "--calibrate", why, "Add an int8 precision to --precision, or leave it out"
        )
    if delegate is not None and "litert" not in pairs:
        raise InputError(
            "--require-delegate",
            "no LiteRT file is exported",
            "Add litert to --to, or leave it out",
        )
    if "int8-dynamic" in wanted:
        common.say(
            "warning: XNNPACK does not take depthwise convolutions of int8-dynamic files, which "
            "makes them slow on CPUs"
        )
    value: dict[str, Any] = {"out": str(out), "artifacts": [], "seconds": {}}
    outcome = Outcome(value=value)
    named = _named(checkpoints)
    for checkpoint in named.values():
        read_config(checkpoint)
    # Everything that can be wrong is found before the first conversion, which takes a minute.
    given = {
        name: _samples(checkpoint, spec, samples, check, nhwc, common)
        for name, checkpoint in named.items()
    }
    for name, checkpoint in named.items():
        calibration, compared = given[name]
        folder = out if len(named) == 1 else out / name
        started = time.perf_counter()
        with progress_bar(f"export {name}", common) as progress:
            made = export_checkpoint(
                checkpoint,
                targets=names(targets),
                precisions=names(precisions),
                out=folder,
                calibration=calibration,
                layout="NHWC" if nhwc else "NCHW",
                ios=int(ios),
                workers=workers,
                progress=progress,
            )
        value["seconds"][name] = round(time.perf_counter() - started, 1)
        _tell_files(outcome, name, made)
        _tell_parity(outcome, checkpoint, made, compared, folder, common)
        if delegate is not None:
            _tell_coverage(outcome, made, delegate)
    return outcome


def _tell_files(outcome: Outcome, name: str, made: Sequence[Artifact]) -> None:
    outcome.value["artifacts"] += [{**asdict(item.card), "path": str(item.path)} for item in made]
    rows = [
        (
            str(item.path),
            item.card.precision,
            f"{item.card.bytes:,}",
            f"{item.card.seconds:.1f}",
            item.card.sha256[:12],
        )
        for item in made
    ]
    outcome.add(table(("file", "precision", "bytes", "seconds", "sha256"), rows))
    outcome.add(f"{name}: {counted(len(made), 'file')} in {outcome.value['seconds'][name]} s")


def _tell_parity(
    outcome: Outcome,
    checkpoint: Path,
    made: Sequence[Artifact],
    inputs: dict[str, Any] | None,
    folder: Path,
    common: Common,
) -> None:
    """Compares the files with their checkpoint, or says how to."""
    from unplug.export import measure_parity

    if inputs is None:
        outcome.add(
            f"Next: unplug parity {shlex.quote(str(folder))} --checkpoint "
            f"{shlex.quote(str(checkpoint))}"
        )
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
    """What a checkpoint is calibrated on and what its files are compared on, as far as either was
    asked for.
    """
    if spec is None and check is None:
        return None, None
    from unplug.plugins import load_checkpoint
    from unplug.sdk.drawing.conditions import example_inputs, real_inputs
    from unplug.sdk.learning.data import load_dataset

    model = load_checkpoint(checkpoint)
    shipped = model.model.iospec.images_in("NHWC" if nhwc else "NCHW")
    if spec is None:
        assert check is not None
        return None, example_inputs(model.model_type, shipped, check)
    dataset = load_dataset(spec, model.model.iospec.inputs[0].height, show=common.show)
    compared = (
        None
        if check is None
        else real_inputs(model, dataset, check, part="test", iospec=shipped, say=common.say)
    )
    return real_inputs(model, dataset, count, part="retain", say=common.say), compared
