"""The most remembered people first (RULI), on the models of a finished board, with a fleet that was really trained.

``python -m benchmarks.most_remembered --board DIR --original ORIGINAL --fleet FLEET --out docs/data/critic-remembered.json``;
ORIGINAL and FLEET as in benchmarks/forget_sets.py. A quarter of the forgotten, those of whom models of the fleet that saw them
are surest, meet unseen people in every model of a row. The fleet's models are of no board, and every unlearned model stands
beside a retrained one. Values and limits are means over models; the limits are of a bootstrap over people.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from unplug.core import use_threads, versions, write_json
from unplug.plugins import load_checkpoint
from unplug.sdk.auditing.attack import Signals
from unplug.sdk.auditing.audit_report import Vulnerable
from unplug.sdk.auditing.vulnerable import vulnerable
from unplug.sdk.fleet import References, load_references
from unplug.sdk.studies.leaderboard import Board, Pool
from unplug.sdk.studies.leaderboard.intervals import of_estimates
from unplug.sdk.tasks import task_of

from .exact_designs import span

METHODS = ("salun", "rurk", "msg", "lens", "fcs", "eu-k", "rni", "ct", "finetune", "retrain@exact")
"""The first five of the ranking, the three with the largest F, the simplest one, and retraining as if it were a method."""
SCHEMA = "unplug-most-remembered/1"


def signals(pool: Pool, count: int) -> list[Signals]:
    """What the first models of a row say of the forget set and of all unseen samples."""
    sizes = (len(pool.truths.forget), len(pool.truths.test))
    return list(pool.signals(*(np.arange(size) for size in sizes))[:count])


def row_of(
    name: str, own: list[Signals], oracles: list[Signals] | None, references: References, board: Board
) -> dict[str, Any]:
    """Mean over models of the AUC of the most remembered people, and of the difference from a retrained model each."""
    found: list[Vulnerable] = []
    for number, model in enumerate(own):
        one = vulnerable(model, None if oracles is None else oracles[number], references, board.local.sets, seed=number)
        if not isinstance(one, Vulnerable):
            raise SystemExit(f"{name}: {one.reason}")
        found.append(one)
    gaps = [one.minus_retrained for one in found if one.minus_retrained is not None]
    everybody = board.report.row(name).metrics["loss_auc"]
    return {
        "model": name, "models": len(found), "people": found[0].people, "of": found[0].of, "gap": found[0].gap,
        "auc": asdict(of_estimates([one.auc for one in found], None)),
        "minus_retrained": asdict(of_estimates(gaps, None)) if gaps else None, "loss_auc": asdict(everybody),
    }  # fmt: skip


def remembered_markdown(facts: dict[str, Any]) -> str:
    """A row for every method, the originals and the oracle."""
    lines = [
        "| model | the most remembered | minus a retrained model's | all of the forgotten (loss AUC) |",
        "|---|--:|--:|--:|",
    ]
    for row in facts["rows"]:
        gap = "" if row["minus_retrained"] is None else span(row["minus_retrained"], 2, "+")
        lines.append(f"| {row['model']} | {span(row['auc'], 2)} | {gap} | {row['loss_auc']['value']:.2f} |")
    return "\n".join(lines)


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--original", type=click.Path(path_type=Path), required=True, help="An original of it, as a checkpoint.")
@click.option("--fleet", type=click.Path(path_type=Path), required=True, help="References of that original.")
@click.option("--models", default=16, show_default=True, help="Of each row.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
def main(board: Path, original: Path, fleet: Path, models: int, out: Path) -> None:
    """Judges the rows and writes a table of docs/attacks.md as JSON."""
    use_threads(1)
    opened, checkpoint = Board.open(board), load_checkpoint(original)
    references = load_references(fleet, checkpoint, task_of(checkpoint, device=torch.device("cpu")), opened.local.dataset)
    oracles = signals(opened.oracle.pool, models)
    rows = [row_of("original", signals(opened.before, models), oracles, references, opened)]
    rows += [
        row_of(name, signals(opened.unlearned(opened.report.row(name)), models), oracles, references, opened)
        for name in METHODS
    ]
    rows.append(row_of("retrained", oracles, None, references, opened))
    record = references.record
    facts = {
        "schema": SCHEMA, **opened.facts(), "fleet": {"models": record.models, "folds": record.folds}, "rows": rows,
        "versions": versions(),
    }  # fmt: skip
    write_json(out, facts)
    click.echo(remembered_markdown(facts))


if __name__ == "__main__":
    main()
