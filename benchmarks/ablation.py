"""What each part of `lens` is worth: variants on a finished leaderboard's originals, scored as it scores its methods.

``python -m benchmarks.ablation --board DIR --models 16 --out docs/data/ablation.json``, where DIR is what ``unplug leaderboard
--out DIR`` wrote. Results are kept in DIR/ablation, one file a model; a second call does only what is missing.

Shapes: F forget samples, G groups or classes, U unlearned models, N retrained models, S samples.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click
import torch
from torch import Tensor, nn

from unplug.core import InputError, read_json, table, versions, write_json
from unplug.sdk.auditing import MIN_MODELS
from unplug.sdk.fleet import FleetJob, Result
from unplug.sdk.studies.leaderboard import (
    METRICS,
    RUN_FILE,
    Bench,
    Board,
    Oracle,
    Pool,
    arrays_of,
    measure,
    measure_pool,
    unlearning_seeds,
    weights_sha256,
)
from unplug.sdk.training import Batch, draw_augment
from unplug.sdk.unlearning import ForgetProblem, Lens, apply_method, summary

SCHEMA, NONE = "unplug-ablation/1", "-"


@dataclass(frozen=True, kw_only=True)
class Variant(Lens):
    """`Lens`, with parts taken away; as it stands it is `Lens` to the bit.

    Args:
        aim: what the forget set is to be answered with: as seen through lenses "shared" by the whole set, or through lenses
            of every sample's "own", or the "uniform" answer.
        fixed: batch norm stays as it is; else both kinds of batches update it, as in training.
        retain: the retain term is there; without it the steps are as many.
    """

    aim: Literal["shared", "own", "uniform"] = "shared"
    fixed: bool = True
    retain: bool = True

    def norms(self, model: nn.Module) -> AbstractContextManager[None]:
        """Batch-norm statistics held as they are, or left to move where the variant says so."""
        return super().norms(model) if self.fixed else nullcontext()

    def kept(self, model: nn.Module, problem: ForgetProblem, batch: Batch) -> Tensor:
        """The loss on the retain set, or zero in the variant that does without it."""
        return super().kept(model, problem, batch) if self.retain else torch.zeros((), device=batch.age_B.device)

    def targets(self, model: nn.Module, problem: ForgetProblem) -> Tensor:
        """Logits (F, G) that the forget set is to get."""
        if self.aim != "uniform":
            return super().targets(model, problem)
        return torch.zeros(len(problem.forget), problem.classes, device=problem.forget.device)

    def lens(self, problem: ForgetProblem, changes: int) -> list[Tensor]:
        """The draw (F, 7) of each change."""
        if self.aim == "shared":
            return super().lens(problem, changes)
        return [draw_augment(len(problem.forget), problem.generator) for _ in range(changes)]


VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "full": ({}, "as it is"),
    "own-lenses": ({"aim": "own"}, "lenses of every sample's own instead of one run's"),
    "lenses-2": ({"lenses": 2}, "mean of two lenses"),
    "lenses-4": ({"lenses": 4}, "mean of four lenses"),
    "clear-0": ({"clear": 0.0}, "targets from the lens alone"),
    "clear-0.5": ({"clear": 0.5}, "half of the undistorted picture in the targets"),
    "clear-1": ({"clear": 1.0}, "no lens: the original's own answers"),
    "weight-0": ({"weight": 0.0}, "no forget term: repair alone"),
    "weight-0.5": ({"weight": 0.5}, "forget term times 0.5"),
    "weight-2": ({"weight": 2.0}, "forget term times 2"),
    "uniform": ({"aim": "uniform"}, "uniform answers instead of those through the lens"),
    "norms-updated": ({"fixed": False}, "batch norm updated as in training"),
    "no-retain": ({"retain": False}, "no retain term, as many steps"),
}
"""Settings over the defaults, and what they mean."""

COLUMNS = {
    "f": "F", "f_ratio": "F / F_null", "score": "score", "test_ratio": "TA ratio", "retain_ratio": "RA ratio",
    "rmia_auc": "RMIA AUC", "shift": "phi shift (sd)", "sd_ratio": "sd ratio",
}  # fmt: skip


def unlearn(context: Bench, *, settings: Mapping[str, Any], budget: float, original: int, seed: int) -> Result:
    """A job: one variant on one original, measured as `jobs.unlearn` does it."""
    retrain = context.retrain
    model, cost = apply_method(
        Variant(**settings), context.original(original), context.sets, context.task, retrain, budget, seed=seed
    )
    facts = {
        "settings": dict(settings), "original": original, "seed": seed, "cost": summary(cost, retrain, budget),
        "weights_sha256": weights_sha256(arrays_of(model)),
    }  # fmt: skip
    return Result(tensors=measure(model, context.sets), facts=facts)


def ablate(board: Path, variants: Mapping[str, tuple[dict[str, Any], str]], models: int, **fleet: Any) -> dict[str, Any]:
    """Runs what is missing of the variants and scores them against the leaderboard's retrained models.

    Args:
        board: folder of a finished leaderboard.
        variants: as `VARIANTS`.
        models: of each variant, spread over the originals as the leaderboard's are.
        fleet: for `run_jobs`: backend, workers, show.

    Raises:
        InputError: too few models, or the data is not the leaderboard's any more.
    """
    if models < MIN_MODELS:
        raise InputError(f"--models {models}", "too few for a distribution", f"Use {MIN_MODELS} or more")
    opened = Board.open(board)
    pairs, run = unlearning_seeds(opened.seed, opened.originals, models), read_json(board / RUN_FILE)
    jobs = {name: _jobs(name, settings, opened.budget, pairs, run) for name, (settings, _) in variants.items()}
    done = opened.run([job for own in jobs.values() for job in own], "ablation", **fleet)
    rows = []
    for name, (settings, says) in variants.items():
        names = [(job.name, int(job.arguments["original"])) for job in jobs[name]]
        pool, refused = opened.pool("ablation", names, done)
        rows.append({"name": name, "says": says, "settings": settings, **_row(pool, refused, opened.oracle)})
    return {
        "schema": SCHEMA, **opened.facts(), "models": models, "defaults": asdict(Variant()), "rows": rows,
        "versions": versions(),
    }  # fmt: skip


def _jobs(
    name: str, settings: dict[str, Any], budget: float, pairs: list[tuple[int, int]], run: dict[str, Any]
) -> list[FleetJob]:
    """Names tell every setting, defaults too, and the leaderboard: a changed default makes new results."""
    facts = json.dumps([asdict(Variant(**settings)), budget, run], sort_keys=True)
    key = f"{name}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"
    return [
        FleetJob(
            name=f"{key}-{original}-{own}",
            target="benchmarks.ablation:unlearn",
            arguments={"settings": settings, "budget": budget, "original": original, "seed": own},
        )
        for original, own in pairs
    ]


def _row(pool: Pool, refused: Mapping[str, str], oracle: Oracle) -> dict[str, Any]:
    if not len(pool):
        return {"models": 0, "refused": next(iter(refused.values())), "metrics": {}, "missing": {}}
    found, missing = measure_pool(pool, oracle)
    phi_US, phi_NS = pool.margin("forget"), oracle.pool.margin("forget")
    shift_S = abs(phi_US.mean(axis=0) - phi_NS.mean(axis=0))
    metrics: dict[str, Any] = {name: asdict(item) for name, item in found.items()}
    metrics["shift"] = {"value": float(shift_S.mean() / phi_NS.std(axis=0).mean()), "oracle": 0.0}
    metrics["sd_ratio"] = {"value": float(phi_US.std(axis=0).mean() / phi_NS.std(axis=0).mean()), "oracle": 1.0}
    return {"models": len(pool), "refused": next(iter(refused.values()), None), "metrics": metrics, "missing": missing}


def ablation_cells(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A line a variant, and the retrained models' below."""
    lines = [(row["name"], row["says"], *(_cell(row["metrics"].get(name), name) for name in COLUMNS)) for row in found["rows"]]
    aims = {name: item["oracle"] for row in found["rows"] for name, item in row["metrics"].items()}
    shown = (NONE if aims.get(name) is None else f"{aims[name]:.{_digits(name)}f}" for name in COLUMNS)
    return [*lines, ("retrained", "the oracle", *shown)]


