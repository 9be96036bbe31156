"""``unplug certify``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import counted, seconds

from .base import Common, Outcome, command, computing, percent, settings
from .options import (
    base_option,
    budget_option,
    checkpoint_argument,
    data_option,
    opened,
    option,
    out_option,
    path_option,
    settings_option,
)

if TYPE_CHECKING:
    from unplug.sdk.evidence.auditing import Certification


@click.command()
@checkpoint_argument
@data_option
@path_option(
    "--fleet",
    required=True,
    help="Folder that `unplug references` made of this checkpoint.",
)
@option("--method", default="folds", help="See `unplug list methods`.")
@budget_option
@settings_option("A hyperparameter of the method; may be repeated.")
@option(
    "--people",
    type=click.IntRange(1),
    default=1,
    help="Most people that one request names.",
)
@option(
    "--requests",
    type=click.IntRange(10, 2000),
    default=200,
    help="Surrogate requests, each of other people and with a forget step of its own.",
)
@path_option(
    "--like",
    help=(
        "Forget file of a request: surrogate requests name as many people, of about the same ages, "
        "and never these."
    ),
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Forget steps at once on the CPU (default: one a core).",
)
@base_option
@out_option("Folder of what each request left; a killed run goes on there.")
@computing
@command
def certify(
    checkpoint: Path,
    spec: str,
    on_bad: Any,
    fleet: Path,
    method: str,
    pairs: tuple[str, ...],
    like: Path | None,
    workers: int | None,
    base: str | None,
    out: Path,
    common: Common,
    **asked: Any,
) -> Outcome:
    """Say what a method leaves of one person, by letting it forget many others like her.

    Exit code 1 where the method is not certified: the evidence does not decide, or they are still
    told from strangers.
    """
    from unplug.sdk.evidence.auditing import CertifyConfig
    from unplug.sdk.evidence.auditing import certify as run
    from unplug.sdk.learning.data import read_forget_file

    original, _, dataset = opened(checkpoint, spec, on_bad, base, common)
    named = () if like is None else tuple(read_forget_file(like, dataset))
    config = CertifyConfig(
        method=method, options=settings(pairs), like=named, seed=common.seed, **asked
    )
    common.say(
        f"forgetting {counted(config.requests, 'request')} of {config.people} by {method}, one after the other "
        "..."
    )
    done = run(
        original,
        dataset,
        fleet,
        config,
        out,
        on_bad=on_bad,
        base=base,
        device=common.device,
        workers=workers,
        show=common.show,
    )
    return Outcome(
        value=asdict(done), text="\n".join(_lines(done, out)), ok=done.verdict == "certified"
    )


def _lines(done: Certification, out: Path) -> Iterator[str]:
    yield f"{done.verdict}: {done.why}"
    for name, leak in done.leaks.items():
        before, after = (
            f"{auc.value:+.3f} ({auc.low:+.3f} to {auc.high:+.3f})"
            for auc in (leak.before, leak.auc)
        )
        moments = f"shift {leak.shift.value:+.2f} sd, spread {leak.spread.value:.2f}"
        yield f"{name:<12}AUC above strangers: before {before}, after {after}; {moments}"
    yield (
        f"a model that never saw them would be certified in {percent(done.exact_passes)} of such "
        "runs"
    )
    yield (
        f"error relative to the original's: x{done.test_error.value:.3f} on unseen people, "
        f"x{done.retain_error.value:.3f} on those who stay"
    )
    yield (
        f"a forget step took {percent(done.compute)} of retraining; all of them "
        f"{seconds(done.seconds)}"
    )
    yield f"saved {out / 'certification.json'}"
