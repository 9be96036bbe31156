"""The tables of docs/comparison.md: ``python -m benchmarks.studies.control.document
docs/comparison.md JSON...``.

Each JSON is the compare.json of a comparison. What stands between the markers is replaced; a
picture docs/images/compare-CONDITION.webp is shown where it is there. A note that several
comparisons share stands once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import filled
from unplug.core import atomic_path
from unplug.sdk.drawing.diffusion import ControlRecipe
from unplug.sdk.report.page import Notes

from ..pages import markdown
from . import JUDGE_RECIPE, CompareRequest, ComparisonReport, Row, read_comparison
from .page import blocks

SOURCES = ("compare-face_landmark.json", "compare-canny.json")
"""What docs/comparison.md is made of, in docs/data."""
ON_PAGE = ("All controls were trained beside", "Gained late:", "Fréchet distances are extrapolated")
"""Beginnings of notes that the page says in its own words, once for all comparisons."""
OPTIONS = ("steps", "batch_size", "timesteps", "weighting", "drop_text", "precision")
"""Of the recipe, those that `compare` takes."""


def _own_steps(report: ComparisonReport) -> dict[str, int]:
    """Label of a control to its steps, where it has others than the rest."""
    usual, steps_of = report.recipe["steps"], report.settings.get("control_steps", {})
    return {
        row.label: steps_of[row.name]
        for row in report.rows
        if steps_of.get(row.name, usual) != usual
    }


def _name(report: ComparisonReport) -> str:
    """Of its pictures: the condition's, and steps of its own."""
    return "-".join([report.condition["kind"], *map(str, _own_steps(report).values())])


def _pictures(report: ComparisonReport, page: Path) -> str:
    """What lies beside the page: the first samples, and the curves of the trainings."""
    rows = ["condition", *(row.label for row in report.rows if row.role != "floor")]
    captions = {
        f"compare-{_name(report)}.webp": f"The first six held-out samples: {', '.join(rows)}",
        f"curves-{_name(report)}.png": "Validation loss of each training against steps and seconds",
    }
    there = [name for name in captions if (page.parent / "images" / name).is_file()]
    return "".join(f"![{captions[name]}](images/{name})\n\n" for name in there)


def _section(report: ComparisonReport, page: Path, said: set[str]) -> str:
    longer = [f"{label} with {steps:,} steps" for label, steps in _own_steps(report).items()]
    head = (
        f"\n## {', '.join([report.condition['kind'], *longer])}\n\n```console\n{command_of(report)}\n"
        "```\n\n"
    )
    *made, notes = blocks(report, attributes=False)
    if isinstance(notes, Notes):
        new = [line for line in notes.lines if line not in said and not line.startswith(ON_PAGE)]
        said.update(new)
        notes = Notes(lines=new)
    tables = "\n".join(map(markdown, (*made, notes)))
    return f"{head}{_pictures(report, page)}{_facts(report)}\n\n{tables}"


def _facts(report: ComparisonReport) -> str:
    data, settings, timing = report.data, report.settings, report.settings["timing"]
    rises = " in the mean, rising" if settings.get("guidance_schedule") == "linear" else ""
    return (
        f"{len(report.pictures)} pictures a row, {settings['sampling_steps']} steps, guidance "
        f"{settings['guidance']:g}{rises}; "
        f"trained on {data['train']:,} samples; Fréchet distances from {report.features.real:,} "
        "other held-out pictures. "
        f"Times are of batch 1 on {settings['device']}, median of {settings['timing_rounds']} "
        "interleaved rounds, load average "
        f"{timing['load_before']:.1f} before and {timing['load_after']:.1f} after."
    )


def command_of(report: ComparisonReport) -> str:
    """The command that makes a comparison again; folders and files go by their names, or by what
    they are.
    """
    settings, recipe, usual = report.settings, report.recipe, ControlRecipe()
    controls = [row for row in report.rows if row.role == "control"]
    rounds, judge = settings["timing_rounds"], report.judge
    given = any(one.given for row in controls for one in row.trainings + row.tried)
    options = {
        "base": report.base["name"],
        "condition": report.condition["kind"],
        "set": [f"{name}={value}" for name, value in report.condition["options"].items()],
        "data": report.data["spec"],
        "controls": ",".join(row.name for row in controls),
        **{name: recipe[name] for name in OPTIONS if recipe[name] != getattr(usual, name)},
        "lr": [f"{row.name}={_rates(row)}" for row in controls if row.trainings],
        "zero-rate": [f"{row.name}={_factors(row)}" for row in controls if _factors(row) != "1"],
        "control-steps": [
            f"{name}={steps}" for name, steps in settings.get("control_steps", {}).items()
        ],
        "search-steps": settings.get("search_steps") or [],
        "curve-every": settings.get("curve_every") or [],
        "seeds": len(settings["training_seeds"]),
        "pictures": len(report.pictures),
        "sampling-steps": settings["sampling_steps"],
        "guidance": f"{settings['guidance']:g}",
        "rounds": [] if rounds == CompareRequest.rounds else rounds,
        "judge-steps": [] if judge is None or judge.steps == JUDGE_RECIPE.steps else judge.steps,
        "split": "SPLIT.json" if report.data["split_given"] else [],
        "plugin": "PLUGIN" if given else [],
        "seed": settings["seed"] or [],
    }
    words = [
        f"--{name.replace('_', '-')} {value}"
        for name, values in options.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return " ".join(["python -m benchmarks.studies compare", *words, "--out DIR"])


def _rates(row: Row) -> str:
    return ",".join(dict.fromkeys(f"{one.lr:g}" for one in row.tried or row.trainings[:1]))


def _factors(row: Row) -> str:
    return ",".join(dict.fromkeys(f"{one.zero_rate:g}" for one in row.tried or row.trainings[:1]))


def main(page: Path, sources: Sequence[Path]) -> None:
    """Reads the comparisons and writes the page: a section a comparison, in their order."""
    said: set[str] = set()
    body = "".join(_section(read_comparison(path), page, said) for path in sources)
    with atomic_path(page) as temporary:
        text = filled(page.read_text(encoding="utf-8"), "comparison", body)
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
