"""The same tuning budget for every method: Optuna (TPE), a declared space, on people that no ranking is made of.

``python -m benchmarks.tune --board DIR --out docs/data/tuning.json``, where DIR is a finished ``unplug leaderboard --protocol
people --data synth:n=800,subjects=400,seed=11 --seed 11 --models 8 --originals 8 --methods finetune --out DIR``. The objective
is what the board ranks by, the challenge score, of the first few originals against all retrained models of that board. All
trials are kept in the JSON, which is written after every method; a second call does only the methods that it lacks.

Shapes: U unlearned models, N retrained models, S forget samples.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from unplug.core import NONE, InputError, UnplugError, read_json, table, use_threads, versions, write_json
from unplug.sdk.auditing import challenge
from unplug.sdk.studies.leaderboard import Board, Pool, Truths, unlearn

from .spaces import PUBLISHED, SPACES, Space

SCHEMA = "unplug-tuning/2"
TRIALS, MODELS, SEED = 30, 4, 0
WINNERS = ("msg", "fcs", "neggrad+", "scrub", "salun")
"""What a board shows once more with the settings of its authors."""


def score_of(pool: Pool, oracle: Pool) -> dict[str, float]:
    """The challenge score and its parts, without intervals: F RA_U / RA_R TA_U / TA_R."""
    f = challenge(pool.margin("forget"), oracle.margin("forget"), replicates=2).forgetting.value
    ratios = {
        f"{part}_ratio": float(pool.per_model(f"{part}_accuracy").mean() / oracle.per_model(f"{part}_accuracy").mean())
        for part in ("retain", "test")
    }
    gap = float(pool.per_model("test_mae").mean() - oracle.per_model("test_mae").mean())
    return {"score": f * ratios["retain_ratio"] * ratios["test_ratio"], "f": f, **ratios, "test_mae_gap": gap}


def tune(board: Board, method: str, space: Space, *, trials: int, models: int) -> dict[str, Any]:
    """All trials of one method; those that the method refuses count, with the worst score.

    Args:
        board: a finished leaderboard.
        method: its name.
        space: what to choose from.
        trials: the budget, the default settings among them.
        models: U, of as many originals.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    truths = Truths.of(board.local.sets)
    seeds = board.report.seeds["originals"][:models]
    rows: list[dict[str, Any]] = []

    def objective(trial: Any) -> float:
        settings = {name: item.draw(trial, name) for name, item in space.items()} if trial.number else {}
        began = time.monotonic()
        try:
            results = [
                unlearn(board.local, method=method, settings=settings, budget=board.budget, original=own, seed=20_000 + own)
                for own in seeds
            ]
            found = score_of(Pool(models=tuple(results), clusters=tuple(seeds), truths=truths), board.oracle.pool)
            refused = None
        except UnplugError as error:
            found, refused = {"score": 0.0}, error.why
        seconds = round(time.monotonic() - began, 2)
        rows.append({"settings": settings, **{key: float(f"{value:.5g}") for key, value in found.items()}, "s": seconds})
        if refused is not None:
            rows[-1]["refused"] = refused
        return found["score"]

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED))
    study.enqueue_trial({}, skip_if_exists=False)
    study.optimize(objective, n_trials=trials)
    best = max(range(len(rows)), key=lambda number: (rows[number]["score"], -number))
    return {"method": method, "space": {key: repr(item) for key, item in space.items()}, "best": best, "trials": rows}


