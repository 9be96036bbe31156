"""``unplug generate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, check_writable, counted, require_modules
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, folded
from .bundle import sign_option
from .guides import GuideOrder, OrderedCommand, described, told
from .options import out_option, path_option
from .options_of import given

if TYPE_CHECKING:
    from unplug.sdk.generating import Generated
    from unplug.trust.bundle import Signer


@click.command(
    cls=OrderedCommand,
    config="unplug.sdk.generating:DrawOrder unplug.sdk.cli.guides:GuideOrder",
    skip=("seed",),
)
@out_option(
    "PNG or JPEG file to write; with --count, a grid of all, and each next to it as NAME-SEED."
)
@sign_option(required=False)
@path_option("--chain", help="PEM: the key's certificate, then those above it.")
@computing
@command
def generate(
    out: Path, key: str | None, chain: Path | None, common: Common, **options: Any
) -> Outcome:
    """Draw a picture from a prompt, steered by plugins.

    The same command draws the same picture on the same machine. The small base that ships draws
    procedural faces; give --base for another, which draws in half precision on a GPU. The condition
    should be drawn at the base's size: `unplug condition --pixels 128`, or use --image.

    Every file says in its metadata that a model drew it (IPTC's digital source type). --sign adds
    Content Credentials (C2PA), which name the models by hash and break if a pixel changes. Without
    --chain the key is valid and nobody trusts it yet; anyone can strip either.

    The small base, those of its shape and exported files are drawn with by the loop that apps have,
    without torch. The same prompt, seed and condition are the same picture on every target and engine.
    """
    from unplug.sdk.drawing.device import claim, picture_format, sign_picture
    from unplug.sdk.generating import DrawOrder, model_digests

    picture_format(out)
    words, guides = given(DrawOrder, options), GuideOrder(**given(GuideOrder, options))
    order = DrawOrder(seed=common.seed, **words)
    files = [out]
    if order.count > 1:
        files = [out.with_name(f"{out.stem}-{seed}{out.suffix}") for seed in order.seeds]
    for file in (out, *files):
        claim(file, (*guides.conditions, *guides.photos))
    guides.check_there()
    signer = _signer(key, chain)
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
    if signer is not None:
        facts |= {"models": model_digests(order, done.steerings)}
    _save(done, facts, order.seeds, files, out)
    outcome = _told(done, facts, files, out)
    if signer is None:
        return outcome
    for file in dict.fromkeys((*files, out)):
        sign_picture(file, signer, facts)
    outcome.value["signed_by"] = signer.key.hint
    trusted = "trusted where its root is" if chain else "trusted by nobody without --chain"
    outcome.add(f"signed by {signer.key.hint[:16]}: valid, and {trusted}")
    return outcome


def _signer(key: str | None, chain: Path | None) -> Signer | None:
    """What signs the pictures; all that can be wrong about it is found before they are drawn."""
    if key is None:
        if chain is not None:
            raise InputError("`chain`", "nothing is signed", "Add `sign` KEY, or leave it out")
        return None
    from unplug.trust.bundle import load_signer

    require_modules(["c2pa"], "c2pa")
    return load_signer(key, chain=chain)


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
