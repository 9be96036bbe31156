"""The forget set of a finished board as ten requests in a row instead of one.

``python -m benchmarks.requests_in_row --board DIR --methods salun,rurk,msg,lens --out docs/data/leaderboard-requests.json``.
The people of the forget set come in ten requests; every step has the board's budget, starts from the model of the step
before, and sees the retain set of its own day. What comes out is compared with the board's models of one request, from the
same originals. Written after every method; a second call does only the methods that it lacks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from torch import nn

from unplug.core import InputError, read_json, table, use_threads, versions, write_json
from unplug.sdk.fleet import Result
from unplug.sdk.studies.leaderboard import Board, Pool, measure
from unplug.sdk.unlearning import apply_method, build_method

from .tune import score_of

SCHEMA, REQUESTS = "unplug-requests/1", 10


def requests(board: Board, count: int, seed: int) -> list[list[str]]:
    """Whole people of the forget set in `count` requests, drawn from the seed; `InputError` where there are fewer people."""
    forget = board.local.sets.forget
    people = np.unique(board.truths.forget.subject_N)
    if len(people) < count:
        raise InputError(f"{count} requests", f"the forget set has {len(people)} people", "Use a larger forget set")
    order = np.random.default_rng([seed, 94]).permutation(people)
    asked = [set(part.tolist()) for part in np.array_split(order, count)]
    names = list(zip(forget.ids, board.truths.forget.subject_N.tolist(), strict=True))
    return [[name for name, person in names if person in part] for part in asked]


def in_row(board: Board, method: str, settings: dict[str, str], original: int, asked: list[list[str]]) -> Result:
    """One original, asked again and again; measured on the board's sets when all are gone."""
    local, place = board.local, {name: row for row, name in enumerate(board.local.whole.ids)}
    model: nn.Module = local.original(original)
    gone: set[str] = set()
    for number, part in enumerate(asked):
        gone |= set(part)
        kept = [row for name, row in place.items() if name not in gone]
        sets = replace(local.sets, train=local.whole.subset(kept), forget=local.whole.subset([place[name] for name in part]))
        built, seed = build_method(method, settings), 30_000 + 100 * original + number
        model, _ = apply_method(built, model, sets, local.task, local.retrain, board.budget, seed=seed)
    return Result(tensors=measure(model, local.sets))


def compare(board: Board, method: str, models: int, asked: list[list[str]]) -> dict[str, Any]:
    """One request against many, by the numbers of `score_of`; as many retrained models as unlearned ones."""
    row, seeds = board.report.row(method), board.report.seeds["originals"][:models]
    settings = {name: str(value) for name, value in row.settings.items()}
    found = [in_row(board, method, settings, own, asked) for own in seeds]
    once = board.unlearned(row)
    pools = {
        "one": Pool(models=once.models[:models], clusters=once.clusters[:models], truths=board.truths),
        "row": Pool(models=tuple(found), clusters=tuple(seeds), truths=board.truths),
    }
    oracle = Pool(models=board.oracle.pool.models[:models], clusters=tuple(range(models)), truths=board.truths)
    return {"method": method, **{name: score_of(pool, oracle) for name, pool in pools.items()}}


def requests_markdown(found: dict[str, Any]) -> str:
    """One request beside ten in a row."""
    names = {"score": "score", "f": "F", "retain_ratio": "RA ratio", "test_ratio": "TA ratio", "test_mae_gap": "test MAE"}
    lines = [
        "| method | requests | score | F | RA ratio | TA ratio | test MAE, minus retrained, years |",
        "|---|--:|" + "--:|" * 5,
    ]
    for row in found["rows"]:
        for way, count in (("one", 1), ("row", len(found["requests"]))):
            cells = [f"{row[way][name]:.2f}" if name == "test_mae_gap" else f"{row[way][name]:.3f}" for name in names]
            lines.append(f"| {row['method']} | {count} | {' | '.join(cells)} |")
    return (
        f"""
### Requests in a row

The same forget set as {len(found["requests"])} requests, each of which is forgotten from the model that the one before left,
with the board's budget every time: so ten times as much in all. The first {found["models"]} originals against as many
retrained models, so the numbers stand on another scale than the ranking's; no intervals.

```console
python -m benchmarks.requests_in_row --board DIR --methods salun,rurk,msg,lens --out docs/data/leaderboard-requests.json
```

"""
        + "\n".join(lines)
        + "\n"
    )


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--methods", required=True, help="Comma-separated; of the board.")
@click.option("--models", default=16, show_default=True, help="Originals that are asked.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
def main(board: Path, methods: str, models: int, out: Path) -> None:
    """Answers ten requests in a row by each method, beside the one request of its board, and writes what both score."""
    use_threads(1)
    opened = Board.open(board)
    asked = requests(opened, REQUESTS, seed=0)
    facts = {"schema": SCHEMA, **opened.facts(), "models": models, "requests": [len(part) for part in asked]}
    found: dict[str, Any] = read_json(out) if out.exists() else {**facts, "rows": [], "versions": versions()}
    for method in methods.split(","):
        if not any(row["method"] == method for row in found["rows"]):
            found["rows"].append(compare(opened, method, models, asked))
            write_json(out, found)
    cells = [(row["method"], *(f"{row[way]['score']:.3f}" for way in ("one", "row"))) for row in found["rows"]]
    print(table(("method", "one request", "in a row"), cells))


if __name__ == "__main__":
    main()
