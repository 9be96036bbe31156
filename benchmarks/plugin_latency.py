"""``python -m benchmarks.plugin_latency``: all that ships on LiteRT; T2I-Adapters and a
ControlNet's step beside the plugin.

The steering networks are those for a Stable Diffusion 1.5 base at 512 x 512 with random weights,
one file each by the same converter; what ships has its own weights and size. Each file's outputs
are compared with torch's first: below 60 dB it is not ranked. Then all are timed in turn on the
same runtime within every round, each round from another one on, so that a busy machine or a
drifting clock does not favour one; a ratio is taken within a round. Each model gets about as long a
turn: one run to fill the caches, then as many as fit. A ControlNet runs at every step of a picture,
the others of its group once; it takes minutes to convert and 8 GB (``--no-controlnet`` leaves it
out). JSON goes to out/plugin-latency.json.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import (
    Array,
    IOSpec,
    Job,
    Reply,
    TensorSpec,
    call_in_child,
    installed_versions,
    milliseconds,
    write_json,
)
from unplug.export import RUNTIMES, TARGETS, TargetSource, compare, count_work

SCHEMA = "unplug-plugin-latency/1"
NOT_RANKED = "not ranked"
PLUGIN = "plugin"
CONTROLNET = "controlnet, one step"
BUDGETS = {"t2i-adapter full": 20.0, "t2i-adapter light": 4.0}
"""Times as long as the plugin that each must take at least."""
SHIPPED = ("canny", "face_landmark", "small/unet", "small/vae")
AGES = {"age nano": ("nano", 64), "age small": ("small", 64), "age base": ("base", 64)}
STEERING = (*BUDGETS, CONTROLNET, PLUGIN)
"""For one base: these are compared with the plugin."""
TURN_SECONDS = 0.6
LEAST_DB = 60.0
"""Of each output against torch's in fp32; the ordinary parity gate asks for 100, this one only that
the work was done.
"""
LISTED = ("ai-edge-litert", "litert-torch", "diffusers", "torch")


def build(name: str) -> TargetSource:
    """A network in eval mode and its tensors."""
    import torch
    from diffusers import T2IAdapter
    from torch import nn

    from unplug.plugins import AgePredictor, ConditioningPlugin, load_checkpoint
    from unplug.sdk.drawing.diffusion import shipped_folder

    torch.manual_seed(0)
    if name in SHIPPED:
        loaded = load_checkpoint(shipped_folder(name))
        return TargetSource(
            model=loaded.model, iospec=loaded.model.iospec, model_type=loaded.model_type
        )
    if name in AGES:
        size, side = AGES[name]
        model = AgePredictor(size=size, image_size=side).eval()
        return TargetSource(model=model, iospec=model.iospec, model_type="age")
    if name == CONTROLNET:
        return controlnet()
    plugin = ConditioningPlugin()
    for projection in plugin.projections:  # zeros might be cheaper
        nn.init.normal_(projection.weight, std=0.02)
    networks: dict[str, Any] = {PLUGIN: plugin}
    if name == "t2i-adapter full":
        networks[name] = T2IAdapter(channels=[320, 640, 1280, 1280], adapter_type="full_adapter")
    elif name == "t2i-adapter light":
        networks[name] = T2IAdapter(
            channels=[320, 640, 1280], num_res_blocks=4, adapter_type="light_adapter"
        )
    return TargetSource(model=networks[name].eval(), iospec=plugin.iospec, model_type="plugin")


def controlnet() -> TargetSource:
    """A ControlNet of Stable Diffusion 1.5's shape: latents, a timestep, a prompt and the
    condition, at every step.
    """
    import torch
    from diffusers import ControlNetModel
    from torch import Tensor, nn

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = ControlNetModel(
                block_out_channels=(320, 640, 1280, 1280),
                cross_attention_dim=768,
                attention_head_dim=8,
                down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
            )

        def forward(
            self, sample: Tensor, timestep: Tensor, prompt: Tensor, condition: Tensor
        ) -> tuple[Tensor, ...]:
            down, middle = self.network(sample, timestep, prompt, condition, return_dict=False)
            return (*down, middle)

    shapes = {
        "sample": (1, 4, 64, 64),
        "timestep": (1,),
        "prompt": (1, 77, 768),
        "condition": (1, 3, 512, 512),
    }
    layouts = {1: "N", 3: "NTC", 4: "NCHW"}
    model = Step().eval()
    for layer in (*model.network.controlnet_down_blocks, model.network.controlnet_mid_block):
        nn.init.normal_(layer.weight, std=0.02)  # of zeros nothing could be compared
    with torch.no_grad():
        residuals = model(*(torch.rand(shape) for shape in shapes.values()))
    inputs = tuple(
        TensorSpec(name=name, shape=shape, layout=layouts[len(shape)])
        for name, shape in shapes.items()
    )
    outputs = tuple(
        TensorSpec(name=f"residual_{number:02d}", shape=tuple(item.shape), layout="NCHW")
        for number, item in enumerate(residuals)
    )
    return TargetSource(
        model=model, iospec=IOSpec(inputs=inputs, outputs=outputs), model_type="plugin"
    )


def convert(job: Job) -> Reply:
    """The child's side: writes one .tflite file."""
    source = build(job.values["name"])
    wanted = reference(source.model, source.iospec)
    target = TARGETS.get("litert")
    target.write(target.prepare(source), "fp32", Path(job.values["path"]), {})
    parameters = sum(parameter.numel() for parameter in source.model.parameters())
    values = {
        "parameters": parameters,
        "macs": count_work(source)[0] // 2,
        "iospec": source.iospec.to_dict(),
    }
    return Reply(values=values, arrays=wanted)


