"""``python -m benchmarks.photo_control``: does the face of a photograph steer? Drawn faces' landmarks against its own.

Each photograph is framed as `generate --photo` frames it, its condition drawn, and a picture made by one prompt that names no
pose. NME: mean distance of MediaPipe's landmarks in the picture from those in the framed photograph, over its outer eye
distance; a median over photographs with its 95 % bootstrap interval. Beside it the base alone with the same prompt and seeds,
and the plugin's pictures against another photograph. Photographs without a face are counted and left out. JSON goes to OUT.
Needs ``UNPLUG_FACE_LANDMARKER``.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unplug.core import git_revision, installed_versions, write_json
from unplug.plugins import weights_sha256
from unplug.sdk.conditions import conditions_in_worker, landmarks_in_worker
from unplug.sdk.conditions.face_frame import FRAME_LIFT, FRAME_MARGIN, cut_square
from unplug.sdk.data import load_dataset
from unplug.sdk.diffusion import CONTROLS, OURS, base_digest, find_plugin, generate, load_base
from unplug.sdk.diffusion.steered_pictures import load_plugin
from unplug.sdk.studies.control.errors import landmark_errors

SCHEMA = "unplug-photo-control/1"
PROMPT, SIDE = "a portrait of an adult", 128
Pixels = NDArray[np.uint8]


def framed(pixels_NHWC: Pixels) -> Pixels:
    """The squares (M, S, S, 3) around the faces of those photographs in which one is found."""
    squares = []
    for pixels_HWC, points_K2 in zip(pixels_NHWC, landmarks_in_worker(pixels_NHWC), strict=True):
        if points_K2 is None:
            continue
        low_2, high_2 = points_K2.min(axis=0), points_K2.max(axis=0)
        box, (x, y) = float((high_2 - low_2).max()), ((low_2 + high_2) / 2).tolist()
        side = box * (1 + 2 * FRAME_MARGIN)
        square = cut_square(Image.fromarray(pixels_HWC), x - side / 2, y - FRAME_LIFT * box - side / 2, side).image
        squares.append(np.asarray(square.resize((SIDE, SIDE), Image.Resampling.LANCZOS)))
    return np.stack(squares)


def drawn(base: Any, plugin: str | None, squares_NHWC: Pixels) -> tuple[Pixels, NDArray[np.bool_]]:
    """A picture of each photograph, and whether its condition was found; without a plugin, of the bare base."""
    count = len(squares_NHWC)
    pipe, extra, found = base, {}, np.ones(count, bool)
    if plugin is not None:
        network: Any = load_plugin(plugin)
        asked, found = conditions_in_worker(network.config.condition, {}, squares_NHWC, SIDE)
        pipe, extra = CONTROLS.get("plugin")().pipeline(base, network), {"image": [Image.fromarray(one) for one in asked]}
    pictures = generate(pipe, [PROMPT] * count, seeds=list(range(count)), size=SIDE, **asdict(OURS), **extra)
    return np.stack([np.asarray(picture) for picture in pictures]), np.asarray(found, bool)


def median(values_N: NDArray[np.float64]) -> list[float]:
    """The median of what is finite, with its 95 % interval by resampling."""
    kept, rng = values_N[np.isfinite(values_N)], np.random.default_rng(0)
    spread = np.percentile([np.median(rng.choice(kept, len(kept))) for _ in range(2000)], (2.5, 97.5))
    return [float(np.median(kept)), *(float(value) for value in spread)]


@click.command()
@click.option("--data", "spec", required=True, help="Photographs, such as utkface:DIR.")
@click.option("--plugin", "plugins", multiple=True, default=("face_landmark", "canny"), show_default=True)
@click.option("--photos", type=click.IntRange(2), default=200, show_default=True)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
def main(spec: str, plugins: tuple[str, ...], photos: int, out: Path) -> None:
    """Draws beside each photograph, prints a row for the base and each plugin, and writes OUT."""
    dataset = load_dataset(spec, 200)
    rows = np.random.default_rng(0).permutation(len(dataset))[:photos]
    squares = framed(dataset.pixels([int(row) for row in rows]))
    wanted, base = landmarks_in_worker(squares), load_base("small", device=torch.device("cpu"))
    found: dict[str, Any] = {}
    for name in (None, *plugins):
        pictures, asked = drawn(base, name, squares)
        points = landmarks_in_worker(pictures)
        has = asked & np.array([one is not None for one in wanted])
        pairs = [place for place in range(len(squares)) if has[place]]
        own = landmark_errors([points[place] for place in pairs], [wanted[place] for place in pairs])
        other = landmark_errors([points[place] for place in pairs], [wanted[place] for place in [*pairs[1:], pairs[0]]])
        row = {"photos": len(pairs), "faces": float(np.isfinite(own).mean()), "nme": median(own), "another": median(other)}
        found[name or "base"] = row
        click.echo(f"{name or 'base':<14} NME {row['nme'][0]:.3f} ({row['nme'][1]:.3f} to {row['nme'][2]:.3f})  "
                   f"another's {row['another'][0]:.3f}  faces {100 * row['faces']:.0f} %")  # fmt: skip
    weights = {"base": base_digest(base)} | {name: weights_sha256(find_plugin(name)) for name in plugins}
    write_json(out, {
        "schema": SCHEMA, "weights": weights,
        "photos": photos, "with_a_face": len(squares), "prompt": PROMPT, "steps": OURS.steps,
        "guidance": OURS.guidance, "guidance_schedule": OURS.schedule, "solver": OURS.solver, "rows": found,
        "versions": installed_versions(["torch", "diffusers", "mediapipe"]), "git_revision": git_revision(),
    })  # fmt: skip


if __name__ == "__main__":
    main()
