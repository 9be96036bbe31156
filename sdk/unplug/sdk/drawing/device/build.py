"""A base and its plugins to a generator: every part exported, and ``pipeline.json`` that names
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from unplug.core import (
    CheckpointError,
    Child,
    InputError,
    Progress,
    git_revision,
    installed_versions,
)
from unplug.export import OLDEST_IOS, Artifact, export_checkpoint, plan_pairs
from unplug.plugins import level_differences, read_base, read_config, weights_bytes

from .base_folder import read_scales, read_schedule, read_tokenizer
from .decoders import AUTOENCODER, QUICK
from .lora import LoraSlots, Slot
from .pipeline import (
    NAME,
    PARTS,
    PIPELINE,
    Part,
    PartFile,
    Pipeline,
    PipelineDefaults,
    PluginPart,
    load_pipeline,
    residuals_in,
)
from .sampler import SOLVERS, GuidanceSchedule, Solver
from .variants import FOLDER, SUFFIX, VariantSource, pack_variants, write_variant

MARK = "model_index.json"
"""What makes a folder a diffusers pipeline."""
FOLDERS = {"text_encoder": "text_encoder", "unet": "unet", "decoder": AUTOENCODER}
"""Part name, which is its model type, to the folder of its checkpoint."""
SMALL_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True)
class GeneratorSource:
    """What a generator is made of.

    Args:
        name: the name of the base.
        folder: a diffusers pipeline of Stable Diffusion 1's or 2's parts.
        decoder: checkpoint folder of a quick decoder, see `decoder_folder`; None is the
            autoencoder's.
        plugins: name to checkpoint folder.
        steps, guidance, solver: the settings that suit the base by default. With a guidance of 1
            (none) and no slots the UNet is exported so that it is asked about the prompt alone,
            once a step and not twice; it then draws without guidance only.
        schedule: the schedule of guidance over the noise levels.
        lora_slots: the UNet takes low-rank updates as an input, so that one file serves every
            variant.
        variants: name to what is drawn with by that name, or of a pack by its word; they need the
            slots.
    """

    name: str
    folder: Path
    decoder: Path | None = None
    plugins: Mapping[str, Path] = field(default_factory=dict)
    steps: int = 25
    guidance: float = 7.5
    solver: Solver = SOLVERS[0]
    schedule: GuidanceSchedule = "constant"
    lora_slots: bool = False
    variants: Mapping[str, VariantSource] = field(default_factory=dict)

    def checkpoints(self) -> dict[str, Path]:
        """Part name to checkpoint folder; plugins as ``plugins.NAME``."""
        parts = {name: self.folder / FOLDERS[name] for name in PARTS}
        parts["decoder"] = self.decoder or parts["decoder"]
        return parts | {f"plugins.{name}": path for name, path in self.plugins.items()}

    def view_of(self, part: str) -> str | None:
        """How a part is exported, where it is another way than as its checkpoint's own type."""
        if part != "unet" or (self.guidance == 1.0 and not self.lora_slots):
            return None
        return "slotted_unet" if self.lora_slots else "guided_unet"

    @property
    def small(self) -> bool:
        """Whether one process a target may convert all parts: what a large one leaves in memory
        would be missed by the next.
        """
        return sum(map(weights_bytes, self.checkpoints().values())) <= SMALL_BYTES


def is_base(folder: Path) -> bool:
    """Whether a folder is a whole base, and not a part or another checkpoint."""
    return (folder / MARK).is_file()


