"""``python -m benchmarks.plugin_forgetting``: methods on conditioning plugins that remember their
training pictures.

Few pictures and many passes, so that there is something to forget. Each original has an oracle and
two references of its own; every method runs once on each original. Trainings that are there already
are used again. JSON goes to OUT/plugin-forgetting.json.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import click
import torch

from unplug.core import InputError, table, versions, write_json
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk import audit
from unplug.sdk.drawing.diffusion import ControlRecipe, image_size_of, load_base, train_plugin
from unplug.sdk.evidence.auditing import AuditReport, ModelAudit
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import (
    Dataset,
    load_dataset,
    make_split,
    pick_forget,
    read_forget_file,
)
from unplug.sdk.learning.training import describe_device

SCHEMA = "unplug-plugin-forgetting/1"
METHODS = ("finetune", "msg", "ct", "neggrad+", "l1-sparse", "eu-k", "ssd", "iau")
WHOLE = ("ssd", "iau")
"""They go through a set once and take no batch size."""
ATTACKS = ("loss", "gain", "rmia", "lira")
REFERENCES = 2


class World:
    """One original with what it is compared with, in a folder.

    Args:
        folder: of this original. seed: of its split, its training and its request.
        data: pictures. base: the frozen pipeline, and its name.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        data: Dataset,
        base: tuple[Any, str],
        recipe: ControlRecipe,
        kind: str,
    ) -> None:
        self.folder, self.seed, self.data, self.recipe, self.condition = (
            folder,
            seed,
            data,
            recipe,
            kind,
        )
        self.base, self.base_name = base
        self.device = torch.device("cpu")
        self.request = folder / "forget.txt"

    def original(self, fraction: float) -> Checkpoint:
        """Trained, and a request drawn for it."""
        out = self.folder / "original"
        split = make_split(self.data, seed=self.seed, validation=0.05, test=0.3)
        if not out.is_dir():
            train_plugin(
                self.base,
                self.base_name,
                self.data,
                split,
                self.condition,
                out,
                self.recipe,
                seed=self.seed,
                device=self.device,
                sample_every=0,
            )
        lines = pick_forget(self.data, split, fraction=fraction, seed=self.seed)
        self.request.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return load_checkpoint(out)

    def forgotten(
        self, original: Checkpoint, name: str, method: str, options: dict[str, str], **more: Any
    ) -> Path:
        """One forget step, or its folder from an earlier call."""
        out = self.folder / name
        if not out.is_dir():
            task = task_of(original, device=self.device)
            ids = read_forget_file(self.request, self.data)
            forget(
                original,
                self.data,
                ids,
                method,
                out,
                options=options,
                task=task,
                device=self.device,
                **more,
            )
        return out

    def audited(self, subjects: list[Path], oracle: Path, references: list[Path]) -> AuditReport:
        """All models of this original in one audit."""
        report = audit(
            subjects,
            self.data.spec,
            self.request,
            original=self.folder / "original",
            retrained=oracle,
            references=references,
            attacks=ATTACKS,
            seed=self.seed,
            device=str(self.device),
            show=True,
            say=click.echo,
        )
        report.save(self.folder / "audit.json")
        return report


def row_of(model: ModelAudit) -> dict[str, Any]:
    """What the table shows of one audited model."""
    test, forgotten = model.utility["test"], model.utility["forget"]
    aucs = {name: attack.auc for name, attack in model.attacks.items()}
    return {
        "test_loss": test.loss,
        "forget_loss": forgotten.loss,
        "attacks": {
            name: {"auc": item.value, "low": item.low, "high": item.high}
            for name, item in aucs.items()
        },
    }


