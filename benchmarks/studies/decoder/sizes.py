"""Sizes of quick decoders beside the autoencoder's decoder: the table that the shipped one is chosen by."""

from __future__ import annotations

from pathlib import Path

import click

from unplug.core import temporary_folder
from unplug.sdk.drawing.diffusion import shipped_folder

from .quality import OWN, judged
from .shared import base_and_its_own, keep, quick_of, said
from .speed import exported, raced, told


@click.command()
@click.argument("folders", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--pictures", default=300, help="Prompts, and as many faces.")
def sizes(folders: tuple[Path, ...], pictures: int) -> None:
    """Milliseconds and quality of decoders in FOLDERS, each named by its folder."""
    base, own = base_and_its_own()
    quick = {folder.name: quick_of(folder) for folder in folders}
    made = judged(base, {OWN: own, **{name: one.decode for name, one in quick.items()}}, pictures)
    with temporary_folder("unplug-decoders-") as out:
        paths = {OWN: shipped_folder("small/vae")} | {one.name: one for one in folders}
        files = exported(paths, "litert", out)
        milliseconds = raced(files, "litert", 1)
    rows = []
    for name, one in made.items():
        ms, faster = told(milliseconds[OWN], milliseconds[name])[1:]
        weights = f"{sum(p.numel() for p in quick[name].parameters()):,}" if name in quick else ""
        fast = faster if name in quick else ""
        rows.append(
            [name, weights, ms, fast, said(one.psnr, 1), one.ratio if name in quick else ""]
        )
    head = ["decoder", "parameters", "ms", "times as fast (quartiles)"]
    keep("sizes", [*head, "PSNR of unseen faces, dB", "Fréchet ratio"], rows, pictures=pictures)
