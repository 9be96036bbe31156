"""``unplug references``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import seconds

from .base import Common, Outcome, command, computing
from .options import base_option, checkpoint_argument, data_option, opened, option, out_option


@click.command()
@checkpoint_argument
@data_option
@option(
    "--models",
    type=click.IntRange(4, 4096),
    default=64,
    help="How many to train.",
)
@option(
    "--folds",
    type=click.IntRange(2, 64),
    default=4,
    help=(
        "Number of folds of people. Each model leaves out one fold, so everybody is unknown to "
        "models / folds of the models."
    ),
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Models at once on the CPU (default: one a core).",
)
@base_option
@out_option("Folder of the references; a killed run goes on there.")
@computing
@command
def references(
    checkpoint: Path,
    spec: str,
    on_bad: Any,
    models: int,
    folds: int,
    workers: int | None,
    base: str | None,
    out: Path,
    common: Common,
) -> Outcome:
    """Train models of person folds once, so that every later request has models that never saw whom
    it names.

    What they say of every sample is kept, not the models. `unplug audit --fleet DIR` and `unplug
    release --fleet DIR` then train no reference for a request, attack with many of them, and rank a
    single person among models that never saw her.
    """
    from unplug.sdk.evidence.fleet import train_references

    original, task, dataset = opened(checkpoint, spec, on_bad, base, common)
    common.say(f"training {models} reference models of {folds} folds of people ...")
    record = train_references(
        original,
        dataset,
        out,
        models=models,
        folds=folds,
        seed=common.seed,
        base=base,
        task=task,
        on_bad=on_bad,
        device=common.device,
        workers=workers,
        show=common.show,
    )
    never = record.models // record.folds
    lines = [
        f"saved {out}: {record.models} models, {never} of which never saw any one person",
        f"once, for all requests: {seconds(record.cost.wall_s)} of training on "
        f"{record.cost.device}",
        f"Next: unplug audit DIR --data {spec} --forget FILE --fleet {out} -o audit.json",
    ]
    value = {
        "out": str(out),
        "models": record.models,
        "folds": record.folds,
        "never_saw": never,
        "cost": asdict(record.cost),
    }
    return Outcome(value=value, text="\n".join(lines))