def run(world: World, fraction: float, budget: float) -> list[dict[str, Any]]:
    """Every method on one original."""
    original = world.original(fraction)
    # One that never saw the forget set, and more of its kind with other seeds.
    oracle, *references = (
        world.forgotten(
            original, f"retrained-{index}", "retrain", {}, seed=world.seed + 100 * index
        )
        for index in range(1 + REFERENCES)
    )
    subjects, refused = [], {}
    for method in METHODS:
        click.echo(f"original {world.seed}: {method}")
        options = {} if method in WHOLE else {"batch_size": str(world.recipe.batch_size)}
        more = {"budget": budget, "seed": world.seed, "oracle": load_checkpoint(oracle)}
        try:
            subjects.append(world.forgotten(original, method, method, options, **more))
        except (
            InputError
        ) as error:  # SSD, where no weight matters more for the request than its default asks for
            refused[method] = str(error)
    report = world.audited(subjects, oracle, references)
    by_name = {Path(item.name).name: item for item in report.models}
    found = []
    for name in ("original", oracle.name, *(path.name for path in subjects)):
        record = load_checkpoint(world.folder / name).record
        cost = record.get("forget", {}).get("cost", {})
        found.append(
            {
                "model": name,
                "original": world.seed,
                "compute": cost.get("compute_fraction"),
                **row_of(by_name[name]),
            }
        )
    return [
        *found,
        *({"model": name, "original": world.seed, "refused": why} for name, why in refused.items()),
    ]


def rows(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Means over the originals, their range in brackets."""
    table_rows = []
    for name in dict.fromkeys(run["model"] for run in runs):
        own = [run for run in runs if run["model"] == name and "refused" not in run]
        if not own:
            table_rows.append((name, "refused", *[""] * (len(HEADER) - 2)))
            continue
        aucs = [
            _span([run["attacks"][attack]["auc"] for run in own if attack in run["attacks"]])
            for attack in ATTACKS
        ]
        compute = own[0]["compute"]
        share = "" if compute is None else f"{100 * compute:.1f} %"
        losses = (_span([run[key] for run in own], 4) for key in ("test_loss", "forget_loss"))
        table_rows.append((name, share, *losses, *aucs))
    return table_rows


def _span(values: list[float], digits: int = 3) -> str:
    if not values:
        return ""
    mean = f"{statistics.mean(values):.{digits}f}"
    return (
        mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f}-{max(values):.{digits}f})"
    )


HEADER = ("model", "compute", "test loss", "forget loss", *(f"{name} AUC" for name in ATTACKS))


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("out/plugin-forgetting"),
    show_default=True,
)
@click.option("--data", "spec", default="synth:n=320,subjects=320,seed=11", show_default=True)
@click.option("--base", "base_name", default="small", show_default=True)
@click.option("--condition", default="canny", show_default=True)
@click.option("--originals", type=click.IntRange(1), default=3, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=1500, show_default=True)
@click.option("--batch-size", type=click.IntRange(1), default=16, show_default=True)
@click.option(
    "--fraction",
    type=float,
    default=0.1,
    show_default=True,
    help="Of the training pictures, to forget.",
)
@click.option("--budget", type=float, default=0.05, show_default=True)
def main(
    out: Path,
    spec: str,
    base_name: str,
    condition: str,
    originals: int,
    steps: int,
    batch_size: int,
    fraction: float,
    budget: float,
) -> None:
    """Train, forget, audit, print the table and write the JSON."""
    device = torch.device("cpu")
    base = load_base(base_name, device=device)
    data = load_dataset(spec, image_size_of(base))
    recipe = ControlRecipe(steps=steps, batch_size=batch_size)
    runs: list[dict[str, Any]] = []
    for seed in range(originals):
        folder = out / f"original-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        runs += run(
            World(folder, seed, data, (base, base_name), recipe, condition), fraction, budget
        )
    facts = {
        "schema": SCHEMA,
        "data": spec,
        "base": base_name,
        "condition": condition,
        "recipe": recipe.to_dict(),
        "fraction": fraction,
        "budget": budget,
        "device": describe_device(device),
        "versions": versions(),
        "runs": runs,
    }
    write_json(out / "plugin-forgetting.json", facts)
    click.echo(table(HEADER, rows(runs)))


if __name__ == "__main__":
    main()
