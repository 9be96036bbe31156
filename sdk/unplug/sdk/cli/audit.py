"""``unplug audit``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import NONE, InputError, plain, table
from unplug.sdk import journey

from .audit_erased import audit_erased
from .base import Common, Outcome, command, computing, folded, names
from .options import (
    base_option,
    check_there,
    fleet_option,
    given_option,
    on_bad_option,
    option,
    out_option,
    path_option,
    paths_argument,
    spec_option,
)

if TYPE_CHECKING:
    from unplug.sdk.evidence.auditing import AuditReport, Estimate, ModelAudit


HEADS = {"artifact": "file"}
WIDTH = 36
"""Letters of a model's name."""
OF_MODELS = (
    *("spec", "on_bad", "forget_file", "original", "references", "train_references", "fleet"),
    *("original_artifacts", "retrained_artifacts", "rounding", "others", "relearn", "base"),
)
"""Options that mean nothing of an erased base."""


@click.command()
@paths_argument("models")
@spec_option("Data, for example utkface:DIR or synth:n=3000.", required=False)
@on_bad_option()
@path_option(
    "--forget", "forget_file", metavar="FILE", help="Sample ids or subject:NAME, one a line."
)
@path_option(
    "--original",
    help="The model before forgetting (default: from the record).",
)
@path_option(
    "--retrained",
    help="The oracle: retrained without the forget set.",
)
@path_option(
    "--references",
    multiple=True,
    help="Reference models for RMIA and LiRA; may be repeated.",
)
@option(
    "--train-references",
    type=click.IntRange(0, 64),
    default=0,
    help="Train this many reference models (each costs a retraining) into OUT's folder.",
)
@fleet_option
@click.option(
    "--attacks",
    default="",
    help=(
        "Attacks, comma-separated (default: all that can run); of an erased base also NAME:STEPS, "
        "say relearn:100."
    ),
)
@path_option(
    "--original-artifact",
    "original_artifacts",
    multiple=True,
    help=(
        "The original's export, to compare an exported file of the same form with (default: made "
        "now); may be repeated."
    ),
)
@path_option(
    "--retrained-artifact",
    "retrained_artifacts",
    multiple=True,
    help="The retrained model's export, to compare in the same way; may be repeated.",
)
@option(
    "--rounding/--no-rounding",
    default=True,
    help="Measure what export did to the edit.",
)
@click.option(
    "--others",
    help=(
        "Data spec of other pictures of the same people, which no model saw (procedural faces are "
        "drawn)."
    ),
)
@click.option(
    "--relearn",
    is_flag=True,
    help="Measure how soon each model learns the forget set again (slow).",
)
@base_option
@click.option(
    "--plugin", metavar="PLUGIN", help="Try control images on an erased base through this plugin."
)
@option(
    "--count",
    "pictures",
    type=click.IntRange(8, 10_000),
    default=48,
    help="Pictures in each row for an erased base.",
)
@click.option(
    "--beside",
    multiple=True,
    metavar="WORDS",
    help="Other words that must still work in an erased base; may be repeated.",
)
@option(
    "--forms",
    default="as it is,fp16,int8",
    help=(
        "Forms of an erased base in which prompts and control images are tried; also: 25 steps, "
        "student."
    ),
)
@out_option("Audit report to write (JSON).")
@computing
@command
def audit(
    models: tuple[Path, ...],
    spec: str | None,
    forget_file: Path | None,
    attacks: str,
    plugin: str | None,
    pictures: int,
    beside: tuple[str, ...],
    forms: str,
    out: Path,
    common: Common,
    **options: Any,
) -> Outcome:
    """Measure what MODELS (checkpoints, exported files or bundles) still remember of a forget set.
    Of a family every member is compared with its own original.

    Attacks tell the forget set from unseen samples; the same numbers for the original and for the
    retrained model are compared with every one of the models'. Exported files are compared with the
    original's export in the same form as well: rounding can undo a part of an edit.

    For a base that `unplug erase` wrote, measure how often prompts, control images, text states and
    fine-tuning bring the concept back. Then --retrained is a base that never saw it, and --data and
    --forget are not needed. The folder that `unplug export` made of it may follow it: its files
    draw as well.
    """
    from unplug.sdk.drawing.device import is_base

    if is_base(models[0]):
        if other := given_option(*OF_MODELS):
            why = (
                "it applies to models that forget people, and this is a base without some concepts"
            )
            raise InputError(f"`{other}`", why, "Leave it out")
        if len(models) > 2 or any(map(is_base, models[1:])):
            why = "only one erased base and its exported files may be named"
            raise InputError("unplug audit", why, "Audit one base at a time")
        return audit_erased(
            models[0],
            out,
            common,
            files=models[1] if len(models) == 2 else None,
            oracle=options["retrained"],
            attacks=names(attacks),
            plugin=plugin,
            pictures=pictures,
            beside=beside,
            forms=names(forms),
        )
    if other := given_option("plugin", "pictures", "beside", "forms"):
        raise InputError(
            f"`{other}`", "it applies to erased bases, and this is not one", "Leave it out"
        )
    check_there(*models)
    if spec is None or forget_file is None:
        name = "data" if spec is None else "forget"
        raise InputError(f"`{name}`", "it is missing", "Name the data and the forget set")
    report = journey.audit(
        models,
        spec,
        forget_file,
        attacks=names(attacks) or None,
        work=out.parent,
        **common.shared,
        say=common.say,
        **options,
    )
    report.save(out)
    return Outcome(
        value=report.to_dict(),
        text="\n".join(
            [*summary(report), f"saved {out}; `unplug report {out} -o report.html` draws it"]
        ),
    )


