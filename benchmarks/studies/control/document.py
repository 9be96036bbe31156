"""The tables of docs/comparison.md: ``python -m benchmarks.studies.control.document docs/comparison.md JSON...``.

Each JSON is the compare.json of a comparison. What stands between the markers is replaced; a picture
docs/images/compare-CONDITION.webp is shown where it is there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import filled
from unplug.core import NONE, atomic_path, fixed, percent
from unplug.sdk.diffusion import ControlRecipe

from . import (
    JUDGE_RECIPE,
    METRICS,
    CompareRequest,
    ComparisonReport,
    Row,
    has_curves,
    read_comparison,
)
from .page import (
    TRAINING_HEADER,
    VERDICT_HEADER,
    absences,
    difference_cells,
    difference_header,
    giga,
    measure_cells,
    millions,
    over_base,
    rivals,
    training_cells,
    verdict_cells,
)

SOURCES = ("compare-face_landmark.json", "compare-canny.json")
"""What docs/comparison.md is made of, in docs/data."""
OPTIONS = ("steps", "batch_size", "timesteps", "weighting", "drop_text", "precision")
"""Of the recipe, those that `compare` takes."""


def tables(reports: Sequence[ComparisonReport], page: Path) -> str:
    """A section a comparison.

    Args:
        reports: in the order of the page.
        page: pictures are looked for beside it.
    """
    return "".join(_section(report, page) for report in reports)


def _own_steps(report: ComparisonReport) -> dict[str, int]:
    """Label of a control to its steps, where it has others than the rest."""
    usual, own = report.recipe["steps"], report.settings.get("control_steps", {})
    return {row.label: own[row.name] for row in report.rows if own.get(row.name, usual) != usual}


def _name(report: ComparisonReport) -> str:
    """Of its pictures: the condition's, and steps of its own."""
    return "-".join([report.condition["kind"], *map(str, _own_steps(report).values())])


def _picture(report: ComparisonReport, page: Path) -> str:
    name = f"compare-{_name(report)}.webp"
    folder = "images" if (page.parent / "images" / name).is_file() else None
    rows = ["condition", *(row.label for row in report.rows if row.role != "floor")]
    return f"![The first six held-out samples: {', '.join(rows)}]({folder}/{name})\n\n" if folder else ""


def _section(report: ComparisonReport, page: Path) -> str:
    own = [f"{label} with {steps:,} steps" for label, steps in _own_steps(report).items()]
    head = f"\n## {', '.join([report.condition['kind'], *own])}\n\n```console\n{command_of(report)}\n```\n\n"
    parts = [head, _picture(report, page), f"{_facts(report)}\n\n{main_table(report)}"]
    if report.reference is not None and rivals(report):
        cells = [difference_cells(report, row) for row in rivals(report)]
        head = "Differences on the same pictures, with 95 % intervals; percent become percentage points."
        parts.append(f"\n{head}\n\n{_table(difference_header(report), cells)}")
    if report.verdicts:
        parts.append(f"\nVerdicts by those intervals.\n\n{_table(VERDICT_HEADER, verdict_cells(report), numbers=False)}")
    if any(row.attributes for row in report.rows):
        parts.append(f"\n{_attributes(report)}")
    parts.append(f"\n{_trainings(report, page)}\n" + "".join(f"- {line}\n" for line in (*absences(report), *report.notes)))
    return "".join(parts)


def _facts(report: ComparisonReport) -> str:
    data, settings, timing = report.data, report.settings, report.settings["timing"]
    rises = " in the mean, rising" if settings.get("guidance_schedule") == "linear" else ""
    return (
        f"{len(report.pictures)} pictures a row, {settings['sampling_steps']} steps, guidance {settings['guidance']:g}{rises}; "
        f"trained on {data['train']:,} samples; Fréchet distances from {report.features.real:,} other held-out pictures. "
        f"Times are of batch 1 on {settings['device']}, median of {settings['timing_rounds']} interleaved rounds, load average "
        f"{timing['load_before']:.1f} before and {timing['load_after']:.1f} after. In brackets: 95 % intervals, and "
        "quartiles of the times."
    )


def main_table(report: ComparisonReport, columns: Sequence[str] | None = None) -> str:
    """Markdown: a row for each way to make pictures.

    Args:
        report: the comparison.
        columns: names of `METRICS`; default: all that any row has, but for the ratio, which is a difference.
    """
    names = [name for name in columns or report.columns if name != "frechet_ratio" and name in report.columns]
    head = ["", "parameters", "MACs", *(_head(name) for name in names), "s a picture", "of the base's"]
    return _table(head, [_cells(row, names) for row in report.rows])


