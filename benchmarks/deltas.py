"""``python -m benchmarks.deltas --out docs/data/deltas.json``: bytes to ship after one person was forgotten.

For each model one person is forgotten by each design and method, original and unlearned model are exported alike, and each
new file is measured whole, compressed (zstd), as a zstd patch and as a bsdiff patch from the old file of the same name; each
is unpacked again and compared. Trainings are tiny (drawn faces, an epoch, a few steps): which weights a method moves decides
these bytes, not what they are worth; nothing is said of quality. int8 files are calibrated on the retain set of their own
model, as a release does it. docs/delivery.md shows the table. What the JSON has is not measured again: so a run goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import torch
from safetensors.torch import load_file

from unplug.core import BudgetExceeded, read_json, table, versions, write_json
from unplug.export import export_checkpoint
from unplug.plugins import Checkpoint
from unplug.sdk.bundle import WAYS, apply_delta, make_delta
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.diffusion import ControlRecipe, image_size_of, load_base, train_plugin
from unplug.sdk.tasks import task_of, train_age
from unplug.sdk.training import Recipe, describe_device, predict, to_tensors
from unplug.sdk.unlearning import OutOfFold, forget, train_forgettable

SCHEMA = "unplug-deltas/1"
Rows = list[dict[str, Any]]
CPU = torch.device("cpu")
PERSONAL, TRUNK, PLUGIN = "synth:n=240,subjects=80,seed=1", "synth:n=120,subjects=40,seed=9", "synth:n=60,subjects=60,seed=11"
SIDE, SAMPLES, BUDGET = 48, 16, 0.5
SPARSE = {"ratio": "0.02"}
METHODS: tuple[tuple[str, dict[str, str]], ...] = (
    ("retrain", {}), ("folds", {}), ("msg", {}), ("finetune", {}), ("cf-k", {}), ("ssd", {}), ("salun", SPARSE),
)  # fmt: skip
OF_PLUGIN = ("retrain", "msg", "finetune", "cf-k", "ssd")
PRECISIONS = ("fp32", "fp16", "int8-static")
TARGET = "onnx"
WHOLE = ("ssd",)
"""Methods that take no batch size."""
PASSES_ALONE = patch("unplug.sdk.unlearning.forgetting.seconds_per_sample", lambda *_: 1e6)
"""The budget is one of passes: on a machine that has other work the wall time of a minute's training says nothing."""


def moved(before: Checkpoint, after: Checkpoint) -> float:
    """The share of all numbers of the weights' file that differ."""
    old, new = (
        {k: v for f in sorted(x.path.glob("*model.safetensors")) for k, v in load_file(f).items()} for x in (before, after)
    )
    changed = sum(int((old[name] != new[name]).sum()) for name in new)
    return changed / sum(value.numel() for value in new.values())


def sizes(old: bytes, new: bytes) -> dict[str, Any]:
    """Bytes of a file and of each way to ship it, unpacked again, and seconds to make each."""
    found: dict[str, Any] = {"bytes": len(new)}
    for how in WAYS:
        started = time.perf_counter()
        patch = make_delta(how, old, new)
        found[how] = len(patch)
        found[f"{how}_s"] = round(time.perf_counter() - started, 2)
        if apply_delta(how, old, patch, len(new), how) != new:
            raise ValueError(f"{how} does not give the file back")
    return found