def summary(report: AuditReport) -> Iterator[str]:
    """What a reader wants first, in lines of 80 columns: each attack compared with retraining, then
    use; the rest is in the file.
    """
    from unplug.sdk.evidence.auditing import EQUIVALENCE, NEVER_SAW, untested

    beside = before, oracle = tuple(
        [model for model in report.models if model.role == role]
        for role in ("original", "retrained")
    )
    judged = [model for model in report.models if model.role == "unlearned"] or [
        model for model in report.models if model.role == "artifact"
    ]
    for model in judged or before:
        first, last = ([item for item in all_ if item.member == model.member] for all_ in beside)
        shown = [*(item for item in first if item is not model), model, *last]
        stand_in = next(
            (f"; retrained: models that {item.name}" for item in last if item.name == NEVER_SAW),
            "",
        )
        yield f"{plain(model.name, WIDTH)}: what attacks see of the forget set (AUC){stand_in}"
        yield _attacks(model, shown, report.too_few)
    if judged and oracle:
        yield folded(
            f"equal: the interval, of all attacks at once, lies within {EQUIVALENCE:g} of "
            "retraining on both sides; "
            "above: still recognized; below: over-forgotten; open: too few people to say"
        )
    yield from (
        folded(f"ALARM {alarm.kind} ({alarm.model}): {alarm.message}") for alarm in report.alarms
    )
    yield ""
    rows = [_use(model, report) for model in report.models]
    yield _table_of(rows)
    for model in report.models:
        yield from map(folded, _more(model))
    for row in report.rounding:
        changed = (
            ""
            if row.codes is None or row.codes.changed is None
            else f"{100 * row.codes.changed:.1f} % of codes changed. "
        )
        yield folded(f"{row.model}: {changed}{row.sentence()}")
    if open_ends := untested(report.threats):
        yield folded(f"not tested: somebody who holds {'; '.join(open_ends)}")
    yield from (folded(f"not run: {name}: {reason}") for name, reason in report.skipped.items())