def _head(name: str) -> str:
    return f"{METRICS[name].label} {'↓' if METRICS[name].better == 'lower' else '↑'}"


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    cells, speed = [row.label, millions(row.parameters), giga(row.macs), *measure_cells(row, names)], row.speed
    if speed is None:
        return [*cells, NONE, NONE]
    return [*cells, f"{fixed(speed.median)} ({fixed(speed.low)} to {fixed(speed.high)})", over_base(row)]


def _attributes(report: ComparisonReport) -> str:
    judge = report.judge
    names = list(dict.fromkeys(name for row in report.rows for name in row.attributes))
    ceiling = {} if judge is None else judge.accuracy
    head = ["attribute", "judge on real faces", *(row.label for row in report.rows)]
    cells = [
        [name, percent(ceiling.get(name)), *(percent(row.attributes[name].value) if name in row.attributes else NONE
                                             for row in report.rows)]
        for name in names
    ]  # fmt: skip
    return f"Share of prompts whose attribute the judge reads as named.\n\n{_table(head, cells)}"


def _trainings(report: ComparisonReport, page: Path) -> str:
    batch, name = report.recipe["batch_size"], f"curves-{_name(report)}.png"
    there = has_curves(report) and (page.parent / "images" / name).is_file()
    curves = f"![Validation loss of each training against steps and seconds](images/{name})\n\n" if there else ""
    return f"{curves}Trainings: steps of {batch} samples.\n\n{_table(TRAINING_HEADER, training_cells(report))}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---|" + ("--:|" if numbers else "---|") * (len(head) - 1), *lines[1:]]) + "\n"


def command_of(report: ComparisonReport) -> str:
    """The command that makes a comparison again; folders and files go by their names, or by what they are."""
    settings, recipe, usual = report.settings, report.recipe, ControlRecipe()
    controls = [row for row in report.rows if row.role == "control"]
    options = [("base", report.base["name"]), ("condition", report.condition["kind"])]
    options += [("set", f"{name}={value}") for name, value in report.condition["options"].items()]
    options += [("data", report.data["spec"]), ("controls", ",".join(row.name for row in controls))]
    options += [(name.replace("_", "-"), recipe[name]) for name in OPTIONS if recipe[name] != getattr(usual, name)]
    options += [("lr", f"{row.name}={_rates(row)}") for row in controls if row.trainings]
    options += [("zero-rate", f"{row.name}={_factors(row)}") for row in controls if _factors(row) != "1"]
    options += [("control-steps", f"{name}={steps}") for name, steps in settings.get("control_steps", {}).items()]
    options += [(name, value) for name in ("search-steps", "curve-every") if (value := settings.get(name.replace("-", "_")))]
    options += [("seeds", len(settings["training_seeds"])), ("pictures", len(report.pictures))]
    options += [("sampling-steps", settings["sampling_steps"]), ("guidance", f"{settings['guidance']:g}")]
    options += [("rounds", settings["timing_rounds"])] if settings["timing_rounds"] != CompareRequest.rounds else []
    options += [("judge-steps", report.judge.steps)] if report.judge and report.judge.steps != JUDGE_RECIPE.steps else []
    options += [("split", "SPLIT.json")] if report.data["split_given"] else []
    options += [("plugin", "PLUGIN")] if any(one.given for row in controls for one in row.trainings + row.tried) else []
    options += [("seed", settings["seed"])] if settings["seed"] else []
    return " ".join(["python -m benchmarks.studies compare", *(f"--{name} {value}" for name, value in options), "--out DIR"])


def _rates(row: Row) -> str:
    return ",".join(dict.fromkeys(f"{one.lr:g}" for one in row.tried or row.trainings[:1]))


def _factors(row: Row) -> str:
    return ",".join(dict.fromkeys(f"{one.zero_rate:g}" for one in row.tried or row.trainings[:1]))


def with_tables(text: str, reports: Sequence[ComparisonReport], page: Path) -> str:
    """The page with the tables of some comparisons between its markers."""
    return filled(text, "comparison", tables(reports, page))


def main(page: Path, sources: Sequence[Path]) -> None:
    """Reads the comparisons and writes the page."""
    text = with_tables(page.read_text(encoding="utf-8"), [read_comparison(path) for path in sources], page)
    with atomic_path(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
