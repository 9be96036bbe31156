"""``unplug train plugin``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import counted

from .base import Common, Outcome, command, computing, settings
from .options import (
    FINE,
    data_option,
    half_option,
    known_base,
    option,
    out_option,
    path_option,
    restart_option,
    settings_option,
    split_file_option,
)
from .options_of import ConfiguredCommand, given

if TYPE_CHECKING:
    from unplug.plugins import Checkpoint
    from unplug.sdk.drawing.diffusion import ControlRecipe


@click.command(
    cls=ConfiguredCommand, config="unplug.sdk.drawing.diffusion:ControlRecipe", skip=FINE
)
@data_option
@click.option(
    "--kind",
    required=True,
    help="face_landmark, holistic, depth, canny: see `unplug list conditions`.",
)
@settings_option("A setting of the condition, such as low=100.")
@path_option("--landmarker", "task", help="MediaPipe's task file.")
@option(
    "--base",
    "base_name",
    default="small",
    callback=known_base,
    help="small, a diffusers folder, or OWNER/NAME on the hub.",
)
@click.option(
    "--start",
    metavar="PLUGIN",
    help="Go on from this plugin's weights (a name that ships, or a folder).",
)
@out_option("Checkpoint folder to write; an unfinished run there is continued.")
@split_file_option
@option(
    "--sample-every",
    type=click.IntRange(0),
    default=500,
    help="Training steps between grids of sample pictures.",
)
@half_option
@restart_option()
@computing
@command
def plugin(
    spec: str,
    on_bad: Any,
    kind: str,
    pairs: tuple[str, ...],
    task: Path | None,
    base_name: str,
    start: str | None,
    out: Path,
    split_file: Path | None,
    sample_every: int,
    half: bool,
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Train a conditioning plugin for a frozen base.

    Latents, text embeddings and conditions are computed once and cached. The state is saved every
    two minutes and at Ctrl-C: run the same command again and it goes on. Sampling grids are written
    to .NAME.training next to --out. For several GPUs start it with `accelerate launch -m
    unplug.sdk.cli train plugin ...`.
    """
    from unplug.plugins import load_checkpoint
    from unplug.sdk.drawing.diffusion import (
        ControlRecipe,
        find_plugin,
        image_size_of,
        load_base,
        processes,
        train_plugin,
    )
    from unplug.sdk.learning.data import load_dataset, load_split, make_split

    drawn = settings(pairs) | ({} if task is None else {"task": str(task)})
    recipe = ControlRecipe(**given(ControlRecipe, options))
    team = processes(common.device)
    device = team.device
    base = load_base(base_name, device=device)
    # Before any picture is drawn: it may not be there.
    before = None if start is None else load_checkpoint(find_plugin(start), expect="plugin")
    with team.main_process_first():
        dataset = load_dataset(
            spec, image_size_of(base), on_bad=on_bad, show=common.show and team.is_main_process
        )
    split = (
        load_split(split_file)
        if split_file
        else make_split(dataset, seed=common.seed, validation=0.05, test=0.05)
    )
    if team.is_main_process:
        common.say(
            f"training a {kind} plugin at {dataset.size} px on {len(split.retain)} "
            f"of {len(dataset)} samples"
        )
    done = train_plugin(
        base,
        base_name,
        dataset,
        split,
        kind,
        out,
        recipe,
        options=drawn,
        seed=common.seed,
        device=device,
        restart=restart,
        start=before,
        sample_every=sample_every,
        half=half,
        show=common.show and team.is_main_process,
    )
    if not team.is_main_process:
        raise SystemExit(0)  # one of them speaks for all
    return _told(done, recipe, out)


def _told(done: Checkpoint, recipe: ControlRecipe, out: Path) -> Outcome:
    cost, metrics = done.record["cost"], done.record["metrics"]
    parameters = sum(parameter.numel() for parameter in done.model.parameters())
    lines = [
        f"saved {out} ({parameters / 1e6:.2f} M parameters, {cost['wall_s']:.0f} s on "
        f"{cost['device']})"
    ]
    lines += [
        f"{name:<11}{row['n']:>6} samples  {recipe.weighting} loss {row['loss']:.4f}"
        for name, row in metrics.items()
    ]
    if without := done.record["condition"]["without"]:
        lines.append(f"left out: {counted(without, 'sample')} without the condition")
    value = {
        "out": str(out),
        "sha256": done.sha256,
        "metrics": metrics,
        "cost": cost,
        "without_condition": without,
        "parameters": parameters,
    }
    return Outcome(value=value, text="\n".join(lines))
