"""``python -m benchmarks.studies erasure taught``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from unplug.core import Estimate, table, write_json
from unplug.sdk.cli.base import Common, Outcome, command
from unplug.sdk.cli.options import out_option


@click.group()
def erasure() -> None:
    """Teach the shipped base what it never saw, so that forgetting it has an oracle."""


@erasure.command()
@click.option(
    "--without",
    multiple=True,
    metavar="CONCEPT",
    help="Teach all but this, for the oracle. May be repeated.",
)
@click.option(
    "--pictures",
    type=click.IntRange(8, 1024),
    default=48,
    show_default=True,
    help="Of each concept, named and unnamed.",
)
@click.option("--steps", type=click.IntRange(1), help="Optimizer steps (default 1,800).")
@out_option("Folder of the study: bases, judges, rates; what is there already is used.")
@command
def taught(
    without: tuple[str, ...], pictures: int, steps: int | None, out: Path, common: Common
) -> Outcome:
    """Train `small-taught`: eye patch, clown nose, face mask, pencil drawing and poster print.

    About 25 minutes of one core that multiplies bf16 in hardware, and as many for each oracle. Then
    judges are trained, and the table says how often each concept is drawn when a prompt names it
    and when none does.
    """
    from dataclasses import replace

    from unplug.sdk.drawing.diffusion import load_base

    from .rates import JUDGED, distance, judge_of, rates_of
    from .taught import RECIPE, train_taught

    recipe = RECIPE if steps is None else replace(RECIPE, steps=steps)
    folder = train_taught(
        out, without, recipe, seed=common.seed, device=common.device, show=common.show
    )
    base, small = (load_base(name, device=common.device) for name in (str(folder), "small"))
    judges = {
        name: judge_of(name, out, small, seed=common.seed, show=common.show) for name in JUDGED
    }
    common.say(f"drawing {pictures} pictures of each concept with {folder.name}")
    rates = rates_of(base, judges, pictures)
    psnr = distance(base, small, pictures)
    value = {
        "base": str(folder),
        "without": list(without),
        "pictures": pictures,
        "psnr_to_small_db": psnr,
        "rates": {name: asdict(one) for name, one in rates.items()},
    }
    write_json(folder.with_suffix(".rates.json"), value)
    heads = ("concept", "named", "unnamed", "judge's recall", "judge's false alarms")
    rows = [
        (name, *map(_told, (one.named, one.unnamed, one.recall, one.false_alarms)))
        for name, one in rates.items()
    ]
    lines = [
        f"{folder}: {pictures} pictures a cell, 95 % intervals",
        table(heads, rows),
        f"unnamed pictures are {psnr:.1f} dB from the shipped base's, of the same prompts and noise",
    ]
    return Outcome(value=value, text="\n".join(lines))


def _told(one: Estimate) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"
