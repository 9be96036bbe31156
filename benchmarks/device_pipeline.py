"""``python -m benchmarks.device_pipeline``: pictures of exported files beside diffusers' own, from
the same weights and noise.

The base that ships is exported with a plugin, once as it is and once with the LoRA `four-steps`
made part of it (or taken from --files and --few). Every round draws one picture with diffusers, one
thread of torch, and one with each set of files in its runtime, one thread, in turn; prompts and
seeds change from round to round, and every other picture follows edges. Pictures are compared
before they are rounded to 8 bits. Seconds are of a picture, tokens to pixels, with everything
loaded; memory is the peak of the process that drew. JSON goes to OUT; docs/results/drawing.md shows
the table.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import (
    Child,
    Job,
    Reply,
    git_revision,
    installed_versions,
    peak_rss_bytes,
    use_threads,
    write_json,
)
from unplug.export import psnr_db
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import Solver, Words, draw, latent, load_pipeline, open_files
from unplug.sdk.drawing.diffusion import OURS

SCHEMA = "unplug-device-pipeline/1"
PROMPTS = (
    "a portrait of a child, smiling, red bob, fair skin, mint dots background",
    "an elderly person, white curly hair, plain background",
    "a portrait of an adult, brown ponytail, glasses, navy stripes background",
    "a teenager",
)
FEW = "four-steps"
"""The LoRA that ships, and the folder of the base that it is part of."""
TIMED = ("litert", "onnx")
"""Core ML's files are evaluated operator by operator here, for numbers alone."""
LISTED = ("ai-edge-litert", "onnxruntime", "torch", "diffusers", "coremltools", "numpy")


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to draw: of the base's files, or of those with `FEW` in them."""

    steps: int
    solver: Solver
    guidance: float = OURS.guidance
    few: bool = False

    @property
    def label(self) -> str:
        """Behind the name of a runtime."""
        return f"{self.steps} steps" + (f" of {FEW}, no guidance" if self.few else "")


WAYS = (
    Way(steps=25, solver="ddim"),
    Way(steps=6, solver="dpm++"),
    Way(steps=4, solver="ddim", guidance=1.0, few=True),
)
"""The second is how the base draws by default, the third how the LoRA does."""


def edges(side: int, seed: int) -> Any:
    """A drawn face's edges, (side, side, 3)."""
    from unplug.plugins.conditions import build_condition
    from unplug.sdk.learning.data import load_dataset

    face_HWC = load_dataset(f"synth:n=4,subjects=4,seed={seed}", side, show=False).pixels(
        [seed % 4]
    )[0]
    with build_condition("canny") as canny:
        return canny(face_HWC)


def draw_with_diffusers(job: Job) -> Reply:
    """The child's side: one picture from given noise, by diffusers' own pipeline with its own
    scheduler.
    """
    import time

    import torch
    from PIL import Image

    from unplug.sdk.drawing.diffusion import (
        CONTROLS,
        find_lora,
        load_base,
        load_loras,
        scheduled_guidance,
    )
    from unplug.sdk.drawing.diffusion.steered_pictures import load_plugin, solve_with

    use_threads(1)
    values = job.values
    if "base" not in job.kept:
        base = load_base("small", device=torch.device("cpu"))
        if values["few"]:
            load_loras(base, [find_lora(FEW)])
        job.kept["base"] = base, CONTROLS.get("plugin")().pipeline(base, load_plugin("canny"))
    base, steered = job.kept["base"]
    steer = (
        {"image": Image.fromarray(np.array(job.arrays["edges"]))} if "edges" in job.arrays else {}
    )
    pipe = steered if steer else base
    pipe.set_progress_bar_config(disable=True)
    solve_with(pipe, values["solver"])
    started = time.perf_counter()
    with torch.no_grad(), scheduled_guidance(pipe, values["guidance"], values["schedule"]):
        z = pipe(
            values["prompt"],
            num_inference_steps=values["steps"],
            guidance_scale=values["guidance"],
            output_type="latent",
            **({"negative_prompt": ""} if values["guidance"] > 1 else {}),
            latents=torch.from_numpy(np.array(job.arrays["noise"])),
            height=values["side"],
            width=values["side"],
            **steer,
        ).images
        decoded = (base.vae.decode(z / base.vae.config.scaling_factor).sample / 2 + 0.5).clamp(0, 1)
    seconds = time.perf_counter() - started
    return Reply(
        values={"seconds": seconds, "peak_bytes": peak_rss_bytes()},
        arrays={"latent": z.numpy(), "decoded": decoded.numpy()},
    )


