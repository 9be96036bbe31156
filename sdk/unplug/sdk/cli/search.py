"""``unplug search``."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unplug.core import counted, milliseconds, plain, seconds, table
from unplug.sdk import journey

from .base import Common, Outcome, command, computing, folded
from .options import (
    FINE,
    data_option,
    out_option,
    restart_option,
    split_file_option,
    split_options,
)
from .options_of import ConfiguredCommand, given
from .train import split_of_options

if TYPE_CHECKING:
    from unplug.sdk.searching import Front, FrontPoint


@click.command(
    cls=ConfiguredCommand,
    config=(
        "unplug.sdk.searching:SearchOrder unplug.sdk.searching:TimedOn "
        "unplug.sdk.learning.training:Recipe"
    ),
    skip=("size", "edges", "on", *FINE),
)
@click.argument("task", type=click.Choice(["age", "classes"]))
@click.option(
    "--quick",
    is_flag=True,
    help="Short: 3 candidates a budget, 6 epochs, 1 seed, 2,000 pictures. Other options replace it.",
)
@click.option(
    "--on",
    "devices",
    metavar="DEVICE",
    multiple=True,
    help="Short name (default: host, this machine). Once a device; each has a front.",
)
@restart_option("an unfinished search")
@split_file_option
@split_options
@out_option("Folder of the front; an unfinished search there is continued.")
@data_option
@computing
@command
def search(
    task: str,
    spec: str,
    on_bad: Any,
    out: Path,
    split_file: Path | None,
    validation: float,
    test: float,
    quick: bool,
    devices: tuple[str, ...],
    restart: bool,
    common: Common,
    **options: Any,
) -> Outcome:
    """Find networks for some milliseconds on a device: TASK is age or classes.

    Sizes are drawn, and what is too slow is never trained; every third candidate goes on to train
    three times as long. The best of each budget is compared with the sizes made by hand and with a
    random search of equal cost, on people whom the search never saw.

    The milliseconds are of this machine, or of the device whose bench reports are given as --rows.
    """
    from unplug.sdk.learning.data import load_dataset
    from unplug.sdk.learning.training import Recipe
    from unplug.sdk.searching import QUICK, QUICK_RECIPE, SearchOrder, TimedOn

    order = SearchOrder(**(QUICK if quick else {}) | given(SearchOrder, options))
    recipe = (QUICK_RECIPE if quick else {}) | given(Recipe, options)
    read = partial(load_dataset, size=Recipe(**recipe).image_size, on_bad=on_bad, show=common.show)
    dataset = read(spec, labelled=() if task == "classes" else None)
    split = split_of_options(
        dataset, split_file, seed=common.seed, validation=validation, test=test
    )
    known = given(TimedOn, options)
    fronts = journey.search(
        dataset,
        split,
        out=out,
        task=task,  # type: ignore[arg-type]
        order=order,
        on=[TimedOn(**known | {"on": name}) for name in devices] or [TimedOn(**known)],
        on_bad=on_bad,
        restart=restart,
        **common.shared,
        say=common.say,
        **recipe,
    )
    places = [out] if len(fronts) == 1 else [out / front.device for front in fronts]
    lines = [line for pair in zip(fronts, places, strict=True) for line in text_of(*pair)]
    values = [asdict(front) for front in fronts]
    return Outcome(value=values[0] if len(values) == 1 else values, text="\n".join(lines))


def text_of(front: Front, out: Path) -> list[str]:
    """A table of the points, fastest first, and what was found compared with the others."""
    timed = any(point.measured_ms for point in front.points)
    head = ("point", "size", "measured ms" if timed else "estimated ms", front.unit, "kB", "best")
    rows = [
        (
            point.name,
            plain(point.size, 40),
            milliseconds(point.ms),
            _interval(point.error.value, point.error.ends),
            f"{point.bytes / 1000:.0f}",
            "yes" if point.best else "",
        )
        for point in sorted(front.points, key=lambda point: point.ms)
    ]
    cost = front.cost
    lines = [
        table(head, rows),
        folded(
            f"{front.device}, {front.delegate}, by {front.source}; errors of "
            f"{counted(front.people, 'person', 'people')} whom the search never saw"
        ),
        folded(
            f"{counted(cost.trained, 'training')} in {seconds(cost.seconds)} of work, "
            f"{cost.diverged} diverged; {cost.left_out:,} of {cost.drawn:,} drawn sizes were not "
            "trained"
        ),
    ]
    for point in front.points:
        lines += [folded(line) for line in _beside(point, front)]
    return [*lines, f"saved {out}; `unplug report {out}/front.json -o report.html` draws it"]


def _beside(point: FrontPoint, front: Front) -> list[str]:
    """What a point that was found gains on the sizes made by hand and on the random search for its
    budget, as far as the interval says.
    """
    named, lines = {item.name: item for item in front.points}, list[str]()
    for name, less in point.less.items():
        other = named[name]
        own = name == point.name.replace("at", "random", 1)
        if not (own or other.found == "hand") or less.ends is None:
            continue
        low, high = less.ends
        verdict = "less" if low > 0 else "more" if high < 0 else "cannot tell"
        ratio = other.ms / point.ms
        lines.append(
            f"{point.name} beside {name} ({ratio:.2f} times its ms): "
            f"{_interval(less.value, less.ends)} {front.unit} less: {verdict}"
        )
    return lines


def _interval(value: float, ends: tuple[float, float] | None) -> str:
    return f"{value:.2f}" if ends is None else f"{value:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"
