"""Whole images in pairs: what steering adds to an image, beside the sum of its parts.

``python -m benchmarks.overhead.paired --device cuda --minutes 100 --out overhead-pairs.json`` draws
an image of the bare base, one with the plugin and one with a ControlNet, each to its end, round by
round, for every number of steps; base and controls are those of `benchmarks.overhead`. The order
within a round changes, all six in turn, so that none gains by its place.

The overhead is the mean over rounds of 100 (given - base) / base, with Student's interval at 95 %
over the rounds. A number of steps is done once the plugin's interval reaches 0.2 % to either side
at most, after `FEWEST` rounds or more; at `--rounds`; or when its share of `--minutes` is spent.
What the interval does not support then is "cannot tell". Rounds end by the width of the interval
and never by its place, so that looking after every round favours no answer.

The JSON is written after every round, and the same command goes on from it. An idle machine is
needed: the load average of each round stands beside its seconds. On an idle GPU a round of 50 steps
takes seconds; on two CPU cores about 20 minutes, so that no CPU will tell the plugin's overhead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import click
import psutil
import torch

from benchmarks.overhead.__main__ import COLD_BYTES, COUNTED, DTYPES, NOT_COUNTED, command_of
from benchmarks.overhead.cold import Cold
from benchmarks.overhead.measure import Clock, measure
from benchmarks.overhead.names import BARE, CONTROLNET, PLUGIN
from benchmarks.overhead.parts import QUICK, SD15, Base, Control, Size, build
from benchmarks.overhead.report import CLOCK, Pieces
from benchmarks.overhead.telling import LIMIT_PERCENT, added_percent, resolved, told
from benchmarks.overhead.work import pieces, residual_shapes
from unplug.core import InputError, read_json, versions, write_json
from unplug.core import installed_versions as installed
from unplug.sdk.learning.training import describe_device, pick_device, synchronize

SCHEMA = "unplug-overhead-pairs/1"
STEPS = "50,25,20,6,4"
"""The numbers of steps that are drawn; 50 and 20 are those of the published study."""
FEWEST = 12
"""Rounds before the interval may end them: its width is uncertain by a fifth then."""
PARTS_ROUNDS = 3
ORDERS = tuple(permutations((BARE, PLUGIN, CONTROLNET)))

Row = dict[str, Any]
Images = Mapping[str, Callable[[], object]]


def one_round(
    images: Images, number: int, device: torch.device, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Seconds of one image of each, in the order that is this round's turn."""
    seconds = {}
    for name in ORDERS[number % len(ORDERS)]:
        synchronize(device)
        start = clock()
        images[name]()
        synchronize(device)
        seconds[name] = clock() - start
    return seconds


def rounds_of(row: Row) -> int:
    """Rounds that a row has."""
    return len(row["seconds"][BARE])


def narrow(row: Row) -> bool:
    """Whether the plugin's overhead is told, after rounds enough."""
    seconds = row["seconds"]
    return rounds_of(row) >= FEWEST and resolved(
        added_percent(seconds[PLUGIN], seconds[BARE]), PLUGIN
    )


def draw_rounds(
    row: Row,
    images: Images,
    device: torch.device,
    *,
    most: int,
    until: float,
    save: Callable[[], None],
    clock: Clock = time.perf_counter,
) -> None:
    """Adds rounds to a row until its interval is narrow, it has the most, or its time is over.

    Args:
        row: steps and seconds, of rounds that were drawn before as well.
        images: draws one image, by name.
        device: waited for before and after an image.
        most: rounds.
        until: the clock's time after which no round begins.
        save: called after every round.
        clock: seconds.
    """
    while rounds_of(row) < most and clock() < until and not narrow(row):
        row["load_average"].append(psutil.getloadavg()[0])
        for name, seconds in one_round(images, rounds_of(row), device, clock).items():
            row["seconds"][name].append(seconds)
        save()


