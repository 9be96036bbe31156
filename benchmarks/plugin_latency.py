"""``python -m benchmarks.plugin_latency``: T2I-Adapter full and light beside the conditioning plugin on LiteRT.

All for a Stable Diffusion 1.5 base at 512 x 512, random weights, one file each by the same converter. Each file's outputs are
compared with torch's first: below 60 dB it is not ranked. Then all are timed in turn on the same runtime within every round,
each round from another one on, so that a busy machine or a drifting clock does not favour one; a ratio is taken within a
round. Each model gets about as long a turn: one run to fill the caches, then as many as fit. JSON goes to
out/plugin-latency.json.
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

from unplug.export.child import Array, Reply, call_in_child
from unplug.export.convert import count_work
from unplug.export.metrics import compare
from unplug.export.provenance import versions
from unplug.export.runtime import RUNTIMES
from unplug.export.targets import TARGETS
from unplug.export.targets.base import Source
from unplug.export.worker import Job
from unplug.plugins.files import write_json
from unplug.plugins.iospec import IOSpec
from unplug.sdk.cli.base import table

SCHEMA = "unplug-plugin-latency/1"
NOT_RANKED = "not ranked"
PLUGIN = "plugin"
BUDGETS = {"t2i-adapter full": 20.0, "t2i-adapter light": 4.0}
"""Times as long as the plugin that each must take at least."""
TURN_SECONDS = 0.6
LEAST_DB = 60.0
"""Of each output against torch's in fp32; the ordinary parity gate asks for 100, this one only that the work was done."""
LISTED = ("ai-edge-litert", "litert-torch", "diffusers", "torch")


def build(name: str) -> Any:
    """A network for Stable Diffusion 1.5, in eval mode."""
    import torch
    from diffusers import T2IAdapter
    from torch import nn

    from unplug.plugins import ConditioningPlugin

    torch.manual_seed(0)
    if name == "t2i-adapter full":
        return T2IAdapter(channels=[320, 640, 1280, 1280], adapter_type="full_adapter").eval()
    if name == "t2i-adapter light":
        return T2IAdapter(channels=[320, 640, 1280], num_res_blocks=4, adapter_type="light_adapter").eval()
    plugin = ConditioningPlugin()
    for projection in plugin.projections:  # zeros might be cheaper
        nn.init.normal_(projection.weight, std=0.02)
    return plugin.eval()


