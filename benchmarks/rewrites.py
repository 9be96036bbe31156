"""``python -m benchmarks.rewrites``: choices that make a network mobile-first, each beside what it replaced.

The age predictor ("small", 64 px, random weights) as it ships, and with one choice undone: hard-swish for ReLU6, a group norm
for the batch norm that folds, a mean over two axes for pooling, channels first for channels last. Each becomes a LiteRT file
by the same converter; operators are counted in the file, and all are timed in turn on XNNPACK within every round, so that a
ratio is taken within a round. JSON goes to OUT; docs/export.md shows the table.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import IOSpec, Job, Reply, call_in_child, installed_versions, write_json
from unplug.export import RUNTIMES, TARGETS, TargetSource

from .plugin_latency import in_turn

SCHEMA = "unplug-rewrites/1"
SHIPPED = "as it ships, channels last"
UNDONE = ("hard-swish for ReLU6", "group norm for batch norm", "mean over two axes for pooling", "channels first")
LISTED = ("ai-edge-litert", "litert-torch", "torch")


def build(name: str) -> TargetSource:
    """The age predictor with one choice undone."""
    import torch
    from torch import nn

    from unplug.export import channels_last
    from unplug.plugins import AgePredictor

    torch.manual_seed(0)
    model = AgePredictor(size="small", image_size=64)
    if name == UNDONE[0]:
        exchange(model, nn.ReLU6, lambda _: nn.Hardswish())
    if name == UNDONE[1]:
        exchange(model, nn.BatchNorm2d, lambda norm: nn.GroupNorm(8, norm.num_features))
    if name == UNDONE[2]:
        nn.functional.adaptive_avg_pool2d = lambda x, _: x.mean(dim=(2, 3))
    source = TargetSource(model=model.eval(), iospec=model.iospec, model_type="age")
    return source if name == UNDONE[3] else channels_last(source)


def exchange(model: Any, kind: type, make: Any) -> None:
    """Puts other layers where there are some of a kind."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is kind:
                setattr(parent, name, make(child))


def convert(job: Job) -> Reply:
    """The child's side: one file."""
    source, target = build(job.values["name"]), TARGETS.get("litert")
    path = Path(job.values["path"])
    target.write(target.prepare(source), "fp32", path, {})
    return Reply(values={"iospec": source.iospec.to_dict(), "bytes": path.stat().st_size})


def measure(job: Job) -> Reply:
    """The child's side: operators, what XNNPACK took, and milliseconds; no torch in this process."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    values, runners, operators = job.values, dict[str, Any](), dict[str, dict[str, int]]()
    for name, path in values["paths"].items():
        iospec = IOSpec.from_dict(values["iospecs"][name])
        plain = Interpreter(path, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        operators[name] = dict(Counter(item["op_name"] for item in plain._get_ops_details()))
        runners[name] = RUNTIMES.get("litert").open(Path(path), iospec, threads=values["threads"], delegate="xnnpack")
        generator = np.random.default_rng(0)
        runners[name].feed({item.name: generator.random(item.shape, np.float32) for item in iospec.inputs})
    timed = in_turn(runners, values["rounds"], job)
    rounds = {name: [statistics.median(runs) for runs in turns] for name, turns in timed.items()}
    placements = {name: vars(runner.placement) for name, runner in runners.items()}
    return Reply(values={"milliseconds": rounds, "operators": operators, "placements": placements})


def markdown(facts: dict[str, Any]) -> str:
    """The table; a test holds docs/export.md to the JSON."""
    lines = [
        "| the age predictor | operators | of them transposes | XNNPACK takes | bytes | ms | times as long |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for name, row in facts["rows"].items():
        own, base = row["milliseconds"], facts["rows"][SHIPPED]["milliseconds"]
        ratios = [a / b for a, b in zip(own, base, strict=True)]
        placed, kinds = row["placement"], row["operators"]
        lines.append(
            f"| {name} | {sum(kinds.values())} | {kinds.get('TRANSPOSE', 0)} "
            f"| {placed['nodes_delegated']} of {placed['nodes_total']} in {placed['partitions']} | {row['bytes']:,} "
            f"| {statistics.median(own):.3f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
        )
    return "\n".join(lines)


@click.command()
@click.option("--rounds", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/rewrites.json"), show_default=True)
def main(rounds: int, threads: int, out: Path) -> None:
    """Converts, counts, times in turn, prints the table and writes the JSON."""
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])  # for the children, which import this module
    with tempfile.TemporaryDirectory(prefix="unplug-rewrites-") as folder:
        names = (SHIPPED, *UNDONE)
        paths = {name: f"{folder}/{number}.tflite" for number, name in enumerate(names)}
        made = {
            name: call_in_child("benchmarks.rewrites:convert", {"name": name, "path": paths[name]}, what=name).values
            for name in names
        }
        values = {
            "paths": paths,
            "iospecs": {name: made[name]["iospec"] for name in names},
            "rounds": rounds,
            "threads": threads,
        }
        found = call_in_child("benchmarks.rewrites:measure", values, what="timing").values
    rows = {
        name: {
            "bytes": made[name]["bytes"], "operators": found["operators"][name],
            "milliseconds": found["milliseconds"][name], "placement": found["placements"][name],
        }
        for name in names
    }  # fmt: skip
    facts = {"schema": SCHEMA, "threads": threads, "rounds": rounds, "rows": rows, "versions": installed_versions(LISTED)}
    write_json(out, facts)
    click.echo(markdown(facts))


if __name__ == "__main__":
    main()
