"""``python -m benchmarks.plugin_latency``: T2I-Adapter full and light beside the conditioning plugin on LiteRT.

All for a Stable Diffusion 1.5 base at 512 x 512, random weights, one file each by the same converter, then timed in turn on
the same runtime within every round, so that a busy machine or a drifting clock does not favour one; a ratio is taken within
a round. Each model gets about as long a turn: one run to fill the caches, then as many as fit. JSON goes to
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

from unplug.export.child import Reply, call_in_child
from unplug.export.convert import count_flops
from unplug.export.provenance import versions
from unplug.export.runtime import RUNTIMES
from unplug.export.targets import TARGETS
from unplug.export.targets.base import Source
from unplug.export.worker import Job
from unplug.plugins.files import write_json
from unplug.plugins.iospec import IOSpec
from unplug.sdk.cli.base import table

SCHEMA = "unplug-plugin-latency/1"
PLUGIN = "plugin"
BUDGETS = {"t2i-adapter full": 20.0, "t2i-adapter light": 4.0}
"""Times as long as the plugin that each must take at least."""
TURN_SECONDS = 0.6
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
    target = TARGETS.get("litert")
    target.write(target.prepare(source), "fp32", Path(job.values["path"]))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Reply(values={"parameters": parameters, "macs": count_flops(source) // 2, "iospec": source.iospec.to_dict()})


def measure(job: Job) -> Reply:
    """The child's side: milliseconds of every run, and what the delegate took; no torch in this process."""
    values = job.values
    iospec = IOSpec.from_dict(values["iospec"])
    generator = np.random.default_rng(0)
    inputs = {item.name: generator.random(item.shape, dtype=np.float32) for item in iospec.inputs}
    runners = {}
    for name, path in values["paths"].items():
        runners[name] = RUNTIMES.get("litert").open(Path(path), iospec, threads=values["threads"], delegate="xnnpack")
        runners[name].feed(inputs)
        runners[name].invoke()
    rounds: dict[str, list[list[float]]] = {name: [] for name in runners}
    for number in range(values["rounds"]):
        for name, runner in runners.items():
            rounds[name].append(turn(runner))
        job.progress(number + 1, values["rounds"], "timing")
    placements = {name: vars(runner.placement) for name, runner in runners.items()}
    return Reply(values={"milliseconds": rounds, "placements": placements})


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


def summary(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Median and range over the rounds' medians, and of the ratios to the plugin within a round.

    No best run: on a busy machine a short model slips between the others' time slices, which a long one cannot.
    """
    medians = {name: [statistics.median(turn) for turn in turns] for name, turns in measured["milliseconds"].items()}
    found = {}
    for name, own in medians.items():
        ratios = [a / b for a, b in zip(own, medians[PLUGIN], strict=True)]
        found[name] = {
            "ms": statistics.median(own), "ms_min": min(own), "ms_max": max(own),
            "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
        }  # fmt: skip
    return found


def rows(facts: dict[str, Any], measured: dict[str, Any], results: dict[str, dict[str, float]]) -> list[tuple[str, ...]]:
    """The table's rows."""
    found = []
    for name, item in results.items():
        placed = measured["placements"][name]
        budget = BUDGETS.get(name)
        verdict = "" if budget is None else f"{budget:g}: {'holds' if item['ratio'] >= budget else 'MISSED'}"
        found.append(
            (
                name,
                f"{facts[name]['parameters'] / 1e6:.2f} M",
                f"{facts[name]['macs'] / 1e9:.2f}",
                f"{item['ms']:.1f}",
                f"{item['ms_min']:.1f}-{item['ms_max']:.1f}",
                f"{item['ratio']:.1f} ({item['ratio_min']:.1f}-{item['ratio_max']:.1f})",
                verdict,
                f"{placed['nodes_delegated']}/{placed['nodes_total']}",
            )
        )
    return found


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
        facts = {}
        for name in names:
            values = {"name": name, "path": paths[name]}
            facts[name] = call_in_child("benchmarks.plugin_latency:convert", values, what=f"{name} to LiteRT").values
        values = {"paths": paths, "iospec": facts[PLUGIN]["iospec"], "threads": threads, "rounds": rounds}
        measured = call_in_child("benchmarks.plugin_latency:measure", values, what="timing").values
    results = summary(measured)
    header = ("512 x 512, LiteRT CPU", "params", "GMAC", "ms", "range", "times the plugin", "needs", "delegated")
    print(f"{threads} threads on {os.cpu_count()} cores, {rounds} rounds, median and range; load before: {load:.1f}")
    print(table(header, rows(facts, measured, results)))
    report = {"schema": SCHEMA, "facts": facts, "results": results, **measured, "threads": threads, "load_before": load}
    write_json(out, report | {"cores": os.cpu_count(), "versions": versions(LISTED)})
    print(f"raw numbers: {out}")


if __name__ == "__main__":
    main()