def _cell(item: Mapping[str, Any] | None, name: str) -> str:
    if item is None:
        return NONE
    digits = _digits(name)
    between = f" ({item['low']:.{digits}f} to {item['high']:.{digits}f})" if item.get("low") is not None else ""
    return f"{item['value']:.{digits}f}{between}"


def _digits(name: str) -> int:
    return METRICS[name].digits if name in METRICS else 2


def ablation_markdown(found: Mapping[str, Any]) -> str:
    """The table of variants in ``docs/leaderboard.md``, from the JSON that `main` wrote."""
    head = ("variant", "what it is", *COLUMNS.values())
    lines = [head, ("---", "---", *("--:" for _ in COLUMNS)), *ablation_cells(found)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"\n## What the parts of `lens` are worth\n\n`{found['command']}`: {found['models']} models a variant from "
        f"{found['originals']} originals of the `{found['protocol']}` board, {100 * found['budget']:.3g} % of retraining, "
        f"against {found['retrained']} retrained models. Phi shift: how far the mean confidences of unlearned and retrained "
        "models in a forget sample lie apart, mean over samples, in standard deviations of the retrained ones; sd ratio: "
        f"spread of the unlearned models over theirs. Intervals are 95 %.\n\n{text}\n"
    )


@click.command()
@click.option("--board", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of a finished leaderboard.")
@click.option("--models", default=16, show_default=True, help="Unlearned models of each variant.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON to write.")
@click.option("--backend", default="processes", show_default=True, help="Of the fleet.")
@click.option("--workers", type=int, help="Models at once (default: one a core).")
def main(board: Path, models: int, out: Path, backend: str, workers: int | None) -> None:
    """Runs every variant, prints the table and writes the numbers."""
    found = ablate(board, VARIANTS, models, backend=backend, workers=workers, show=sys.stderr.isatty())
    # Of the board its name alone: where it lies is nobody's business.
    found["command"] = f"python -m benchmarks.ablation --board {board.resolve().name} --models {models} --out {out.name}"
    write_json(out, found)
    print(table(("variant", "what it is", *COLUMNS.values()), ablation_cells(found)))


if __name__ == "__main__":
    main()