def export_generator(
    source: GeneratorSource,
    *,
    targets: Sequence[str],
    precisions: Sequence[str],
    out: Path,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    ios: int = OLDEST_IOS,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, list[Artifact]]:
    """Exports every part into a folder of its own, and writes ``pipeline.json`` after them.

    Args:
        source: the base and its plugins.
        targets, precisions, layout, ios, workers: see `unplug.export.export_checkpoint`.
        out: the folder.
        progress: called with (files done, files in all, what is being done).

    Returns:
        Part name to files. An earlier ``pipeline.json`` is gone while they are made: it would name
        files that are not there. Earlier variants that are not among these are deleted.

    Raises:
        InputError: a precision that needs samples, or what `export_checkpoint` raises.
        CheckpointError: the base is missing something, or a plugin was made for another base; found
            before any work starts.
        ConversionError, OutputError: see `export_checkpoint`.
    """
    pairs = plan_pairs(targets, precisions)
    if any("int8-static" in found for found in pairs.values()):
        why = "its activations get their ranges from samples, and a whole base has none"
        raise InputError(
            "precision 'int8-static'",
            why,
            "Export the parts by themselves with `calibrate`, or choose another",
        )
    check_source(source)
    facts, slots = _facts(source), _slots(source)
    packed = {} if slots is None else pack_variants(slots, source.variants)
    (out / PIPELINE).unlink(missing_ok=True)
    total = len(source.checkpoints()) * sum(map(len, pairs.values()))
    made: dict[str, list[Artifact]] = {}
    with ExitStack() as stack:
        children = (
            {target: stack.enter_context(Child()) for target in pairs} if source.small else {}
        )
        for name, checkpoint in source.checkpoints().items():
            done = sum(map(len, made.values()))

            def told(count: int, _of: int, text: str, done: int = done, name: str = name) -> None:
                if progress is not None:
                    progress(done + count, total, f"{name}: {text}")

            made[name] = export_checkpoint(
                checkpoint,
                targets=targets,
                precisions=precisions,
                out=out / name.removeprefix("plugins."),
                layout=layout,
                ios=ios,
                workers=workers,
                progress=told,
                view=source.view_of(name),
                children=children,
            )
    facts["lora"] = slots
    facts["variants"] = {
        name: write_variant(
            out, name, rows, source.variants[name].defaults, source.variants[name].word
        )
        for name, rows in packed.items()
    }
    for left in set((out / FOLDER).glob(f"*{SUFFIX}")) - {
        out / item.file for item in facts["variants"].values()
    }:
        left.unlink()  # a pack that was left out is forgotten
    _pipeline(source, facts, made, out).save(out)
    load_pipeline(out)  # what nobody could read shall not pass for a success
    return made


def save_generator(source: GeneratorSource, made: Mapping[str, list[Artifact]], out: Path) -> None:
    """Writes ``pipeline.json`` of a base without slots, whose files lie below `out`."""
    _pipeline(source, _facts(source) | {"lora": None, "variants": {}}, made, out).save(out)


def check_source(source: GeneratorSource) -> None:
    """Raises `CheckpointError` unless all parts are there and fit together, by their configurations
    alone.

    `InputError` where a variant's name is none, or there are no slots for it.
    """
    fix = "Give a text-to-image base of Stable Diffusion 1 or 2, as diffusers saves it"
    for name in source.variants:
        if not NAME.fullmatch(name):
            letters = "Use letters, digits and _ . + -, the first no sign"
            raise InputError(f"variant {name[:100]!r}", "it names a file", letters)
    if source.variants and not source.lora_slots:
        why = "the base has no slots for their weights"
        raise InputError("variants", why, "Export it with `lora_slots`")
    if not is_base(source.folder):
        why = f"it is not a whole base ({MARK} is missing)"
        raise CheckpointError(str(source.folder), why, fix)
    configs = {
        name: read_config(path, expect=_kind(source, name))[1]
        for name, path in source.checkpoints().items()
    }
    latent, (shrink, side) = configs["unet"].get("sample_size"), _sides(configs["decoder"])
    if not isinstance(latent, int) or side != latent * shrink:
        why = f"its decoder draws {side} pixels of a latent of {latent}, {shrink} to one"
        raise CheckpointError(str(source.folder), why, fix)
    for name, path in source.plugins.items():
        _check_plugin(path, configs[f"plugins.{name}"], configs["unet"], latent * shrink)


def _kind(source: GeneratorSource, part: str) -> str:
    """The model type of a part's checkpoint."""
    if part == "decoder" and source.decoder is not None:
        return QUICK
    return part if part in PARTS else "plugin"


