"""Which settings suit each method within its budget: a small grid, on data that no published leaderboard is made of.

``python -m benchmarks.tune --board DIR --models 8 --out docs/data/tuning.json``, where DIR is a finished
``unplug leaderboard --protocol challenge --data synth:n=2000,subjects=1000,seed=11 --methods finetune -o DIR``. (The defaults
of this version come from a smaller search by hand on the same data, four models a setting.) Results are kept in DIR/tuning; a
second call does only what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import table, versions, write_json
from unplug.sdk.studies.leaderboard import PROTOCOLS, Entry, entry, measure_pool, unlearned_names, unlearning_jobs

from .board import Board

SHOWN = ("score", "f_ratio", "test_ratio", "retain_ratio", "test_mae_gap", "rmia_auc")


def rates(*values: float, **fixed: float) -> list[dict[str, str]]:
    """Settings that differ in the learning rate."""
    return [{"lr": f"{value:g}", **{name: f"{item:g}" for name, item in fixed.items()}} for value in values]


GRID: dict[str, list[dict[str, str]]] = {
    "finetune": rates(5e-4, 1e-3, 2e-3, 4e-3),
    "cf-k": rates(1e-3, 3e-3, 1e-2),
    "eu-k": rates(1e-3, 3e-3, 1e-2),
    "neggrad": rates(5e-6, 2e-5, 5e-5),
    "neggrad+": rates(5e-4, 1e-3, 2e-3, alpha=0.99) + rates(5e-4, alpha=0.95),
    "scrub": rates(2e-4, 4e-4, 5e-4, 7e-4),
    "scrub+r": rates(2e-4, 3e-4, 4e-4, 5e-4),
    "salun": rates(3e-5, 1e-4, 3e-4),
    "ssd": [{"alpha": value} for value in ("6", "7", "8", "10")],
    "ssd-label-free": [{"alpha": value} for value in ("5", "7", "8", "10")],
    "l1-sparse": rates(1e-3, 3e-3, 5e-3),
    "bad-teacher": rates(1e-4, 2e-4, 3e-4),
    "unsir": [{"impair_lr": value, "lr": value} for value in ("5e-4", "1e-3", "2e-3")],
    "laf": rates(5e-5, 2e-4, 3e-4),
    "iau": rates(5e-3, 1e-2, 1.3e-2),
    "acu": [{}],
    "distil-to-delete": rates(1e-4, 2e-4, 3e-4),
    "blindspot": rates(2e-4, 5e-4, 7e-4),
    "gaussian-amnesiac": rates(5e-4, 1e-3, 3e-3),
    "rurk": rates(5e-4, 1e-3, alpha=0.99) + rates(3e-4, alpha=0.95),
    "fcs": [{}, {"contrast_lr": "3e-4", "flatten_lr": "6e-4"}, {"lr": "1e-3"}],
    "msg": [{"lr": rate, "ratio": ratio} for rate in ("1e-3", "1.5e-3", "3e-3") for ratio in ("0.02", "0.05")],
    "cfw": [{"sigma": sigma, "lr": rate} for sigma in ("0.05", "0.2") for rate in ("1e-3", "3e-3")],
    "prmq": [{"ratio": ratio, "lr": rate} for ratio in ("0.02", "0.05") for rate in ("1e-3", "3e-3")],
    "ct": rates(3e-3, 6e-3),
    "kde": rates(3e-3, 6e-3),
    "rni": rates(1e-3, 3e-3, sigma=0.02) + rates(3e-3, sigma=0.04),
    "lens": [{"lenses": count, "weight": weight} for count in ("1", "2") for weight in ("0.5", "1")],
}


def tune(board: Path, grid: Mapping[str, list[dict[str, str]]], models: int, **fleet: Any) -> dict[str, Any]:
    """Runs what is missing of a grid and scores it against the board's retrained models.

    Args:
        board: folder of a finished leaderboard.
        grid: settings as text, per method.
        models: of each setting.
        fleet: for `run_jobs`.
    """
    opened = Board.open(board)
    protocol, budget = PROTOCOLS.get(opened.report.protocol), {"budget": f"{opened.budget:g}"}
    entries = [entry(protocol, name, budget | settings) for name, rows in grid.items() for settings in rows]
    done = opened.run(unlearning_jobs(entries, opened.seed, opened.originals, models), "tuning", **fleet)

    def row(item: Entry) -> dict[str, Any]:
        pool, refused = opened.pool("tuning", unlearned_names(item, opened.seed, opened.originals, models), done)
        found = {name: asdict(value) for name, value in (measure_pool(pool, opened.oracle)[0] if len(pool) else {}).items()}
        return {"method": item.method, "settings": item.given, "metrics": found, "refused": next(iter(refused.values()), None)}

    rows = [row(item) for item in entries]
    return {"schema": "unplug-tuning/1", **opened.facts(), "models": models, "rows": rows, "versions": versions()}


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    shown = (row["metrics"].get(name) for name in SHOWN)
    settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
    return (row["method"], settings, *("-" if item is None else f"{item['value']:.3f}" for item in shown))


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--methods", help="Comma-separated; all of the grid otherwise.")
@click.option("--models", default=8, show_default=True, help="Unlearned models of each setting.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
@click.option("--workers", type=int, help="Models at once (default: one a core).")
def main(board: Path, methods: str | None, models: int, out: Path, workers: int | None) -> None:
    """Runs the grid, prints it and writes the numbers."""
    chosen = GRID if methods is None else {name: GRID[name] for name in methods.split(",")}
    found = tune(board, chosen, models, backend="processes", workers=workers, show=sys.stderr.isatty())
    write_json(out, found)
    print(table(("method", "settings", *SHOWN), [_cells(row) for row in found["rows"]]))


if __name__ == "__main__":
    main()
