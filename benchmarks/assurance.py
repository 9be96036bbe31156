"""``python -m benchmarks.assurance --data utkface:DIR``: the tables of docs/assurance.md, and what they are made of.

Trains a small age predictor (or takes --model), exports it to LiteRT in fp32 and int8-static, judges the checkpoint and both
files under ``fate-aev``, writes ``docs/data/evaluation-utkface.json`` and the tables between the markers of the page. More
models, say an unlearned one and its oracle, come with --also. Tests hold page and JSON together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from unplug.core import atomic_path
from unplug.export import export_checkpoint
from unplug.plugins import load_checkpoint
from unplug.sdk.assurance import (
    Asking,
    EvaluationReport,
    JudgedModels,
    ModelEvaluation,
    Rate,
    copies_left_out,
    evaluate,
    read_evaluation,
)
from unplug.sdk.conditions import real_inputs
from unplug.sdk.data import load_dataset, make_split
from unplug.sdk.statistics import Estimate
from unplug.sdk.tasks import train_age
from unplug.sdk.training import Recipe, pick_device

from .pages import filled

CALIBRATION = 128
PRECISIONS = ("fp32", "int8-static")


def markdown(report: EvaluationReport) -> str:
    """Three tables: every model at the limits, the first model by group, and what the sample cannot say."""
    ages = [item.age for item in report.models[0].challenges]
    head = ["model", "MAE, years", "within 5", *(f"minors pass {age:g}" for age in ages), f"14 to 17 pass {ages[-1]:g}",
            f"18 to 24 rejected at {ages[-1]:g}", "13 to 16 seem so"]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    lines += [f"| {' | '.join(_row(model))} |" for model in report.models]
    first = report.models[0]
    lines += ["", "| group | people | MAE, years | above others of the same ages | minors pass 25 |", "|---|--:|--:|--:|--:|"]
    passing = first.challenges[-1].by_group
    lines += [
        f"| {row.cell} | {row.people} | {_years(row.mae)} | {_years(row.gap)} | {_share(passing[row.cell])} |"
        for row in first.groups
        if "," not in row.cell
    ]
    lines += ["", *_processing(report), *(f"- not said: {name}: {why}." for name, why in report.refused.items())]
    lines += [f"- alarm, {alarm.kind} ({alarm.model}): {alarm.message}." for alarm in report.alarms]
    return "\n".join(lines) + "\n"


def _processing(report: EvaluationReport) -> Iterator[str]:
    if report.people.copies is not None:
        yield f"- {copies_left_out(report.people.copies)}."
    if (found := report.processing) is not None and found.any is not None:
        reasons = ", ".join(f"{fault} {share.events}" for fault, share in found.faults.items())
        yield f"- failure to process by the quality check of faces: {_share(found.any)} of {found.any.pictures} ({reasons})."


def _row(model: ModelEvaluation) -> list[str]:
    last = model.challenges[-1]
    return [
        f"`{model.label}`", _years(model.mae, 2), f"{100 * model.cumulative['5'].value:.0f} %",
        *(_share(item.minors) for item in model.challenges), _share(last.fate_minors), _share(last.rejected),
        _share(model.teenagers.true_positives),
    ]  # fmt: skip


def _years(item: Estimate | None, digits: int = 1) -> str:
    if item is None:
        return "too few people"
    ends = "" if item.low is None or item.high is None else f" ({item.low:.{digits}f} to {item.high:.{digits}f})"
    return f"{item.value:.{digits}f}{ends}"


def _share(found: Rate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return f"{found.people} people are too few"
    return f"{100 * found.value:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def with_tables(page: str, report: EvaluationReport) -> str:
    """The page with the tables of a report between its markers."""
    return filled(page, "evaluation", "\n" + markdown(report) + "\n")


@click.command()
@click.option("--data", "spec", required=True, help="Data of the training, for example utkface:DIR.")
@click.option("--model", type=click.Path(path_type=Path), help="A checkpoint that was trained on it (default: one is trained).")
@click.option("--also", multiple=True, type=click.Path(path_type=Path), help="More checkpoints of the same split.")
@click.option("--epochs", default=12, show_default=True, help="Of the model that is trained here.")
@click.option(
    "--face-landmarker", type=click.Path(path_type=Path), envvar="UNPLUG_FACE_LANDMARKER", help="For the quality check."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/data/evaluation-utkface.json"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path), default=Path("docs/assurance.md"), show_default=True)
def main(
    spec: str, model: Path | None, also: tuple[Path, ...], epochs: int, face_landmarker: Path | None, out: Path, page: Path
) -> None:
    """Trains, exports, judges, and writes the numbers and the page."""
    device = pick_device("auto")
    with tempfile.TemporaryDirectory() as scratch:
        if model is None:
            model = Path(scratch) / "model"
            recipe = Recipe(size="nano", image_size=64, epochs=epochs)
            dataset = load_dataset(spec, recipe.image_size)
            train_age(dataset, make_split(dataset), recipe, model, seed=0, device=device)
        checkpoint = load_checkpoint(model, expect="age")
        dataset = load_dataset(spec, checkpoint.model.image_size)
        inputs = real_inputs(checkpoint, dataset, CALIBRATION, part="retain")
        files = export_checkpoint(
            model, targets=["litert"], precisions=list(PRECISIONS), out=Path(scratch) / "files", calibration=inputs
        )
        asked = JudgedModels(models=[model, *also, *(item.path for item in files)], data=dataset, landmarker=face_landmarker)
        report = evaluate(asked, "fate-aev", Asking(), device=device)
    kind, _, place = report.data["spec"].partition(":")
    settings = {
        **report.settings, "recipe": checkpoint.record.get("recipe"),
        "command": "python -m benchmarks.assurance --data utkface:DIR --model unlearned --also original --also retrained",
    }  # fmt: skip
    replace(report, data={**report.data, "spec": f"{kind}:{Path(place).name}"}, settings=settings).save(out)
    with atomic_path(page) as temporary:
        temporary.write_text(with_tables(page.read_text(encoding="utf-8"), read_evaluation(out)), encoding="utf-8")


if __name__ == "__main__":
    main()
