"""``unplug audit``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import NONE, table

from .base import Common, Outcome, command, names
from .options import base_option, data_option, fleet_option, forget_option, out_option

if TYPE_CHECKING:
    from unplug.sdk.auditing import AuditReport, Estimate, ModelAudit


@click.command()
@click.argument("subjects", nargs=-1, required=True, type=click.Path(path_type=Path))
@data_option
@forget_option
@click.option("--original", type=click.Path(path_type=Path), help="The model before forgetting (default: from the record).")
@click.option("--retrained", type=click.Path(path_type=Path), help="The oracle: retrained without the forget set.")
@click.option(
    "--references", multiple=True, type=click.Path(path_type=Path), help="Reference models for RMIA and LiRA; may be repeated."
)
@click.option(
    "--train-references", type=click.IntRange(0, 64), default=0, show_default=True,
    help="Train this many reference models (each costs a retraining) into OUT's folder.",
)  # fmt: skip
@fleet_option
@click.option("--attacks", default="", help="Comma-separated (default: all that can run).")
@click.option(
    "--original-artifact", "original_artifacts", multiple=True, type=click.Path(path_type=Path),
    help="The original's export, to compare an exported file of the same form with (default: made now); may be repeated.",
)  # fmt: skip
@click.option(
    "--retrained-artifact", "retrained_artifacts", multiple=True, type=click.Path(path_type=Path),
    help="The same of the retrained model; may be repeated.",
)  # fmt: skip
@click.option("--rounding/--no-rounding", default=True, show_default=True, help="Measure what export did to the edit.")
@click.option(
    "--others", help="Data spec of other pictures of the same people, which no model saw (procedural faces are drawn)."
)
@click.option("--relearn", is_flag=True, help="Measure how soon each model learns the forget set again (slow).")
@base_option
@out_option("Audit report to write (JSON).")
@command
def audit(
    subjects: tuple[Path, ...], spec: str, on_bad: Any, forget_file: Path, original: Path | None, retrained: Path | None,
    references: tuple[Path, ...], train_references: int, fleet: Path | None, attacks: str, original_artifacts: tuple[Path, ...],
    retrained_artifacts: tuple[Path, ...], rounding: bool, others: str | None, relearn: bool, base: str | None, out: Path,
    common: Common,
) -> Outcome:  # fmt: skip
    """Measure what SUBJECTS (checkpoints, exported files or bundles) still remember of a forget set.

    Attacks tell the forget set from unseen samples; the same numbers for the original and for the retrained model
    stand beside every one of the subjects'. Exported files are compared with the original's export in the same form as
    well: rounding can undo a part of an edit.
    """
    from unplug.sdk.auditing import AuditConfig, run_audit

    config = AuditConfig(
        subjects=subjects, spec=spec, on_bad=on_bad, forget_file=forget_file, original=original, retrained=retrained,
        references=references, train_references=train_references, attacks=names(attacks) or None, seed=common.seed,
        work=out.parent, original_artifacts=original_artifacts, retrained_artifacts=retrained_artifacts, rounding=rounding,
        relearn=relearn, base=base, fleet=fleet, others=others,
    )  # fmt: skip
    report = run_audit(config, common.device, common.say, common.show)
    report.save(out)
    return Outcome(value=report.to_dict(), text="\n".join([*_summary(report), _saved(out)]))


def _summary(report: AuditReport) -> Iterator[str]:
    from unplug.sdk.auditing import untested

    rows = [_row(model) for model in report.models]
    heads = tuple(dict.fromkeys(name for row in rows for name in row))
    yield table(heads, [tuple(row.get(name, NONE) for name in heads) for row in rows])
    for model in report.models:
        if (privacy := model.retain_privacy) and privacy.minus_original:
            yield (
                f"{model.name}: retain against unseen AUC {_span(privacy.auc)}, {_span(privacy.minus_original, sign=True)} "
                "against the original"
            )
        if (again := model.relearning) is not None:
            yield f"{model.name}: relearned after {_span(again.mean, 0) if again.mean else again.reason} sample passes"
        if (share := model.usage) is not None:
            yield (
                f"{model.name}: still uses {_span(share.forget, 2)} of what the original used of the forget set, "
                f"{_span(share.retain, 2)} of the retain set"
            )
        yield from _people(model)
    for row in report.rounding:
        changed = (
            "" if row.codes is None or row.codes.changed is None else f"{100 * row.codes.changed:.1f} % of codes changed. "
        )
        yield f"{row.model}: {changed}{row.sentence()}"
    if open_ends := untested(report.threats):
        yield f"not tested: somebody who holds {'; '.join(open_ends)}"
    yield from (f"not run: {name}: {reason}" for name, reason in report.skipped.items())
    yield from (f"ALARM {alarm.kind} ({alarm.model}): {alarm.message}" for alarm in report.alarms)


def _people(model: ModelAudit) -> Iterator[str]:
    """The person who stands out most among models that never saw her."""
    if (found := model.most_standing_out) is None:
        return
    row, together = found
    places = [("confidence", row.confidence), *(() if row.error is None else (("error", row.error),))]
    ranks = ", ".join(f"{name} rank {place.rank} of {place.models + 1}" for name, place in places)
    who = "the person" if len(model.people) == 1 else f"of {len(model.people)} people the one who stands out most"
    yield f"{model.name}: {who} among models that never saw her: {ranks}; p = {together:.3g}"


def _row(model: ModelAudit) -> dict[str, str]:
    """What a model is worth, in years where it has any, and its attacks: a cell under each heading."""
    test, forget = model.utility["test"], model.utility["forget"]
    row = {"model": model.name}
    if test.accuracy is not None:
        row["test acc."] = f"{100 * test.accuracy.value:.1f} %"
    if test.mae is not None and forget.mae is not None:
        row |= {"test MAE": f"{test.mae.value:.2f}", "forget MAE": f"{forget.mae.value:.2f}"}
    else:
        row |= {"test loss": f"{test.loss:.4f}", "forget loss": f"{forget.loss:.4f}"}
    return row | {f"{name} AUC": _span(attack.auc, dash="-") for name, attack in model.attacks.items()}


def _span(item: Estimate, digits: int = 3, *, dash: str = " to ", sign: bool = False) -> str:
    form = f"{'+' if sign else ''}.{digits}f"
    ends = "" if item.low is None or item.high is None else f" ({item.low:{form}}{dash}{item.high:{form}})"
    return f"{item.value:{form}}{ends}"


def _saved(out: Path) -> str:
    return f"saved {out}; `unplug report {out} -o report.html` draws it"
