"""``unplug export``."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import counted, table
from unplug.sdk import journey

from .base import Common, Outcome, command
from .options import out_option
from .options_of import ConfiguredCommand, given
from .parity import parity_table

if TYPE_CHECKING:
    from unplug.sdk.exporting import Exported, ExportedModel


@click.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.exporting:ExportOrder",
    skip=("out", "calibration_samples"),
)
@click.argument("checkpoints", nargs=-1, required=True, type=click.Path())
@out_option(
    "Folder for the exported files and their cards; of several checkpoints one in it for each."
)
@command
def export(checkpoints: tuple[str, ...], out: Path, common: Common, **order: Any) -> Outcome:
    """Convert CHECKPOINTS to LiteRT (.tflite), Core ML (.mlpackage) and ONNX (.onnx).

    Two more targets where --to names them, each with an extra of its own: executorch (.pte; fp32,
    int8-static) and coreai (.aimodel; fp32).

    What ships goes by its name: canny, face_landmark, small/text_encoder, small/unet, small/decoder,
    small/vae for the autoencoder's decoder, and mark-reader.

    Of a whole base (small, or a diffusers folder) all parts are exported, with the plugins that are
    named next to it, and pipeline.json that `unplug generate --base` draws with.

    int8-static needs --calibrate: activations get their ranges from samples. With it, biases of the
    other int8 precisions are corrected too. Where the data is that of the training, samples are
    drawn from what it may remember, never from what it forgot.
    """
    from unplug.sdk.exporting import ExportOrder

    done = journey.export(
        checkpoints,
        out=out,
        show=common.show,
        say=common.say,
        **given(ExportOrder, order),
    )
    return _told(done, out) if done.base is None else _told_base(done, out)


def _told(done: Exported, out: Path) -> Outcome:
    """A table of files for each checkpoint, and what was found of them."""
    value: dict[str, Any] = {
        "out": str(out),
        "artifacts": [{**asdict(item.card), "path": str(item.path)} for item in done.files],
        "seconds": {model.name: model.seconds for model in done.models},
    }
    outcome = Outcome(value=value)
    for model in done.models:
        rows = [
            (
                str(item.path),
                item.card.precision,
                f"{item.card.bytes:,}",
                f"{item.card.seconds:.1f}",
                item.card.sha256[:12],
            )
            for item in model.files
        ]
        outcome.add(table(("file", "precision", "bytes", "seconds", "sha256"), rows))
        outcome.add(f"{model.name}: {counted(len(rows), 'file')} in {model.seconds} s")
        if model.parity is None:
            outcome.add(
                f"Next: unplug parity {shlex.quote(str(model.folder))} --checkpoint "
                f"{shlex.quote(str(model.checkpoint))}"
            )
        _tell_parity(outcome, model)
        for covered in model.delegates:
            value.setdefault("delegates", []).append(asdict(covered))
            outcome.add(str(covered), ok=covered.whole)
    return outcome


def _tell_parity(outcome: Outcome, model: ExportedModel) -> None:
    if model.parity is not None:
        outcome.value.setdefault("parity", []).append(asdict(model.parity))
        outcome.add(parity_table(model.parity), ok=model.parity.passed)


def _told_base(done: Exported, out: Path) -> Outcome:
    """A table of the files of every part, and what draws with them."""
    from unplug.core import sha256_file
    from unplug.sdk.drawing.device import PIPELINE, load_pipeline, lora_file

    pipeline = load_pipeline(out)
    files = [(model.name, item) for model in done.models for item in model.files]
    value = {
        "out": str(out),
        "pipeline": str(out / PIPELINE),
        "seconds": done.seconds,
        "base": pipeline.name,
        "guided": pipeline.guided,
        "variants": {name: asdict(item) for name, item in pipeline.variants.items()},
        "artifacts": [
            {**asdict(item.card), "path": str(item.path), "part": name} for name, item in files
        ],
        "loras": [
            {"path": str(path), "sha256": sha256_file(lora_file(path))} for path in done.loras
        ],
        "foreign_loras": [str(path) for path in done.foreign_loras],
    }
    outcome = Outcome(value=value)
    rows = [
        (str(item.path), name, item.card.precision, f"{item.card.bytes:,}", item.card.sha256[:12])
        for name, item in files
    ]
    rows += [
        (
            str(out / item.file),
            f"variant {name}" if item.word is None else f"pack {item.word}",
            "fp32",
            f"{item.bytes:,}",
            item.sha256[:12],
        )
        for name, item in pipeline.variants.items()
    ]
    outcome.add(table(("file", "part", "precision", "bytes", "sha256"), rows))
    for model in done.models:
        _tell_parity(outcome, model)
    outcome.add(f"{done.base}: {counted(len(files), 'file')} and {PIPELINE} in {done.seconds} s")
    if not pipeline.guided:
        outcome.add("It draws without guidance: each step asks its UNet about the prompt alone.")
    outcome.add(
        f"Next: unplug generate --base {shlex.quote(str(out))} --prompt TEXT --out picture.png"
    )
    return outcome
