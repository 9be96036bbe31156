"""``unplug threshold``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, table, write_json

from .base import Common, Outcome, command, device_option, percent
from .options import (
    data_option,
    option,
    out_option,
    path_option,
    paths_argument,
    training_data_option,
)

if TYPE_CHECKING:
    from unplug.sdk.drawing.inference import DecisionRecord
    from unplug.sdk.evidence.assurance import Answers, FittedThreshold, Limits


@click.command()
@paths_argument("models")
@data_option
@click.option(
    "--over", "age", type=float, required=True, metavar="AGE", help="The age in question, in years."
)
@click.option(
    "--max-fpr",
    type=float,
    required=True,
    metavar="SHARE",
    help="Share of minors called over, at most.",
)
@click.option(
    "--max-fnr",
    type=float,
    metavar="SHARE",
    help="Share of adults called under, at most (default: as --max-fpr).",
)
@option(
    "--bound",
    "method",
    type=click.Choice(["clopper-pearson", "conformal"]),
    default="clopper-pearson",
    help=(
        "The limit holds with --confidence over the draw of people, or on average over draws "
        "(needs fewer people)."
    ),
)
@option("--confidence", type=float, default=0.95, help="Confidence of clopper-pearson.")
@option(
    "--minors-from",
    type=float,
    default=0.0,
    metavar="AGE",
    help=(
        "Youngest age that counts as a minor: small children are never taken for adults, and "
        "dilute the limit."
    ),
)
@click.option(
    "--by",
    metavar="ATTRIBUTE",
    help="Attribute: the limits hold in each of its groups with enough people too.",
)
@option(
    "--part",
    type=click.Choice(["test", "validation"]),
    default="test",
    help="Part of the training's own data, if these are the data.",
)
@path_option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    help="Checkpoint of an exported file: its record says whom it learned from; may be repeated.",
)
@training_data_option
@click.option(
    "--unseen-people",
    "unseen",
    is_flag=True,
    help="State that no model learned from these people, where no record says so.",
)
@out_option("Decision to write (JSON).", required=False)
@device_option
@command
def threshold(
    models: tuple[Path, ...],
    spec: str,
    on_bad: Any,
    age: float,
    max_fpr: float,
    max_fnr: float | None,
    by: str | None,
    part: Any,
    checkpoints: tuple[Path, ...],
    training: tuple[str, ...],
    unseen: bool,
    out: Path | None,
    common: Common,
    **how: Any,
) -> Outcome:
    """Find cut-offs: above one, MODELS say "over"; below the other, "under"; in between, "unsure".

    MODELS are checkpoints, exported files or bundles. The decision holds on each of them, for
    people like those of the data, whom none of them learned from. `unplug run --decision FILE`
    answers by it, `unplug release --decision FILE` ships it.
    """
    from unplug.sdk.evidence.assurance import Limits, ask, decide, runnable

    limits = Limits(
        age=age, max_fpr=max_fpr, max_fnr=max_fpr if max_fnr is None else max_fnr, **how
    )
    paths, skipped = runnable(models)
    if not paths:
        why = f"nothing of it can run here ({'; '.join(skipped.values())})"
        raise InputError(str(models[0]), why, "Give another file")
    answers = ask(
        paths,
        spec,
        part=part,
        checkpoints=checkpoints,
        training=training,
        on_bad=on_bad,
        device=common.device,
        show=common.show,
    )
    record, fitted = decide(answers, limits, by=by, unseen=unseen)
    lines = [
        *_lines(record, answers, fitted, limits),
        *(f"not run: {name}: {reason}" for name, reason in skipped.items()),
    ]
    if out is not None:
        write_json(out, asdict(record))
        lines.append(f"saved {out}; `unplug run --decision {out}` answers by it")
    copies = answers[0].people.copies
    value = asdict(record) | {
        "copies": None if copies is None else asdict(copies),
        "skipped": skipped,
        "out": None if out is None else str(out),
    }
    return Outcome(value=value, text="\n".join(lines))


def _lines(
    record: DecisionRecord,
    answers: Sequence[Answers],
    fitted: Sequence[FittedThreshold],
    limits: Limits,
) -> Iterator[str]:
    from unplug.sdk.evidence.assurance import copies_left_out, names_alone

    yield (
        f"over from P(age >= {record.age:g}) = {record.over_from:.6g}, under up to "
        f"{record.under_to:.6g}, unsure between"
    )
    yield f"holds: {record.limit()}"
    yield _models(record)
    if record.by is not None:
        for group in record.groups:
            word = "holds by itself" if group.holds else "too few, the limits are not shown to hold"
            yield f"{record.by} {group.name}: {group.minors} minors, {group.adults} adults: {word}"
    yield from _near(answers, record)
    yield _who(answers[0], record, fitted[0])
    if (copies := answers[0].people.copies) is not None:
        yield copies_left_out(copies)
        if copies.why is not None:
            yield f"note: of the pictures of the training {names_alone(copies)}"
    inside = {edge for item in answers for edge in item.edges}
    if limits.age not in inside:
        yield (
            f"note: {limits.age:g} lies inside an age group of the model, in which ages are taken "
            "as even"
        )


def _models(record: DecisionRecord) -> str:
    head = ("model", "over from", "under up to")
    shares = ("minors over", "minors unsure", "adults over", "adults unsure", "adults under")
    rows = []
    for model in record.models:
        minors, adults = model.minors, model.adults
        told = (minors.over, minors.unsure, adults.over, adults.unsure, adults.under)
        ends = (f"{model.over_from:.6g}", f"{model.under_to:.6g}")
        rows.append((model.name, *ends, *map(percent, told)))
    return table((*head, *shares), rows)


def _near(answers: Sequence[Answers], record: DecisionRecord) -> Iterator[str]:
    """The hardest minors: what holds of all minors need not hold of them."""
    people = answers[0].people
    near_N = (people.age_N < record.age) & (people.age_N >= max(record.minors_from, record.age - 3))
    if near_N.any():
        worst = max(
            float((item.over(record.age)[near_N] >= record.over_from).mean()) for item in answers
        )
        yield (
            f"of the {int(near_N.sum())} pictures of minors within three years of {record.age:g}, "
            f"{percent(worst)} are called "
            "over: the limit is of all minors together, see --minors-from"
        )


def _who(answer: Answers, record: DecisionRecord, fitted: FittedThreshold) -> str:
    people = answer.people
    how = {
        "held out": f"the {people.part} set of the training's own data",
        "other data": (
            "of other data than the training's; none of its pictures is named in the split of the "
            "training"
        ),
        "said": "whom no model learned from: --unseen-people says so, nothing shows it",
    }[record.apart]
    allowed = (
        f"{fitted.whole.minors.errors} minors and {fitted.whole.adults.errors} adults may be "
        "beyond the ends"
    )
    return (
        f"fitted on {people.persons} people, each by the picture that errs most: {how}; {allowed}"
    )
