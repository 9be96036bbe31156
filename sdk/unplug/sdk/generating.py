"""Pictures from a prompt, by a diffusers base on torch or by exported files without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unplug.core import InputError, follow, one_line, progress, sha256_file
from unplug.plugins import weights_sha256
from unplug.sdk.drawing.device import (
    PIPELINE,
    GeneratorSource,
    Solver,
    asks_for,
    check_text,
    decoder_folder,
    drawn_with,
    is_base,
    is_generator,
    latent,
    misfit,
    words_of,
)
from unplug.sdk.drawing.diffusion import base_folder

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from unplug.sdk.drawing.conditions import Steering
    from unplug.sdk.drawing.device import Pipeline

KindOf = Callable[[str], str]
Steerings = Sequence["Steering"] | Callable[[KindOf], Sequence["Steering"]]
MAX_SEED = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class DrawOrder:
    """What is drawn, and how; None is the base's own.

    Args:
        prompt: the text to draw.
        negative: the text to steer away from.
        base: small, a diffusers folder, OWNER/NAME on the hub, or what `unplug export` made of a
            whole base; plugins are then those that were exported with it, and the noise is the
            portable one, not torch's.
        count: pictures, with seeds `seed`, `seed` + 1, ...
        size: side in pixels (default: the base's).
        steps: sampling steps (default: 6 for bases of `unplug train base`, else 25).
        guidance: classifier-free guidance (default: 2.5, rising, for bases of `unplug train base`,
            else 7.5).
        solver: how steps are taken (default: dpm++ for bases of `unplug train base`, else the
            base's own).
        target: the target of exported files, which decides the runtime (default: the first in
            pipeline.json).
        precision: the precision of exported files: fp32, fp16, ... (default: the first of the
            target).
        threads: CPU threads for exported files (default 1).
        loras: LoRA weights for the base: four-steps, two-steps, a folder or a file; may be
            repeated. A student's bring their own steps.
        packs: packs from `unplug train pack`, each used if the prompt says its word, as are those
            of exported files; may be repeated.
        variant: the name of weights that were put next to exported files; they bring their own
            defaults.
        decoder: the folder of a decoder of `unplug train decoder`, or autoencoder for the base's
            slower one (default: the quick decoder in the base, where it has one).
        engine: the engine that draws: device is the loop that apps have, on the CPU and without
            torch, for small and bases of its shape; or torch (default: device where it can).
        seed: the seed of the first picture.
    """

    prompt: str
    negative: str = ""
    base: str = "small"
    count: int = field(default=1, metadata={"range": (1, 64)})
    size: int | None = field(default=None, metadata={"flag": "--pixels", "range": (8, 4096)})
    steps: int | None = field(default=None, metadata={"flag": "--drawn-steps", "range": (1, 1000)})
    guidance: float | None = field(default=None, metadata={"range": (1.0, 50.0)})
    solver: Solver | None = None
    target: Literal["litert", "onnx", "coreml"] | None = None
    precision: str | None = None
    threads: int | None = field(default=None, metadata={"range": (1, 64)})
    loras: Sequence[str] = field(default=(), metadata={"flag": "--lora", "metavar": "WEIGHTS"})
    packs: Sequence[Path] = field(default=(), metadata={"flag": "--pack", "metavar": "FOLDER"})
    variant: str | None = None
    decoder: str | None = field(default=None, metadata={"metavar": "FOLDER"})
    engine: Literal["device", "torch"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_text(self.prompt)
        check_text(self.negative, "negative prompt")
        if (last := self.seed + self.count - 1) > MAX_SEED:
            why = f"more than {MAX_SEED}"
            raise InputError(f"seeds up to {last}", why, "Give a smaller `seed`")

    @property
    def seeds(self) -> tuple[int, ...]:
        """One a picture."""
        return tuple(self.seed + index for index in range(self.count))

    def by_loras(self) -> DrawOrder:
        """The order with the steps, guidance and solver that the LoRA weights tell, where none are
        asked for.
        """
        from unplug.sdk.drawing.diffusion import find_lora, sampling_of_lora

        order = self
        for told in map(sampling_of_lora, reversed(list(map(find_lora, self.loras)))):
            if told is not None:
                order = replace(
                    order,
                    steps=order.steps or told.steps,
                    guidance=order.guidance or told.guidance,
                    solver=order.solver or told.solver,
                )
        return order

    def by_packs(self, say: Callable[[str], None]) -> tuple[DrawOrder, tuple[str, ...]]:
        """The order with those packs as LoRA weights whose word the prompt says, and these words,
        which they teach the base.

        Raises:
            CheckpointError: a folder that is not a pack.
        """
        if not self.packs:
            return self, ()
        from unplug.sdk.drawing.diffusion import word_of_pack

        word_of = {str(pack): word_of_pack(Path(pack)) for pack in self.packs}
        asked = {pack: word for pack, word in word_of.items() if asks_for(self.prompt, word)}
        if asked:
            say(f"the prompt asks for {', '.join(asked)}")
        else:
            said = ", ".join(map(repr, word_of.values()))
            say(f"the prompt says none of {said}: the base draws its own picture")
        return replace(self, loras=(*self.loras, *asked), packs=()), tuple(asked.values())


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What was drawn.

    Args:
        pictures: one a seed.
        conditions: the pictures that it follows, as drawn.
        steerings: the plugins with their pictures.
        kinds: the condition that each plugin follows.
        facts: how it was drawn; the same facts draw the same pictures.
        run: facts of this run alone: memory, versions, the part of the prompt that was read.
        seconds: the seconds that it took.
    """

    pictures: list[Image]
    conditions: list[Image]
    steerings: tuple[Steering, ...]
    kinds: tuple[str, ...]
    facts: Mapping[str, Any]
    run: Mapping[str, Any] = field(default_factory=dict)
    seconds: float

    __repr__ = one_line


def generate_pictures(
    order: DrawOrder,
    steerings: Steerings,
    *,
    device: str,
    show: bool,
    say: Callable[[str], None],
) -> Generated:
    """Draws with a base or with exported files.

    Raises:
        InputError: what this kind of base cannot follow.
    """
    order, taught = order.by_packs(say)
    order = order.by_loras()
    if is_generator(Path(order.base)):
        if order.engine == "torch":
            why = "exported files have runtimes of their own"
            raise InputError("`engine` torch", why, "Leave it out, or give the base itself")
        if order.decoder is not None:
            why = "exported files have the decoder that they were exported with"
            raise InputError("`decoder`", why, "Leave it out, or give the base itself")
        return _by_files(order, steerings, taught, show, say)
    for name in ("target", "precision", "threads", "variant"):
        if getattr(order, name) is not None:
            why = "it is of exported files, and this base is none"
            raise InputError(f"`{name}`", why, "Leave it out, or give such a `base`")
    # before torch and diffusers are loaded, which takes seconds
    folder = base_folder(order.base)
    steered = _steered(steerings, _kind_of)
    if order.engine != "torch":
        source = _source(order, folder, steered)
        reason = _not_by_device(order, source, device)
        if source is not None and reason is None:
            with drawn_with(source) as files:
                names = zip(steered, source.plugins, strict=True)
                named = [replace(item, plugin=name) for item, name in names]
                made = _by_files(replace(order, base=str(files)), named, taught, show, say)
            kinds = tuple(_kind_of(item.plugin) for item in steered)
            return replace(made, steerings=steered, kinds=kinds)
        if order.engine == "device":
            raise InputError("`engine` device", str(reason), "Leave it out, or take torch")
    return _by_base(order, steered, taught, device, show, say)


def _not_by_device(order: DrawOrder, source: GeneratorSource | None, device: str) -> str | None:
    """Why torch must draw, or None."""
    if source is None:
        return "the base is not here yet"
    if order.loras:
        return "LoRA weights are put in by torch"
    if order.size is not None:
        return "its files have a size of their own"
    if device not in ("auto", "cpu"):
        return f"it draws on the CPU, and {device} was asked for"
    if missing := [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]:
        return f"{missing[0]} is not installed"
    return misfit(source)


def _source(
    order: DrawOrder, folder: Path | None, steerings: Sequence[Steering]
) -> GeneratorSource | None:
    """The base and the plugins that are asked for, as files for the device are made of them."""
    if folder is None or not is_base(folder):
        return None
    from unplug.sdk.drawing.diffusion import find_plugin, sampling_by_record

    how = sampling_by_record(folder)
    return GeneratorSource(
        name=order.base,
        folder=folder,
        decoder=decoder_folder(folder, order.decoder),
        plugins={
            f"plugin-{index}": find_plugin(item.plugin) for index, item in enumerate(steerings)
        },
        schedule=how.schedule,
        **how.on_files,
    )


def model_digests(order: DrawOrder, steerings: Sequence[Steering]) -> dict[str, str]:
    """SHA-256 of what draws: ``pipeline.json`` of exported files, else the weights of each part.

    Raises:
        InputError: a base on the hub, of which no file is known here.
    """
    base = order.base
    if is_generator(Path(base)):
        return {PIPELINE: sha256_file(Path(base) / PIPELINE)}
    source = _source(order, base_folder(base), steerings)
    if source is None:
        why = "no file of it is known here that a signature could name"
        raise InputError(f"base {base}", why, "Download it, and give its folder")
    return {part: weights_sha256(path) for part, path in source.checkpoints().items()}


def _steered(steerings: Steerings, kind_of: KindOf) -> tuple[Steering, ...]:
    return tuple(steerings(kind_of) if callable(steerings) else steerings)


def _by_base(
    order: DrawOrder,
    steered: tuple[Steering, ...],
    taught: Sequence[str],
    device: str,
    show: bool,
    say: Callable[[str], None],
) -> Generated:
    """Draws on torch, from the noise of the device's loop."""
    from unplug.sdk.drawing.diffusion import draw_pictures, find_lora, load_loras, tell_foreign
    from unplug.sdk.learning.training import pick_device

    how, schedule = _sampling(order)
    updates = list(map(find_lora, order.loras))
    base, precision = _opened_base(order, taught, pick_device(device), say)
    foreign = tell_foreign(base, updates, order.base, say)
    load_loras(base, updates)
    started = time.perf_counter()
    with progress(total=order.count, label="draw", unit="picture", show=show) as done:
        pictures, conditions = draw_pictures(
            base,
            [order.prompt] * order.count,
            steered,
            seeds=order.seeds,
            size=order.size,
            schedule=schedule,
            negative=order.negative,
            progress=done,
            latents=_noise(base, order),
            **how,
        )
    seconds = time.perf_counter() - started
    return Generated(
        pictures=pictures,
        conditions=conditions,
        steerings=steered,
        kinds=tuple(_kind_of(steering.plugin) for steering in steered),
        facts={
            "base": order.base,
            **how,
            "guidance_schedule": schedule,
            "size": pictures[0].width,
            "precision": precision,
        },
        run={"foreign_loras": [str(path) for path in foreign]},
        seconds=seconds,
    )


def _noise(base: Any, order: DrawOrder) -> torch.Tensor:
    """What pictures start from (B, C, h, w), the same for every engine and target."""
    import numpy as np
    import torch

    from unplug.sdk.drawing.diffusion import image_size_of

    shrink = 2 ** (len(base.vae.config.block_out_channels) - 1)
    side = (order.size or image_size_of(base)) // shrink
    shape = base.unet.config.in_channels, side, side
    drawn = torch.from_numpy(np.concatenate([latent(seed, shape) for seed in order.seeds]))
    return drawn.to(base.device, base.unet.dtype)


def _sampling(order: DrawOrder) -> tuple[dict[str, Any], Any]:
    """Steps, guidance and solver, asked for or the base's own; and how guidance goes over time."""
    from unplug.sdk.drawing.diffusion import sampling_of

    usual = sampling_of(order.base)
    how = {
        "steps": order.steps or usual.steps,
        "guidance": order.guidance or usual.guidance,
        "solver": order.solver or usual.solver,
    }
    if order.negative and (order.guidance or usual.guidance) <= 1:
        why, fix = "without guidance it has no effect", "Leave it out, or raise `guidance` above 1"
        raise InputError("`negative`", why, fix)
    return how, usual.schedule


def _opened_base(
    order: DrawOrder, taught: Sequence[str], device: torch.device, say: Callable[[str], None]
) -> tuple[Any, str]:
    """The base in memory, and in which precision; says what it does not read of the texts."""
    from unplug.sdk.drawing.diffusion import drawing_dtype, load_base, plain_tokenizer

    dtype = drawing_dtype(order.base, device)
    base = load_base(order.base, device=device, dtype=dtype, decoder=order.decoder)
    tokenizer = plain_tokenizer(base.tokenizer)
    for text in (order.prompt, order.negative):
        _tell_unread(text, tokenizer.encode(text), taught, len(base.tokenizer), say)
    return base, str(dtype).removeprefix("torch.")


def _kind_of(plugin: str) -> str:
    """The condition that a plugin follows, from its configuration alone."""
    from unplug.plugins import read_config
    from unplug.sdk.drawing.diffusion import find_plugin

    return str(read_config(find_plugin(plugin), expect="plugin")[1].get("condition", ""))


def _tell_unread(
    text: str,
    encoded: Any,
    taught: Sequence[str],
    vocabulary: int,
    say: Callable[[str], None],
) -> None:
    """Says what the base does not read of a text: what follows its last token, and words that are
    no token of their own, nor taught by a pack.
    """
    from unplug.sdk.drawing.device import untaught

    if encoded.cut:
        short = text if len(text) <= 40 else f"{text[:40]}..."
        say(
            f"{short!r} has {encoded.tokens} tokens: the base reads the first {len(encoded.ids)} "
            "only"
        )
    known = {part for word in taught for part in words_of(word)}
    unknown = [word for word in encoded.spelled if not known.issuperset(words_of(word))]
    if (line := untaught(unknown, vocabulary)) is not None:
        say(line)


def _by_files(
    order: DrawOrder,
    steerings: Steerings,
    taught: Sequence[str],
    show: bool,
    say: Callable[[str], None],
) -> Generated:
    """Draws with the files of one target and precision: the device's own loop, without torch."""
    from PIL import Image

    from unplug.sdk.drawing.device import Words, condition_of, draw, load_pipeline
    from unplug.sdk.drawing.diffusion import find_lora

    if order.size is not None:
        fix = "Leave it out, or export the base that you want"
        raise InputError("`size`", "exported files cannot follow it", fix)
    folder = Path(order.base)
    pipeline = load_pipeline(folder)
    kind_of = partial(condition_of, pipeline)
    steered = _steered(steerings, kind_of)
    words = Words(
        prompt=order.prompt,
        negative=order.negative,
        steps=order.steps,
        guidance=order.guidance,
        solver=order.solver,
    )
    words = replace(words, encoded=words.read(pipeline))
    own = _own_packs(pipeline, order.prompt, taught)
    if own:
        say(f"the prompt asks for {', '.join(own)}")
    for text, encoded in zip((order.prompt, order.negative), words.read(pipeline), strict=True):
        _tell_unread(text, encoded, (*taught, *own), len(pipeline.tokenizer.vocabulary), say)
    with follow("draw", show=show) as done:
        drawn = draw(
            folder,
            words,
            pipeline=pipeline,
            seeds=order.seeds,
            steerings=steered,
            variant=order.variant,
            loras=tuple(map(find_lora, order.loras)),
            target=order.target,
            precision=order.precision,
            threads=order.threads or 1,
            progress=done,
        )
    return Generated(
        pictures=list(map(Image.fromarray, drawn.images)),
        conditions=list(map(Image.fromarray, drawn.conditions)),
        steerings=steered,
        kinds=tuple(kind_of(steering.plugin) for steering in steered),
        facts=_facts_of_files(order, pipeline, drawn),
        run={
            "load_seconds": drawn.load_seconds,
            "peak_bytes": drawn.peak_bytes,
            "runtime_version": drawn.runtime_version,
            "prompt_tokens": drawn.prompt.tokens,
            "tokens_read": min(drawn.prompt.tokens, len(drawn.prompt.ids)),
        },
        seconds=sum(drawn.seconds),
    )


def _own_packs(pipeline: Pipeline, prompt: str, taught: Sequence[str]) -> tuple[str, ...]:
    """Words of the pipeline's own packs that the prompt asks for; `InputError` where one of them is
    given with it too.
    """
    own = tuple(word for word in pipeline.packs().values() if asks_for(prompt, word))
    given = set(map(words_of, taught))
    for word in own:
        if words_of(word) in given:
            why = f"{pipeline.name} was exported with a pack for {word!r}"
            raise InputError("`packs`", why, "Leave it out, or export the base without")
    return own


def _facts_of_files(order: DrawOrder, pipeline: Pipeline, drawn: Any) -> dict[str, Any]:
    usual = pipeline.defaults_of(order.variant)
    return {
        "base": pipeline.name,
        "steps": order.steps or usual.steps,
        "guidance": usual.guidance if order.guidance is None else order.guidance,
        "solver": order.solver or usual.solver,
        "guidance_schedule": pipeline.schedule.guidance,
        "size": pipeline.image_size,
        "precision": drawn.precision,
        "target": drawn.target,
        "runtime": drawn.runtime,
        "noise": pipeline.noise,
        "variant": order.variant,
        **({"exported_packs": list(drawn.packs)} if drawn.packs else {}),
    }
