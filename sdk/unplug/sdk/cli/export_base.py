"""``unplug export`` of a whole base: every part, the plugins named beside it, and
``pipeline.json``.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unplug.core import InputError, counted, sha256_file, table, temporary_folder

from .bars import progress_bar
from .base import Common, Outcome, tell_foreign
from .options import given_option
from .parity import parity_table

if TYPE_CHECKING:
    from unplug.export import Artifact
    from unplug.sdk.drawing.device import GeneratorSource, VariantSource
    from unplug.sdk.drawing.diffusion import Sampling


@dataclass(frozen=True, kw_only=True)
class BaseOrder:
    """What was asked for; see the options of `unplug export`."""

    targets: tuple[str, ...]
    precisions: tuple[str, ...]
    nhwc: bool
    ios: int
    workers: int
    check: int | None
    lora_slots: bool
    variants: tuple[str, ...]
    loras: tuple[str, ...]
    out: Path


def export_base(checkpoints: Sequence[Path], order: BaseOrder, common: Common) -> Outcome:
    """Exports one base and the plugins beside it, and says what came of it."""
    from unplug.export import plan_pairs
    from unplug.sdk.drawing.device import check_source, lora_file
    from unplug.sdk.drawing.diffusion import find_lora, foreign_loras, load_base, teacher_of_lora

    variants = _variants(order.variants)
    source = replace(
        _source(checkpoints), lora_slots=order.lora_slots or bool(variants), variants=variants
    )
    if (name := given_option("spec", "samples", "delegate")) is not None:
        word = {
            "spec": "--calibrate",
            "samples": "--calibration-samples",
            "delegate": "--require-delegate",
        }[name]
        raise InputError(
            word,
            "it is of one model, and this is a whole base",
            "Leave it out, or export the parts one by one",
        )
    check_source(source)
    plan_pairs(order.targets, order.precisions)  # refuses before a base is loaded
    own = [find_lora(name) for name in order.loras]
    every, foreign = (
        [*own, *(path for item in variants.values() for path in item.loras)],
        list[str](),
    )
    with temporary_folder("unplug-merge-") as folder:
        if own or any(map(teacher_of_lora, every)):  # else nothing needs the base in memory
            import torch

            base = load_base(str(source.folder.resolve()), device=torch.device("cpu"))
            foreign = tell_foreign(foreign_loras(base, every), source.name, common)
            source = _merged(source, base, own, folder) if own else source
        outcome = _export(source, order, common)
    outcome.value |= {
        "loras": [{"path": str(path), "sha256": sha256_file(lora_file(path))} for path in own],
        "foreign_loras": foreign,
    }
    return outcome


def _merged(
    source: GeneratorSource, base: Any, loras: Sequence[Path], folder: Path
) -> GeneratorSource:
    """The base with LoRA weights made part of it, in `folder`; it draws as the last one that tells
    says.
    """
    from unplug.sdk.drawing.device import WEIGHTS_NAME
    from unplug.sdk.drawing.diffusion import merge_loras, sampling_of_lora

    merge_loras(base, loras, folder)
    names = [
        path.resolve().parent.name if path.name == WEIGHTS_NAME else path.resolve().stem
        for path in loras
    ]
    told = [
        _way(how) | {"schedule": how.schedule}
        for how in map(sampling_of_lora, loras)
        if how is not None
    ]
    return replace(
        source, name=" + ".join([source.name, *names]), folder=folder, **(told[-1] if told else {})
    )


def _way(how: Sampling) -> dict[str, Any]:
    """Steps, guidance and solver, as `GeneratorSource` and `PipelineDefaults` take them: files name
    a solver always.
    """
    return {"steps": how.steps, "guidance": how.guidance, "solver": how.solver or "ddim"}


def _export(source: GeneratorSource, order: BaseOrder, common: Common) -> Outcome:
    from unplug.sdk.drawing.device import PIPELINE, export_generator, load_pipeline

    started = time.perf_counter()
    with progress_bar(f"export {source.name}", common) as progress:
        made = export_generator(
            source,
            targets=order.targets,
            precisions=order.precisions,
            out=order.out,
            ios=order.ios,
            layout="NHWC" if order.nhwc else "NCHW",
            workers=order.workers,
            progress=progress,
        )
    seconds = round(time.perf_counter() - started, 1)
    files = [(name, item) for name, several in made.items() for item in several]
    pipeline = load_pipeline(order.out)
    outcome = Outcome(
        value={
            "out": str(order.out),
            "pipeline": str(order.out / PIPELINE),
            "seconds": seconds,
            "base": pipeline.name,
            "guided": pipeline.guided,
            "variants": {name: asdict(item) for name, item in pipeline.variants.items()},
            "artifacts": [
                {**asdict(item.card), "path": str(item.path), "part": name} for name, item in files
            ],
        }
    )
    rows = [
        (str(item.path), name, item.card.precision, f"{item.card.bytes:,}", item.card.sha256[:12])
        for name, item in files
    ]
    rows += [
        (str(order.out / item.file), f"variant {name}", "fp32", f"{item.bytes:,}", item.sha256[:12])
        for name, item in pipeline.variants.items()
    ]
    outcome.add(table(("file", "part", "precision", "bytes", "sha256"), rows))
    for name, several in made.items() if order.check else ():
        _compare(outcome, source.checkpoints()[name], several, order, common)
    outcome.add(f"{source.name}: {counted(len(files), 'file')} and {PIPELINE} in {seconds} s")
    if not pipeline.guided:
        outcome.add("It draws without guidance: each step asks its UNet about the prompt alone.")
    outcome.add(
        f"Next: unplug generate --base {shlex.quote(str(order.out))} --prompt TEXT --out "
        "picture.png"
    )
    return outcome


def _source(checkpoints: Sequence[Path]) -> GeneratorSource:
    from unplug.sdk.drawing.device import GeneratorSource, is_base
    from unplug.sdk.drawing.diffusion import base_name, sampling_by_record

    bases = [path for path in checkpoints if is_base(path)]
    if len(bases) != 1:
        why = f"{len(bases)} whole bases are named, and a generator has one"
        raise InputError(
            "unplug export", why, "Export each base by itself, with the plugins for it behind it"
        )
    (folder,) = bases
    plugins = [path for path in checkpoints if path != folder]
    names = [path.resolve().name for path in plugins]
    if len(set(names)) < len(names):
        raise InputError(
            "unplug export",
            "two plugins have one name, which is that of their folder",
            "Rename one of them",
        )
    how = sampling_by_record(folder)
    return GeneratorSource(
        name=base_name(folder),
        folder=folder,
        plugins=dict(zip(names, plugins, strict=True)),
        schedule=how.schedule,
        **_way(how),
    )


def _variants(pairs: Sequence[str]) -> dict[str, VariantSource]:
    """Of each name its weights, in the order given, with the sampling that the record of the last
    such weights tells.
    """
    from unplug.sdk.drawing.device import PipelineDefaults, VariantSource
    from unplug.sdk.drawing.diffusion import find_lora, sampling_of_lora

    found: dict[str, VariantSource] = {}
    for pair in pairs:
        name, mark, path = pair.partition("=")
        if not (name and mark and path):
            why = f"{pair[:100]!r} is no name with weights"
            raise InputError(
                "--variant", why, "Write NAME=WEIGHTS, WEIGHTS as for unplug generate --lora"
            )
        before = found.get(name, VariantSource(loras=()))
        weights = find_lora(path)
        how = sampling_of_lora(weights)
        told = how and PipelineDefaults(**_way(how))
        found[name] = VariantSource(
            loras=(*before.loras, weights), defaults=told or before.defaults
        )
    return found


def _compare(
    outcome: Outcome, checkpoint: Path, made: Sequence[Artifact], order: BaseOrder, common: Common
) -> None:
    """Compares one part's files with its checkpoint; ``parity.json`` goes beside them."""
    from unplug.export import measure_parity
    from unplug.sdk.drawing.conditions import example_inputs

    card = made[0].card
    inputs: dict[str, Any] = dict(example_inputs(card.model_type, card.iospec, order.check or 1))
    with progress_bar(f"parity {checkpoint.name}", common) as progress:
        report = measure_parity(made, checkpoint, inputs, progress=progress)
    report.save(made[0].path.parent / "parity.json")
    outcome.value.setdefault("parity", []).append(asdict(report))
    outcome.add(parity_table(report), ok=report.passed)
