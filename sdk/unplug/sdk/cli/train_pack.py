"""``unplug train pack``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from .base import Common, Outcome, command, computing
from .options import FINE, data_option, half_option, known_base, option, out_option, restart_option
from .options_of import ConfiguredCommand, given


@click.command(cls=ConfiguredCommand, config="unplug.sdk.drawing.diffusion:PackRecipe", skip=FINE)
@data_option
@option("--word", required=True, help="Words in prompts that use it, for example 'eye patch'.")
@out_option("Folder to write; an unfinished run there is continued.")
@option(
    "--base",
    "base_name",
    default="small",
    callback=known_base,
    help="small, a diffusers folder, or OWNER/NAME.",
)
@half_option
@restart_option()
@computing
@command
def pack(
    spec: str,
    on_bad: Any,
    word: str,
    out: Path,
    base_name: str,
    half: bool,
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Teach a base something that can be taken away again.

    The pictures of --data all show one thing, style or person. What is learned from them lies in
    --out, a LoRA that `unplug generate --pack` uses where a prompt says --word; the base stays as
    it is. Delete the folder, and it is forgotten exactly. The state is saved every two minutes and
    at Ctrl-C: run the same command again and it goes on.
    """
    from unplug.sdk.drawing.diffusion import PackRecipe, image_size_of, load_base, train_pack
    from unplug.sdk.learning.data import load_dataset

    recipe = PackRecipe(**given(PackRecipe, options))
    base = load_base(base_name, device=common.device)
    dataset = load_dataset(spec, image_size_of(base), on_bad=on_bad, show=common.show)
    record = train_pack(
        base,
        base_name,
        dataset,
        word,
        out,
        recipe,
        seed=common.seed,
        device=common.device,
        half=half,
        restart=restart,
        show=common.show,
    )
    loss = record["loss"]
    folder = shlex.quote(str(out))
    prompt = shlex.quote(f"a portrait of an adult, {record['word']}")
    text = (
        f"saved {out}: loss on its {loss['pictures']} pictures {loss['with']:.4f}, without the pack "
        f"{loss['without']:.4f}\nNext: unplug generate --pack {folder} --prompt {prompt} --out "
        "picture.png"
    )
    return Outcome(value={"out": str(out), "word": record["word"], "loss": loss}, text=text)
