"""Drawing from a folder of exported files: the loop in a child process, which the runtime cannot
take this one down with.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import (
    Array,
    Child,
    InputError,
    IOSpec,
    Job,
    Progress,
    Reply,
    memory_for,
    peak_rss_bytes,
    require_modules,
    seconds_for,
)
from unplug.export import RUNTIMES, relaid, runtime_of
from unplug.sdk.drawing.conditions import Steering, draw_conditions

from .loop import Network, Words, generate
from .lora import pack_loras
from .pipeline import (
    LORA,
    PARTS,
    PIPELINE,
    Pipeline,
    load_pipeline,
    open_files,
    pipeline_of,
    without_words,
)
from .tokenizer import Encoded
from .variants import read_variant, stack_rows, used_rows, variants_for

STEPS_A_SAMPLE = 10
"""Steps of a small base that take no longer than a sample of what `seconds_for` counts on."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Pictures that a folder of exported files made.

    Args:
        images: one (H, W, 3) of 0 to 255 a seed.
        decoded: the same as the decoder gave them, (1, 3, H, W) from 0 to 1 each.
        latents: the latents after the last step, (1, C, h, w) each.
        seconds: the seconds for each picture, from tokens to pixels.
        load_seconds: the seconds to open the files.
        peak_bytes: the peak memory of the process that drew.
        target, precision, runtime: the file's form and the runtime that drew them.
        runtime_version: the version of the runtime's package.
        conditions: the pictures that the plugins followed, one (H, W, 3) each.
        prompt, negative: the prompts as read; `Encoded.cut` says whether the base read only their
            beginning.
        packs: words in the prompt that switched on a pack of the folder.
    """

    images: tuple[NDArray[np.uint8], ...]
    decoded: tuple[NDArray[np.float32], ...]
    latents: tuple[NDArray[np.float32], ...]
    seconds: Sequence[float]
    load_seconds: float
    peak_bytes: int
    target: str
    precision: str
    runtime: str
    runtime_version: str | None
    conditions: tuple[NDArray[np.uint8], ...]
    prompt: Encoded
    negative: Encoded
    packs: tuple[str, ...] = ()


def draw(
    folder: Path,
    words: Words,
    *,
    pipeline: Pipeline | None = None,
    seeds: Sequence[int] = (0,),
    steerings: Sequence[Steering] = (),
    variant: str | None = None,
    loras: tuple[Path, ...] = (),
    target: str | None = None,
    precision: str | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Drawing:
    """Pictures of some words, one a seed. Packs of the folder act where the prompt says their words.

    Args:
        folder: the folder with ``pipeline.json``, or that file itself.
        words: see `Words`.
        pipeline: the folder's pipeline by `load_pipeline`, if the caller has it; None reads it.
        seeds: the seeds of the pictures.
        steerings: plugins with the pictures that they follow.
        variant: the name of one of the folder's variants; it decides what `words` leave open.
        loras: instead, LoRA weights, see `pack_loras`; all of them act.
        target, precision: see `open_files`.
        threads: the number of the runtime's threads.
        progress: called with (steps done, steps in all, what).

    Raises:
        ReportError: ``pipeline.json`` is missing or broken.
        ArtifactError: a file is missing, was swapped, or the runtime does not take it.
        InputError, DataError: see `generate`, `variants_for`, `stack_rows` and `pack_loras`.
        MissingExtraError: the runtime is not installed.
        ConversionError: the runtime crashed.
    """
    folder = folder.parent if folder.name == PIPELINE else folder
    pipeline = load_pipeline(folder) if pipeline is None else pipeline
    kinds = [condition_of(pipeline, steering.plugin) for steering in steerings]
    conditions = draw_conditions(steerings, kinds, pipeline.image_size)
    named = variants_for(pipeline, words.prompt, variant)
    lora_RK = _updates(pipeline, folder, named, variant, loras)
    words = words.settled(pipeline, variant)
    files = open_files(pipeline, folder, target=target, precision=precision)
    parts = {*PARTS, *(f"plugins.{steering.plugin}" for steering in steerings)}
    used = {name: file for name, file in files.items() if name in parts}
    card, runtime = files["unet"].card, runtime_of(files["unet"])
    require_modules(runtime.modules, runtime.extra)
    values = {
        "pipeline": without_words(pipeline),
        "words": asdict(words),
        "seeds": list(seeds),
        "threads": threads,
        "runtime": runtime.name,
        "steerings": [[steering.plugin, steering.strength] for steering in steerings],
        "files": {
            name: [str(file.path.resolve()), file.card.iospec.to_dict()]
            for name, file in used.items()
        },
    }
    arrays: dict[str, Array] = {str(place): one for place, one in enumerate(conditions)}
    with Child() as child:
        reply = child.call(
            "unplug.sdk.drawing.device.drawing:draw_in_child",
            values,
            arrays if lora_RK is None else arrays | {LORA: lora_RK},
            what=f"{folder.name} on {runtime.name}",
            memory=memory_for(*(file.path for file in used.values())),
            timeout=seconds_for(len(seeds) * (1 + (words.steps or 1) // STEPS_A_SAMPLE)),
            progress=progress,
        )
    prompt, negative = words.read(pipeline)

    def made(what: str) -> tuple[NDArray[Any], ...]:
        return tuple(reply.arrays[f"{what} {seed}"] for seed in seeds)

    return Drawing(
        images=made("images"),
        decoded=made("decoded"),
        latents=made("latents"),
        **reply.values,
        target=card.target,
        precision=card.precision,
        runtime=runtime.name,
        runtime_version=runtime.version(),
        conditions=tuple(conditions),
        prompt=prompt,
        negative=negative,
        packs=tuple(word for name, word in pipeline.packs().items() if name in named),
    )


def _updates(
    pipeline: Pipeline,
    folder: Path,
    named: Sequence[str],
    variant: str | None,
    loras: tuple[Path, ...],
) -> NDArray[np.float32] | None:
    """The UNet's low-rank input (R, K), or None for the bare base."""
    if variant is not None and loras:
        raise InputError(
            "a variant and LoRA weights", "both fill the slots of the base", "Name one of them"
        )
    if pipeline.lora is None:
        if loras:
            fix = "`unplug export --lora-slots` makes some, or leave `loras` out"
            raise InputError("`loras`", f"{pipeline.name} was exported without slots for it", fix)
        return None
    rows = {"LoRA weights": used_rows(pack_loras(pipeline.lora, loras))} if loras else {}
    rows |= {name: read_variant(pipeline, folder, name) for name in named}
    return stack_rows(pipeline.lora, rows)


