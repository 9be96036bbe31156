"""``pipeline.json``: all that a loop must know to draw with exported files. A strict record;
nothing in it is trusted.

Files are named by relative paths and SHA-256; each has its card next to it, as every exported file.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from unplug.core import (
    STRICT,
    ArtifactError,
    InputError,
    IOSpec,
    ReportError,
    TensorSpec,
    read_dataclass,
    write_json,
)
from unplug.export import Artifact, load_artifact

from .lora import LoraSlots
from .pack_words import check_words, words_of
from .sampler import Schedule, Solver
from .tokenizer import Tokenizer

SCHEMA: Literal["unplug-pipeline/1"] = "unplug-pipeline/1"
PIPELINE = "pipeline.json"
MAX_BYTES = 64 * 2**20
"""The limit for the record: Stable Diffusion's vocabulary and merges take 2 MB."""
NOISE: Literal["philox4x32-10/box-muller"] = "philox4x32-10/box-muller"
PARTS = ("text_encoder", "unet", "decoder")
LORA = "lora"
"""The UNet's input of low-rank updates, where it has one."""
NEGATIVE = "negative_hidden_states"
"""The UNet's input of the negative prompt's states, which one that draws without guidance lacks."""
ASKED = ("sample", "timestep", "encoder_hidden_states", NEGATIVE)
"""The UNet's inputs before its residuals."""
MAX_UPDATES = 2**26
"""Numbers of that input at most: readers make as many, whatever a record says."""
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}){0,3}")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_AGAIN = "Export the base again with `unplug export`"


@dataclass(frozen=True, kw_only=True)
class PartFile:
    """One exported file of a part.

    Args:
        target: litert, coreml or onnx.
        precision: fp32, fp16, ...
        file: its path, relative to ``pipeline.json``, with forward slashes; of Core ML a folder.
        sha256: the SHA-256 of the file, or of the folder's tree.
        bytes: the size in bytes of all its files.
    """

    target: str
    precision: str
    file: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Part:
    """One network of a generator.

    Args:
        model_type: text_encoder, guided_unet (of a base that draws without guidance unet), decoder
            or plugin.
        iospec: its named tensors, the same in all files.
        files: one a target and precision.
    """

    model_type: str
    iospec: IOSpec
    files: tuple[PartFile, ...]


@dataclass(frozen=True, kw_only=True)
class PluginPart:
    """A conditioning plugin of the generator.

    Args:
        condition: the kind of picture that it follows: canny, face_landmark, ...
        part: its files.
    """

    condition: str
    part: Part