def convert(job: Job) -> Reply:
    """The child's side: writes one .tflite file."""
    from unplug.plugins import ConditioningPlugin

    model = build(job.values["name"])
    source = Source(model=model, iospec=ConditioningPlugin().iospec, model_type="plugin")
    wanted = reference(model, source.iospec)
    target = TARGETS.get("litert")
    target.write(target.prepare(source), "fp32", Path(job.values["path"]), {})
    parameters = sum(parameter.numel() for parameter in model.parameters())
    values = {"parameters": parameters, "macs": count_work(source)[0] // 2, "iospec": source.iospec.to_dict()}
    return Reply(values=values, arrays=wanted)


def inputs_of(iospec: IOSpec) -> dict[str, Array]:
    """The same random inputs in every process."""
    generator = np.random.default_rng(0)
    return {item.name: generator.random(item.shape, dtype=np.float32) for item in iospec.inputs}


def reference(model: Any, iospec: IOSpec) -> dict[str, Array]:
    """What torch makes of those inputs, by the name of the output."""
    import torch

    with torch.no_grad():
        found = model(*(torch.from_numpy(value) for value in inputs_of(iospec).values()))
    names = [item.name for item in iospec.outputs]
    named = found if isinstance(found, dict) else dict(zip(names, found, strict=True))
    return {name: named[name].numpy() for name in names}


def parity(wanted: dict[str, Array], found: dict[str, Array]) -> dict[str, float | None]:
    """The worst output's: dB (null where exact) and largest error (null where an output is not finite)."""
    differences = [compare(wanted[name], found[name]) for name in wanted]
    errors = [item.max_abs_error for item in differences]
    decibels = [item.psnr_db if item.psnr_db is not None else 0.0 for item in differences if not item.exact]
    return {
        "psnr_db": min(decibels, default=None),
        "max_abs_error": None if None in errors else max(error for error in errors if error is not None),
    }


def measure(job: Job) -> Reply:
    """The child's side: milliseconds of every run, and what the delegate took; no torch in this process."""
    values = job.values
    iospec = IOSpec.from_dict(values["iospec"])
    runners: dict[str, Any] = {}
    parities: dict[str, dict[str, float | None]] = {}
    for name, path in values["paths"].items():
        runners[name] = RUNTIMES.get("litert").open(Path(path), iospec, threads=values["threads"], delegate="xnnpack")
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
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(turn(runners[name]))
        job.progress(number + 1, rounds, "timing")
    return found


def turn(runner: Any) -> list[float]:
    """Milliseconds of each run of one turn; the first one, which fills the caches, is not among them."""
    runner.invoke()
    found: list[float] = []
    ends = time.perf_counter() + TURN_SECONDS
    while not found or time.perf_counter() < ends:
        started = time.perf_counter()
        runner.invoke()
        found.append((time.perf_counter() - started) * 1e3)
    return found


def ranked(measured: dict[str, Any], name: str) -> bool:
    """Whether the file computed what torch computes."""
    found = measured["parity"][name]
    return found["max_abs_error"] is not None and (found["psnr_db"] is None or found["psnr_db"] >= LEAST_DB)


def summary(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Median and range over the rounds' medians, and of the ratios to the plugin within a round.

    A file that computed something else has no ratio, and without the plugin there is none. No best run: on a busy machine a
    short model slips between the others' time slices, which a long one cannot.
    """
    medians = {name: [statistics.median(turn) for turn in turns] for name, turns in measured["milliseconds"].items()}
    found = {}
    for name, own in medians.items():
        found[name] = {"ms": statistics.median(own), "ms_min": min(own), "ms_max": max(own)}
        if ranked(measured, name) and ranked(measured, PLUGIN):
            ratios = [a / b for a, b in zip(own, medians[PLUGIN], strict=True)]
            found[name] |= {"ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
    return found


def rows(facts: dict[str, Any], measured: dict[str, Any], results: dict[str, dict[str, float]]) -> list[tuple[str, ...]]:
    """The table's rows."""
    found = []
    for name, item in results.items():
        placed = measured["placements"][name]
        decibels = measured["parity"][name]["psnr_db"]
        found.append(
            (
                name,
                f"{facts[name]['parameters'] / 1e6:.2f} M",
                f"{facts[name]['macs'] / 1e9:.2f}",
                f"{item['ms']:.1f}",
                f"{item['ms_min']:.1f}-{item['ms_max']:.1f}",
                f"{item['ratio']:.1f} ({item['ratio_min']:.1f}-{item['ratio_max']:.1f})" if "ratio" in item else NOT_RANKED,
                verdict(name, item),
                "exact" if decibels is None else f"{decibels:.0f} dB",
                f"{placed['nodes_delegated']}/{placed['nodes_total']}",
            )
        )
    return found


def verdict(name: str, item: dict[str, float]) -> str:
    """Whether a budget holds; empty for what has none."""
    if name not in BUDGETS:
        return ""
    said = NOT_RANKED if "ratio" not in item else "holds" if item["ratio"] >= BUDGETS[name] else "MISSED"
    return f"{BUDGETS[name]:g}: {said}"


@click.command()
@click.option("--rounds", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--threads", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/plugin-latency.json"), show_default=True)
def main(rounds: int, threads: int, out: Path) -> None:
    """Converts the three networks, times them side by side, prints a table and writes the raw numbers."""
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])  # for the children, which import this module
    load = os.getloadavg()[0]
    names = (*BUDGETS, PLUGIN)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{index}.tflite") for index, name in enumerate(names)}
        facts: dict[str, Any] = {}
        wanted: dict[str, Array] = {}
        for name in names:
            values = {"name": name, "path": paths[name]}
            made = call_in_child("benchmarks.plugin_latency:convert", values, what=f"{name} to LiteRT")
            facts[name] = made.values
            wanted |= {f"{name}/{output}": array for output, array in made.arrays.items()}
        given = {"paths": paths, "iospec": facts[PLUGIN]["iospec"], "threads": threads, "rounds": rounds}
        measured = call_in_child("benchmarks.plugin_latency:measure", given, wanted, what="timing").values
    results = summary(measured)
    header = ("512 x 512, LiteRT CPU", "params", "GMAC", "ms", "range", "times the plugin", "needs", "parity", "delegated")
    print(f"{threads} threads on {os.cpu_count()} cores, {rounds} rounds, median and range; load before: {load:.1f}")
    print(table(header, rows(facts, measured, results)))
    report = {"schema": SCHEMA, "facts": facts, "results": results, **measured, "threads": threads, "load_before": load}
    write_json(out, report | {"cores": os.cpu_count(), "versions": versions(LISTED)})
    print(f"raw numbers: {out}")


if __name__ == "__main__":
    main()
