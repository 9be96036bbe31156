"""``python -m benchmarks.studies compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from unplug.sdk.cli.base import Common, Outcome, command, computing, names, settings
from unplug.sdk.cli.options import FloatRange, data_option, out_option
from unplug.sdk.cli.options_of import ConfiguredCommand


@click.command(
    "compare",
    cls=ConfiguredCommand,
    config="unplug.sdk.drawing.diffusion:ControlRecipe",
    skip=("lr",),
)
@data_option
@click.option(
    "--condition",
    "kind",
    required=True,
    help="face_landmark, canny, ...: see `unplug list conditions`.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the condition, such as low=100.",
)
@click.option(
    "--base",
    "base_name",
    default="small",
    show_default=True,
    help="small, a diffusers folder, or OWNER/NAME on the hub.",
)
@click.option(
    "--controls",
    default="controlnet,t2i-adapter,plugin",
    show_default=True,
    help="What to compare, comma-separated.",
)
@out_option("Folder of the comparison; a second call does only what is missing there.")
@click.option(
    "--lr",
    "rates",
    multiple=True,
    metavar="NAME=VALUE[,VALUE...]",
    help=(
        "Peak learning rate of a control; may be repeated. Of several, the one with the lowest "
        "validation loss is measured."
    ),
)
@click.option(
    "--zero-rate",
    "factors",
    multiple=True,
    metavar="NAME=FACTOR[,FACTOR...]",
    help=(
        "Factor on the learning rate of a control's kernels that start at zero; of several, each "
        "is tried with each --lr."
    ),
)
@click.option(
    "--control-steps",
    "own_steps",
    multiple=True,
    metavar="NAME=STEPS",
    help="Steps of one control instead of --steps; may be repeated. Rows say how many each had.",
)
@click.option(
    "--search-steps",
    type=click.IntRange(1),
    help="Steps of trainings that only choose among rates [default: all].",
)
@click.option(
    "--curve-every",
    type=click.IntRange(0),
    default=0,
    show_default="none",
    help="Steps between points of the validation curve.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Trainings of each control.",
)
@click.option(
    "--pictures",
    type=click.IntRange(4, 100_000),
    default=512,
    show_default=True,
    help="Pictures of each row.",
)
@click.option(
    "--sampling-steps",
    type=click.IntRange(1, 1000),
    help="Denoising steps of a picture [default: as the base is drawn].",
)
@click.option(
    "--guidance",
    type=FloatRange(1, 100),
    help="Scale of classifier-free guidance; 1 turns it off [default: as the base is drawn].",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=7,
    show_default=True,
    help="Timed rounds, one picture a row each.",
)
@click.option(
    "--judge-steps",
    type=click.IntRange(1),
    help="Training steps of the attribute judge (default 1,600).",
)
@click.option(
    "--plugin",
    type=click.Path(path_type=Path),
    help="A plugin that `unplug train plugin` trained in the same way.",
)
@click.option(
    "--split", type=click.Path(path_type=Path), help="Use this split file instead of drawing one."
)
@computing
@command
def compare(
    spec: str,
    on_bad: Any,
    kind: str,
    pairs: tuple[str, ...],
    base_name: str,
    controls: str,
    out: Path,
    rates: tuple[str, ...],
    factors: tuple[str, ...],
    own_steps: tuple[str, ...],
    search_steps: int | None,
    curve_every: int,
    seeds: int,
    pictures: int,
    sampling_steps: int | None,
    guidance: float | None,
    rounds: int,
    judge_steps: int | None,
    plugin: Path | None,
    split: Path | None,
    common: Common,
    **recipe_options: Any,
) -> Outcome:
    """Train ControlNet, T2I-Adapter and the plugin beside one frozen base, and compare them.

    All see the same batches. Held-out conditions are drawn from with the same prompts and noise;
    control error, Fréchet distance, attributes of the prompt, noise loss, operations and seconds
    stand in one table, with intervals and with what no control can beat. OUT gets compare.json,
    compare.html, compare.png, controls/ and pictures/; run the same command again after a kill and
    it goes on.
    """
    from unplug.sdk.drawing.diffusion import ControlRecipe

    from ..pages import markdown
    from . import CompareRequest, compare_controls
    from .page import blocks, write_page

    def given(**values: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}

    request = CompareRequest(
        base=base_name,
        spec=spec,
        condition=kind,
        options=settings(pairs),
        out=out,
        controls=names(controls),
        recipe=ControlRecipe(**given(**recipe_options)),
        lrs=_rates(rates, "--lr"),
        zero_rates=_rates(factors, "--zero-rate"),
        steps=_steps(own_steps),
        search_steps=search_steps,
        curve_every=curve_every,
        seed=common.seed,
        seeds=seeds,
        pictures=pictures,
        rounds=rounds,
        plugin=plugin,
        split=split,
        on_bad=on_bad,
        **given(sampling_steps=sampling_steps, guidance=guidance),
    )
    if judge_steps is not None:
        request = replace(request, judge=replace(request.judge, steps=judge_steps))
    report = compare_controls(request, device=common.device, show=common.show, say=common.say)
    write_page(report, out / "compare.html")
    saved = ", ".join(str(out / f"compare.{kind}") for kind in ("json", "html", "png"))
    lines = [*map(markdown, blocks(report)), f"saved {saved}"]
    return Outcome(value=report.to_dict(), text="\n".join(lines))


def _rates(pairs: tuple[str, ...], option: str) -> dict[str, tuple[float, ...]]:
    from unplug.core import InputError

    rates: dict[str, tuple[float, ...]] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            values = tuple(float(value) for value in text.split(","))
        except ValueError as error:
            fix = f"Write for example {option} controlnet=0.0003,0.001"
            raise InputError(
                f"{option} {pair}", "it is not NAME=VALUE or NAME=VALUE,VALUE", fix
            ) from error
        rates[name.strip()] = rates.get(name.strip(), ()) + values
    return rates


def _steps(pairs: tuple[str, ...]) -> dict[str, int]:
    from unplug.core import InputError

    steps: dict[str, int] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if not text.strip().isdigit():
            raise InputError(
                f"--control-steps {pair}",
                "it is not NAME=STEPS",
                "Write for example --control-steps controlnet=8000",
            )
        steps[name.strip()] = int(text)
    return steps
