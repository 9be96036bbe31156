"""What a size takes on a device before anybody trains it: by rows of that device, or by sizes that
are timed here first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unplug.core import Child, InputError, milliseconds
from unplug.export import Artifact, export_checkpoint, load_artifact
from unplug.mobile_bench import BenchReport, Calibration, Plan, bench_artifacts
from unplug.plugins import save_checkpoint
from unplug.sdk.drawing.conditions import example_inputs

from .order import TimedOn
from .space import Space
from .trials import World, sized

ROWS = "bench.json"
TIMED = 10
"""Sizes that are timed to know this machine."""
MOST_DRAWN, NEAR = 20_000, 0.7
"""Sizes that are drawn at most; the least share of a budget that a candidate for it takes."""

Say = Callable[[str], None]


def known_here(world: World, space: Space, folder: Path, device: TimedOn, say: Say) -> TimedOn:
    """This machine with rows of its own: sizes without training, from the smallest to the largest
    that is drawn, timed side by side.
    """
    report = folder / ROWS
    if not report.is_file():
        rng = np.random.default_rng(0)
        drawn = sorted((space.draw(rng) for _ in range(400)), key=lambda size: macs(space, size))
        wanted = np.geomspace(macs(space, drawn[4]), macs(space, drawn[-5]), TIMED).tolist()
        sizes = [min(drawn, key=lambda size: abs(macs(space, size) - value)) for value in wanted]
        say(f"timing {len(sizes)} sizes to know this machine ...")
        places = dict[Path, Path]()
        for number, size in enumerate(dict.fromkeys(sizes)):
            model, place = sized(world.task, size, 1).build(world.sets.train), folder / f"{number}"
            save_checkpoint(model, place, record={}, card="")
            places[place] = folder / f"{number}-file"
        timed(exported(places), device.threads).save(report)
    return replace(device, rows=(report,), artifacts=(folder,), threads=device.threads or 1)


def exported(places: Mapping[Path, Path]) -> list[Artifact]:
    """A LiteRT file of each checkpoint, in the folder named for it; one that is there is taken."""
    made = list[Artifact]()
    with Child() as child:
        for checkpoint, folder in places.items():
            known = [load_artifact(path) for path in folder.glob("*.tflite")]
            made += known or export_checkpoint(
                checkpoint, targets=["litert"], out=folder, children={"litert": child}
            )
    return made


def timed(artifacts: Sequence[Artifact], threads: int | None) -> BenchReport:
    """Milliseconds on this machine, side by side."""
    card = artifacts[0].card
    return bench_artifacts(
        artifacts,
        plan=Plan(threads=threads or 1, iterations=30, repeats=5),
        inputs=example_inputs(card.model_type, card.iospec, 2),
    )


def macs(space: Space, size: str) -> int:
    """Multiply-accumulates of a size."""
    return space.work(size).total_macs


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Sizes for each budget.

    Args:
        sizes: budget in milliseconds to sizes that take at most that and at least `NEAR` of it.
        drawn: the number of draws until then.
    """

    sizes: dict[float, list[str]]
    drawn: int


def draw(
    space: Space, known: Calibration, at: Sequence[float], count: int, seed: int
) -> Candidates:
    """Draws sizes until every budget has `count`; what is too slow for all is never trained.

    Raises:
        InputError: no size that was drawn takes so little, or so much.

    Reference:
        Termritthikun et al., EEEA-Net: An Early Exit Evolutionary Neural Architecture Search, 2021
        (candidates that exceed a limit are dropped before they are trained).
    """
    rng, found = np.random.default_rng([seed, 46]), {budget: list[str]() for budget in at}
    number, fastest, slowest = 0, np.inf, 0.0
    while number < MOST_DRAWN and any(len(sizes) < count for sizes in found.values()):
        size, number = space.draw(rng), number + 1
        took = known.predict(space.work(size))
        fastest, slowest = min(fastest, took), max(slowest, took)
        for budget, sizes in found.items():
            if NEAR * budget <= took <= budget and len(sizes) < count and size not in sizes:
                sizes.append(size)
    for budget, sizes in found.items():
        if not sizes:
            why = (
                f"none of {number:,} drawn sizes takes {NEAR * budget:.3g} to {budget:g} ms: they "
                f"take {milliseconds(fastest)} to {milliseconds(slowest)} ms"
            )
            raise InputError(f"`at` {budget:g}", why, "Ask for milliseconds between these")
    return Candidates(sizes=found, drawn=number)
