"""``python -m benchmarks.most_remembered --work WORK``: the most remembered people first, with a fleet really trained.

The setting of `benchmarks.critic`, with references of that original (`unplug references`): models of person folds, none of
which is audited. A quarter of the forgotten, those of whom models that saw them are surest, meet unseen people (RULI), in the
original, in what methods left, and in the oracle. JSON goes to docs/data/critic-remembered.json.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import torch

from unplug.core import versions, write_json
from unplug.sdk.auditing import AuditConfig, run_audit
from unplug.sdk.fleet import train_references

from .critic import OUT, RECIPE, SPEC, Bench
from .exact_designs import span

METHODS = {"msg": 0.1, "finetune": 0.1, "lens": 0.1}
MODELS, FOLDS = 16, 4
CPU = torch.device("cpu")


def remembered_markdown(facts: dict[str, Any]) -> str:
    """A row for every model: the most remembered people, the difference from the oracle, and all forgotten people together."""
    lines = ["| model | the most remembered | minus the oracle's | all of the forgotten (`person`) |", "|---|--:|--:|--:|"]
    for row in facts["rows"]:
        gap = "" if row["minus_retrained"] is None else span(row["minus_retrained"], 2, "+")
        lines.append(f"| {row['model']} | {span(row['auc'], 2)} | {gap} | {span(row['person'], 2)} |")
    return "\n".join(lines)


@click.command()
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder of the models; what is there is used.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="JSON to write (default: beside that of benchmarks.critic).")
def main(work: Path, seed: int, out: Path | None) -> None:
    """Trains the models and their references, audits, and writes a table of docs/attacks.md as JSON."""
    torch.set_num_threads(1)
    start = time.monotonic()
    bench = Bench(work, seed, click.echo)
    original = bench.original()
    oracle = bench.forgot(original, "retrained", bench.ids, "retrain", seed=seed + 5)
    unlearned = [
        bench.forgot(original, method, bench.ids, method, budget=budget, oracle=oracle, seed=seed)
        for method, budget in METHODS.items()
    ]
    fleet = work / "fleet"
    train_references(
        original, bench.dataset, fleet, models=MODELS, folds=FOLDS, seed=seed, device=CPU, backend="loop", show=False
    )
    config = AuditConfig(
        subjects=[item.path for item in unlearned], spec=bench.dataset, on_bad="error", forget_file=bench.ids,
        original=original.path, retrained=oracle.path, references=(), train_references=0, attacks=None, seed=seed, work=work,
        fleet=fleet,
    )  # fmt: skip
    report = run_audit(config, CPU, click.echo, False)
    rows = []
    for model in report.models:
        found = model.vulnerable
        if found is None:
            raise SystemExit(f"{model.name}: {report.skipped['vulnerable']}")
        gap = None if found.minus_retrained is None else asdict(found.minus_retrained)
        rows.append(
            {
                "model": model.name, "auc": asdict(found.auc), "minus_retrained": gap, "people": found.people, "of": found.of,
                "gap": found.gap, "person": asdict(model.attacks["person"].auc),
            }
        )  # fmt: skip
    place = OUT.with_name("critic-remembered.json") if out is None else out
    facts = {
        "command": f"python -m benchmarks.most_remembered --work WORK --seed {seed}",
        "setting": {"data": SPEC, "recipe": RECIPE.to_dict(), "budgets": METHODS, "models": MODELS, "folds": FOLDS},
        "rows": rows, "versions": versions(), "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip
    write_json(place, facts)
    click.echo(remembered_markdown(facts))


if __name__ == "__main__":
    main()
