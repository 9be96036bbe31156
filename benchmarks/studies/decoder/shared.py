"""The decoders that are compared, the latents that they read, and the file of the tables.

Shapes: N pictures, c latent channels, h and w of a latent, H and W of a picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unplug.core import Estimate, git_revision, progress, read_json, write_json
from unplug.plugins import QuickDecoder, load_checkpoint
from unplug.sdk.drawing.diffusion import (
    base_digest,
    draw_latents,
    load_base,
    sampling_of,
    shipped_folder,
    to_pixels,
)
from unplug.sdk.drawing.diffusion.latent_cache import cached_array

Pixels = NDArray[np.uint8]
Decoder = Callable[[Tensor], Tensor]
OUT = Path("docs/data/decoder.json")
HELD = "synth:n={n},subjects={n},seed=977"
CPU, AT_ONCE = torch.device("cpu"), 32

quick_option = click.option(
    "--quick",
    type=click.Path(path_type=Path),
    default=lambda: shipped_folder("small") / "decoder",
    help="The decoder.",
)


def keep(part: str, head: Sequence[str], rows: Sequence[Sequence[str]], **facts: Any) -> None:
    """Writes one table, and keeps the others."""
    told = read_json(OUT) if OUT.is_file() else {"tables": []}
    others = [table for table in told["tables"] if table["part"] != part]
    made = {"part": part, "head": list(head), "rows": [list(row) for row in rows], **facts}
    tables = sorted([*others, made], key=lambda table: str(table["part"]))
    command = "python -m benchmarks.studies.decoder files|mark|quality|sizes|speed"
    commit = str(git_revision()).removesuffix("-dirty")
    write_json(OUT, {"command": command, "commit": commit, "tables": tables})
    for row in [head, *rows]:
        print(" | ".join(row))


def said(one: Estimate, digits: int) -> str:
    """An estimate with its interval."""
    low, high = one.ends or (one.value, one.value)
    return f"{one.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


@torch.no_grad()
def decode(decoder: Decoder, latent_Nchw: Tensor) -> Pixels:
    """Pictures (N, H, W, 3) of latents that are not scaled."""
    parts = [to_pixels(decoder(part).float()) for part in latent_Nchw.split(AT_ONCE)]
    return np.concatenate(parts)


def quick_of(folder: Path) -> QuickDecoder:
    """The quick decoder in a folder."""
    found: QuickDecoder = load_checkpoint(folder, expect="quick_decoder").model
    return found


def base_and_its_own() -> tuple[Any, Decoder]:
    """The base that ships, and its autoencoder's decoder."""
    base = load_base("small", device=CPU, decoder="autoencoder")
    return base, lambda z_Bchw: torch.as_tensor(base.vae.decode(z_Bchw).sample)


def drawn(base: Any, prompts: Sequence[str]) -> Tensor:
    """Latents (N, c, h, w), not scaled, that the base draws for prompts; kept in the cache."""
    how = sampling_of("small")
    latents = draw_latents(
        base,
        prompts,
        seeds=list(range(7000, 7000 + len(prompts))),
        size=128,
        steps=how.steps,
        guidance=how.guidance,
        solver=how.solver,
        schedule=how.schedule,
        batch_size=AT_ONCE,
    )

    def blocks() -> Iterable[NDArray[Any]]:
        with progress(total=len(prompts), label="draw", show=True) as bar:
            for latent_Bchw in latents:
                yield (latent_Bchw.float() / float(base.vae.config.scaling_factor)).numpy()
                bar.update(len(latent_Bchw))

    facts = {"kind": "drawn", "base": base_digest(base), "prompts": list(prompts), "how": str(how)}
    shape = (len(prompts), int(base.vae.config.latent_channels), 16, 16)
    return torch.from_numpy(np.array(cached_array(facts, shape, "float32", blocks())))


@torch.no_grad()
def encoded(base: Any, image_NCHW: Tensor) -> Tensor:
    """Latents (N, c, h, w), not scaled, of pictures in [-1, 1]."""
    parts = [base.vae.encode(part).latent_dist.mean for part in image_NCHW.split(AT_ONCE)]
    return torch.cat(parts)
