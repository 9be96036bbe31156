"""The pictures of each row, drawn batch by batch into one array on disk and continued after a kill;
the first in a sheet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unplug.core import OutputError, progress
from unplug.sdk.drawing.conditions import load_finished, open_rows
from unplug.sdk.drawing.diffusion import BATCH, generate, image_grid, to_image, to_pixels
from unplug.sdk.learning.training import fingerprint

from .contenders import Contender
from .setup import Setup

Pixels = NDArray[np.uint8]


def base_pictures(setup: Setup) -> Pixels:
    """Pictures (M, S, S, 3) of the bare base."""
    return _pictures(setup, "base", lambda: setup.base, {}, setup.base_sha256)


def control_pictures(setup: Setup, contender: Contender) -> Pixels:
    """Pictures (M, S, S, 3) of the base with a control, from the same prompts and noise."""
    name = f"{contender.name}-seed{contender.training.seed}"
    conditions = [Image.fromarray(one) for one in setup.condition_NHWC]
    extra: dict[str, Any] = {"image": conditions}
    # finished rows put no pipeline together
    return _pictures(
        setup,
        name,
        lambda: pipeline(setup, contender),
        extra,
        f"{setup.base_sha256}/{contender.training.sha256}",
    )


def pipeline(setup: Setup, contender: Contender) -> Any:
    """diffusers' pipeline of the setup's base with a trained control."""
    pipe = contender.control.pipeline(setup.base, contender.network)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _pictures(
    setup: Setup, name: str, make: Callable[[], Any], extra: Mapping[str, list[Any]], weights: str
) -> Pixels:
    size = setup.dataset.size
    path = setup.request.out / "pictures" / f"{name}.npy"
    shape = (len(setup.sources), size, size, 3)
    conditions = hashlib.sha256(setup.condition_NHWC.tobytes()).hexdigest() if extra else ""
    key = fingerprint(
        weights=weights,
        prompts=setup.prompts,
        seeds=setup.picture_seeds,
        **asdict(setup.sampling),
        conditions=conditions,
        device=setup.device.type,
        shape=shape,
        captions=setup.captions,
    )
    if (finished := load_finished(path, key, shape)) is None:
        _draw(setup, path, key, shape, make(), extra, name)
        finished = load_finished(path, key, shape)
    if finished is None:
        raise OutputError(
            str(path), "it changed while it was written", "Let one comparison at a time use --out"
        )
    return finished[0]


def _draw(
    setup: Setup,
    path: Path,
    key: str,
    shape: Sequence[int],
    pipe: Any,
    extra: Mapping[str, list[Any]],
    name: str,
) -> None:
    count = int(shape[0])
    with (
        open_rows(path, key, shape) as rows,
        progress(total=count, done=rows.done, label=f"pictures of {name}", show=setup.show) as bar,
    ):
        for start in range(rows.done, count, BATCH):
            part = slice(start, start + BATCH)
            drawn = generate(
                pipe,
                setup.prompts[part],
                seeds=setup.picture_seeds[part],
                size=int(shape[1]),
                **asdict(setup.sampling),
                progress=bar,
                shared={key: values[part] for key, values in extra.items()},
            )
            pixels_NHWC = np.stack([np.asarray(picture.convert("RGB")) for picture in drawn])
            rows.append(pixels_NHWC, np.ones(len(pixels_NHWC), bool))
        rows.finish(path, {"key": key})


@torch.no_grad()
def through_autoencoder(setup: Setup) -> Pixels:
    """The source pictures encoded and decoded again: the best that anything behind this autoencoder
    can do.
    """
    vae, parts = setup.base.vae, []
    for start in range(0, len(setup.source_NHWC), BATCH):
        image_BCHW = to_image(np.array(setup.source_NHWC[start : start + BATCH]), setup.device).to(
            vae.dtype
        )
        parts.append(to_pixels(vae.decode(vae.encode(image_BCHW).latent_dist.mean).sample.float()))
    return np.concatenate(parts)


COLUMNS = 6
SIDE = 160
"""Pixels of a cell at least; smaller pictures are enlarged."""


def comparison_sheet(setup: Setup, shown: Mapping[str, NDArray[np.uint8]]) -> Image.Image:
    """A row for the conditions and one for each way, the first `COLUMNS` pictures of the
    comparison: none is picked by hand.

    Args:
        setup: its conditions.
        shown: label -> pictures (M, S, S, 3).
    """
    rows = {"condition": setup.condition_NHWC, **shown}
    side = max(SIDE, setup.dataset.size)
    cells = [
        [Image.fromarray(np.asarray(one)) for one in pictures[:COLUMNS]]
        for pictures in rows.values()
    ]
    return image_grid(cells, labels=list(rows), side=side, gap=6, font_size=16)
