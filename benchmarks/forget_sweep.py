"""Settings of the first methods on the demo's own models: what docs/forgetting.md reports.

Run ``unplug demo`` first, then ``python -m benchmarks.forget_sweep unplug-demo docs/data/forget-sweep.json``.
Cost is compute only: this machine may be busy.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unplug.plugins.checkpoint import load_checkpoint
from unplug.plugins.files import write_json
from unplug.sdk.audit.stats import auc
from unplug.sdk.cli.base import table
from unplug.sdk.data import load_dataset, read_forget_file
from unplug.sdk.demo import DEMO_SPEC
from unplug.sdk.forget import build_method
from unplug.sdk.forget.run import apply_method, request_split, retrain_cost
from unplug.sdk.kinds import kind_of
from unplug.sdk.train.evaluate import predict
from unplug.sdk.train.family import AgeFamily
from unplug.sdk.train.run import load_sets, recipe_of
from unplug.sdk.versions import versions

SEEDS = (0, 1, 2)
BUDGETS = (0.05, 0.2)
SETTINGS: tuple[tuple[str, dict[str, str]], ...] = (
    ("finetune", {}),
    ("finetune", {"lr": "0.004"}),
    ("ct", {}),
    ("msg", {}),
    ("msg", {"keep": "0.1"}),
    ("msg", {"ratio": "0.1"}),
    ("msg", {"ratio": "0.3", "keep": "0.1"}),
)


def main(demo: Path, out: Path) -> None:
    """Every setting × budget × seed on one original; prints the means and writes every run."""
    original, retrained = load_checkpoint(demo / "original"), load_checkpoint(demo / "retrained")
    recipe, device = recipe_of(original), torch.device("cpu")
    dataset = load_dataset(DEMO_SPEC, recipe.image_size, show=False)
    split = request_split(original, dataset, read_forget_file(demo / "forget.txt", dataset))
    edges = tuple(original.model.age_edges)
    sets = load_sets(dataset, split, edges, device)
    family = AgeFamily(recipe=recipe, edges=edges)
    cost = retrain_cost(original.model, split, kind_of(original, device=device), sets, retrained)
    cost = replace(cost, cost=replace(cost.cost, wall_s=1e9))  # compute is what is swept; a busy machine must not stop a run

    def measure(model: Any) -> dict[str, float]:
        test, forget = predict(model, sets.test), predict(model, sets.forget)
        return {
            "test_mae": float(test.error_N.mean()),
            "forget_mae": float(forget.error_N.mean()),
            "loss_auc": auc(forget.log_prob_N, test.log_prob_N),
        }

    runs: list[dict[str, Any]] = [
        {"method": role, "settings": {}, "budget": None, "seed": 0, **measure(item.model)}
        for role, item in (("original", original), ("retrained", retrained))
    ]
    for budget in BUDGETS:
        for method, options in SETTINGS:
            for seed in SEEDS:
                model, _ = apply_method(build_method(method, options), original.model, sets, family, cost, budget, seed=seed)
                runs.append({"method": method, "settings": options, "budget": budget, "seed": seed, **measure(model)})
                print(runs[-1], file=sys.stderr)
    write_json(out, {"schema": "unplug-forget-sweep/1", "runs": runs, "versions": versions(), "forget": len(sets.forget)})
    print(table(("method", "settings", "budget", "test MAE", "forget MAE", "loss AUC (range)"), _rows(runs)))


def _rows(runs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str, float | None], list[dict[str, Any]]] = {}
    for run in runs:
        key = (run["method"], " ".join(f"{name}={value}" for name, value in run["settings"].items()), run["budget"])
        groups.setdefault(key, []).append(run)
    rows = []
    for (method, settings, budget), members in groups.items():
        mean = {name: sum(run[name] for run in members) / len(members) for name in ("test_mae", "forget_mae", "loss_auc")}
        span = [run["loss_auc"] for run in members]
        rows.append(
            (
                method,
                settings or "default",
                "" if budget is None else f"{budget:g}",
                f"{mean['test_mae']:.2f}",
                f"{mean['forget_mae']:.2f}",
                f"{mean['loss_auc']:.3f} ({min(span):.3f}-{max(span):.3f})",
            )
        )
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