def inputs_of(iospec: IOSpec) -> dict[str, Array]:
    """The same random inputs in every process."""
    generator = np.random.default_rng(0)
    return {item.name: generator.random(item.shape, dtype=np.float32) for item in iospec.inputs}


def reference(model: Any, iospec: IOSpec) -> dict[str, Array]:
    """What torch makes of those inputs, by the name of the output."""
    import torch

    with torch.no_grad():
        answer = model(*(torch.from_numpy(value) for value in inputs_of(iospec).values()))
    names = [item.name for item in iospec.outputs]
    named = answer if isinstance(answer, dict) else dict(zip(names, answer, strict=True))
    return {name: named[name].numpy() for name in names}


def parity(wanted: dict[str, Array], found: dict[str, Array]) -> dict[str, float | None]:
    """The worst output's: dB (null where exact) and largest error (null where an output is not
    finite).
    """
    differences = [compare(wanted[name], found[name]) for name in wanted]
    errors = [item.max_abs_error for item in differences]
    decibels = [
        item.psnr_db if item.psnr_db is not None else 0.0 for item in differences if not item.exact
    ]
    return {
        "psnr_db": min(decibels, default=None),
        "max_abs_error": None
        if None in errors
        else max(error for error in errors if error is not None),
    }


def measure(job: Job) -> Reply:
    """The child's side: milliseconds of every run, and what the delegate took; no torch in this
    process.
    """
    values = job.values
    runners: dict[str, Any] = {}
    parities: dict[str, dict[str, float | None]] = {}
    for name, path in values["paths"].items():
        iospec = IOSpec.from_dict(values["iospecs"][name])
        runners[name] = RUNTIMES.get("litert").open(
            Path(path), iospec, threads=values["threads"], delegate="xnnpack"
        )
        runners[name].feed(inputs_of(iospec))
        runners[name].invoke()
        wanted = {item.name: job.arrays[f"{name}/{item.name}"] for item in iospec.outputs}
        parities[name] = parity(wanted, runners[name].read())
    rounds = in_turn(runners, values["rounds"], job)
    placements = {name: vars(runner.placement) for name, runner in runners.items()}
    return Reply(values={"milliseconds": rounds, "placements": placements, "parity": parities})


def in_turn(runners: dict[str, Any], rounds: int, job: Job) -> dict[str, list[list[float]]]:
    """Milliseconds of every run by runner and round; each round begins with another runner."""
    names = list(runners)
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(turn(runners[name]))
        job.progress(number + 1, rounds, "timing")
    return times


def turn(runner: Any) -> list[float]:
    """Milliseconds of each run of one turn; the first one, which fills the caches, is not among
    them.
    """
    runner.invoke()
    times: list[float] = []
    ends = time.perf_counter() + TURN_SECONDS
    while not times or time.perf_counter() < ends:
        started = time.perf_counter()
        runner.invoke()
        times.append((time.perf_counter() - started) * 1e3)
    return times