@dataclass(frozen=True, kw_only=True)
class PipelineDefaults:
    """What a loop takes where nobody says otherwise: steps, scale of classifier-free guidance, and
    solver.
    """

    steps: int
    guidance: float
    solver: Solver


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Named LoRA weights of the generator, laid out as its UNet takes them: see
    `unplug.sdk.drawing.device.read_variant`.

    Args:
        file: its path, relative to ``pipeline.json``: rows of the input `LORA` as float32,
            little-endian, the first ones only.
        sha256: the SHA-256 of the file.
        bytes: the size of the file in bytes.
        defaults: the settings that suit it; None: the pipeline's.
        word: the word of a pack; prompts that say it switch the pack on. None: it acts where it is
            chosen. Absent from the record where there is none.
    """

    file: str
    sha256: str
    bytes: int
    defaults: PipelineDefaults | None = None
    word: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A generator of exported files.

    Args:
        schema: always ``unplug-pipeline/1``.
        name: the name of the base.
        image_size: side of the pictures in pixels.
        latent_shape: C, H, W of the latent.
        tokenizer: text to token ids.
        schedule: noise levels and what the UNet predicts.
        text_encoder: ``input_ids`` to ``hidden_states``.
        unet: one step for a prompt and its negative: ``sample``, ``timestep``,
            ``encoder_hidden_states``, ``negative_hidden_states`` and the residuals to
            ``noise_pred`` and ``noise_pred_negative``. Of a base that draws without guidance it is
            asked about the prompt alone: both tensors of the negative are missing.
        decoder: ``latents`` to ``image`` in [0, 1].
        plugins: the plugins by name; each has the residuals as outputs.
        residuals: names of the UNet's inputs that plugins fill, in order; zeros steer nothing.
        scaling_factor: the scaling factor of the autoencoder; the decoder's file divides by it
            itself.
        shift_factor: the shift of the autoencoder; the decoder's file adds it itself.
        defaults: steps, guidance and solver.
        noise: the stream that the first latent is drawn from: `unplug.sdk.drawing.device.noise`.
        versions: the versions of unplug and Python.
        git_revision: the git revision of this code, or None.
        lora: the UNet's input for low-rank updates, after its residuals; absent where it was
            exported without.
        variants: the variants that can fill that input, by name; absent where there are none.
    """

    __pydantic_config__: ClassVar = STRICT

    schema: Literal["unplug-pipeline/1"] = SCHEMA
    name: str
    image_size: int
    latent_shape: tuple[int, int, int]
    tokenizer: Tokenizer
    schedule: Schedule
    text_encoder: Part
    unet: Part
    decoder: Part
    plugins: dict[str, PluginPart]
    residuals: tuple[str, ...]
    scaling_factor: float
    shift_factor: float
    defaults: PipelineDefaults
    noise: Literal["philox4x32-10/box-muller"] = NOISE
    versions: dict[str, str]
    git_revision: str | None
    lora: LoraSlots | None = None
    variants: dict[str, Variant] = field(default_factory=dict)

    @property
    def guided(self) -> bool:
        """Whether the UNet answers for the negative prompt too; without that, a guidance of 1 is
        the only one.
        """
        return any(item.name == NEGATIVE for item in self.unet.iospec.inputs)

    def parts(self) -> dict[str, Part]:
        """All parts by name: those of the base, and each plugin as ``plugins.NAME``."""
        base: dict[str, Part] = {name: getattr(self, name) for name in PARTS}
        return base | {f"plugins.{name}": item.part for name, item in self.plugins.items()}

    def packs(self) -> dict[str, str]:
        """Names of the variants that a prompt's words switch on, in their order, with the words."""
        found = sorted(self.variants.items())
        return {name: variant.word for name, variant in found if variant.word is not None}

    def defaults_of(self, variant: str | None) -> PipelineDefaults:
        """A variant's own defaults, where it has some; else the pipeline's."""
        return (
            self.variants[variant].defaults if variant in self.variants else None
        ) or self.defaults

    def save(self, folder: Path) -> Path:
        """Writes ``pipeline.json`` into the folder that its paths are relative to, atomically."""
        raw = asdict(self)
        for name in ("lora", "variants"):
            if not raw[name]:
                del raw[name]  # older readers know no such field
        for variant in raw.get("variants", {}).values():
            if variant["word"] is None:
                del variant["word"]
        if not raw["tokenizer"]["added"]:
            del raw["tokenizer"]["added"]
        if raw["schedule"]["guidance"] == "constant":
            del raw["schedule"]["guidance"]
        write_json(folder / PIPELINE, raw)
        return folder / PIPELINE


def without_words(pipeline: Pipeline) -> dict[str, Any]:
    """A pipeline as JSON for a process that draws what was read already: its tokenizer is empty."""
    # Stable Diffusion's words take 2 MB, and the process gets token ids.
    tokenizer = replace(pipeline.tokenizer, vocabulary=(), merges=(), added=())
    return asdict(replace(pipeline, tokenizer=tokenizer))


def pipeline_of(values: dict[str, Any]) -> Pipeline:
    """What `without_words` made, in the process that draws."""
    from pydantic import TypeAdapter

    return TypeAdapter(Pipeline).validate_json(json.dumps(values))


def is_generator(folder: Path) -> bool:
    """Whether a folder, or the file itself, is a base of exported files."""
    return folder.name == PIPELINE or (folder / PIPELINE).exists()


def load_pipeline(folder: Path) -> Pipeline:
    """Reads and checks ``pipeline.json``; its files are opened by `open_files` alone.

    Args:
        folder: the folder that `unplug export` wrote, or the file itself.

    Raises:
        ReportError: missing, not JSON, another schema, a path that leads out of the folder, or
            parts that do not fit together.

    Example:
        >>> load_pipeline(Path("/nowhere"))
        Traceback (most recent call last):
        unplug.core.errors.ReportError: /nowhere/pipeline.json: No such file or directory. Check the path.
    """
    path = folder if folder.name == PIPELINE else folder / PIPELINE
    pipeline = read_dataclass(Pipeline, path, ReportError, max_bytes=MAX_BYTES)
    pipeline.tokenizer.check(str(path))
    pipeline.schedule.check(str(path))
    for problem in itertools.chain(
        _path_problems(pipeline), _shape_problems(pipeline), _number_problems(pipeline)
    ):
        raise ReportError(str(path), problem, _AGAIN)
    return pipeline


def _path_problems(pipeline: Pipeline) -> Iterator[str]:
    for name, part in pipeline.parts().items():
        if not NAME.fullmatch(name.removeprefix("plugins.")):
            yield f"{name[:100]!r} is not the name of a plugin"
        kinds = [(file.target, file.precision) for file in part.files]
        if not kinds or len(set(kinds)) < len(kinds):
            yield f"its {name} has no files, or two of one target and precision"
        for file in part.files:
            if not _PATH.fullmatch(file.file):
                yield (
                    f"its {name} lies at {file.file[:100]!r}, which is not a plain path inside the "
                    "folder"
                )
    for name, variant in pipeline.variants.items():
        if not NAME.fullmatch(name):
            yield f"{name[:100]!r} is not the name of a variant"
        if not _PATH.fullmatch(variant.file):
            yield (
                f"its variant {name} lies at {variant.file[:100]!r}, which is not a plain path inside "
                "the folder"
            )


