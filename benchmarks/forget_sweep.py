"""Settings of a few methods on originals of the demo, at two budgets, audited: what docs/forgetting.md reports.

Run ``unplug demo --method fcs --fraction 0.1 --seed N --out demo-N`` for some N first, then
``python -m benchmarks.forget_sweep demo-0 demo-1 --out docs/data/forget-sweep.json``.
Cost is compute only: this machine may be busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import torch

from unplug.core import versions, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.auditing import CheckpointPredictor, audit
from unplug.sdk.data import load_dataset, read_forget_file
from unplug.sdk.releasing import DEMO_SPEC
from unplug.sdk.tasks import AgeTask
from unplug.sdk.training import load_sets, recipe_of
from unplug.sdk.unlearning import apply_method, build_method, request_split, retrain_cost

SCHEMA = "unplug-forget-sweep/3"
SEEDS = (0, 1)
BUDGETS = (0.05, 0.1, 0.25)
SETTINGS: tuple[tuple[str, dict[str, str]], ...] = (
    ("finetune", {"lr": "0.004"}),
    ("msg", {}),
    ("msg", {"ratio": "0.15", "keep": "1"}),
    ("fcs", {}),
    ("fcs", {"flatten_lr": "0.005"}),
    ("lens", {"clear": "0", "weight": "3"}),
)
NUMBERS = {"test_mae": 2, "loss_auc": 3, "rmia_auc": 3}
"""Of each run, with the decimals to show."""


def sweep(demo: Path) -> Iterator[dict[str, Any]]:
    """Every setting × budget × seed on one original; numbers of each run, of the original and of the oracle."""
    original, retrained, other = (load_checkpoint(demo / name) for name in ("original", "retrained", "reference-0"))
    recipe, device = recipe_of(original), torch.device("cpu")
    dataset = load_dataset(DEMO_SPEC, recipe.image_size, show=False)
    split = request_split(original, dataset, read_forget_file(demo / "forget.txt", dataset))
    edges = tuple(original.model.age_edges)
    sets = load_sets(dataset, split, edges, device)
    task = AgeTask(recipe=recipe, edges=edges)
    cost = retrain_cost(original.model, split, task, sets, retrained)
    cost = replace(cost, cost=replace(cost.cost, wall_s=1e9))  # compute is what is swept; a busy machine must not stop a run

    oracle, reference = (
        CheckpointPredictor(name="oracle", role="retrained", checkpoint=item, task=task) for item in (retrained, other)
    )

    def measure(model: Any) -> dict[str, float]:
        item = CheckpointPredictor(name="unlearned", role="unlearned", checkpoint=replace(original, model=model), task=task)
        data = {"spec": dataset.spec, "digest": dataset.digest}
        report = audit([item, oracle], sets, split, edges=edges, data=data, references=[reference], show=False)
        found = report.model("unlearned")
        mae = found.utility["test"].mae
        assert mae is not None, "the demo's models are age predictors"
        return {
            "test_mae": mae.value,
            **{f"{name}_auc": found.attacks[name].auc.value for name in ("loss", "rmia")},
            "alarms": float(sum(alarm.model == "unlearned" for alarm in report.alarms)),
        }

    common = {"original": original.sha256, "forget": len(sets.forget)}
    for role, item in (("original", original), ("retrained", retrained)):
        yield {"method": role, "settings": {}, "budget": None, "seed": 0, **common, **measure(item.model)}
    for budget in BUDGETS:
        for method, options in SETTINGS:
            for seed in SEEDS:
                model, _ = apply_method(build_method(method, options), original.model, sets, task, cost, budget, seed=seed)
                yield {"method": method, "settings": options, "budget": budget, "seed": seed, **common, **measure(model)}


@click.command()
@click.argument("demos", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/forget-sweep.json"), show_default=True)
def main(demos: tuple[Path, ...], out: Path) -> None:
    """Sweeps, writes every run, and prints means and ranges minus each original's oracle, and how many runs raised an alarm."""
    runs = []
    for demo in demos:
        for run in sweep(demo):
            runs.append(run)
            click.echo(run, err=True)
    facts = {"schema": SCHEMA, "runs": runs, "versions": versions()}
    write_json(out, facts)
    click.echo(markdown(facts))


def markdown(facts: dict[str, Any]) -> str:
    """The table; a test holds docs/forgetting.md to the JSON."""
    lines = [
        "| method | settings | budget | MAE, unseen, years | loss AUC | RMIA AUC | alarms |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows(facts["runs"]))])


def rows(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """One line a setting and budget: every number minus that of its own oracle."""
    oracle = {run["original"]: run for run in runs if run["method"] == "retrained"}
    groups: dict[tuple[str, str, float | None], list[dict[str, Any]]] = {}
    for run in runs:
        settings = " ".join(f"{name}={value}" for name, value in run["settings"].items())
        groups.setdefault((run["method"], settings, run["budget"]), []).append(run)
    found = []
    for (method, settings, budget), members in groups.items():
        if method == "retrained":
            continue
        cells = []
        for name, digits in NUMBERS.items():
            over = [run[name] - oracle[run["original"]][name] for run in members]
            cells.append(f"{sum(over) / len(over):+.{digits}f} ({min(over):+.{digits}f} to {max(over):+.{digits}f})")
        found.append(
            (
                method,
                settings or ("" if budget is None else "default"),
                "" if budget is None else f"{100 * budget:.0f} %",
                *cells,
                f"{sum(run['alarms'] > 0 for run in members)} of {len(members)}",
            )
        )
    return found


if __name__ == "__main__":
    main()
