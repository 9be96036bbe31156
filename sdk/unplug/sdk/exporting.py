"""Exported files of checkpoints and of whole bases: made, then compared with what they were made
from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from unplug.core import CheckpointError, InputError, follow, one_line, temporary_folder, write_json
from unplug.export import (
    Artifact,
    Coverage,
    Explanation,
    ParityReport,
    coverage,
    explain,
    export_checkpoint,
    looks_at_samples,
    measure_parity,
    plan_pairs,
    plot_layers,
    reference_outputs,
)
from unplug.plugins import Checkpoint, load_checkpoint, read_config, view_of
from unplug.sdk.drawing.conditions import example_inputs, real_inputs
from unplug.sdk.drawing.device import (
    WEIGHTS_NAME,
    GeneratorSource,
    PipelineDefaults,
    VariantSource,
    check_source,
    decoder_folder,
    export_generator,
    is_base,
    pack_name,
)
from unplug.sdk.learning.data import Dataset, load_again

Say = Callable[[str], None]
EXPLAINED = 4
"""Samples that `explain_files` walks through the layers."""
CALIBRATION = 128
SAMPLES = {"range": (1, 4096)}


@dataclass(frozen=True, kw_only=True)
class ExportOrder:
    """How checkpoints are exported.

    Args:
        out: folder for the files, each with its card; of several checkpoints one in it for each.
        to: comma-separated targets.
        precision: comma-separated precisions; all: those of each target, without int8-dynamic.
        calibrate: data that int8 precisions look at, say what it was trained on.
        samples: how many of it (default 128).
        check: compare the files with the checkpoint too, see unplug parity: on N test samples of
            `calibrate`, else on drawn faces.
        nhwc: images with their channels last, as phones have them: no transposes in the file.
        ios: oldest iOS for Core ML files.
        delegate: exit with 1 where LiteRT's delegate leaves anything of a .tflite file to the
            CPU's kernels.
        decoder: the decoder of a whole base: a folder of `unplug train decoder`, or autoencoder for
            the base's slower one (default: the quick decoder in the base, where it has one).
        lora_slots: make LoRA weights an input of the file of a whole base's UNet, which then serves
            any.
        variants: loRA weights to put next to a whole base's files under a name; implies
            `lora_slots`. May be repeated.
        packs: packs from `unplug train pack` to put next to a whole base's files, each used if a
            prompt says its word; implies `lora_slots`. May be repeated.
        loras: loRA weights to make part of a whole base: four-steps, two-steps, a folder or a file;
            it then draws as their record says. May be repeated.
        workers: targets converted at a time.
    """

    out: Path
    to: Sequence[str] = ("litert", "coreml", "onnx")
    precision: Sequence[str] = ("fp32", "fp16")
    calibrate: Dataset | str | None = field(default=None, metadata={"metavar": "SPEC"})
    samples: int | None = field(default=None, metadata=SAMPLES | {"flag": "--calibration-samples"})
    check: int | None = field(default=None, metadata=SAMPLES | {"metavar": "N"})
    nhwc: bool = False
    ios: int = field(default=17, metadata={"flag": "--oldest-ios", "range": (17, 18)})
    delegate: Literal["gpu", "xnnpack"] | None = field(
        default=None, metadata={"flag": "--require-delegate"}
    )
    decoder: str | None = field(default=None, metadata={"metavar": "FOLDER"})
    lora_slots: bool = False
    variants: Sequence[str] = field(
        default=(), metadata={"flag": "--variant", "metavar": "NAME=WEIGHTS"}
    )
    packs: Sequence[Path] = field(default=(), metadata={"flag": "--pack", "metavar": "FOLDER"})
    loras: Sequence[str] = field(default=(), metadata={"flag": "--lora", "metavar": "WEIGHTS"})
    workers: int = field(default=2, metadata={"range": (1, 8)})

    def settings(self) -> dict[str, Any]:
        """What a converter is told of every model."""
        return {
            "targets": self.to,
            "precisions": self.precision,
            "layout": "NHWC" if self.nhwc else "NCHW",
            "ios": self.ios,
            "workers": self.workers,
        }


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """The files of one checkpoint, or of one part of a base.

    Args:
        name: the name of the checkpoint's folder, or of the part.
        checkpoint: the checkpoint that they were made from.
        folder: the folder with the files.
        parity: the result of `check`; also ``parity.json`` in the folder.
        delegates: the operators that `delegate` leaves, for each LiteRT file.
        seconds: the conversion took; of a part, None.
    """

    name: str
    checkpoint: Path
    folder: Path
    files: tuple[Artifact, ...]
    parity: ParityReport | None = None
    delegates: tuple[Coverage, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export made.

    Args:
        models: one a checkpoint, or one a part of a base.
        base: name of the whole base that this is; None of checkpoints.
        seconds: all conversions took.
        loras: weights made part of the base.
        foreign_loras: weights that were trained on another base.
    """

    models: tuple[ExportedModel, ...]
    base: str | None = None
    seconds: float
    loras: tuple[Path, ...] = ()
    foreign_loras: tuple[Path, ...] = ()

    __repr__ = one_line

    @property
    def files(self) -> list[Artifact]:
        """All files."""
        return [item for model in self.models for item in model.files]


