"""``unplug evaluate``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import InputError, counted, plain, table
from unplug.plugins import weights_sha256
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, names
from .bundle import trust_of, trust_option
from .options import (
    FloatRange,
    data_option,
    option,
    out_option,
    path_option,
    paths_argument,
    training_data_option,
)

if TYPE_CHECKING:
    from unplug.sdk.evidence.assurance import (
        ClassesJudged,
        ClassEvaluation,
        EvaluationReport,
        ModelEvaluation,
        Rate,
    )
    from unplug.sdk.evidence.statistics import Estimate


WORST = 3  # classes that a line names
APART = {"other data": "other data", "unknown": "it may know them"}


@click.command()
@paths_argument("models")
@data_option
@option(
    "--protocol",
    default="fate-aev",
    help="The numbers to compute; see `unplug list age-protocols`.",
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
    help=("Checkpoint of exported files, whose record says what it learned from; may be repeated."),
)
@path_option(
    "--split",
    "splits",
    multiple=True,
    help="Split file that says what the models learned from; may be repeated.",
)
@training_data_option
@click.option(
    "--challenge",
    "challenges",
    metavar="YEARS",
    help="T of Challenge-T, with commas (default: the protocol's, 18,21,23,25).",
)
@option(
    "--max-fpr",
    "limit",
    type=FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.01,
    help=(
        "Limit of false positives among minors to show; the report says how many more people that "
        "needs."
    ),
)
@path_option(
    "--landmarker",
    envvar="UNPLUG_FACE_LANDMARKER",
    help=(
        "MediaPipe's face_landmarker.task: counts the pictures that cannot be judged, and says why "
        "(extra [conditions])."
    ),
)
@click.option(
    "--card", is_flag=True, help="Put the numbers on the card (README.md) of each checkpoint too."
)
@trust_option
@out_option("Evaluation to write (JSON).", required=False, default=Path("evaluation.json"))
@computing
@command
def evaluate(
    models: tuple[Path, ...],
    spec: str,
    challenges: str | None,
    card: bool,
    trusted: tuple[Path, ...],
    out: Path,
    common: Common,
    **options: Any,
) -> Outcome:
    """Judge MODELS (checkpoints, exported files, bundles) at age limits, or classifiers by labels,
    on people whom they never saw.

    Errors by year of age and by group (csv columns attr:NAME; UTKFace's names say sex and race),
    false positives of Challenge-T over minors, 13 to 16, false rejections, the worst group,
    failures to process and time a picture, with intervals over people. What the sample cannot
    support is said, with how many people are missing.

    Of classifiers: right answers in all, by class and by group, and calibration.
    """
    from unplug.sdk.evidence.assurance import ClassEvaluation, add_to_card, card_text

    folders = [path for path in models if (path / "config.json").is_file()]
    if card and not folders:
        raise InputError(
            "--card", "no checkpoint is among these models", "Name its folder, or leave out --card"
        )
    report = journey.evaluate(
        models,
        spec,
        challenges=_years(challenges),
        trust=trust_of(trusted),
        **common.shared,
        **options,
    )
    if isinstance(report, ClassEvaluation):
        if card:
            raise InputError("--card", "it is for ages", "Leave it out of classifiers")
        report.save(out)
        return Outcome(
            value=report.to_dict(), text="\n".join([*_class_summary(report), f"saved {out}"])
        )
    report.save(out)
    for path in folders if card else ():
        if (judged := report.of(weights_sha256(path))) is not None:
            add_to_card(path, card_text(report, judged))
    saved = f"saved {out}; `unplug report {out} -o evaluation.html` draws it"
    return Outcome(value=report.to_dict(), text="\n".join([*_summary(report), saved]))


def _years(text: str | None) -> tuple[float, ...]:
    try:
        years = tuple(float(part) for part in names(text or ""))
    except ValueError as error:
        raise InputError(
            f"--challenge {str(text)[:40]}",
            "it is not a list of years",
            "Write for example 18,21,25",
        ) from error
    if len(years) > 12 or any(not 0 < year < 150 for year in years):
        raise InputError(
            f"--challenge {str(text)[:40]}",
            "out of range",
            "Write up to twelve years between 0 and 150",
        )
    return tuple(dict.fromkeys(years))


def _class_summary(report: ClassEvaluation) -> Iterator[str]:
    whom = f"its {report.part} set" if report.part else APART[report.apart]
    left = (
        f"; {report.left_out} are left out: learned from, or of another part"
        if report.left_out
        else ""
    )
    yield f"{report.seen}: {whom}{left}"
    rows = [
        {
            "model": plain(model.label, 40),
            "form": _form(model),
            "accuracy": _span(model.accuracy, 3),
            "loss": _span(model.loss, 3),
            "calibration error": f"{model.calibration_error:.3f}",
            "ms": f"{1000 * model.seconds:.1f}",
        }
        for model in report.models
    ]
    yield table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    for model in report.models:
        known = [row for row in model.classes if row.found is not None]
        worst = sorted(known, key=lambda row: row.found or 0.0)[:WORST]
        told = ", ".join(
            f"{plain(row.label, 40)} {100 * (row.found or 0.0):.0f} %" for row in worst
        )
        yield f"{plain(model.label, 40)}: found least of {told}"
        yield from (
            f"{plain(model.label, 40)}: {plain(row.cell, 60)}: {_span(row.accuracy, 3)} right"
            for row in model.groups
        )


def _summary(report: EvaluationReport) -> Iterator[str]:
    from unplug.sdk.evidence.assurance import copies_left_out

    people = report.people
    whom = f"its {people.part} set" if people.apart == "held out" else APART[people.apart]
    more = (
        f", of which {people.left_out} are left out"
        if people.apart == "other data" and people.left_out
        else ""
    )
    seen = f"{counted(people.pictures, 'picture')} of {counted(people.people, 'person', 'people')}"
    yield f"{seen} ({people.minors} under 18): {whom}{more}"
    if people.copies is not None:
        yield copies_left_out(people.copies)
    rows = [_row(model) for model in report.models]
    yield table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    for model in report.models:
        if (
            model.worst_group is not None
            and (gap := model.group(model.worst_group).gap) is not None
        ):
            yield (
                f"{model.label}: worst group {model.worst_group}, {_span(gap)} years above others "
                "of the same ages"
            )
        yield from (
            f"{model.label}: not said: {name}: {why}" for name, why in model.refused.items()
        )
    yield _processed(report)
    for challenge in report.models[0].challenges:
        claim = challenge.claim
        missing = (
            f", {claim.missing} people without an error are missing to show it"
            if claim.missing is not None
            else ""
        )
        yield (
            f"Challenge-{challenge.age:g}, {report.models[0].label}: at most {100 * report.limit:g} % "
            f"is {claim.held}{missing}"
        )
    yield from (f"not said: {name}: {why}" for name, why in report.refused.items())
    yield from (f"ALARM {alarm.kind} ({alarm.model}): {alarm.message}" for alarm in report.alarms)


def _processed(report: EvaluationReport) -> str:
    processing = report.processing
    if processing is None or processing.any is None:
        why = "" if processing is None else f" ({processing.unmeasured}; --landmarker FILE)"
        return f"failure to process by the quality check of faces: not measured{why}"
    reasons = ", ".join(
        f"{fault} {_share(share)}" for fault, share in processing.faults.items() if share.events
    )
    return (
        "failure to process by the quality check of faces: "
        f"{_share(processing.any)}{': ' if reasons else ''}{reasons}"
    )


def _form(model: ModelEvaluation | ClassesJudged) -> str:
    return "checkpoint" if model.target is None else f"{model.target} {model.precision}"


def _row(model: ModelEvaluation) -> dict[str, str]:
    row = {
        "model": model.label,
        "form": _form(model),
    }
    row |= {
        "MAE": _span(model.mae, 2),
        "within 5": f"{100 * model.cumulative['5'].value:.0f} %"
        if "5" in model.cumulative
        else "?",
    }
    row |= {f"FPR {item.age:g}": _share(item.minors) for item in model.challenges}
    if model.challenges:
        row["rejected 18-24"] = _share(model.challenges[-1].rejected)
    return row | {"failed": _share(model.failures), "ms": f"{1000 * model.seconds:.1f}"}


def _share(found: Rate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return f"? (n={found.people})"
    return f"{100 * found.value:.1f} % ({100 * found.low:.1f}-{100 * found.high:.1f})"


def _span(item: Estimate, digits: int = 1) -> str:
    ends = (
        ""
        if item.low is None or item.high is None
        else f" ({item.low:.{digits}f} to {item.high:.{digits}f})"
    )
    return f"{item.value:.{digits}f}{ends}"
