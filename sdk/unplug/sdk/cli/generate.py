"""``unplug generate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import check_writable, counted
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, folded
from .guides import GuideOrder, OrderedCommand, described, told
from .options import out_option
from .options_of import given

if TYPE_CHECKING:
    from unplug.sdk.generating import Generated


@click.command(
    cls=OrderedCommand,
    config="unplug.sdk.generating:DrawOrder unplug.sdk.cli.guides:GuideOrder",
    skip=("seed",),
)
@out_option(
    "PNG or JPEG file to write; with --count, a grid of all, and each next to it as NAME-SEED."
)
@computing
@command
def generate(out: Path, common: Common, **options: Any) -> Outcome:
    """Draw a picture from a prompt, steered by plugins.

    The same command draws the same picture on the same machine. The small base that ships draws
    procedural faces; give --base for another, which draws in half precision on a GPU. The condition
    should be drawn at the base's size: `unplug condition --pixels 128`, or use --image.

    Every file says in its metadata that a model drew it (IPTC's digital source type).

    The small base, those of its shape and exported files are drawn with by the loop that apps have,
    without torch. The same prompt, seed and condition are the same picture on every target and engine.
    """
    from unplug.sdk.drawing.device import claim, picture_format
    from unplug.sdk.generating import DrawOrder

    picture_format(out)
    words, guides = given(DrawOrder, options), GuideOrder(**given(GuideOrder, options))
    order = DrawOrder(seed=common.seed, **words)
    files = [out]
    if order.count > 1:
        files = [out.with_name(f"{out.stem}-{seed}{out.suffix}") for seed in order.seeds]
    for file in (out, *files):
        claim(file, (*guides.conditions, *guides.photos))
    guides.check_there()
    check_writable(out.parent)
    done = journey.generate(
        steerings=guides.steerings,
        **common.shared,
        say=common.say,
        **words,
    )
    facts = {
        "prompt": order.prompt,
        "negative": order.negative,
        "plugins": list(guides.plugins),
        "strengths": list(guides.strengths),
        "loras": list(order.loras),
        **({"packs": list(map(str, order.packs))} if order.packs else {}),
        **done.facts,
    }
    _save(done, facts, order.seeds, files, out)
    return _told(done, facts, files, out)


def _save(
    done: Generated, facts: dict[str, Any], seeds: Sequence[int], files: Sequence[Path], out: Path
) -> None:
    """Writes each picture, and of several a grid after their conditions."""
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