def export_models(
    checkpoints: Sequence[Path], order: ExportOrder, *, show: bool, say: Say
) -> Exported:
    """Exports checkpoints, or a base with the plugins named with it.

    Raises:
        InputError: what does not go together; found before the first conversion.
    """
    if any(map(is_base, checkpoints)):
        return _export_base(checkpoints, order, show, say)
    _check_order(order, say)
    named = _named(checkpoints)
    for checkpoint in named.values():
        read_config(checkpoint)
    # Everything that can be wrong is found before the first conversion, which takes a minute.
    given = {name: _samples(path, order, show, say) for name, path in named.items()}
    models = []
    for name, checkpoint in named.items():
        calibration, inputs = given[name]
        folder = order.out if len(named) == 1 else order.out / name
        started = time.perf_counter()
        with follow(f"export {name}", show=show) as progress:
            made = export_checkpoint(
                checkpoint,
                out=folder,
                calibration=calibration,
                progress=progress,
                **order.settings(),
            )
        seconds = round(time.perf_counter() - started, 1)
        model = ExportedModel(
            name=name, checkpoint=checkpoint, folder=folder, files=tuple(made), seconds=seconds
        )
        models.append(_covered(_checked(model, inputs, show), order.delegate))
    return Exported(models=tuple(models), seconds=sum(item.seconds or 0 for item in models))


def _check_order(order: ExportOrder, say: Say) -> None:
    of_bases = ("decoder", "loras", "packs", "variants", "lora_slots")
    for option in (name for name in of_bases if getattr(order, name)):
        why = "it is for a whole base that lies here, and none is named"
        raise InputError(f"`{option}`", why, "Name small or a diffusers folder, or leave it out")
    pairs = plan_pairs(order.to, order.precision)
    wanted = list(dict.fromkeys(name for found in pairs.values() for name in found))
    if order.calibrate is not None and not looks_at_samples(wanted):
        why = f"{' and '.join(wanted)} {'look' if len(wanted) > 1 else 'looks'} at no samples"
        fix = "Add an int8 precision to `precision`, or leave it out"
        raise InputError("`calibrate`", why, fix)
    if order.delegate is not None and "litert" not in pairs:
        why = "no LiteRT file is exported"
        raise InputError("`delegate`", why, "Add litert to `to`, or leave it out")
    if "int8-dynamic" in wanted:
        say(
            "warning: XNNPACK does not take depthwise convolutions of int8-dynamic files, which "
            "makes them slow on CPUs"
        )


def _named(checkpoints: Sequence[Path]) -> dict[str, Path]:
    """Checkpoints by the names of their folders, which those of their files will have."""
    named: dict[str, Path] = {}
    for path in checkpoints:
        name = path.resolve().name
        if name in named:
            why = "two checkpoints have this name, which is that of their folder in `out`"
            raise InputError(name, why, "Export one of them by itself")
        named[name] = path
    return named