def ranked(measured: dict[str, Any], name: str) -> bool:
    """Whether the file computed what torch computes."""
    likeness = measured["parity"][name]
    return likeness["max_abs_error"] is not None and (
        likeness["psnr_db"] is None or likeness["psnr_db"] >= LEAST_DB
    )


def summary(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Median and range over the rounds' medians, and of the ratios to the plugin within a round.

    A file that computed something else has no ratio, and without the plugin there is none. No best
    run: on a busy machine a short model slips between the others' time slices, which a long one
    cannot.
    """
    medians = {
        name: [statistics.median(turn) for turn in turns]
        for name, turns in measured["milliseconds"].items()
    }
    rows = {}
    for name, times in medians.items():
        rows[name] = {"ms": statistics.median(times), "ms_min": min(times), "ms_max": max(times)}
        if name in STEERING and ranked(measured, name) and ranked(measured, PLUGIN):
            ratios = [a / b for a, b in zip(times, medians[PLUGIN], strict=True)]
            rows[name] |= {
                "ratio": statistics.median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
            }
    return rows


def by_round(measured: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Runs, median and extremes of each round; of the short models there are thousands of runs."""
    return {
        name: [
            {
                "runs": len(turn),
                "median": statistics.median(turn),
                "min": min(turn),
                "max": max(turn),
            }
            for turn in turns
        ]
        for name, turns in measured["milliseconds"].items()
    }


def markdown(report: dict[str, Any]) -> str:
    """The table of docs/results/speed.md; a test holds it to the JSON."""
    lines = [
        "| LiteRT, CPU | parameters | GMAC | ms (range of rounds) | times the plugin | needs | "
        "parity, dB |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in report["results"].items():
        facts, decibels = report["facts"][name], report["parity"][name]["psnr_db"]
        ratio = (
            f"{row['ratio']:.1f} ({row['ratio_min']:.1f} to {row['ratio_max']:.1f})"
            if "ratio" in row
            else NOT_RANKED
            if name in STEERING
            else ""
        )
        needs = f"≥ {BUDGETS[name]:g}" if name in BUDGETS else ""
        exact = "exact" if decibels is None else f"{decibels:.0f}"
        span = "{} ({} to {})".format(
            *(milliseconds(row[key]) for key in ("ms", "ms_min", "ms_max"))
        )
        size = f"{facts['parameters'] / 1e6:.2f} M | {milliseconds(facts['macs'] / 1e9)}"
        lines.append(f"| {name} | {size} | {span} | {ratio} | {needs} | {exact} |")
    return "\n".join(lines)


@click.command()
@click.option("--rounds", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--threads", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option(
    "--controlnet/--no-controlnet",
    "whole",
    default=True,
    help="A ControlNet of 361 M parameters too.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/plugin-latency.json"),
    show_default=True,
)
def main(rounds: int, threads: int, whole: bool, out: Path) -> None:
    """Converts the networks, times them side by side, prints a table and writes the raw numbers."""
    # for the children, which import this module
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    load = os.getloadavg()[0]
    names = [name for name in (*STEERING, *SHIPPED, *AGES) if whole or name != CONTROLNET]
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{index}.tflite") for index, name in enumerate(names)}
        facts: dict[str, Any] = {}
        wanted: dict[str, Array] = {}
        for name in names:
            values = {"name": name, "path": paths[name]}
            made = call_in_child(
                "benchmarks.plugin_latency:convert", values, what=f"{name} to LiteRT"
            )
            facts[name] = made.values
            wanted |= {f"{name}/{output}": array for output, array in made.arrays.items()}
        given = {
            "paths": paths,
            "iospecs": {name: facts[name]["iospec"] for name in names},
            "threads": threads,
            "rounds": rounds,
        }
        measured = call_in_child(
            "benchmarks.plugin_latency:measure", given, wanted, what="timing"
        ).values
    results = summary(measured)
    report = {
        "schema": SCHEMA,
        "facts": facts,
        "results": results,
        **measured,
        "milliseconds": by_round(measured),
        "threads": threads,
        "load_before": load,
    }
    write_json(out, report | {"cores": os.cpu_count(), "versions": installed_versions(LISTED)})
    print(f"{threads} threads on {os.cpu_count()} cores, {rounds} rounds; load before: {load:.1f}")
    print(f"{markdown(report)}\nraw numbers: {out}")


if __name__ == "__main__":
    main()
