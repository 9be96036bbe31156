"""``python -m benchmarks.depth_control PLUGIN --data SPEC``: do faces that a depth plugin draws stand where the depth says?

The exact depths of drawn faces that it has not seen steer the plugin. MediaPipe's landmarks in each picture are held against
the landmarks that the renderer put into the face that the depth is of: ``nme`` over the outer eye distance, over pictures with
a face; ``found``, the share of pictures with a face; ``nme_8``, the share whose error against MediaPipe's landmarks in the
source picture is under 0.08. Beside it stand the bare base with the same words and noise, the plugin's pictures against the
face of another sample (chance), and the source pictures themselves (the floor of what MediaPipe measures). JSON goes to OUT.
Needs ``UNPLUG_FACE_LANDMARKER``.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unplug.core import InputError, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint, weights_sha256
from unplug.plugins.conditions import EXACT
from unplug.sdk.conditions import landmarks_in_worker
from unplug.sdk.diffusion import BATCH, CONTROLS, ControlRecipe, find_plugin, generate, image_grid
from unplug.sdk.statistics import mean_estimate
from unplug.sdk.studies.control import CompareRequest, Setup, drawn_landmarks, face_errors, prepare

SCHEMA = "unplug-depth-control/1"
NUMBERS = {"nme": "true_nme", "nme_8": "nme_8", "found": "found"}
"""Names in the JSON, and `face_errors`' own."""
SHOWN = 8

Pixels = NDArray[np.uint8]
Values = dict[str, NDArray[np.float64]]


def prepared(checkpoint: Checkpoint, spec: str, pictures: int, steps: int | None, out: Path) -> Setup:
    """The plugin's base, its held-out samples and their exact depths.

    Raises:
        InputError: a plugin that was not trained on the exact depth.
    """
    record = checkpoint.record
    condition = record["condition"]
    if condition["kind"] != "depth" or condition["settings"].get("model") != EXACT:
        why = "it was not trained on the renderer's exact depth"
        raise InputError(str(checkpoint.path), why, "Train one: unplug train plugin --condition depth --data synth:...")
    recipe = ControlRecipe.from_dict(record["recipe"])
    own = checkpoint.path if spec == record["data"]["spec"] else None  # its split; of other faces nothing was learned from
    request = CompareRequest(
        base=str(record["base"]["name"]), spec=spec, condition="depth", options=condition["settings"], out=out,
        controls=("plugin",), plugin=own, recipe=recipe, lrs={"plugin": [recipe.lr]}, seed=int(record["seed"]),
        pictures=pictures, sampling_steps=steps,
    )  # fmt: skip
    return prepare(request, device=torch.device("cpu"), show=True, say=click.echo)


def drawn(setup: Setup, plugin: Any | None) -> Pixels:
    """The pictures of all sources (M, S, S, 3): steered by a plugin, or of the bare base."""
    pipe = setup.base if plugin is None else CONTROLS.get("plugin")().pipeline(setup.base, plugin)
    pipe.set_progress_bar_config(disable=True)
    depths, found = [Image.fromarray(one) for one in setup.condition_NHWC], list[Pixels]()
    for start in range(0, len(depths), BATCH):
        part = slice(start, start + BATCH)
        pictures = generate(
            pipe, setup.prompts[part], seeds=setup.picture_seeds[part], size=setup.dataset.size, **asdict(setup.sampling),
            shared=None if plugin is None else {"image": depths[part]},
        )  # fmt: skip
        found += [np.asarray(picture.convert("RGB")) for picture in pictures]
    return np.stack(found)


def measured(setup: Setup, steered_NHWC: Pixels, bare_NHWC: Pixels) -> dict[str, Values]:
    """Numbers of each picture (M,) by row."""
    truth = drawn_landmarks(setup.dataset, [int(place) for place in setup.dataset.indices(setup.sources.ids)])
    assert truth is not None  # drawn faces alone have an exact depth
    sources, steered, bare = (landmarks_in_worker(pixels, show=True) for pixels in (setup.source_NHWC, steered_NHWC, bare_NHWC))
    return {
        "plugin": face_errors(steered, sources, truth),
        "base": face_errors(bare, sources, truth),
        "another sample's": face_errors([*steered[1:], steered[0]], sources, truth),
        "source": face_errors(sources, sources, truth),
    }


@click.command()
@click.argument("plugin")
@click.option("--data", "spec", required=True, help="Drawn faces: its own, of which the held-out ones are drawn, or others.")
@click.option("--pictures", type=click.IntRange(4), default=200, show_default=True)
@click.option("--steps", type=click.IntRange(1), help="Of sampling; default: what suits the base.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/depth-control.json"), show_default=True)
@click.option("--sheet", type=click.Path(path_type=Path), help="PNG of the first samples: depth, plugin, base, source.")
def main(plugin: str, spec: str, pictures: int, steps: int | None, out: Path, sheet: Path | None) -> None:
    """Draw, measure, print the rows and write the JSON."""
    if not os.environ.get("UNPLUG_FACE_LANDMARKER"):
        raise InputError("UNPLUG_FACE_LANDMARKER", "it is not set", "Set it to MediaPipe's face_landmarker.task")
    checkpoint = load_checkpoint(find_plugin(plugin), expect="plugin")
    setup = prepared(checkpoint, spec, pictures, steps, out.parent)
    people, rows = setup.subjects(setup.sources), list[dict[str, Any]]()
    steered_NHWC, bare_NHWC = drawn(setup, checkpoint.model), drawn(setup, None)
    if sheet is not None:
        shown = (setup.condition_NHWC, steered_NHWC, bare_NHWC, setup.source_NHWC)
        image_grid([[Image.fromarray(one) for one in part[:SHOWN]] for part in shown]).save(sheet, optimize=True)
    for name, values in measured(setup, steered_NHWC, bare_NHWC).items():
        row: dict[str, Any] = {"row": name}
        for number, key in NUMBERS.items():
            has = ~np.isnan(values[key])
            row[number] = asdict(mean_estimate(values[key][has], people[has], 0)) if has.any() else None
        rows.append(row)
        text = (f"{number} {row[number]['value']:.4f}" if row[number] else f"{number} -" for number in NUMBERS)
        click.echo(f"{name:<18}{'  '.join(text)}")
    write_json(out, {
        "schema": SCHEMA, "weights": {"base": setup.base_sha256, plugin: weights_sha256(checkpoint.path)},
        "data": spec, "pictures": pictures, "sampling": asdict(setup.sampling), "rows": rows, "versions": versions(),
    })  # fmt: skip


if __name__ == "__main__":
    main()