def tuned_settings(tuning: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The best settings of each method, as ``--set`` takes them; empty where the default was best."""
    return {row["method"]: row["trials"][row["best"]]["settings"] for row in tuning["rows"]}


def _start(board: Board, out: Path, trials: int, models: int) -> dict[str, Any]:
    """What is there of this tuning, or an empty one; `InputError` where the file is another one's."""
    facts = {"schema": SCHEMA, **board.facts(), "trials": trials, "models": models, "sampler": f"TPE, seed {SEED}"}
    if not out.exists():
        return {**facts, "rows": [], "versions": versions()}
    there: dict[str, Any] = read_json(out)
    if any(there.get(name) != value for name, value in facts.items() if name != "data"):
        raise InputError(str(out), "it holds another tuning", "Choose another --out")
    return there


def run(board: Board, methods: list[str], out: Path, *, trials: int, models: int, say: Any = print) -> dict[str, Any]:
    """Tunes what is not there yet, and writes after every method."""
    if not 2 <= models <= min(len(board.oracle.pool), board.originals):
        raise InputError(f"models {models}", f"the board has {board.originals} originals", "Use 2 up to that many")
    found = _start(board, out, trials, models)
    for method in methods:
        if any(row["method"] == method for row in found["rows"]):
            continue
        row = tune(board, method, SPACES[method], trials=trials, models=models)
        found["rows"].append(row)
        write_json(out, found)
        best = row["trials"][row["best"]]
        default = row["trials"][0]["score"]
        say(f"{method}: {default:.4f} by default, {best['score']:.4f} with {best['settings'] or 'the default'}")
    return found


def tuning_markdown(tuning: dict[str, Any]) -> str:
    """What every method's budget of trials found."""
    lines = ["| method | trials | refused | seconds | default | best | settings of the best |", "|---|--:|--:|--:|--:|--:|---|"]
    for row in tuning["rows"]:
        trials, best = row["trials"], row["trials"][row["best"]]
        refused = sum("refused" in trial for trial in trials)
        settings = ", ".join(f"{name} {value}" for name, value in best["settings"].items()) or "the default's"
        lines.append(
            f"| {row['method']} | {len(trials)} | {refused} | {sum(trial['s'] for trial in trials):.0f} | "
            f"{trials[0]['score']:.3f} | {best['score']:.3f} | {settings} |"
        )
    trials, models, spec = tuning["trials"], tuning["models"], tuning["data"]["spec"]
    head = f"""
### How the methods were tuned

Every method had the same budget: {trials} trials of Optuna ({tuning["sampler"]}), the first of them its default, in a space
that was declared before (benchmarks/spaces.py), on other people (`{spec}`): {models} originals against {tuning["retrained"]}
retrained models, by the score that ranks. The best of {trials} on so few models is too good to be true, for all methods
alike: the ranking is on people whom nobody had looked at. All trials: [tuning](data/tuning.json).

```console
python -m benchmarks.tune --board DIR --out docs/data/tuning.json --settings docs/data/leaderboard-settings.json
```

"""
    return head + "\n".join(lines) + "\n"


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--methods", help="Comma-separated; all otherwise, in the order of benchmarks/spaces.py.")
@click.option("--trials", default=TRIALS, show_default=True, help="Of each method.")
@click.option("--models", default=MODELS, show_default=True, help="Unlearned models of each trial, of as many originals.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
@click.option("--settings", type=click.Path(path_type=Path), help="Write the best here, for `unplug leaderboard --settings`.")
def main(board: Path, methods: str | None, trials: int, models: int, out: Path, settings: Path | None) -> None:
    """Searches settings for each method by the same number of trials; writes all trials, and the best of each."""
    use_threads(1)
    chosen = list(SPACES) if methods is None else methods.split(",")
    found = run(Board.open(board), chosen, out, trials=trials, models=models, say=lambda text: print(text, file=sys.stderr))
    if settings is not None:
        again = {f"{name}@published": PUBLISHED[name] for name in WINNERS}
        write_json(settings, {**tuned_settings(found), **again, "retrain@exact": {"budget": "2"}})
    lines = []
    for row in found["rows"]:
        default, best = row["trials"][0], row["trials"][row["best"]]
        cells = (
            row["method"],
            f"{default['score']:.3f}",
            f"{best['score']:.3f}",
            f"{np.sum([one['s'] for one in row['trials']]):.0f}",
        )
        lines.append((*cells, " ".join(f"{name}={value}" for name, value in best["settings"].items()) or NONE))
    print(table(("method", "default", "best", "seconds", "settings"), lines))


if __name__ == "__main__":
    main()
