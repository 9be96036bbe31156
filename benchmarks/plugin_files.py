"""``python -m benchmarks.plugin_files PLUGIN --data SPEC``: what rounding a plugin's file costs in control.

Pictures of held-out conditions are drawn with the plugin in torch and with each of its exported files in their own runtimes,
from the same prompts and noise; of every picture's control error (landmark NME, or edge F1) that of the plugin in torch is
subtracted. JSON goes to OUT; docs/export.md shows the table.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from unplug.core import versions, write_json
from unplug.export import TARGETS, Artifact, Session, export_checkpoint
from unplug.plugins import load_checkpoint
from unplug.sdk.conditions import real_inputs
from unplug.sdk.diffusion import BATCH, CONTROLS, ControlRecipe, generate
from unplug.sdk.statistics import mean_estimate
from unplug.sdk.studies.control import CompareRequest, Setup, control_error, prepare

SCHEMA = "unplug-plugin-files/1"
COMPARED = ("litert", "coreml", "onnx")
NUMBER = {"face_landmark": "nme", "canny": "edge_f1"}


def by_file(plugin: Any, artifact: Artifact) -> Any:
    """A plugin whose residuals a file gives, in the file's own runtime."""
    session, twin = Session(artifact), copy.copy(plugin)
    names = [item.name for item in plugin.iospec.outputs]

    def forward(condition_BCHW: Tensor) -> list[Tensor]:
        said = session.run_channels_first({"condition": condition_BCHW.float().numpy()})
        return [torch.from_numpy(said[name]) for name in names]

    twin.forward = forward
    return twin


def drawn(setup: Setup, plugin: Any) -> np.ndarray:
    """The pictures of all sources."""
    pipe = CONTROLS.get("plugin")().pipeline(setup.base, plugin)
    pipe.set_progress_bar_config(disable=True)
    conditions, found = [Image.fromarray(one) for one in setup.condition_NHWC], list[np.ndarray]()
    for start in range(0, len(conditions), BATCH):
        part = slice(start, start + BATCH)
        pictures = generate(
            pipe, setup.prompts[part], seeds=setup.picture_seeds[part], size=setup.dataset.size,
            steps=setup.request.sampling_steps, guidance=setup.request.guidance, shared={"image": conditions[part]},
        )  # fmt: skip
        found += [np.asarray(picture.convert("RGB")) for picture in pictures]
    return np.stack(found)


@click.command()
@click.argument("plugin", type=click.Path(path_type=Path))
@click.option("--data", "spec", required=True, help="Data that it was trained on.")
@click.option("--precisions", default="int8-static", show_default=True)
@click.option("--pictures", type=click.IntRange(4), default=128, show_default=True)
@click.option("--samples", type=click.IntRange(1), default=64, show_default=True, help="For calibration.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/plugin-files.json"), show_default=True)
def main(plugin: Path, spec: str, precisions: str, pictures: int, samples: int, out: Path) -> None:
    """Export, draw, measure, print the table and write the JSON."""
    checkpoint = load_checkpoint(plugin, expect="plugin")
    record = checkpoint.record
    kind = str(record["condition"]["kind"])
    recipe = ControlRecipe.from_dict(record["recipe"])
    request = CompareRequest(
        base=str(record["base"]["name"]), spec=spec, condition=kind, out=out.parent, controls=("plugin",), plugin=plugin,
        recipe=recipe, lrs={"plugin": [recipe.lr]}, seed=int(record["seed"]), pictures=pictures,
    )  # fmt: skip
    setup = prepare(request, device=torch.device("cpu"), show=True, say=click.echo)
    error = control_error(setup)
    calibration = real_inputs(checkpoint, setup.dataset, samples, part="retain", say=click.echo)
    with tempfile.TemporaryDirectory(prefix="unplug-plugin-files-") as folder:
        artifacts: list[Artifact] = []
        for target in COMPARED:
            wanted = [name for name in precisions.split(",") if name in TARGETS.get(target).precisions]
            artifacts += export_checkpoint(
                plugin, targets=[target], precisions=wanted, out=Path(folder), calibration=calibration
            )
        own_M = error(drawn(setup, checkpoint.model))[NUMBER[kind]]
        rows: list[dict[str, Any]] = []
        for item in artifacts:
            click.echo(f"drawing with {item.path.name}")
            found_M = error(drawn(setup, by_file(checkpoint.model, item)))[NUMBER[kind]]
            delta = mean_estimate(found_M - own_M, setup.subjects(setup.sources), 0)
            rows.append({"file": item.path.name, "mean": float(found_M.mean()), "delta": asdict(delta)})
    facts = {
        "schema": SCHEMA, "plugin": plugin.name, "sha256": checkpoint.sha256, "data": spec, "number": NUMBER[kind],
        "pictures": pictures, "calibration": samples, "checkpoint_mean": float(own_M.mean()), "rows": rows,
        "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    click.echo(markdown(facts))


def markdown(facts: dict[str, Any]) -> str:
    """Rows that docs/export.md shows; a test holds the page to the JSON."""
    mean, lines = facts["checkpoint_mean"], list[str]()
    for row in facts["rows"]:
        delta, file = row["delta"], row["file"].removeprefix("plugin.")
        share, low, high = (100 * delta[name] / mean for name in ("value", "low", "high"))
        lines.append(
            f"| {facts['plugin']} | `{file}` | {facts['number'].replace('_', ' ')} {mean:.4f} | {row['mean']:.4f} "
            f"| {share:+.2f} % ({low:+.2f} to {high:+.2f}) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