def _shape_problems(pipeline: Pipeline) -> Iterator[str]:
    """Whether every part takes what the one before gives, by name, shape and type."""
    specs = {name: part.iospec.images_in("NCHW") for name, part in pipeline.parts().items()}
    tensors = {
        part: {tensor.name: tensor for tensor in (*spec.inputs, *spec.outputs)}
        for part, spec in specs.items()
    }
    states = tensors["text_encoder"].get("hidden_states")
    width = 0 if states is None else states.shape[-1]
    for (part, name), wanted in _shapes(pipeline, width).items():
        shape = tensors[part][name].shape if name in tensors[part] else None
        if shape != wanted:
            yield f"its {part} has {name} of shape {shape} where {wanted} is needed"
    if not pipeline.guided and "noise_pred_negative" in tensors["unet"]:
        yield "its unet has an output for a negative prompt, and no input for one"
    for part in tensors:
        for name, tensor in tensors[part].items():
            kind = "int32" if name == "input_ids" else "float32"
            if tensor.dtype != kind:
                yield f"its {part} has {name} of {tensor.dtype[:40]} where {kind} is needed"
    asked = [*(ASKED if pipeline.guided else ASKED[:-1]), *pipeline.residuals]
    asked += [] if pipeline.lora is None else [LORA]
    if [tensor.name for tensor in specs["unet"].inputs] != asked:
        yield "its residuals are not the inputs of its unet that follow the words"
    if pipeline.lora is not None:
        yield from _slot_problems(pipeline.lora, specs["unet"].inputs[-1].shape)
    yield from _variant_problems(pipeline)
    for name in pipeline.plugins:
        plugin, side = specs[f"plugins.{name}"], pipeline.image_size
        if [tensor.shape for tensor in plugin.inputs] != [(1, 3, side, side)]:
            yield f"its plugin {name} takes no condition of {side} pixels"
        yield from plugin_problems(name, plugin, specs["unet"])


def _shapes(pipeline: Pipeline, width: int) -> dict[tuple[str, str], tuple[int, ...]]:
    """The shape of each tensor that the loop feeds or reads, by part and name."""
    latent, side = (1, *pipeline.latent_shape), pipeline.image_size
    state = (1, pipeline.tokenizer.length, width)
    shapes: dict[tuple[str, str], tuple[int, ...]] = {
        ("text_encoder", "input_ids"): state[:2],
        ("text_encoder", "hidden_states"): state,
        ("unet", "sample"): latent,
        ("unet", "timestep"): (1,),
        ("unet", "encoder_hidden_states"): state,
        ("unet", "noise_pred"): latent,
        ("decoder", "latents"): latent,
        ("decoder", "image"): (1, 3, side, side),
    }
    if pipeline.guided:
        shapes |= {("unet", NEGATIVE): state, ("unet", "noise_pred_negative"): latent}
    return shapes


def _slot_problems(lora: LoraSlots, shape: tuple[int, ...]) -> Iterator[str]:
    sizes = [size for slot in lora.slots for size in (slot.fan_in, slot.fan_out)]
    if (
        not sizes
        or min(sizes) < 1
        or shape != (1, lora.rank, lora.width)
        or lora.rank * lora.width > MAX_UPDATES
        or len({slot.layer for slot in lora.slots}) < len(lora.slots)
    ):
        yield f"its slots of rank {lora.rank} do not make an input of shape {list(shape)}"


def _variant_problems(pipeline: Pipeline) -> Iterator[str]:
    yield from _word_problems(pipeline)
    row = 0 if pipeline.lora is None else 4 * pipeline.lora.width
    for name, variant in pipeline.variants.items():
        if pipeline.lora is None:
            yield f"it has the variant {name[:100]}, and its unet has no slots"
        elif variant.bytes % row or not 1 <= variant.bytes // row <= pipeline.lora.rank:
            yield (
                f"its variant {name} has {variant.bytes} bytes, where 1 to {pipeline.lora.rank} "
                f"rows of {row} are needed"
            )


def _word_problems(pipeline: Pipeline) -> Iterator[str]:
    said: dict[tuple[str, ...], str] = {}
    for name, word in pipeline.packs().items():
        try:
            plain = check_words(word) == word
        except InputError:
            plain = False
        if not plain:
            yield f"its pack {name} has the word {word[:100]!r}, which no prompt says"
        elif (other := said.setdefault(words_of(word), name)) != name:
            yield f"its packs {other} and {name} have one word"


