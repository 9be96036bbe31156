"""``python -m benchmarks.kept_heap``: what it brings a training on the CPU that freed memory stays in the process.

Steps of the networks that are trained here, with and without `kept_heap`, in turn within one process: CPU seconds a step, and
the ratio of neighbours with its quartiles over rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import click
import numpy as np
import torch

from unplug.core import git_revision, installed_versions, write_json
from unplug.plugins import AgePredictor
from unplug.sdk.training import describe_device, kept_heap

SCHEMA = "unplug-kept-heap/1"
CPU = torch.device("cpu")
AGES = (("nano", 32), ("nano", 48), ("small", 64))
BATCH, STEPS = 64, 6


def age_step(size: str, pixels: int) -> Callable[[], None]:
    """A step of an age predictor, in float32 as trainings on the CPU compute it."""
    model = AgePredictor(size=size, image_size=pixels).train().to(memory_format=torch.channels_last)
    image_BCHW = torch.rand(BATCH, 3, pixels, pixels).to(memory_format=torch.channels_last)

    def step() -> None:
        loss = torch.stack([value.square().mean() for value in model(image_BCHW).values()]).sum()
        loss.backward()
        model.zero_grad(set_to_none=True)

    return step


def unet_step() -> Callable[[], None]:
    """A step of the small base's UNet, in bfloat16 where the processor multiplies it in hardware."""
    from unplug.sdk.diffusion import load_base, pick_precision, use_fast_attention

    base = load_base("small", device=CPU)
    unet, half = base.unet.train().requires_grad_(True), pick_precision("auto", CPU) == "bf16"
    use_fast_attention(unet, CPU)
    latent_Bchw, step_B = torch.randn(32, 8, 16, 16), torch.randint(0, 1000, (32,))
    text_BLD = torch.randn(32, base.tokenizer.model_max_length, base.text_encoder.config.hidden_size)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16) if half else nullcontext():
            guess_Bchw = unet(latent_Bchw, step_B, text_BLD).sample
        guess_Bchw.float().square().mean().backward()
        unet.zero_grad(set_to_none=True)

    return step


def seconds(step: Callable[[], None]) -> float:
    """CPU seconds a step, behind one that warms up."""
    step()
    started = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - started) / STEPS


def compared(step: Callable[[], None], rounds: int) -> dict[str, Any]:
    """Both ways in turn: medians in milliseconds, and the ratio with its quartiles."""
    usual, kept = [], []
    for _ in range(rounds):
        usual.append(seconds(step))
        with kept_heap(CPU):
            kept.append(seconds(step))
    ratio = np.asarray(kept) / np.asarray(usual)
    return {
        "usual_ms": 1e3 * float(np.median(usual)), "kept_ms": 1e3 * float(np.median(kept)),
        "ratio": [float(value) for value in np.percentile(ratio, (50, 25, 75))],
    }  # fmt: skip


def described(rows: dict[str, Any]) -> str:
    """The table of docs/training.md: milliseconds of a step both ways, and their ratio, network by network."""
    lines = ["| a step of | CPU ms | with kept memory | ratio (quartiles) |", "|---|--:|--:|--:|"]
    cells = "| {} | {:.0f} | {:.0f} | {:.2f} ({:.2f} to {:.2f}) |"
    return "\n".join(lines + [
        cells.format(name, row["usual_ms"], row["kept_ms"], *row["ratio"]) for name, row in sorted(rows.items())
    ])  # fmt: skip


@click.command()
@click.option("--rounds", type=click.IntRange(2, 100), default=6, show_default=True)
@click.option("--out", default="out/kept-heap.json", show_default=True)
def main(rounds: int, out: str) -> None:
    """Times steps of every network with and without kept memory, writes OUT as JSON and prints the table."""
    steps = {f"age {size}, {pixels} px": age_step(size, pixels) for size, pixels in AGES} | {
        "UNet of the small base": unet_step()
    }
    rows = {name: compared(step, rounds) for name, step in steps.items()}
    write_json(out, {
        "schema": SCHEMA, "rounds": rounds, "device": describe_device(CPU), "rows": rows,
        "versions": installed_versions(["torch"]), "git_revision": git_revision(),
    })  # fmt: skip
    click.echo(described(rows))


if __name__ == "__main__":
    main()
