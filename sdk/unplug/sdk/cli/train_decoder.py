"""``unplug train decoder``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from .base import Common, Outcome, command, computing
from .options import (
    FINE,
    data_option,
    half_option,
    known_base,
    option,
    out_option,
    path_option,
    restart_option,
    shipped_or_given,
)
from .options_of import ConfiguredCommand, given


@click.command(
    cls=ConfiguredCommand,
    config="unplug.sdk.drawing.diffusion:DecoderRecipe",
    skip=(*FINE, "jitter", "crop"),
)
@data_option
@out_option("Folder to write; an unfinished run there is continued.")
@option(
    "--base",
    "base_name",
    default="small",
    callback=known_base,
    help="The base whose latents it reads: small, or a folder.",
)
@click.option(
    "--start",
    metavar="DECODER",
    callback=shipped_or_given,
    help="Go on from this decoder of the same base, in its size: small/decoder, or a folder.",
)
@path_option(
    "--mark",
    help="File of a key, made where there is none: every picture will carry its 48 bits.",
)
@half_option
@restart_option()
@computing
@command
def decoder(
    spec: str,
    on_bad: Any,
    out: Path,
    base_name: str,
    start: Path | None,
    mark: Path | None,
    half: bool,
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Train a decoder that is several times faster than the base's own.

    It stands in for the autoencoder's: latents, UNet, plugins, LoRA weights and seeds stay.

    --mark writes bits into its weights that every picture then carries and `unplug detect` finds;
    a holder of the weights can train them away again. Keep the key to yourself.

    The state is saved every two minutes and at Ctrl-C: run the same command again and it goes on.
    """
    from unplug.sdk.drawing.device import read_key
    from unplug.sdk.drawing.diffusion import (
        DecoderRecipe,
        image_size_of,
        load_base,
        train_decoder,
    )
    from unplug.sdk.learning.data import load_dataset, make_split

    recipe = DecoderRecipe(**given(DecoderRecipe, options))
    if mark is not None and mark.exists():
        read_key(mark)  # refused before torch loads a base
    base = load_base(base_name, device=common.device)
    dataset = load_dataset(spec, image_size_of(base), on_bad=on_bad, show=common.show)
    split = make_split(dataset, seed=common.seed, validation=0.02, test=0.02)
    record = train_decoder(
        base,
        base_name,
        dataset,
        split,
        out,
        recipe,
        seed=common.seed,
        device=common.device,
        start=start,
        mark=mark,
        half=half,
        restart=restart,
        show=common.show,
    )
    psnr, cost = record["metrics"]["psnr_db"], record["cost"]
    lines = [
        f"saved {out} ({cost['wall_s']:.0f} s on {cost['device']})",
        f"{record['parameters'] / 1e6:.2f} M parameters; held-out pictures come back at "
        f"{psnr['decoder']:.1f} dB, from the base's own decoder at {psnr['autoencoder']:.1f} dB",
        f"Next: unplug generate --base {shlex.quote(base_name)} --decoder {shlex.quote(str(out))} "
        "--prompt TEXT --out picture.png",
    ]
    value = {"out": str(out)} | {key: record[key] for key in ("parameters", "metrics", "cost")}
    return Outcome(value=value, text="\n".join(lines))