def condition_of(pipeline: Pipeline, plugin: str) -> str:
    """The condition that a plugin of a pipeline follows; `InputError` for no such plugin."""
    if plugin not in pipeline.plugins:
        known = (
            f"It has {', '.join(pipeline.plugins)}"
            if pipeline.plugins
            else "Export it with the plugin next to the base"
        )
        raise InputError(f"plugin {plugin}", f"{pipeline.name} was exported without it", known)
    return pipeline.plugins[plugin].condition


def draw_in_child(job: Job) -> Reply:
    """The child's side of `draw`: one runtime, every file opened once."""
    values, started = job.values, time.perf_counter()
    pipeline = pipeline_of(values["pipeline"])
    networks = {
        name: network(values["runtime"], Path(path), IOSpec.from_dict(spec), values["threads"])
        for name, (path, spec) in values["files"].items()
    }
    loaded = time.perf_counter() - started
    encoded = tuple(Encoded(**read) for read in values["words"].pop("encoded"))
    words = Words(**values["words"], encoded=encoded)  # type: ignore[arg-type]  # there are two
    steerings = [
        Steering(plugin=name, strength=strength, image=np.array(job.arrays[str(place)]))
        for place, (name, strength) in enumerate(values["steerings"])
    ]
    arrays, seconds, count = dict[str, Array](), list[float](), len(values["seeds"])
    how: dict[str, Any] = {"steerings": steerings, "lora_RK": job.arrays.get(LORA)}
    for number, seed in enumerate(values["seeds"]):
        begun = time.perf_counter()

        def told(done: int, total: int, _latent: Array, number: int = number) -> None:
            job.progress(number * total + done, count * total, f"picture {number + 1} of {count}")

        made = generate(pipeline, networks, words, seed=seed, watch=told, **how)
        seconds.append(time.perf_counter() - begun)
        arrays |= {
            f"images {seed}": made.image_HWC,
            f"decoded {seed}": made.decoded,
            f"latents {seed}": made.latent,
        }
    facts = {"seconds": seconds, "load_seconds": loaded, "peak_bytes": peak_rss_bytes()}
    return Reply(values=facts, arrays=arrays)


def network(runtime: str, path: Path, iospec: IOSpec, threads: int) -> Network:
    """A file, opened in this process: images go in and come out channels first, whatever it has."""
    chosen = RUNTIMES.get(runtime)
    runner = chosen.open(path, iospec, threads=threads, delegate=chosen.delegates[0])
    first = iospec.images_in("NCHW")

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        laid = relaid(first.inputs, inputs, iospec.inputs)
        runner.feed({name: np.ascontiguousarray(array) for name, array in laid.items()})
        runner.invoke()
        return relaid(iospec.outputs, runner.read(), first.outputs)

    return run
