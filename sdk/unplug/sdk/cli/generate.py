"""``unplug generate``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import check_writable, counted
from unplug.sdk import journey

from .bars import progress_bar
from .base import Common, Outcome, command, folded, settings
from .guides import GuideOrder, OrderedCommand, described, told
from .options import FloatRange, out_option

if TYPE_CHECKING:
    from unplug.sdk.generating import Generated


@click.command(cls=OrderedCommand)
@click.option("--prompt", required=True, help="What to draw.")
@click.option("--negative", default="", help="What to steer away from.")
@click.option(
    "--base",
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
    show_default="1",
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
    "--pack",
    "packs",
    multiple=True,
    metavar="FOLDER",
    help="What `unplug train pack` made; drawn with where the prompt says its word; may be repeated.",
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
    plugins: tuple[str, ...],
    conditions: tuple[Path, ...],
    photos: tuple[Path, ...],
    crop: Any,
    margin: float | None,
    pairs: tuple[str, ...],
    task: Path | None,
    strengths: tuple[float, ...],
    out: Path,
    common: Common,
    **words: Any,
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
    from unplug.sdk.drawing.device import claim, picture_format
    from unplug.sdk.generating import DrawOrder

    picture_format(out)
    order = DrawOrder(seed=common.seed, **words)
    files = [out]
    if order.count > 1:
        files = [out.with_name(f"{out.stem}-{seed}{out.suffix}") for seed in order.seeds]
    for file in (out, *files):
        claim(file, (*conditions, *photos))
    guides = GuideOrder(
        plugins=plugins,
        conditions=conditions,
        photos=photos,
        strengths=strengths,
        settings=settings(pairs),
        task=task,
        crop=crop,
        margin=margin,
    )
    guides.check_there()
    check_writable(out.parent)
    done = journey.generate(
        steerings=guides.steerings,
        seed=common.seed,
        device=common.device_name,
        show=common.show,
        say=common.say,
        bar=partial(progress_bar, common=common),
        **words,
    )
    facts = {
        "prompt": order.prompt,
        "negative": order.negative,
        "plugins": list(plugins),
        "strengths": list(strengths),
        "loras": list(order.loras),
        "packs": list(done.run.get("packs", ())),
        **done.facts,
    }
    _save(done, facts, order.seeds, files, out)
    return _told(done, facts, files, out)


def _save(
    done: Generated, facts: dict[str, Any], seeds: Sequence[int], files: Sequence[Path], out: Path
) -> None:
    """Writes each picture, and of several a grid behind their conditions."""
    from unplug.sdk.drawing.device import save_marked
    from unplug.sdk.drawing.diffusion import image_grid

    for file, picture, seed in zip(files, done.pictures, seeds, strict=True):
        save_marked(picture, file, {**facts, "seed": seed})
    if len(files) > 1:
        grid = image_grid([[*done.conditions, *done.pictures]])
        save_marked(grid, out, {**facts, "seeds": list(seeds)})


def _told(done: Generated, facts: dict[str, Any], files: Sequence[Path], out: Path) -> Outcome:
    guided = zip(done.steerings, done.kinds, strict=True)
    notes = [told(item, kind) for item, kind in guided if item.photo]
    value = {
        "out": str(out),
        "pictures": [str(file) for file in files],
        "seconds": round(done.seconds, 3),
        "guides": [described(item) for item in done.steerings],
        **facts,
        **done.run,
        "notes": notes,
    }
    how = " ".join(str(facts[name]) for name in ("runtime", "precision") if name in facts)
    saved = f"saved {out} ({counted(len(files), 'picture')}, {done.seconds:.1f} s, {how})"
    return Outcome(value=value, text="\n".join([saved, *map(folded, notes)]))
