"""``python -m benchmarks.phone_targets``: every kind of model that ships as an ExecuTorch program and a Core AI asset, in fp32.

The plugin and the parts of the base are those that ship; the age predictor is a "small" one, not trained, with the statistics
of noise. Parity is of noise within the inputs' ranges, by each target's own runtime on this machine. The same graphs are
lowered to the delegates of Android's GPUs (Vulkan) and of Core ML, which run on phones alone: what they leave is counted,
nothing is run. JSON goes to OUT; docs/export.md shows the tables.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import torch

from unplug.core import Job, Reply, UnplugError, call_in_child, installed_versions, table, write_json
from unplug.export import TARGETS, TargetSource, coverage, export_checkpoint, measure_parity, random_inputs
from unplug.plugins import AgePredictor, load_checkpoint, save_checkpoint
from unplug.sdk.diffusion import shipped_folder

SCHEMA = "unplug-phone-targets/1"
SAMPLES = 2
SHIPPED = {
    "plugin": ("canny", None), "text_encoder": ("small/text_encoder", None), "guided_unet": ("small/unet", "guided_unet"),
    "decoder": ("small/vae", None),
}  # fmt: skip
"""Model type to the checkpoint that ships, and to the view of it that a phone runs."""
PARTITIONERS = {
    "Vulkan": "executorch.backends.vulkan.partitioner.vulkan_partitioner:VulkanPartitioner",
    "Core ML": "executorch.backends.apple.coreml.partition:CoreMLPartitioner",
}
LISTED = ("executorch", "torchao", "coreai-torch", "coreai-core", "torch", "coremltools")
WORDS = 100  # of a reason


def age_predictor(folder: Path) -> Path:
    """A "small" age predictor at 64 pixels."""
    torch.manual_seed(0)
    model = AgePredictor(size="small", image_size=64).train()
    with torch.no_grad():
        for _ in range(5):
            model(torch.rand(16, 3, 64, 64))
    save_checkpoint(model.eval(), folder, record={}, card="A model of the benchmark.")
    return folder


def checkpoints(folder: Path) -> dict[str, tuple[Path, str | None]]:
    """Model type to its checkpoint and view."""
    return {"age": (age_predictor(folder / "age"), None)} | {
        kind: (shipped_folder(name), view) for kind, (name, view) in SHIPPED.items()
    }


def made_of(checkpoint: Path, view: str | None, target: str, out: Path) -> dict[str, Any]:
    """What a target makes of a checkpoint, or why it does not."""
    try:
        (item,) = export_checkpoint(checkpoint, targets=[target], out=out, view=view)
        report = measure_parity(item, checkpoint, random_inputs(item.card.iospec, SAMPLES, seed=0))
        placed = coverage(item, "xnnpack").placement if target == "executorch" else None
    except UnplugError as error:
        return {"error": str(error)}
    found: dict[str, Any] = {
        "bytes": item.card.bytes, "parameters": item.card.parameters,
        "seconds": round(item.card.prepare_seconds + item.card.seconds, 1), "passed": report.passed,
        "db": {row.output: row.psnr_db for row in report.rows},
    }  # fmt: skip
    if placed is not None:
        found |= {"nodes_delegated": placed.nodes_delegated, "nodes_total": placed.nodes_total, "left": Counter(placed.left)}
        found["partitions"] = placed.partitions
    return found


def lower(job: Job) -> Reply:
    """The child's side: a checkpoint lowered to a delegate that runs on phones alone."""
    from unplug.export.pte import read_calls
    from unplug.export.targets.executorch import lowered

    values = job.values
    model = load_checkpoint(values["checkpoint"], view=values["view"]).model
    source = TargetSource(model=model, iospec=model.iospec, model_type="lowered")
    exported, _ = TARGETS.get("executorch").prepare(source)
    module, _, name = PARTITIONERS[values["delegate"]].partition(":")
    path = job.folder / "lowered.pte"
    path.write_bytes(lowered(exported, source, getattr(import_module(module), name)()).to_executorch().buffer)
    calls = read_calls(path)
    return Reply(values={"bytes": path.stat().st_size, "partitions": len(calls.delegates), "left": Counter(calls.operators)})