def _attacks(model: ModelAudit, shown: Sequence[ModelAudit], too_few: str | None) -> str:
    """A row an attack: its AUC on the models, and the model's minus the retrained one's with its
    interval.
    """
    from unplug.sdk.evidence.auditing import against

    rows = []
    for name in dict.fromkeys(name for beside in shown for name in beside.attacks):
        row = {"attack": plain(name, 14)}
        for beside in shown:
            row[HEADS.get(beside.role, beside.role)] = (
                f"{beside.attacks[name].auc.value:.3f}" if name in beside.attacks else NONE
            )
        if name in model.attacks and (gap := model.attacks[name].gap) is not None:
            row |= {"minus retrained (95 %)": _span(gap, sign=True), "": against(gap, too_few)}
        rows.append(row)
    return _table_of(rows)


def _table_of(rows: Sequence[dict[str, str]]) -> str:
    heads = tuple(dict.fromkeys(name for row in rows for name in row))
    return table(heads, [tuple(row.get(name, "") for name in heads) for row in rows])


def _use(model: ModelAudit, report: AuditReport) -> dict[str, str]:
    """What a model is worth, in years where it has any; of a file also how far an attack's AUC is
    from its checkpoint's.
    """
    test, forget = model.utility["test"], model.utility["forget"]
    row = {"model": plain(model.name, WIDTH)}
    if test.accuracy is not None:
        row["test acc."] = f"{100 * test.accuracy.value:.1f} %"
    if test.mae is not None and forget.mae is not None:
        row |= {"test MAE": f"{test.mae.value:.2f}", "forget MAE": f"{forget.mae.value:.2f}"}
    elif test.wrong is not None and forget.accuracy is not None:
        row["forget acc."] = f"{100 * forget.accuracy.value:.1f} %"
    else:
        row |= {"test loss": f"{test.loss:.4f}", "forget loss": f"{forget.loss:.4f}"}
    moved = next((item.auc_shift for item in report.rounding if item.sha256 == model.sha256), {})
    if moved:
        row["AUC off by at most"] = f"{max(abs(shift.value) for shift in moved.values()):.3f}"
    return row


def _more(model: ModelAudit) -> Iterator[str]:
    """What was measured on a model besides attacks and use, a sentence each."""
    if (worst := model.worst_subject) is not None and model.role in ("unlearned", "retrained"):
        who = (
            "the person stands out"
            if worst.subjects == 1
            else f"the one of {worst.subjects} people who stands out most does so"
        )
        chance = (
            f"chance gives {worst.null_low:.1f} to {worst.null_high:.1f}; p = {worst.p_value:.3g}"
        )
        yield f"{model.name}: {who} by {worst.value:.1f} standard errors; {chance}"
    if (privacy := model.retain_privacy) and privacy.minus_original:
        yield (
            f"{model.name}: AUC of retain against unseen {_span(privacy.auc)}, "
            f"{_span(privacy.minus_original, sign=True)} "
            "against the original"
        )
    if (again := model.relearning) is not None:
        yield (
            f"{model.name}: relearned after {_span(again.mean, 0) if again.mean else again.reason} "
            "sample passes"
        )
    if (share := model.usage) is not None:
        yield (
            f"{model.name}: still uses {_span(share.forget, 2)} of what the original used of the "
            "forget set, "
            f"{_span(share.retain, 2)} of the retain set"
        )
    if (standing := model.most_standing_out) is not None:
        row, together = standing
        places = [
            ("confidence", row.confidence),
            *(() if row.error is None else (("error", row.error),)),
        ]
        ranks = ", ".join(
            f"{name} rank {place.rank} of {place.models + 1}" for name, place in places
        )
        who = (
            "the person"
            if len(model.people) == 1
            else f"the one of {len(model.people)} people who stands out most"
        )
        yield (
            f"{model.name}: {who}, among models that never saw that person: {ranks}; "
            f"p = {together:.3g}"
        )


def _span(item: Estimate, digits: int = 3, *, sign: bool = False) -> str:
    form = f"{'+' if sign else ''}z.{digits}f"  # z: no negative zero
    ends = (
        ""
        if item.low is None or item.high is None
        else f" ({item.low:{form}} to {item.high:{form}})"
    )
    return f"{item.value:{form}}{ends}"
