"""``python -m benchmarks.studies leaderboard``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from unplug.sdk.cli.base import Common, Outcome, command, computing, names, settings
from unplug.sdk.cli.options import FloatRange, out_option


@click.command()
@click.option(
    "--protocol",
    required=True,
    metavar="NAME",
    help="people, people-wide, challenge, starting-kit, mufac, mucac or utkface.",
)
@click.option(
    "--data",
    "spec",
    metavar="SPEC",
    help="Data, for example utkface:DIR (default: the protocol's, if it has any).",
)
@click.option(
    "--forget",
    "forget_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=(
        "Forget file of the forget set (sample ids, subject:NAME), instead of what the protocol "
        "picks."
    ),
)
@click.option(
    "--methods",
    default="all",
    show_default=True,
    help="Comma-separated, or all; see `unplug list methods`. msg@TAG is msg once more.",
)
@click.option(
    "--models",
    type=click.IntRange(4, 100_000),
    help="N: retrained models, and unlearned models of each method.",
)
@click.option(
    "--originals", type=click.IntRange(1, 100_000), help="K: originals of different training seeds."
)
@click.option(
    "--budget",
    type=FloatRange(0, 100, min_open=True),
    help="Fraction of retraining that a method may cost.",
)
@click.option(
    "--image-size", type=int, help="Side of the images in pixels, instead of the protocol's."
)
@click.option("--epochs", type=int, help="Of training, instead of the protocol's.")
@click.option(
    "--size", help="Of the age predictor: nano, small or base, instead of the protocol's."
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="METHOD:KEY=VALUE",
    help="A hyperparameter of a method, or its own budget (msg:budget=0.1); may be repeated.",
)
@click.option(
    "--settings",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='JSON of {"METHOD": {"KEY": "VALUE"}}, such as tuning found; --set goes over it.',
)
@click.option(
    "--submission",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help=(
        "Score a folder of predictions on the finished leaderboard in --out, one file an original; "
        "see docs/audit.md."
    ),
)
@click.option(
    "--models-out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help=(
        "Write the originals of the finished leaderboard in --out as checkpoints, with the split, "
        "for others' methods."
    ),
)
@click.option(
    "--challenge-rule",
    "rule",
    type=click.Choice(["code", "spec"]),
    default="code",
    show_default=True,
    help=(
        "How F finds its windows: as the released scorer does, or every window as the challenge's "
        "text has it."
    ),
)
@click.option(
    "--backend",
    default="processes",
    show_default=True,
    help="processes, loop, ray, or stacked-train (many at once).",
)
@click.option(
    "--workers", type=click.IntRange(1, 4096), help="How many at once (default: one per core)."
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Of a Ray cluster; --out must be a folder that all its machines share.",
)
@out_option("Folder of the leaderboard; a second call does only what is missing there.")
@computing
@command
def leaderboard(
    protocol: str,
    spec: str | None,
    forget_file: Path | None,
    methods: str,
    models: int | None,
    originals: int | None,
    budget: float | None,
    image_size: int | None,
    epochs: int | None,
    size: str | None,
    pairs: tuple[str, ...],
    file: Path | None,
    submission: Path | None,
    models_out: Path | None,
    rule: Any,
    backend: str,
    workers: int | None,
    cluster: str | None,
    out: Path,
    common: Common,
) -> Outcome:
    """Run every method under one protocol and rank them.

    Originals, retrained models and unlearning runs each have seeds of their own. Every number
    stands beside the retrained models'. OUT gets leaderboard.json, leaderboard.html and models/.
    What is there already is used again: asking for more models or methods later adds to it. With
    --models-out or --submission nothing is trained: the leaderboard in OUT is read.
    """
    if submission is not None or models_out is not None:
        return _open_to_others(out, protocol, submission, models_out)
    from unplug.core import InputError

    from . import PROTOCOLS, LeaderboardConfig, run_leaderboard
    from .cells import leaderboard_markdown
    from .page import write_page

    if budget is not None and math.isnan(budget):
        raise InputError(
            "--budget nan", "not a number", "Give a fraction of retraining such as 0.05"
        )
    if cluster is not None and backend != "ray":
        raise InputError(f"--cluster {cluster}", f"the backend is {backend}", "Add --backend ray")
    chosen_methods, changed = _methods(methods), _settings(pairs)
    if idle := sorted(set(changed) - set(chosen_methods)):
        raise InputError(
            f"--set {idle[0]}:...",
            "that method is not among --methods",
            "Add it there, or leave the setting out",
        )
    filed = _in_file(file)
    changed = {name: filed.get(name, {}) | changed.get(name, {}) for name in chosen_methods}
    recipe = {"image_size": image_size, "epochs": epochs, "size": size}
    chosen = PROTOCOLS.get(protocol).with_(
        recipe=recipe, models=models, originals=originals, budget=budget
    )
    config = LeaderboardConfig(
        protocol=chosen,
        spec=spec,
        forget=forget_file,
        methods=chosen_methods,
        settings=changed,
        out=out,
        seed=common.seed,
        device=common.device,
        backend=backend,
        workers=workers,
        cluster=cluster,
        rule=rule,
    )
    report = run_leaderboard(config, common.say, show=common.show)
    write_page(report, out / "leaderboard.html")
    saved = f"saved {out / 'leaderboard.json'} and {out / 'leaderboard.html'}"
    return Outcome(value=report.to_dict(), text=f"{leaderboard_markdown(report)}\n{saved}")


def _open_to_others(
    out: Path, protocol: str, submission: Path | None, models_out: Path | None
) -> Outcome:
    """Writes the originals for others, or scores what others made of them."""
    from unplug.core import InputError

    from . import Board, score_submission, write_originals
    from .cells import leaderboard_markdown

    if submission is not None and models_out is not None:
        raise InputError(
            "--models-out --submission", "the one comes before the other", "Give one of them"
        )
    board = Board.open(out)
    if board.report.protocol != protocol:
        raise InputError(
            str(out),
            f"it is a leaderboard of {board.report.protocol}",
            f"Give --protocol {board.report.protocol}",
        )
    if models_out is not None:
        count = write_originals(board, models_out)
        return Outcome(
            value={"originals": count, "out": str(models_out)},
            text=f"saved {count} originals in {models_out}",
        )
    assert submission is not None
    report, name = score_submission(board, submission)
    path = out / f"submission-{name}.json"
    report.save(path)
    return Outcome(value=report.to_dict(), text=f"{leaderboard_markdown(report)}\nsaved {path}")


def _methods(text: str) -> tuple[str, ...]:
    from unplug.core import InputError

    from . import ORACLE, all_methods

    given = names(text)
    chosen = tuple(
        dict.fromkeys(
            own for name in given for own in (all_methods() if name == "all" else (name,))
        )
    )
    if not chosen or ORACLE in chosen:
        why = "retraining is the oracle and always there" if chosen else "it names no method"
        raise InputError(f"--methods {text}", why, "Name methods of `unplug list methods`, or all")
    return chosen


def _in_file(file: Path | None) -> dict[str, dict[str, str]]:
    """Settings by method; those of methods that do not run here are left alone."""
    from unplug.core import InputError, read_json

    given = {} if file is None else read_json(file)
    if not isinstance(given, dict) or not all(
        isinstance(own, dict) and all(isinstance(value, str) for value in own.values())
        for own in given.values()
    ):
        why = "it is not a JSON object of methods and their settings"
        raise InputError(str(file), why, 'Write {"msg": {"lr": "0.001"}}')
    return given


def _settings(pairs: tuple[str, ...]) -> dict[str, dict[str, str]]:
    from unplug.core import InputError

    by_method: dict[str, dict[str, str]] = {}
    for pair, value in settings(pairs).items():
        method, colon, key = pair.partition(":")
        if not colon or not key:
            raise InputError(
                f"--set {pair}={value}",
                "it is not METHOD:KEY=VALUE",
                "Write for example --set msg:lr=0.001",
            )
        by_method.setdefault(method, {})[key] = value
    return by_method
