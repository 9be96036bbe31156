"""``unplug train student``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from .base import Common, Outcome, command, computing
from .options import FINE, data_option, half_option, known_base, option, out_option, restart_option
from .options_of import ConfiguredCommand, given


@click.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.drawing.diffusion:StudentRecipe",
    skip=(*FINE, "teacher_schedule"),
)
@data_option
@out_option(
    "Folder to write: a base, or with --rank LoRA weights; an unfinished run there is continued."
)
@option(
    "--base",
    "base_name",
    default="small",
    callback=known_base,
    help="The teacher: small, a folder, or OWNER/NAME.",
)
@half_option
@restart_option()
@computing
@command
def student(
    spec: str,
    on_bad: Any,
    out: Path,
    base_name: str,
    half: bool,
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Distil a base into one that draws in few steps, without guidance.

    The student learns to go in one step where its guided teacher goes in several, so that a picture
    of --drawn-steps steps asks the UNet as many times, and not twice as often. With --rank it is a
    LoRA on the same base. The state is saved every two minutes and at Ctrl-C: run the same command
    again and it goes on.
    """
    from unplug.sdk.drawing.diffusion import (
        StudentRecipe,
        base_record,
        image_size_of,
        load_base,
        train_student,
    )
    from unplug.sdk.learning.data import load_dataset

    recipe = StudentRecipe(**given(StudentRecipe, options))
    base = load_base(base_name, device=common.device)
    dataset = load_dataset(spec, image_size_of(base), on_bad=on_bad, show=common.show)
    train_student(
        base,
        base_record(base_name),
        dataset,
        out,
        recipe,
        seed=common.seed,
        device=common.device,
        half=half,
        restart=restart,
        show=common.show,
    )
    how = "--lora" if recipe.rank else "--base"  # either brings its steps, guidance and solver
    text = (
        f"saved {out}\nNext: unplug generate {how} {shlex.quote(str(out))} --prompt TEXT --out "
        "picture.png"
    )
    return Outcome(value={"out": str(out), "recipe": recipe.to_dict()}, text=text)
