"""``python -m benchmarks.studies canaries plant|bound``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import NONE, counted, table
from unplug.sdk.cli.base import Common, Outcome, command, computing, percent
from unplug.sdk.cli.options import data_option, out_option


@click.group()
def canaries() -> None:
    """Plant people with wrong ages, train on half of them, forget those: what is left of them
    bounds epsilon from below.
    """


@canaries.command()
@data_option
@click.option(
    "--people",
    type=click.IntRange(1),
    default=160,
    show_default=True,
    help="How many of the training set to plant.",
)
@click.option(
    "--size",
    type=click.IntRange(8, 1024),
    default=64,
    show_default=True,
    help="Side in pixels to decode to.",
)
@out_option(
    "New folder of the wrong ages and of the coins; keep it to yourself until the bounds are made."
)
@computing
@command
def plant(spec: str, on_bad: Any, people: int, size: int, out: Path, common: Common) -> Outcome:
    """Give people of the data wrong ages, and leave half of them, by a coin each, out of the
    training set.

    Nothing of the data is changed: OUT is data of its own, as canaries:OUT, with a split that the
    coins decided.
    """
    from .planting import plant as run

    done = run(
        spec, out, people=people, size=size, seed=common.seed, on_bad=on_bad, show=common.show
    )
    data = f"--data canaries:{out}"
    lines = [
        f"{counted(done.people, 'person', 'people')} ({counted(done.pictures, 'picture')}) with "
        f"wrong ages in {out}; "
        f"trained on: {done.included}",
        "Train, forget and bound:",
        f"  unplug train age {data} --split {out}/split.json --out original",
        f"  unplug forget original {data} --forget {out}/forget.json --method msg --out unlearned",
        f"  python -m benchmarks.studies canaries bound original unlearned --canaries {out} --out "
        "canaries.json",
    ]
    value = {
        "out": str(out),
        "canaries": done.people,
        "pictures": done.pictures,
        "included": done.included,
        "train": done.train,
        "split_sha256": done.split.sha256,
    }
    return Outcome(value=value, text="\n".join(lines))


@canaries.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--canaries",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of `canaries plant` that the models were trained with.",
)
@click.option(
    "--delta",
    type=float,
    default=1e-5,
    show_default=True,
    help="Of the (epsilon, delta) promise that is tested.",
)
@click.option("--on-bad", type=click.Choice(["error", "skip"]), default="error", show_default=True)
@out_option("Report to write (JSON); the page goes beside it.", required=False)
@computing
@command
def bound(
    models: tuple[Path, ...],
    folder: Path,
    delta: float,
    on_bad: Any,
    out: Path | None,
    common: Common,
) -> Outcome:
    """Say what epsilon MODELS have at least: checkpoints before forgetting the canaries, after it,
    or without them.

    The coins are guessed from what a model says of the wrong ages. With 95 % confidence no smaller
    epsilon explains so many right guesses. 0 says that this attack saw nothing.
    """
    from unplug.core import write_json
    from unplug.plugins import load_checkpoint

    from .page import write_page
    from .planting import canary_report

    loaded = [load_checkpoint(path) for path in models]
    report = canary_report(
        loaded, folder, delta=delta, device=common.device, on_bad=on_bad, show=common.show
    )
    value = asdict(report)
    rows = [
        (
            row.name,
            row.role,
            row.method or NONE,
            NONE if row.budget is None else percent(row.budget),
            f"{row.bound.correct} of {row.bound.guesses}",
            f"{row.bound.epsilon:.2f}",
            f"{row.bound.most:.2f}",
        )
        for row in report.models
    ]
    heads = (
        "model",
        "role",
        "method",
        "budget",
        "guessed right",
        "epsilon, at least",
        "could show",
    )
    lines = [
        f"{counted(report.canaries, 'canary', 'canaries')}, {report.included} of them trained on",
        table(heads, rows),
        f"with {percent(report.confidence)} confidence, delta {report.delta:g}; 0 says that this "
        "attack saw nothing",
    ]
    if out is not None:
        write_json(out, value, private=True)
        write_page(report, page := out.with_suffix(".html"))
        lines.append(f"saved {out} and {page}")
    return Outcome(value=value, text="\n".join(lines))