def lowered_to(delegate: str, checkpoint: Path, view: str | None) -> dict[str, Any]:
    """What a delegate leaves of a checkpoint, or why it cannot be lowered."""
    asked = {"checkpoint": str(checkpoint), "view": view, "delegate": delegate}
    try:
        return call_in_child("benchmarks.phone_targets:lower", asked, what=f"{checkpoint.name} to {delegate}").values
    except UnplugError as error:
        return {"error": str(error)}


def _left(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {name.removeprefix('aten::')}" for name, count in sorted(row["left"].items())) or "nothing"


def _numbers(row: Mapping[str, Any]) -> tuple[str, str]:
    """Bytes and worst decibels."""
    if "error" in row:
        return "-", "not converted"
    found = [value for value in row["db"].values() if value is not None]
    return f"{row['bytes']:,}", f"{min(found):.1f}" if found else "exact"


def markdown(facts: dict[str, Any]) -> str:
    """Both tables; a test holds docs/export.md to the JSON."""
    lines = [
        "| model | `.pte`: bytes | worst dB | XNNPACK takes | on portable kernels | `.aimodel`: bytes | worst dB |",
        "|---|--:|--:|---|---|--:|--:|",
    ]
    for kind, row in facts["rows"].items():
        one, two = row["executorch"], row["coreai"]
        taken = "-" if "error" in one else f"{one['nodes_delegated']} of {one['nodes_total']} in {one['partitions']}"
        left = "-" if "error" in one else _left(one)
        lines.append(f"| {kind} | {' | '.join(_numbers(one))} | {taken} | {left} | {' | '.join(_numbers(two))} |")
    names = list(PARTITIONERS)
    lines += [
        "",
        f"| model | {' | '.join(f'{name}: pieces | left' for name in names)} |",
        "|---" + "|--:|---" * len(names) + "|",
    ]
    for kind, row in facts["rows"].items():
        cells = [
            "not lowered | -" if "error" in found else f"{found['partitions']} | {_left(found)}"
            for found in (row[name] for name in names)
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.option("--only", help="Comma-separated model types; the other rows of OUT stay, if these versions made them.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/phone-targets.json"), show_default=True)
def main(only: str | None, out: Path) -> None:
    """Exports, compares, lowers, prints the tables and writes the JSON."""
    os.environ["PYTHONPATH"] = os.pathsep.join(  # for the children, which import this module
        filter(None, (str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")))
    )
    facts: dict[str, Any] = {"schema": SCHEMA, "samples": SAMPLES, "rows": {}, "versions": installed_versions(LISTED)}
    if only is not None and out.exists():
        older = json.loads(out.read_text(encoding="utf-8"))
        facts["rows"] = older["rows"] if older["versions"] == facts["versions"] else {}
    rows: dict[str, dict[str, Any]] = facts["rows"]
    with tempfile.TemporaryDirectory(prefix="unplug-phone-targets-") as name:
        folder = Path(name)
        for kind, (checkpoint, view) in checkpoints(folder).items():
            if only is None or kind in only.split(","):
                rows[kind] = {target: made_of(checkpoint, view, target, folder / "out") for target in ("executorch", "coreai")}
                rows[kind] |= {delegate: lowered_to(delegate, checkpoint, view) for delegate in PARTITIONERS}
                errors = [(where, row["error"][:WORDS]) for where, row in rows[kind].items() if "error" in row]
                click.echo(f"{kind}: done" + (f"\n{table(('where', 'why not'), errors)}" if errors else ""))
                write_json(out, facts)  # a kind takes minutes: what is done is kept
    click.echo(markdown(facts))


if __name__ == "__main__":
    main()
