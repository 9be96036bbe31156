"""``unplug generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unplug.core import InputError

from .base import Common, Outcome, command, settings
from .generate_base import generate_on_base
from .generate_files import generate_on_files
from .generate_order import DrawOrder
from .guides import GuideOrder, OrderedCommand
from .options import FloatRange, given_option, out_option


@click.command(cls=OrderedCommand)
@click.option("--prompt", required=True, help="What to draw.")
@click.option("--negative", default="", help="What to steer away from.")
@click.option(
    "--base",
    "base_name",
    default="small",
    show_default=True,
    help=(
        "small, a diffusers folder, OWNER/NAME on the hub, or what `unplug export` made of a whole "
        "base."
    ),
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    help="face_landmark, canny, depth, or a plugin folder; may be repeated.",
)
@click.option(
    "--condition-image",
    "conditions",
    multiple=True,
    type=click.Path(path_type=Path),
    help="The drawn condition of a --plugin, or example; pictures and plugins are in the same order.",
)
@click.option(
    "--photo",
    "photos",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Instead, for this plugin: a photograph from which the condition is drawn.",
)
@click.option(
    "--crop",
    type=click.Choice(["auto", "face", "none"]),
    default="auto",
    show_default=True,
    help="The face of a photograph, or its centre square; auto: face for face_landmark.",
)
@click.option(
    "--margin",
    type=FloatRange(0.0, 2.0),
    help="Around the found face, as a fraction of its box (default 0.39: the small base's).",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="[CONDITION.]KEY=VALUE",
    help="A setting of the condition, with --photo.",
)
@click.option(
    "--task",
    "--face-landmarker",
    "task",
    type=click.Path(path_type=Path),
    help="MediaPipe's task file, with --photo (default: UNPLUG_FACE_LANDMARKER).",
)
@click.option(
    "--strength",
    "strengths",
    multiple=True,
    type=float,
    help="Of each --plugin; 1 is as trained, 0 is off.",
)
@click.option(
    "--count",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Pictures, with seeds --seed, --seed + 1, ...",
)
@click.option("--size", type=click.IntRange(8, 4096), help="Side in pixels (default: the base's).")
@click.option(
    "--steps",
    type=click.IntRange(1, 1000),
    help="Sampling steps (default: 6 for bases of `unplug train base`, else 25).",
)
@click.option(
    "--guidance",
    type=FloatRange(1.0, 50.0),
    help=(
        "Classifier-free guidance (default: 2.5, rising, for bases of `unplug train base`, else "
        "7.5)."
    ),
)
@click.option(
    "--solver",
    type=click.Choice(["ddim", "dpm++"]),
    help=(
        "How steps are taken (default: dpm++ for bases of `unplug train base`, else the base's "
        "own)."
    ),
)
@click.option(
    "--target",
    type=click.Choice(["litert", "onnx", "coreml"]),
    help=(
        "Of exported files: which of them, and so which runtime (default: the first in "
        "pipeline.json)."
    ),
)
@click.option(
    "--precision", help="Of exported files: fp32, fp16, ... (default: the first of the target)."
)
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Of exported files: CPU threads.",
)
@click.option(
    "--lora",
    "loras",
    multiple=True,
    metavar="WEIGHTS",
    help="LoRA weights for the base: four-steps, two-steps, a folder or a file; may be repeated. A student's bring their own "
    "steps.",
)
@click.option(
    "--variant",
    help=(
        "Of exported files: weights that were put beside them, by name; they bring their own "
        "defaults."
    ),
)
@out_option(
    "PNG or JPEG file to write; with --count, a grid of all, and each beside it as NAME-SEED."
)
@command
def generate(
    prompt: str,
    negative: str,
    base_name: str,
    plugins: tuple[str, ...],
    conditions: tuple[Path, ...],
    photos: tuple[Path, ...],
    crop: Any,
    margin: float | None,
    pairs: tuple[str, ...],
    task: Path | None,
    strengths: tuple[float, ...],
    count: int,
    size: int | None,
    steps: int | None,
    guidance: float | None,
    solver: Any,
    target: str | None,
    precision: str | None,
    threads: int,
    loras: tuple[str, ...],
    variant: str | None,
    out: Path,
    common: Common,
) -> Outcome:
    """Draw a picture from a prompt, steered by plugins.

    The same command draws the same picture on the same machine. The small base that ships draws
    procedural faces; give --base for another, which draws in half precision on a GPU. The condition
    should be drawn at the base's size: `unplug condition --size 128`, or use --photo.

    Every file says in its metadata that a model drew it (IPTC's digital source type).

    A base of exported files is drawn with by the loop that apps have, without torch: the same
    prompt, seed and condition are the same picture on every target. Its noise is not torch's, so a
    diffusers base draws another picture of the same seed.
    """
    from unplug.core import check_writable
    from unplug.sdk.drawing.device import claim, is_generator, picture_format
    from unplug.sdk.drawing.diffusion import find_lora, sampling_of_lora

    updates = tuple(map(find_lora, loras))
    for told in filter(
        None, map(sampling_of_lora, reversed(updates))
    ):  # the last one that tells says
        steps, guidance, solver = (
            steps or told.steps,
            guidance or told.guidance,
            solver or told.solver,
        )
    picture_format(out)
    seeds = tuple(common.seed + index for index in range(count))
    singly = (
        (out,)
        if count == 1
        else tuple(out.with_name(f"{out.stem}-{seed}{out.suffix}") for seed in seeds)
    )
    for file in (out, *singly):
        claim(file, (*conditions, *photos))
    order = DrawOrder(
        prompt=prompt,
        negative=negative,
        base=base_name,
        guides=GuideOrder(
            plugins=plugins,
            conditions=conditions,
            photos=photos,
            strengths=strengths,
            settings=settings(pairs),
            task=task,
            crop=crop,
            margin=margin,
        ),
        seeds=seeds,
        size=size,
        steps=steps,
        guidance=guidance,
        solver=solver,
        target=target,
        precision=precision,
        threads=threads,
        loras=loras,
        variant=variant,
        files=singly,
        out=out,
    )
    order.check()
    order.guides.check_there()
    if is_generator(Path(base_name)):
        check_writable(out.parent)
        return generate_on_files(order, common)
    if (word := given_option("target", "precision", "threads", "variant")) is not None:
        raise InputError(
            f"--{word}",
            "it is of exported files, and this base is none",
            "Leave it out, or give such a --base",
        )
    return generate_on_base(order, updates, common)