def _samples(
    checkpoint: Path, order: ExportOrder, show: bool, say: Say
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """What a checkpoint is calibrated on and what its files are compared on, as far as either was
    asked for.
    """
    if order.calibrate is None and order.check is None:
        return None, None
    model = load_checkpoint(checkpoint)
    shipped = model.model.iospec.images_in("NHWC" if order.nhwc else "NCHW")
    if order.calibrate is None:
        return None, example_inputs(model.model_type, shipped, order.check or 1)
    side = model.model.iospec.inputs[0].height
    data = _opened(order.calibrate, side, model, show)
    compared = (
        None
        if order.check is None
        else real_inputs(model, data, order.check, part="test", iospec=shipped, say=say)
    )
    count = order.samples or CALIBRATION
    return real_inputs(model, data, count, part="retain", say=say), compared


def _opened(data: Dataset | str, side: int, model: Checkpoint, show: bool) -> Dataset:
    if isinstance(data, Dataset):
        return data
    return load_again(data, side, model.record, show=show)


def _checked(model: ExportedModel, inputs: Mapping[str, Any] | None, show: bool) -> ExportedModel:
    """Compared with its checkpoint; ``parity.json`` goes next to the files."""
    if inputs is None:
        return model
    with follow(f"parity {model.checkpoint.name}", show=show) as progress:
        report = measure_parity(model.files, model.checkpoint, inputs, progress=progress)
    report.save(model.folder / "parity.json")
    return replace(model, parity=report)


def _covered(model: ExportedModel, delegate: str | None) -> ExportedModel:
    if delegate is None:
        return model
    files = [item for item in model.files if item.card.target == "litert"]
    return replace(model, delegates=tuple(coverage(item, delegate) for item in files))


def _export_base(checkpoints: Sequence[Path], order: ExportOrder, show: bool, say: Say) -> Exported:
    from unplug.sdk.drawing.diffusion import find_lora, load_base, teacher_of_lora, tell_foreign

    variants = _variants(order.variants)
    variants |= _packs(order.packs, variants)
    slots = order.lora_slots or bool(variants)
    source = replace(_source(checkpoints, order.decoder), lora_slots=slots, variants=variants)
    for name in ("calibrate", "samples", "delegate"):
        if getattr(order, name) is not None:
            why = "it is of one model, and this is a whole base"
            raise InputError(f"`{name}`", why, "Leave it out, or export the parts one by one")
    check_source(source)
    plan_pairs(order.to, order.precision)  # refuses before a base is loaded
    merged = [find_lora(name) for name in order.loras]
    every = [*merged, *(path for item in variants.values() for path in item.loras)]
    foreign: tuple[Path, ...] = ()
    with temporary_folder("unplug-merge-") as folder:
        if not merged:
            source = _with_map(source, folder, say)
        if merged or any(map(teacher_of_lora, every)):  # else nothing needs the base in memory
            import torch

            base = load_base(str(source.folder.resolve()), device=torch.device("cpu"))
            foreign = tuple(tell_foreign(base, every, source.name, say))
            source = _merged(source, base, merged, folder) if merged else source
        made = _export_parts(source, order, show)
    return replace(made, loras=tuple(merged), foreign_loras=foreign)


def _export_parts(source: GeneratorSource, order: ExportOrder, show: bool) -> Exported:
    started = time.perf_counter()
    with follow(f"export {source.name}", show=show) as progress:
        made = export_generator(source, out=order.out, progress=progress, **order.settings())
    seconds = round(time.perf_counter() - started, 1)
    folders = source.checkpoints()
    models = []
    for name, files in made.items():
        model = ExportedModel(
            name=name,
            checkpoint=folders[name],
            folder=files[0].path.parent,
            files=tuple(files),
        )
        card = files[0].card
        inputs = order.check and example_inputs(card.model_type, card.iospec, order.check)
        models.append(_checked(model, inputs or None, show))
    return Exported(models=tuple(models), base=source.name, seconds=seconds)


def _with_map(source: GeneratorSource, folder: Path, say: Say) -> GeneratorSource:
    """An erased base with its edit in the text encoder, where the edit is a map of text states."""
    from unplug.sdk.forgetting.erasing import erased_record, write_mapped

    told = erased_record(str(source.folder))
    if told is None or told.map_bytes is None:
        return source
    try:
        write_mapped(source.folder, folder)
    except CheckpointError as error:
        say(f"the erasure goes into the UNet's file, not the text encoder's: {error}")
        return source
    return replace(source, folder=folder)


def _merged(
    source: GeneratorSource, base: Any, loras: Sequence[Path], folder: Path
) -> GeneratorSource:
    """The base with LoRA weights made part of it, in `folder`; it draws as the last one that tells
    says.
    """
    from unplug.sdk.drawing.diffusion import merge_loras, sampling_of_lora

    merge_loras(base, loras, folder)
    names = [
        path.resolve().parent.name if path.name == WEIGHTS_NAME else path.resolve().stem
        for path in loras
    ]
    told = [
        how.on_files | {"schedule": how.schedule}
        for how in map(sampling_of_lora, loras)
        if how is not None
    ]
    return replace(
        source, name=" + ".join([source.name, *names]), folder=folder, **(told[-1] if told else {})
    )


def _source(checkpoints: Sequence[Path], decoder: str | None) -> GeneratorSource:
    from unplug.sdk.drawing.diffusion import base_name, sampling_by_record

    bases = [path for path in checkpoints if is_base(path)]
    if len(bases) != 1:
        why = f"{len(bases)} whole bases are named, and a generator has one"
        raise InputError(
            "unplug export", why, "Export each base by itself, with its plugins after it"
        )
    (folder,) = bases
    plugins = [path for path in checkpoints if path != folder]
    names = [path.resolve().name for path in plugins]
    if len(set(names)) < len(names):
        why = "two plugins have one name, which is that of their folder"
        raise InputError("unplug export", why, "Rename one of them")
    how = sampling_by_record(folder)
    return GeneratorSource(
        name=base_name(folder),
        folder=folder,
        decoder=decoder_folder(folder, decoder),
        plugins=dict(zip(names, plugins, strict=True)),
        schedule=how.schedule,
        **how.on_files,
    )


def _variants(pairs: Sequence[str]) -> dict[str, VariantSource]:
    """Each name's weights, in the order given, with the sampling that the record of the last
    such weights tells.
    """
    from unplug.sdk.drawing.diffusion import find_lora, sampling_of_lora

    variants: dict[str, VariantSource] = {}
    for pair in pairs:
        name, mark, path = pair.partition("=")
        if not (name and mark and path):
            why = f"{pair[:100]!r} is not a name with weights"
            fix = "Write NAME=WEIGHTS, WEIGHTS as for unplug generate --lora"
            raise InputError("`variants`", why, fix)
        before = variants.get(name, VariantSource(loras=()))
        weights = find_lora(path)
        how = sampling_of_lora(weights)
        told = how and PipelineDefaults(**how.on_files)
        variants[name] = VariantSource(
            loras=(*before.loras, weights), defaults=told or before.defaults
        )
    return variants


def _packs(
    folders: Sequence[Path], variants: Mapping[str, VariantSource]
) -> dict[str, VariantSource]:
    """Packs by their names among a base's variants."""
    from unplug.sdk.drawing.diffusion import word_of_pack

    packs: dict[str, VariantSource] = {}
    for folder in map(Path, folders):
        word = word_of_pack(folder)
        name = pack_name(word)
        if name in packs or name in variants:
            why = (
                f"two packs have the word {word!r}" if name in packs else f"a variant is {name} too"
            )
            raise InputError("`packs`", why, "Leave one out, or name the variant otherwise")
        packs[name] = VariantSource(loras=(folder,), word=word)
    return packs


@dataclass(frozen=True, kw_only=True)
class ParityOrder:
    """On what exported files are compared with their checkpoint.

    Args:
        samples: synthetic faces to compare on (a plugin: their edges).
        images: compare on the images of this folder instead (a plugin: condition images).
        data: compare on samples of this data instead: of its test part, where known.
        task: the number of test samples of `data` on which to compare errors in the task too.
        base: a plugin's diffusion base for `task`, if it is not the base in its record.
    """

    samples: int = field(default=16, metadata=SAMPLES)
    images: Path | None = field(default=None, metadata={"flag": "--image", "metavar": "FOLDER"})
    data: Dataset | str | None = field(default=None, metadata={"metavar": "SPEC"})
    task: int | None = field(default=None, metadata={"range": (1, None), "metavar": "N"})
    base: str | None = None

    def __post_init__(self) -> None:
        if self.data is not None and self.images is not None:
            why = "both say what to compare on"
            raise InputError("`data` and `images`", why, "Give one of them")
        if self.task is not None and self.data is None:
            why = "there are no samples with labels"
            raise InputError("`task`", why, "Give the training data with `data`")
        if self.base is not None and self.task is None:
            why = "it is the diffusion base that a task's error needs"
            raise InputError("`base`", why, "Add `task` N, or leave it out")


def compare_files(
    files: Sequence[Artifact],
    checkpoint: Path,
    on: ParityOrder,
    *,
    runtime: str | None,
    coreml_host: str | None,
    show: bool,
    say: Say,
) -> ParityReport:
    """Compares files with their checkpoint, per named output."""
    data, inputs = _compared(files, checkpoint, on, show, say)
    with follow("parity", show=show) as progress:
        if coreml_host is None:
            report = measure_parity(files, checkpoint, inputs, runtime=runtime, progress=progress)
        else:
            report = _by_coreml(coreml_host, files, checkpoint, inputs, runtime)
        if on.task is None or data is None:
            return report
        from unplug.sdk.evidence.auditing import task_deltas

        ran = {row.file for row in report.rows if row.status != "not_run"}
        runnable = [item for item in files if item.card.file in ran]
        deltas = task_deltas(*data, runnable, most=on.task, base=on.base)
    return replace(report, task=deltas)


def explain_files(
    files: Sequence[Artifact], checkpoint: Path, on: ParityOrder, folder: Path, *, show: bool
) -> list[Explanation]:
    """Walks the layers of files and of their checkpoint, on the first samples that
    `compare_files` takes; a picture and a JSON of each file go into a folder.
    """
    _, inputs = _compared(files, checkpoint, on, show, lambda _: None)
    few = {name: array[:EXPLAINED] for name, array in inputs.items()}
    return [_explained(item, checkpoint, few, folder) for item in files]


def _compared(
    files: Sequence[Artifact], checkpoint: Path, on: ParityOrder, show: bool, say: Say
) -> tuple[tuple[Checkpoint, Dataset] | None, dict[str, Any]]:
    """Inputs of the files, and the data that they come from."""
    if not files:
        raise InputError("parity", "no artifact is given", "Name at least one exported file")
    card = files[0].card
    if on.data is None:
        faces = example_inputs(card.model_type, card.iospec, on.samples, images=on.images)
        return None, dict(faces)
    model = load_checkpoint(checkpoint, expect=card.model_type)
    data = _opened(on.data, model.model.iospec.inputs[0].height, model, show)
    taken = real_inputs(model, data, on.samples, part="test", iospec=card.iospec, say=say)
    return (model, data), dict(taken)


def _by_coreml(
    host: str,
    files: Sequence[Artifact],
    checkpoint: Path,
    inputs: dict[str, Any],
    runtime: str | None,
) -> ParityReport:
    """The same comparison with what a Mac's own Core ML gives."""
    from unplug.mobile_bench import parity_on_mac

    if runtime is not None:
        why = "both say what runs the files"
        raise InputError("`runtime` and `coreml_host`", why, "Give one of them")
    card = files[0].card
    reference = reference_outputs(checkpoint, card.iospec, inputs, view=view_of(card.model_type))
    return parity_on_mac(host, files, reference, inputs)


def _explained(
    artifact: Artifact, checkpoint: Path, inputs: dict[str, Any], folder: Path
) -> Explanation:
    explanation = explain(artifact, checkpoint, inputs)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{artifact.path.name}.json", asdict(explanation))
    if explanation.layers:
        plot_layers(explanation, folder / f"{artifact.path.name}.png")
    return explanation
