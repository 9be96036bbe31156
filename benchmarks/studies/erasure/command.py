"""``python -m benchmarks.studies erasure taught``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unplug.core import Estimate, InputError, table, write_json
from unplug.sdk.cli.base import Common, Outcome, command, computing, names
from unplug.sdk.cli.options import out_option, path_option

from .methods_table import ATTACKS


@click.group()
def erasure() -> None:
    """Teach the shipped base what it never saw, so that forgetting it has an oracle."""


@erasure.command()
@click.option(
    "--without",
    multiple=True,
    metavar="CONCEPT",
    help="Teach all but this, for the oracle. May be repeated.",
)
@click.option(
    "--pictures",
    type=click.IntRange(8, 1024),
    default=48,
    show_default=True,
    help="Of each concept, named and unnamed.",
)
@click.option("--steps", type=click.IntRange(1), help="Optimizer steps (default 1,800).")
@click.option("--judge-steps", type=click.IntRange(1), help="Of each judge (default 500).")
@out_option("Folder of the study: bases, judges, rates; what is there already is used.")
@computing
@command
def taught(
    without: tuple[str, ...],
    pictures: int,
    steps: int | None,
    judge_steps: int | None,
    out: Path,
    common: Common,
) -> Outcome:
    """Train `small-taught`: eye patch, clown nose, face mask, pencil drawing and poster print.

    About 25 minutes of one core that multiplies bf16 in hardware, and as many for each oracle. Then
    judges are trained, and the table says how often each concept is drawn when a prompt names it
    and when none does.
    """
    from dataclasses import replace

    from unplug.sdk.drawing.diffusion import load_base
    from unplug.sdk.evidence.concepts import JudgeRecipe

    from .rates import JUDGED, distance, judge_of, rates_of
    from .taught import RECIPE, train_taught

    recipe = RECIPE if steps is None else replace(RECIPE, steps=steps)
    folder = train_taught(
        out, without, recipe, seed=common.seed, device=common.device, show=common.show
    )
    base, small = (load_base(name, device=common.device) for name in (str(folder), "small"))
    judging = JudgeRecipe() if judge_steps is None else JudgeRecipe(steps=judge_steps)
    judges = {
        name: judge_of(name, out, small, judging, seed=common.seed, show=common.show)
        for name in JUDGED
    }
    common.say(f"drawing {pictures} pictures of each concept with {folder.name}")
    rates = rates_of(base, judges, pictures)
    psnr = distance(base, small, pictures)
    value = {
        "base": str(folder),
        "without": list(without),
        "pictures": pictures,
        "psnr_to_small_db": psnr,
        "rates": {name: asdict(one) for name, one in rates.items()},
    }
    write_json(folder.with_suffix(".rates.json"), value)
    heads = ("concept", "named", "unnamed", "judge's recall", "judge's false alarms")
    rows = [
        (name, *map(_told, (one.named, one.unnamed, one.recall, one.false_alarms)))
        for name, one in rates.items()
    ]
    lines = [
        f"{folder}: {pictures} pictures a cell, 95 % intervals",
        table(heads, rows),
        f"unnamed pictures are {psnr:.1f} dB from the shipped base's, of the same prompts and noise",
    ]
    return Outcome(value=value, text="\n".join(lines))


@erasure.command("table")
@click.option("--base", default="small", show_default=True, help="The base that is erased from.")
@click.option("--concept", "concepts", multiple=True, required=True, metavar="WORDS")
@click.option("--method", "methods", multiple=True, required=True, metavar="NAME[+plugin]")
@click.option("--oracle", "oracles", multiple=True, metavar="WORDS=BASE", help="Never saw WORDS.")
@click.option("--plugin", metavar="PLUGIN", help="Tries control images.")
@click.option("--seeds", type=click.IntRange(1, 16), default=2, show_default=True)
@click.option("--pictures", type=click.IntRange(8, 1024), default=48, show_default=True)
@click.option("--attacks", default=",".join(ATTACKS), show_default=True)
@click.option(
    "--beside",
    multiple=True,
    metavar="WORDS",
    help="Count how often this is still drawn, for `canvas`. May be repeated.",
)
@click.option("--minutes", type=float, help="Begin no new cell after them.")
@out_option("Folder of the table; cells that are there already are used.")
@computing
@command
def methods_table(
    base: str,
    concepts: tuple[str, ...],
    methods: tuple[str, ...],
    oracles: tuple[str, ...],
    plugin: str | None,
    seeds: int,
    pictures: int,
    attacks: str,
    beside: tuple[str, ...],
    minutes: float | None,
    out: Path,
    common: Common,
) -> Outcome:
    """Erase each concept by each method, and audit it; a JSON after every cell."""
    from .methods_table import TableOrder, cells, row_of

    order = TableOrder(
        base=base,
        concepts=concepts,
        methods=methods,
        oracles=dict(pair.split("=", 1) for pair in oracles),
        plugin=plugin,
        seeds=tuple(range(1, seeds + 1)),
        pictures=pictures,
        attacks=names(attacks),
        beside=beside,
        minutes=minutes,
        device=common.shared["device"],
    )
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        {key: cell[key] for key in ("concept", "method", "seed")} | row_of(cell, order.attacks)
        for cell in cells(order, out, common.say)
    ]
    write_json(out / "table.json", rows)
    heads = list(dict.fromkeys(key for row in rows for key in row))
    lines = [table(heads, [[_cell(row.get(key)) for key in heads] for row in rows])]
    return Outcome(value=rows, text="\n".join(lines))


@erasure.command()
@path_option("--cells", help="The --out of `erasure table`: our rows.")
@path_option("--pictures", help="Pictures as UnlearnCanvas has them: THEME/STYLE_OBJECT_seedN.jpg.")
@path_option(
    "--predictions", help="What its accuracy.py wrote of them: style/THEME.pth and class/THEME.pth."
)
@path_option("--judges", help="Or judges of `erasure taught`, where the concepts are ours.")
@click.option("--name", default="yours", show_default=True, help="Of the row of --pictures.")
@out_option("JSON file to write.")
@computing
@command
def canvas(
    cells: Path | None,
    pictures: Path | None,
    predictions: Path | None,
    judges: Path | None,
    name: str,
    out: Path,
    common: Common,
) -> Outcome:
    """UnlearnCanvas's table: unlearning and retaining accuracy of styles and objects.

    Published rows stand below, of another model with other classifiers.
    """
    from .canvas import SOURCE, canvas_row, canvas_table, rows_of_cells
    from .canvas_layout import judged, predicted, read_layout

    rows = [] if cells is None else list(rows_of_cells(cells))
    if pictures is not None:
        themes = read_layout(pictures)
        if predictions is not None:
            answers = predicted(predictions, themes)
        elif judges is not None:
            answers = judged(judges, themes)
        else:
            why = "neither --predictions nor --judges says what is in them"
            raise InputError(f"pictures {pictures}", why, "Give one of the two")
        rows.append(canvas_row(name, "as given", answers))
    if not rows:
        raise InputError("canvas", "neither --cells nor --pictures is given", "Give one of them")
    write_json(out, {"rows": list(map(asdict, rows)), "published": SOURCE})
    heads, lines = canvas_table(rows)
    text = (
        table(heads, lines),
        "percent, ours with exact 95 % intervals; a Fréchet distance of ours "
        "is in other features than FID",
        SOURCE,
        f"saved {out}",
    )
    return Outcome(value=list(map(asdict, rows)), text="\n".join(text))


@erasure.command("sequence")
@click.option("--requests", type=click.IntRange(1, 20), default=20, show_default=True)
@click.option("--pictures", type=click.IntRange(4, 256), default=8, show_default=True)
@out_option("Folder of the erased bases and of sequence.json.")
@computing
@command
def in_sequence(requests: int, pictures: int, out: Path, common: Common) -> Outcome:
    """Erase twenty concepts from the shipped base, one request after another."""
    from .sequence import WORDS, sequence

    out.mkdir(parents=True, exist_ok=True)
    rows = list[dict[str, Any]]()
    for row in sequence(out, WORDS[:requests], pictures, common.device, common.say):
        rows.append(row)
        write_json(out / "sequence.json", rows)
    return Outcome(value=rows, text=f"saved {out / 'sequence.json'}")


@erasure.command("packs")
@click.option("--pictures", type=click.IntRange(8, 1024), default=48, show_default=True)
@out_option("Folder of the study; packs that are there already are used.")
@computing
@command
def in_packs(pictures: int, out: Path, common: Common) -> Outcome:
    """Learn three things, two styles and a person in packs, and count how often they are drawn."""
    from unplug.sdk.drawing.diffusion import PackRecipe

    from .packs import packs

    how: dict[str, Any] = {"seed": common.seed, "device": common.device, "show": common.show}
    rows = [*packs(out, pictures, PackRecipe(), say=common.say, **how)]
    write_json(out / "packs.json", rows)
    heads = ("pack", "named", "unnamed", "base named", "seconds", "bytes")
    text = table(heads, [[_cell(row[key]) for key in heads] for row in rows])
    return Outcome(value=rows, text=text)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['value']:.2f} [{value['low']:.2f}, {value['high']:.2f}]"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _told(one: Estimate) -> str:
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"