class Files:
    """Exports of checkpoints, each once."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        self.folder, self.dataset = folder, dataset
        self._known: dict[str, dict[str, bytes]] = {}

    def of(self, checkpoint: Checkpoint) -> dict[str, bytes]:
        """Bytes of the file of each precision."""
        if checkpoint.sha256 not in self._known:
            out = self.folder / f"files-{len(self._known)}"
            calibration = real_inputs(checkpoint, self.dataset, SAMPLES, part="retain")
            made = export_checkpoint(
                checkpoint.path, targets=[TARGET], precisions=PRECISIONS, out=out, calibration=calibration
            )  # fmt: skip
            self._known[checkpoint.sha256] = {item.card.precision: item.path.read_bytes() for item in made}
        return self._known[checkpoint.sha256]

    def compare(self, model: str, name: str, before: Checkpoint, after: Checkpoint) -> list[dict[str, Any]]:
        """What it takes to ship one model after the other: a row for the file of each precision."""
        old, new, share = self.of(before), self.of(after), moved(before, after)
        rows = [{"model": model, "way": name, "precision": item, "moved": share, **sizes(old[item], new[item])} for item in new]
        click.echo(table(HEADER, [shown(row) for row in rows]))
        return rows


def person_of(dataset: Dataset, split: Split) -> list[str]:
    """All training pictures of the first person of the retain set."""
    people = {sample.id: sample.person for sample in dataset.samples}
    return [name for name in split.retain if people[name] == people[split.retain[0]]]


def of_age(size: str, folder: Path, known: Collection[str]) -> Iterator[Rows]:
    """The designs and the methods on one age predictor, but for those that are known."""
    dataset, consented = (load_dataset(spec, SIDE, show=False) for spec in (PERSONAL, TRUNK))
    split, recipe, files = make_split(dataset), Recipe(size=size, image_size=SIDE, epochs=1), Files(folder, dataset)
    gone = person_of(dataset, split)
    designs = [name for name in ("closed-form", "shards") if name not in known]
    if designs:
        trunk = train_age(consented, make_split(consented), recipe, folder / "trunk", seed=0, device=CPU, show=False)
    for design in designs:
        before = train_forgettable(
            design, dataset, split, recipe, folder / design, trunk=trunk, trunk_data=consented, settings=None, seed=0,
            device=CPU, restart=False, show=False,
        )  # fmt: skip
        after = forget(before, dataset, gone, None, folder / f"{design}-after", device=CPU, show=False)
        yield files.compare(f"age {size}", design, before, after)
    left = [(method, options) for method, options in METHODS if named(method, options) not in known]
    if not left:
        return
    if ("folds", {}) in left and "retrain" in known:
        left.insert(0, ("retrain", {}))
    original = train_age(dataset, split, recipe, folder / "original", seed=0, device=CPU, show=False)
    outside = None
    for method, options in left:
        more: dict[str, Any] = {} if method == "retrain" else {"budget": BUDGET}
        try:
            after = forget(
                original, dataset, gone, method, folder / method, options=options, device=CPU, show=False,
                outside=outside if method == "folds" else None, **more,
            )  # fmt: skip
        except BudgetExceeded as error:
            yield [{"model": f"age {size}", "way": named(method, options), "refused": str(error)}]
            continue
        if method == "retrain":  # it never saw the person: what it says of her is an out-of-fold answer
            said = predict(after.model, to_tensors(dataset, gone, after.model.age_edges, CPU))
            outside = OutOfFold(ids=tuple(gone), logits_FG=torch.as_tensor(said.logits_NG), facts={})
        if named(method, options) in known:
            continue
        yield files.compare(f"age {size}", named(method, options), original, after)


def of_plugin(folder: Path, known: Collection[str]) -> Iterator[Rows]:
    """The methods on a conditioning plugin beside the base that ships, but for those that are known."""
    left = [method for method in OF_PLUGIN if method not in known]
    if not left:
        return
    base = load_base("small", device=CPU)
    dataset = load_dataset(PLUGIN, image_size_of(base), show=False)
    split, recipe = make_split(dataset), ControlRecipe(steps=8, batch_size=4)
    original = train_plugin(
        base, "small", dataset, split, "canny", folder / "original", recipe, seed=0, device=CPU, sample_every=0
    )  # fmt: skip
    files, gone, task = Files(folder, dataset), person_of(dataset, split), task_of(original, device=CPU)
    for method in left:
        options = {} if method in WHOLE else {"batch_size": "4"}
        more: dict[str, Any] = {} if method == "retrain" else {"budget": BUDGET}
        try:
            after = forget(
                original, dataset, gone, method, folder / method, options=options if more else {}, task=task, device=CPU,
                show=False, **more,
            )  # fmt: skip
        except BudgetExceeded as error:
            yield [{"model": "plugin", "way": method, "refused": str(error)}]
            continue
        yield files.compare("plugin", method, original, after)


def named(method: str, options: dict[str, str]) -> str:
    """A method with the settings that are not its own."""
    return " ".join([method, *(f"{key}={value}" for key, value in options.items())])


HEADER = ["model", "forgotten by", "weights moved", "file", "whole", "zstd", "zstd patch", "bsdiff patch"]


def shown(row: dict[str, Any]) -> list[str]:
    """A row of the table: bytes in kB (1,000), the smallest way in bold."""
    least = min(row[how] for how in WAYS)
    cells = [f"**{kilobytes(row[how])}**" if row[how] == least else kilobytes(row[how]) for how in ("whole", "zstd", "bsdiff")]
    share = f"{100 * row['moved']:.2g} %" if 0 < row["moved"] < 0.995 else f"{100 * row['moved']:.0f} %"
    return [row["model"], row["way"], share, row["precision"], kilobytes(row["bytes"]), *cells]


def kilobytes(count: int) -> str:
    """Bytes as kB with three digits."""
    return f"{count / 1000:,.0f}" if count >= 10_000 else f"{count / 1000:.1f}"


def markdown(facts: dict[str, Any]) -> str:
    """The table of docs/delivery.md, from the JSON that `main` writes."""
    lines = [f"| {' | '.join(HEADER)} |", "|---|---|---:|---|---:|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(shown(row))} |" for row in facts["rows"])])


@click.command()
@click.option("--models", default="nano,small,base,plugin", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/deltas.json"), show_default=True)
def main(models: str, out: Path) -> None:
    """Trains, forgets, exports and measures; what the JSON has stays, and it is written after every way."""
    kept = list(read_json(out)["rows"]) if out.exists() else []
    for name in models.split(","):
        known = {row["way"] for row in kept if row["model"] == ("plugin" if name == "plugin" else f"age {name}")}
        with tempfile.TemporaryDirectory(prefix="unplug-deltas-") as folder, PASSES_ALONE:
            for rows in of_plugin(Path(folder), known) if name == "plugin" else of_age(name, Path(folder), known):
                kept += rows
                write_json(
                    out,
                    {
                        "schema": SCHEMA, "target": TARGET, "data": {"personal": PERSONAL, "trunk": TRUNK, "plugin": PLUGIN},
                        "budget": BUDGET, "rows": [row for row in kept if "refused" not in row],
                        "refused": {f"{row['model']}, {row['way']}": row["refused"] for row in kept if "refused" in row},
                        "device": describe_device(CPU), "versions": versions(),
                    },
                )  # fmt: skip


if __name__ == "__main__":
    main()