def _sides(decoder: Mapping[str, Any]) -> tuple[int, Any]:
    """By what a latent is smaller than its picture, and the picture's side, of either decoder."""
    if "widths" in decoder:
        return 2 ** len(decoder["widths"]), decoder.get("image_size")
    return 2 ** (len(decoder.get("block_out_channels") or [1]) - 1), decoder.get("sample_size")


def _check_plugin(path: Path, plugin: dict[str, Any], unet: dict[str, Any], side: int) -> None:
    levels = read_base({**plugin, "_class_name": "UNet2DConditionModel"}).levels
    differences = level_differences(levels, read_base(unet).levels)
    if (size := plugin.get("image_size")) != side:
        differences.append(f"conditions of {size} pixels for pictures of {side}")
    if differences:
        why = f"it was made for another base ({'; '.join(differences)})"
        raise CheckpointError(str(path), why, "Train it with this base, or leave it out")


def _facts(source: GeneratorSource) -> dict[str, Any]:
    """What the folder says besides its networks, read before anything is converted."""
    scale, shift = read_scales(source.folder)
    tokenizer = read_tokenizer(source.folder)
    size = len(tokenizer.vocabulary)
    takes = read_config(source.checkpoints()["text_encoder"])[1].get("vocab_size")
    if not isinstance(takes, int) or size > takes:
        why = f"its tokenizer has {size} tokens, and its text encoder takes {takes}"
        fix = "Resize the text encoder's embeddings, and save both again"
        raise CheckpointError(str(source.folder), why, fix)
    return {
        "tokenizer": tokenizer,
        "schedule": replace(read_schedule(source.folder), guidance=source.schedule),
        "scaling_factor": scale,
        "shift_factor": shift,
    }


def _pipeline(
    source: GeneratorSource, facts: dict[str, Any], made: Mapping[str, list[Artifact]], out: Path
) -> Pipeline:
    parts = {name: _part(files, out) for name, files in made.items()}
    unet = parts["unet"].iospec
    (image,) = parts["decoder"].iospec.images_in("NCHW").outputs
    conditions = {
        name: str(made[f"plugins.{name}"][0].card.config.get("condition", ""))
        for name in source.plugins
    }
    _, channels, height, width = unet.images_in("NCHW").inputs[0].shape
    return Pipeline(
        name=source.name,
        image_size=image.height,
        latent_shape=(channels, height, width),
        **facts,
        text_encoder=parts["text_encoder"],
        unet=parts["unet"],
        decoder=parts["decoder"],
        plugins={
            name: PluginPart(condition=kind, part=parts[f"plugins.{name}"])
            for name, kind in conditions.items()
        },
        residuals=tuple(item.name for item in residuals_in(unet)),
        defaults=PipelineDefaults(
            steps=source.steps, guidance=source.guidance, solver=source.solver
        ),
        versions=installed_versions(["numpy"]),
        git_revision=git_revision(),
    )


def _slots(source: GeneratorSource) -> LoraSlots | None:
    """Which layers have slots, from the UNet's checkpoint."""
    if not source.lora_slots:
        return None
    from unplug.plugins import LORA_RANK, load_checkpoint

    unet = load_checkpoint(source.folder / FOLDERS["unet"], view="slotted_unet").model
    slots = tuple(
        Slot(layer=slot.layer, fan_in=slot.fan_in, fan_out=slot.fan_out) for slot in unet.slots
    )
    return LoraSlots(rank=LORA_RANK, slots=slots)


def _part(files: Sequence[Artifact], out: Path) -> Part:
    card = files[0].card
    named = tuple(
        PartFile(
            target=item.card.target,
            precision=item.card.precision,
            file=item.path.relative_to(out).as_posix(),
            sha256=item.card.sha256,
            bytes=item.card.bytes,
        )
        for item in files
    )
    return Part(model_type=card.model_type, iospec=card.iospec, files=named)