def one_round(
    number: int, folder: Path, child: Child, targets: list[str], way: Way
) -> dict[str, dict[str, Any]]:
    """One picture of everybody, in turn: seconds, memory, and decibels to diffusers."""
    pipeline = load_pipeline(folder)
    prompt, seed = PROMPTS[number % len(PROMPTS)], number
    condition = edges(pipeline.image_size, number) if number % 2 else None
    arrays = {"noise": latent(seed, pipeline.latent_shape)} | (
        {} if condition is None else {"edges": condition}
    )
    values = {
        "prompt": prompt,
        "side": pipeline.image_size,
        "schedule": pipeline.schedule.guidance,
        **asdict(way),
    }
    theirs = child.call(
        "benchmarks.device_pipeline:draw_with_diffusers", values, arrays, what="diffusers"
    )
    rows: dict[str, dict[str, Any]] = {
        f"diffusers fp32, {way.label}": {**theirs.values, "folder": folder}
    }
    steers = () if condition is None else (Steering(plugin="canny", image=condition),)
    words = Words(prompt=prompt, steps=way.steps, solver=way.solver, guidance=way.guidance)
    for target, precision in (
        (item.target, item.precision) for item in pipeline.unet.files if item.target in targets
    ):
        mine = draw(
            folder, words, seeds=(seed,), steerings=steers, target=target, precision=precision
        )
        rows[f"{target} {precision}, {way.label}"] = {
            "seconds": mine.seconds[0] if target in TIMED else None,
            "peak_bytes": mine.peak_bytes if target in TIMED else None,
            "load_seconds": mine.load_seconds if target in TIMED else None,
            "runtime": mine.runtime,
            "latent_db": psnr_db(theirs.arrays["latent"], mine.latents[0]),
            "picture_db": psnr_db(theirs.arrays["decoded"], mine.decoded[0]),
            "pixels_off": float(
                (np.abs(mine.decoded[0] - theirs.arrays["decoded"]) * 255 > 0.5).mean()
            ),
            "folder": folder,
        }
    return rows


def summary(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Each row's rounds in one line of numbers."""
    rows = dict[str, dict[str, Any]]()
    for name in rounds[0]:
        pictures = [item[name] for item in rounds]
        target, precision = name.split(",")[0].split(" ")
        timed = [item["seconds"] for item in pictures if item["seconds"] is not None]
        rows[name] = {
            "runtime": pictures[0].get("runtime", "torch"),
            "seconds": timed,
            "peak_bytes": max(item["peak_bytes"] for item in pictures) if timed else None,
            "picture_db": [item["picture_db"] for item in pictures]
            if "picture_db" in pictures[0]
            else None,
            "latent_db": [item["latent_db"] for item in pictures]
            if "latent_db" in pictures[0]
            else None,
            "bytes": None,
        }
        if target != "diffusers":
            folder = pictures[0]["folder"]
            files = open_files(load_pipeline(folder), folder, target=target, precision=precision)
            rows[name]["bytes"] = sum(
                item.card.bytes for part, item in files.items() if not part.startswith("plugins.")
            )
    return rows


def exported(targets: str, folder: Path, *more: str) -> Path:
    """The base with its plugin, by the command that anybody has."""
    command = (
        "export",
        "small",
        "canny",
        *more,
        "--to",
        targets,
        "--precision",
        "fp32,fp16",
        "--out",
        str(folder),
    )
    subprocess.run(
        [sys.executable, "-m", "unplug.sdk.cli", *command], check=True, stdout=subprocess.DEVNULL
    )
    return folder


def markdown(facts: dict[str, Any]) -> str:
    """The table; a test holds docs/results/drawing.md to the JSON."""
    lines = [
        "| | dB to diffusers, picture | latent | seconds a picture | peak MB | three networks, MB "
        "|",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, row in facts["rows"].items():
        db = [
            f"{min(row[key]):.1f} to {max(row[key]):.1f}" if row[key] else ""
            for key in ("picture_db", "latent_db")
        ]
        s = row["seconds"]
        took = f"{statistics.median(s):.2f} ({min(s):.2f} to {max(s):.2f})" if s else "evaluated"
        peak = f"{row['peak_bytes'] / 1e6:.0f}" if row["peak_bytes"] else ""
        size = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else ""
        lines.append(f"| {name} | {db[0]} | {db[1]} | {took} | {peak} | {size} |")
    return "\n".join(lines)


@click.command()
@click.option(
    "--files",
    type=click.Path(path_type=Path),
    help="What `unplug export small canny` wrote; default: export now.",
)
@click.option(
    "--few",
    type=click.Path(path_type=Path),
    help="The same with `--lora four-steps`; default: export now.",
)
@click.option("--rounds", type=click.IntRange(1, 100), default=6, show_default=True)
@click.option("--to", "targets", default="litert,onnx,coreml", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/device-pipeline.json"),
    show_default=True,
)
def main(files: Path | None, few: Path | None, rounds: int, targets: str, out: Path) -> None:
    """Exports, draws in turn, compares, prints the table and writes the JSON."""
    # for the children, which import this module
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    with (
        tempfile.TemporaryDirectory(prefix="unplug-device-") as temporary,
        Child() as whole,
        Child() as quick,
    ):
        made = Path(temporary)
        # A child each, whose peak memory is then of one base.
        sides = {False: (files or exported(targets, made / "base"), whole)}
        sides[True] = few or exported(targets, made / "few", "--lora", FEW), quick
        drawn = [
            {
                name: row
                for way in WAYS
                for name, row in one_round(number, *sides[way.few], targets.split(","), way).items()
            }
            for number in range(rounds)
        ]
        rows = summary(drawn)
    facts = {
        "schema": SCHEMA,
        "settings": [asdict(way) for way in WAYS],
        "rounds": rounds,
        "threads": 1,
        "rows": rows,
        "command": "python -m benchmarks.device_pipeline",
        "versions": installed_versions(LISTED),
        "git_revision": git_revision(),
    }
    write_json(out, facts)
    click.echo(markdown(facts))


if __name__ == "__main__":
    main()
