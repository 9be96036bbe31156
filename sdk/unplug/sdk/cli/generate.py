"""``unplug generate``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from unplug.core import InputError, counted, progress

from .base import Common, Outcome, command, settings, tell_foreign
from .generate_files import FilesOrder, generate_on_files
from .guides import Guide, GuideOrder, OrderedCommand
from .options import given_option, out_option


@click.command(cls=OrderedCommand)
@click.option("--prompt", required=True, help="What to draw.")
@click.option("--negative", default="", help="What to steer away from.")
@click.option(
    "--base",
    "base_name",
    default="small",
    show_default=True,
    help="small, a diffusers folder, OWNER/NAME on the hub, or what `unplug export` made of a whole base.",
)
@click.option("--plugin", "plugins", multiple=True, help="face_landmark, canny, depth, or a plugin folder; may be repeated.")
@click.option("--condition-image", "conditions", multiple=True, type=click.Path(path_type=Path),
              help="The drawn condition of a --plugin, or example; pictures and plugins are in the same order.")  # fmt: skip
@click.option("--photo", "photos", multiple=True, type=click.Path(path_type=Path),
              help="Instead, for this plugin: a photograph from which the condition is drawn.")  # fmt: skip
@click.option("--crop", type=click.Choice(["auto", "face", "none"]), default="auto", show_default=True,
              help="The face of a photograph, or its centre square; auto: face for face_landmark.")  # fmt: skip
@click.option("--margin", type=click.FloatRange(0.0, 2.0),
              help="Around the found face, as a fraction of its box (default 0.39: the small base's).")  # fmt: skip
@click.option(
    "--set", "pairs", multiple=True, metavar="[CONDITION.]KEY=VALUE", help="A setting of the condition, with --photo."
)
@click.option("--task", "--face-landmarker", "task", type=click.Path(path_type=Path),
              help="MediaPipe's task file, with --photo (default: UNPLUG_FACE_LANDMARKER).")  # fmt: skip
@click.option("--strength", "strengths", multiple=True, type=float, help="Of each --plugin; 1 is as trained, 0 is off.")
@click.option(
    "--count", type=click.IntRange(1, 64), default=1, show_default=True, help="Pictures, with seeds --seed, --seed + 1, ..."
)
@click.option("--size", type=click.IntRange(8, 4096), help="Side in pixels (default: the base's).")
@click.option("--steps", type=click.IntRange(1, 1000),
              help="Sampling steps (default: 6 for bases of `unplug train base`, else 25).")  # fmt: skip
@click.option("--guidance", type=click.FloatRange(1.0, 50.0),
              help="Classifier-free guidance (default: 3 for bases of `unplug train base`, else 7.5).")  # fmt: skip
@click.option("--solver", type=click.Choice(["ddim", "dpm++"]),
              help="How steps are taken (default: dpm++ for bases of `unplug train base`, else the base's own).")  # fmt: skip
@click.option("--target", type=click.Choice(["litert", "onnx", "coreml"]),
              help="Of exported files: which of them, and so which runtime (default: the first in pipeline.json).")  # fmt: skip
@click.option("--precision", help="Of exported files: fp32, fp16, ... (default: the first of the target).")
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="Of exported files: CPU threads.")
@click.option(
    "--lora",
    "loras",
    multiple=True,
    metavar="WEIGHTS",
    help="LoRA weights for the base: four-steps, a folder or a file; may be repeated. A student's bring their own steps.",
)
@click.option("--variant", help="Of exported files: weights that were put beside them, by name; they bring their own defaults.")
@out_option("PNG or JPEG file to write; with --count, a grid of all, and each beside it as NAME-SEED.")
@command
def generate(
    prompt: str, negative: str, base_name: str, plugins: tuple[str, ...], conditions: tuple[Path, ...],
    photos: tuple[Path, ...], crop: Any, margin: float | None, pairs: tuple[str, ...], task: Path | None,
    strengths: tuple[float, ...], count: int, size: int | None, steps: int | None, guidance: float | None, solver: Any,
    target: str | None, precision: str | None, threads: int, loras: tuple[str, ...], variant: str | None,
    out: Path, common: Common,
) -> Outcome:  # fmt: skip
    """Draw a picture from a prompt, steered by plugins.

    The same command draws the same picture on the same machine. The small base that ships draws procedural faces; give
    --base for another, which draws in half precision on a GPU. The condition should be drawn at the base's size:
    `unplug condition --size 128`, or use --photo.

    Every file says in its metadata that a model drew it (IPTC's digital source type).

    A base of exported files is drawn with by the loop that apps have, without torch: the same prompt, seed and condition are
    the same picture on every target. Its noise is not torch's, so a diffusers base draws another picture of the same seed.
    """
    from unplug.core import check_writable
    from unplug.sdk.device import claim, is_generator, picture_format, save_marked
    from unplug.sdk.diffusion import find_lora, find_plugin, sampling_of_lora

    updates = tuple(map(find_lora, loras))
    for told in filter(None, map(sampling_of_lora, reversed(updates))):  # the last one that tells says
        steps, guidance, solver = steps or told.steps, guidance or told.guidance, solver or told.solver
    picture_format(out)
    seeds = [common.seed + index for index in range(count)]
    singly = (out,) if count == 1 else tuple(out.with_name(f"{out.stem}-{seed}{out.suffix}") for seed in seeds)
    for file in (out, *singly):
        claim(file, (*conditions, *photos))
    guide_order = GuideOrder(
        plugins=plugins, conditions=conditions, photos=photos, strengths=strengths, settings=settings(pairs), task=task,
        crop=crop, margin=margin,
    )  # fmt: skip
    guide_order.check_there()
    if is_generator(Path(base_name)):
        check_writable(out.parent)
        order = FilesOrder(
            prompt=prompt, negative=negative, folder=Path(base_name), guides=guide_order, count=count, steps=steps,
            guidance=guidance, solver=solver, target=target, precision=precision, threads=threads, variant=variant,
            loras=loras, out=out, singly=singly,
        )  # fmt: skip
        return generate_on_files(order, common)
    if (word := given_option("target", "precision", "threads", "variant")) is not None:
        raise InputError(f"--{word}", "it is of exported files, and this base is none", "Leave it out, or give such a --base")
    for name in plugins:
        find_plugin(name)
    guides = guide_order.guides(_kind_of)  # before torch and diffusers are loaded, which takes seconds
    from unplug.sdk.diffusion import (
        draw_pictures,
        drawing_dtype,
        foreign_loras,
        image_grid,
        load_base,
        load_loras,
        sampling_of,
    )

    check_writable(out.parent)
    steerings = _steerings(guides)
    usual = sampling_of(base_name)
    guidance, steps, solver = guidance or usual.guidance, steps or usual.steps, solver or usual.solver
    if negative and guidance <= 1:
        raise InputError("--negative", "without guidance it has no effect", "Leave it out, or raise --guidance above 1")
    dtype = drawing_dtype(base_name, common.device)
    base = load_base(base_name, device=common.device, dtype=dtype)
    foreign = tell_foreign(foreign_loras(base, updates), base_name, common)
    load_loras(base, updates)
    for text in (prompt, negative):
        _tell_words(base.tokenizer, text, common)
    started = time.perf_counter()
    with progress(total=count, label="draw", unit="picture", show=common.show) as bar:
        pictures, drawn = draw_pictures(
            base, [prompt] * count, steerings, seeds=seeds, size=size, steps=steps, guidance=guidance, solver=solver,
            negative=negative, progress=bar,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    facts = {"prompt": prompt, "negative": negative, "base": base_name, "plugins": list(plugins), "strengths": list(strengths),
             "steps": steps, "guidance": guidance, "solver": solver,
             "size": pictures[0].width, "precision": str(dtype).removeprefix("torch."),
             "loras": list(loras)}  # fmt: skip
    for file, picture, seed in zip(singly, pictures, seeds, strict=True):
        save_marked(picture, file, {**facts, "seed": seed})
    if count > 1:
        save_marked(image_grid([[*drawn, *pictures]]), out, {**facts, "seeds": seeds})
    value = {"out": str(out), "pictures": [str(file) for file in singly], "seconds": round(seconds, 3),
             "guides": [item.to_dict() for item in guides], "foreign_loras": foreign, **facts}  # fmt: skip
    how = f"{seconds:.1f} s, {facts['precision']}"
    return Outcome(value=value, text=f"saved {out} ({counted(count, 'picture')}, {how})")


def _kind_of(plugin: str) -> str:
    """The condition that a plugin follows, from its configuration alone."""
    from unplug.plugins import read_config
    from unplug.sdk.diffusion import find_plugin

    return str(read_config(find_plugin(plugin), expect="plugin")[1].get("condition", ""))


def _tell_words(tokenizer: Any, text: str, common: Common) -> None:
    """Says what the base does not read of a text: what is behind its last token, and words that are no token of their own."""
    from unplug.sdk.device import normalize, split_words, untaught

    if (longer := len(tokenizer(text).input_ids)) > (most := tokenizer.model_max_length):
        common.say(f"{text[:40]!r}... has {longer} tokens: the base reads the first {most} only")
    spelled = dict.fromkeys(word for word in split_words(normalize(text)) if len(tokenizer.tokenize(word)) > 1)
    if (line := untaught(tuple(spelled), len(tokenizer))) is not None:
        common.say(line)


def _steerings(guides: tuple[Guide, ...]) -> list[Any]:
    from unplug.sdk.diffusion import Steering

    return [
        Steering(plugin=item.plugin, image=item.image, photo=item.photo, strength=item.strength, options=item.options,
                 frame=item.frame)
        for item in guides
    ]  # fmt: skip
