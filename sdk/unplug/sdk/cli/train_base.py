"""``unplug train base``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .base import Common, Outcome, command, computing
from .options import FINE, data_option, half_option, known_base, option, out_option, restart_option
from .options_of import ConfiguredCommand, given


@click.command(cls=ConfiguredCommand, config="unplug.sdk.drawing.diffusion:BaseRecipe", skip=FINE)
@data_option
@out_option("Pipeline folder to write; an unfinished run there is continued.")
@option(
    "--pixels",
    "image_size",
    type=click.IntRange(64, 1024),
    default=128,
    help="Side in pixels, a multiple of 8.",
)
@click.option(
    "--start",
    metavar="BASE",
    callback=known_base,
    help="Go on from this base: small, a folder, a hub id.",
)
@click.option(
    "--word",
    "words",
    multiple=True,
    help="Words that prompts will say: --start gets a token for each it lacks. May be repeated.",
)
@click.option(
    "--vae-steps",
    type=click.IntRange(0),
    help="Optimizer steps of the autoencoder (default 3,500); 0 keeps that of --start.",
)
@option(
    "--sample-every",
    type=click.IntRange(0),
    default=1000,
    help="Training steps between grids of sample pictures.",
)
@half_option
@restart_option()
@computing
@command
def base(
    spec: str,
    on_bad: Any,
    out: Path,
    image_size: int,
    start: str | None,
    words: tuple[str, ...],
    vae_steps: int | None,
    sample_every: int,
    half: bool,
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Train a small text-to-image base, from scratch or from another base.

    Autoencoder, text encoder and UNet, about 15 M parameters, saved as an ordinary
    StableDiffusionPipeline folder. The state is saved every two minutes and at Ctrl-C: run the same
    command again and it goes on. Sampling grids are written to .NAME.training next to --out while
    it trains.
    """
    import torch

    from unplug.sdk.drawing.diffusion import (
        BaseRecipe,
        VAERecipe,
        base_record,
        load_base,
        train_base,
    )
    from unplug.sdk.learning.data import load_dataset, make_split

    vae_recipe = VAERecipe(
        **given(VAERecipe, {"steps": vae_steps, "precision": options["precision"]})
    )
    recipe = BaseRecipe(**given(BaseRecipe, options))
    # first: it may not be there
    before = None if start is None else load_base(start, device=torch.device("cpu"))
    dataset = load_dataset(spec, image_size, on_bad=on_bad, show=common.show)
    split = make_split(dataset, seed=common.seed, validation=0.02, test=0.02)
    common.say(
        f"training a base at {image_size} px on {len(split.train)} of {len(dataset)} samples"
    )
    train_base(
        dataset,
        split,
        out,
        vae_recipe,
        recipe,
        seed=common.seed,
        device=common.device,
        restart=restart,
        start=before,
        start_record={} if start is None else base_record(start),
        words=words,
        sample_every=sample_every,
        half=half,
        show=common.show,
    )
    return _told(base_record(str(out)), out)


def _told(record: Mapping[str, Any], out: Path) -> Outcome:
    cost, metrics, parameters = record["cost"], record["metrics"], record["parameters"]
    unet, vae, text = (
        f"{parameters[part] / 1e6:.1f} M" for part in ("unet", "vae", "text_encoder")
    )
    lines = [
        f"saved {out} ({cost['wall_s']:.0f} s on {cost['device']})",
        f"UNet {unet}, autoencoder {vae}, text encoder {text} parameters",
        f"autoencoder PSNR {metrics['vae_psnr_db']:.1f} dB, velocity loss {metrics['loss']:.4f} on "
        "held-out pictures",
    ]
    value = {"out": str(out), "cost": cost, "metrics": metrics, "parameters": parameters}
    return Outcome(value=value, text="\n".join(lines))