def residuals_in(unet: IOSpec) -> tuple[TensorSpec, ...]:
    """A UNet's inputs that plugins fill, channels first."""
    return tuple(item for item in unet.images_in("NCHW").inputs if item.name not in (*ASKED, LORA))


def plugin_problems(name: str, plugin: IOSpec, unet: IOSpec) -> Iterator[str]:
    """What of a plugin does not fit a UNet: a residual that is missing, one too many, or one of
    another shape.
    """
    given = {tensor.name: list(tensor.shape) for tensor in plugin.images_in("NCHW").outputs}
    taken = {tensor.name: list(tensor.shape) for tensor in residuals_in(unet)}
    for tensor in dict.fromkeys((*taken, *given)):
        if given.get(tensor) != taken.get(tensor):
            yield (
                f"its plugin {name} was made for another base: it gives "
                f"{given.get(tensor, 'nothing')} as {tensor}, and the unet takes "
                f"{taken.get(tensor, 'nothing')}"
            )


def _number_problems(pipeline: Pipeline) -> Iterator[str]:
    for name in (None, *pipeline.variants):
        defaults, of = pipeline.defaults_of(name), "" if name is None else f" of {name}"
        if (
            not 1 <= defaults.steps < len(pipeline.schedule.alphas_cumprod)
            or not 1.0 <= defaults.guidance <= 50.0
        ):
            yield (
                f"its defaults{of} are {defaults.steps} steps and a guidance of "
                f"{defaults.guidance:g}"
            )
        elif not pipeline.guided and defaults.guidance != 1.0:
            yield (
                f"its defaults{of} have a guidance of {defaults.guidance:g}, and its unet answers "
                "for no negative prompt"
            )
    ids = pipeline.text_encoder.iospec.inputs[0]
    if ids.range is None or ids.range[1] < len(pipeline.tokenizer.vocabulary) - 1:
        yield (
            f"its tokenizer has {len(pipeline.tokenizer.vocabulary)} tokens, more than its text "
            "encoder takes"
        )


def open_files(
    pipeline: Pipeline, folder: Path, *, target: str | None, precision: str | None
) -> dict[str, Artifact]:
    """The files of one target and precision, each checked against its hash, its card and the
    record.

    Args:
        pipeline: a pipeline from `load_pipeline`.
        folder: the pipeline's folder.
        target: the target of all parts (default: the text encoder's first).
        precision: the precision of all parts (default: the text encoder's first with that target).

    Returns:
        Part name, see `Pipeline.parts`, to file.

    Raises:
        InputError: a part has no such file; says what there is.
        ArtifactError: a file is missing, was swapped or edited, or is a link.
    """
    wanted_target = target or pipeline.text_encoder.files[0].target
    known = [item.precision for item in pipeline.text_encoder.files if item.target == wanted_target]
    wanted = wanted_target, precision or (known[0] if known else "fp32")
    chosen: dict[str, PartFile] = {}
    for name, part in pipeline.parts().items():
        by_kind = {(item.target, item.precision): item for item in part.files}
        if wanted not in by_kind:
            there = ", ".join(f"{kind} {bits}" for kind, bits in by_kind)
            raise InputError(
                f"{wanted[0]} {wanted[1]}",
                f"its {name} has no such file, but {there}",
                "Name one of these, or export it",
            )
        chosen[name] = by_kind[wanted]
    return {name: _checked(folder, item, pipeline.parts()[name]) for name, item in chosen.items()}


def _checked(folder: Path, item: PartFile, part: Part) -> Artifact:
    path = place_of(folder, item.file)
    artifact = load_artifact(path)
    check_digest(path, artifact.card.sha256, item.sha256)
    if (artifact.card.iospec, artifact.card.target) != (part.iospec, item.target):
        raise ArtifactError(str(path), f"its tensors are not those that {PIPELINE} says", _AGAIN)
    return artifact


def place_of(folder: Path, file: str) -> Path:
    """The place of a file that the record names; `ArtifactError` where it is a link, or lies below
    one.
    """
    path = folder / file
    if any(place.is_symlink() for place in (path, *path.parents[: len(Path(file).parts) - 1])):
        raise ArtifactError(
            str(path), "it is a link, or lies below one", "Replace links by the files"
        )
    return path


def check_digest(path: Path, found: str, said: str) -> None:
    """`ArtifactError` where a file's SHA-256 is not the one that the record says."""
    if found != said:
        why = f"it is another file than {PIPELINE} says (SHA-256 {found:.12}, not {said:.12})"
        raise ArtifactError(str(path), why, _AGAIN)