def overheads(row: Row, samples: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each control adds, in percent of the base's image: by pairs, and by its parts."""
    seconds, parts = row["seconds"], Pieces(run={"samples": samples}, clock=CLOCK)
    base_s = sum(seconds[BARE]) / len(seconds[BARE])
    found = {}
    for name in (PLUGIN, CONTROLNET):
        work_R = parts.work(name, row["steps"], guidance=True)
        percent = added_percent(seconds[name], seconds[BARE])
        found[name] = {
            "percent": asdict(percent),
            "told": told(percent, name),
            "parts_percent": 100 * sum(work_R) / len(work_R) / base_s,
        }
    return found


def markdown(facts: dict[str, Any]) -> str:
    """A row for each number of steps that has rounds."""
    heads = [f"{name}, {way}" for name in (PLUGIN, CONTROLNET) for way in ("pairs", "sum of parts")]
    lines = [f"| steps | rounds | {' | '.join(heads)} |", "|--:" * 6 + "|"]
    for row in filter(rounds_of, facts["rows"]):
        found = overheads(row, facts["parts"]).values()
        cells = [f"{each['told']} | {each['parts_percent']:+.3g} %" for each in found]
        lines.append(f"| {row['steps']} | {rounds_of(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def begun(out: Path, setting: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """The facts of a file that is there already, or new ones; rows of new numbers of steps join.

    Raises:
        InputError: the file is of another setting.
    """
    facts: dict[str, Any] = {"schema": SCHEMA, "setting": setting, "parts": [], "rows": []}
    if out.exists():
        facts = read_json(out)
        if (facts.get("schema"), facts.get("setting")) != (SCHEMA, setting):
            raise InputError(str(out), "it holds another measurement", "Give another --out")
    known = {row["steps"] for row in facts["rows"]}
    facts["rows"] += [
        {"steps": count, "seconds": {name: [] for name in ORDERS[0]}, "load_average": []}
        for count in steps
        if count not in known
    ]
    return facts


@torch.no_grad()
def measured_parts(base: Base, controls: dict[str, Control], cold: Cold) -> list[dict[str, Any]]:
    """Samples of what the plugin and the ControlNet add, each piece by itself, with guidance."""
    works = [
        work
        for work in pieces(base, controls, cold)
        if work.guidance is not False and work.control not in set(controls) - {*ORDERS[0]}
    ]
    device = base.latents_1CHW.device
    return [asdict(sample) for sample in measure(works, PARTS_ROUNDS, device, cold.sweep)]


def setting_of(size: Size, device: torch.device, dtype: str) -> dict[str, Any]:
    """What must be the same for rounds to be of one measurement."""
    side = 8 * size.unet["sample_size"]
    return {
        "device": device.type,
        "machine": describe_device(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": dtype,
        "size": size.name,
        "image": [side, side],
        "guidance": True,
        "limit_percent": LIMIT_PERCENT,
    }


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="JSON; gone on with.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), required=True)
@click.option("--dtype", type=click.Choice(sorted(DTYPES)), help="[default: fp32, on CUDA fp16]")
@click.option("--steps", default=STEPS, show_default=True, help="Numbers of steps.")
@click.option("--rounds", type=click.IntRange(1), default=2000, show_default=True, help="At most.")
@click.option("--minutes", type=click.FloatRange(0.0), help="For all rows.  [default: no limit]")
@click.option("--quick", is_flag=True, help="A shrunk base; its numbers mean nothing.")
@click.pass_context
def main(
    ctx: click.Context,
    out: Path,
    device: str,
    dtype: str | None,
    steps: str,
    rounds: int,
    minutes: float | None,
    quick: bool,
) -> None:
    """Draws pairs, prints a table and writes every time."""
    size, dtype = QUICK if quick else SD15, dtype or ("fp16" if device == "cuda" else "fp32")
    try:
        place = pick_device(device)
        counts = [int(word) for word in steps.split(",")]
        if min(counts) < 1:
            raise ValueError(f"an image has one step or more, and not {min(counts)}")
        facts = begun(out, setting_of(size, place, dtype), counts)
    except (InputError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    end = time.perf_counter() + (60 * minutes if minutes is not None else float("inf"))
    base, controls = build(size, place, DTYPES[dtype])
    cold_bytes = 2**20 if quick else COLD_BYTES[device]
    cold = Cold(residual_shapes(base, controls), cold_bytes, place, DTYPES[dtype])
    facts |= {"command": command_of(ctx, "benchmarks.overhead.paired")}
    facts |= {"counted": COUNTED, "not_counted": NOT_COUNTED}
    facts |= {"versions": versions() | installed(("diffusers", "transformers"))}
    facts["parts"] = facts["parts"] or measured_parts(base, controls, cold)
    open_rows = [row for row in facts["rows"] if row["steps"] in counts]
    for name in ORDERS[0]:  # kernels and memory that a process pays once
        base.generate(controls[name], 1, True)
    for number, row in enumerate(open_rows):
        now = time.perf_counter()
        images = {
            name: partial(base.generate, controls[name], row["steps"], True) for name in ORDERS[0]
        }
        share = (end - now) / (len(open_rows) - number)
        save = partial(write_json, out, facts)
        draw_rounds(row, images, place, most=rounds, until=now + share, save=save)
        if rounds_of(row):
            row["overhead"] = overheads(row, facts["parts"])
            save()
    click.echo(f"{markdown(facts)}\nraw numbers: {out}")


if __name__ == "__main__":
    main()
