"""``unplug audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .base import Common, Outcome, command, names, table
from .options import data_option, forget_option, out_option


@click.command()
@click.argument("subjects", nargs=-1, required=True, type=click.Path(path_type=Path))
@data_option
@forget_option
@click.option("--original", type=click.Path(path_type=Path), help="The model before forgetting (default: from the record).")
@click.option("--retrained", type=click.Path(path_type=Path), help="The oracle: retrained without the forget set.")
@click.option(
    "--references", multiple=True, type=click.Path(path_type=Path), help="Reference models for RMIA; may be repeated."
)
@click.option(
    "--train-references", type=click.IntRange(0, 64), default=0, show_default=True,
    help="Train this many reference models (each costs a retraining) into OUT's folder.",
)  # fmt: skip
@click.option("--attacks", default="", help="Comma-separated (default: all that can run).")
@out_option("Audit report to write (JSON).")
@command
def audit(
    subjects: tuple[Path, ...], spec: str, on_bad: Any, forget_file: Path, original: Path | None, retrained: Path | None,
    references: tuple[Path, ...], train_references: int, attacks: str, out: Path, common: Common,
) -> Outcome:  # fmt: skip
    """Measure what SUBJECTS (checkpoints, exported files or bundles) still remember of a forget set.

    Attacks tell the forget set from unseen faces; the same numbers for the original and for the retrained model
    stand beside every one of the subjects'.
    """
    from unplug.sdk.audit.request import AuditRequest, run_audit

    request = AuditRequest(
        subjects=subjects, spec=spec, on_bad=on_bad, forget_file=forget_file, original=original, retrained=retrained,
        references=references, train_references=train_references, attacks=names(attacks) or None, seed=common.seed,
        work=out.parent,
    )  # fmt: skip
    report = run_audit(request, common.device, common.say, common.show)
    report.save(out)
    rows = []
    for model in report.models:
        test = model.utility["test"]
        cells = [
            model.name,
            f"{100 * test.accuracy.value:.1f} %",
            f"{test.mae.value:.2f}",
            f"{model.utility['forget'].mae.value:.2f}",
        ]
        for attack in model.attacks.values():
            cells.append(f"{attack.auc.value:.3f} ({attack.auc.low:.3f}-{attack.auc.high:.3f})")
        rows.append(tuple(cells))
    header = ("model", "test acc.", "test MAE", "forget MAE", *(f"{name} AUC" for name in report.models[0].attacks))
    lines = [table(header, rows)]
    lines += [f"not run: {name}: {reason}" for name, reason in report.skipped.items()]
    lines += [f"ALARM {alarm.kind} ({alarm.model}): {alarm.message}" for alarm in report.alarms]
    lines.append(f"saved {out}; `unplug report {out} -o report.html` draws it")
    return Outcome(value=report.to_dict(), text="\n".join(lines))
