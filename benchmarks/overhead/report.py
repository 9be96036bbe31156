"""What the measured pieces come to, in seconds per image and percent of the bare base; a table for
the README.

``python -m benchmarks.overhead.report FILE`` prints it, and with a second path draws the bars of
its first run there. R rounds, S steps.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.overhead.bars import bars
from benchmarks.overhead.names import ADAPTERS, BARE, CONTROLNET, FULL, PLUGIN, RESIDUALS
from benchmarks.overhead.telling import added_percent, told
from unplug.core import read_json

BUDGET_PERCENT = {"cpu": 0.02, "cuda": 0.1}
"""The most that the plugin's run and additions may add to 50 steps."""
CLOCK, PROCESSOR = "seconds", "processor_seconds"

Run = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """A run's samples by one of its clocks; everything is a list of R seconds, or None where it was
    not measured.
    """

    run: Run
    clock: str

    def get(
        self, part: str, control: str, guidance: bool | None, steps: int | None = None
    ) -> list[float] | None:
        """The median of each round's repeats."""
        for sample in self.run["samples"]:
            if (sample["part"], sample["control"], sample["guidance"], sample["steps"]) == (
                part,
                control,
                guidance,
                steps,
            ):
                rounds = sample[self.clock]
                return (
                    None if rounds is None else [statistics.median(repeats) for repeats in rounds]
                )
        return None

    def need(
        self, part: str, control: str, guidance: bool | None, steps: int | None = None
    ) -> list[float]:
        """The same; `ValueError` where it was not measured."""
        found_R = self.get(part, control, guidance, steps)
        if found_R is None:
            raise ValueError(f"{part} of {control} was not measured by {self.clock}")
        return found_R

    def base(self, steps: int, guidance: bool) -> list[float]:
        """An image of the bare base: run, or S step + decode."""
        if not self.run["extrapolated"]:
            return self.need("whole", BARE, guidance, steps)
        step_R, decode_R = self.need("step", BARE, guidance), self.need("decode", BARE, None)
        return [steps * step + decode for step, decode in zip(step_R, decode_R, strict=True)]

    def each_step(self, control: str, guidance: bool, *, clones: bool = True) -> list[float]:
        """What every step does more: the ControlNet, or clones and additions."""
        if control == CONTROLNET:
            return self.need("network", CONTROLNET, guidance)
        clone_R, add_R = (
            self.need("clone", RESIDUALS, guidance),
            self.need("add", RESIDUALS, guidance),
        )
        return [clones * clone + add for clone, add in zip(clone_R, add_R, strict=True)]

    def work(self, control: str, steps: int, guidance: bool, *, clones: bool = True) -> list[float]:
        """What is added, by itself: once + S each step."""
        once_R, each_R = (
            self.need("once", control, guidance),
            self.each_step(control, guidance, clones=clones),
        )
        return [once + steps * each for once, each in zip(once_R, each_R, strict=True)]

    def in_situ(self, control: str, steps: int, guidance: bool) -> list[float] | None:
        """The same with the clones and additions of a real step."""
        clone_R, add_R = (
            self.get(f"{part} in situ", RESIDUALS, guidance) for part in ("clone", "add")
        )
        if control == CONTROLNET or clone_R is None or add_R is None:
            return None
        once_R = self.need("once", control, guidance)
        return [
            once + steps * (clone + add)
            for once, clone, add in zip(once_R, clone_R, add_R, strict=True)
        ]

    def difference(self, control: str, steps: int, guidance: bool) -> list[float] | None:
        """An image with less an image without: run, or once + S (step with - step without)."""
        if not self.run["extrapolated"]:
            given_R, base_R = (
                self.need("whole", control, guidance, steps),
                self.base(steps, guidance),
            )
            return [given - base for given, base in zip(given_R, base_R, strict=True)]
        given_R = self.get("step", control if control == CONTROLNET else RESIDUALS, guidance) or []
        once_R, step_R = self.need("once", control, guidance), self.need("step", BARE, guidance)
        if not given_R:
            return None
        return [
            once + steps * (given - step)
            for once, given, step in zip(once_R, given_R, step_R, strict=True)
        ]


def rows(run: Run, clock: str = CLOCK) -> list[dict[str, Any]]:
    """One row for each control, number of steps, and batch: seconds, and percent of the bare base
    within each round.

    Args:
        run: with `samples`, `steps` and `extrapolated`.
        clock: `CLOCK` or `PROCESSOR`.
    """
    pieces = Pieces(run=run, clock=clock)
    return [
        _row(pieces, control, steps, guidance)
        for guidance in (True, False)
        for steps in run["steps"]
        for control in (BARE, CONTROLNET, *ADAPTERS)
    ]


def _row(pieces: Pieces, control: str, steps: int, guidance: bool) -> dict[str, Any]:
    base_R, extrapolated = pieces.base(steps, guidance), pieces.run["extrapolated"]
    row: dict[str, Any] = {
        "control": control,
        "steps": steps,
        "guidance": guidance,
        "extrapolated": extrapolated,
        "measured_steps": len(base_R) * (1 if extrapolated else steps),
    }
    if control == BARE:
        return row | {"seconds": spread(base_R)}
    work_R, difference_R = (
        pieces.work(control, steps, guidance),
        pieces.difference(control, steps, guidance),
    )
    by_difference = control == CONTROLNET and difference_R is not None
    chosen_R = difference_R if by_difference and difference_R is not None else work_R
    if extrapolated:
        image_R = [base + added for base, added in zip(base_R, chosen_R, strict=True)]
    else:
        image_R = pieces.need("whole", control, guidance, steps)
    without_R = (
        None if control == CONTROLNET else pieces.work(control, steps, guidance, clones=False)
    )
    return row | {
        "seconds": spread(image_R),
        "by": "difference" if by_difference else "work",
        "overhead_percent": _percent(chosen_R, base_R),
        "work_percent": _percent(work_R, base_R),
        "work_without_clones_percent": _percent(without_R, base_R),
        "difference_percent": _percent(difference_R, base_R),
        "in_situ_percent": _percent(pieces.in_situ(control, steps, guidance), base_R),
        "once_s": spread(pieces.need("once", control, guidance)),
        "each_step_s": spread(pieces.each_step(control, guidance)),
    }


def spread(values_R: Sequence[float]) -> dict[str, float]:
    """Median and range of some repeats, as text."""
    return {"median": statistics.median(values_R), "min": min(values_R), "max": max(values_R)}


def _percent(added_R: Sequence[float] | None, base_R: Sequence[float]) -> dict[str, float] | None:
    if added_R is None:
        return None
    return spread([100 * added / base for added, base in zip(added_R, base_R, strict=True)])


def budget(run: Run) -> list[dict[str, Any]]:
    """What the plugin adds to the most steps against its budget, by each clock; met where the
    median is.
    """
    limit, verdicts = BUDGET_PERCENT[run["device"]], []
    for clock, table in (
        ("clock", run["rows"]),
        ("processor time", run["rows_by_processor_time"] or []),
    ):
        for row in table:
            if row["control"] == PLUGIN and row["steps"] == max(run["steps"]):
                percent = row["overhead_percent"]
                verdicts.append(
                    {
                        "clock": clock,
                        "guidance": row["guidance"],
                        "limit_percent": limit,
                        "percent": percent,
                        "without_clones_percent": row["work_without_clones_percent"],
                        "met": percent["median"] <= limit,
                    }
                )
    return verdicts


def markdown(facts: dict[str, Any]) -> str:
    """A table for each device and precision, with how it was measured above it."""
    return "\n\n".join(f"{caption(run)}\n\n{_table(run)}" for run in facts["runs"])


def caption(run: Run) -> str:
    """What a table shows and how it came about."""
    row = next(row for row in run["rows"] if row["control"] == CONTROLNET)
    if run["extrapolated"]:
        how = (
            f"An image is extrapolated: its steps times a measured step ({row['measured_steps']} "
            "of each kind), plus decoding."
        )
    else:
        how = (
            "Every image was run to its end; what the plugin adds by them: "
            f"{difference_told(run, PLUGIN)}."
        )
    alone = "what the others add was" if row["by"] == "difference" else "what is added was"
    difference = (
        "The ControlNet's overhead is the difference; " if row["by"] == "difference" else ""
    )
    text = f"{difference}{alone} measured by itself."
    rounds = (
        f"median of {run['rounds']} rounds, range in brackets" if run["rounds"] > 1 else "one round"
    )
    shown = (
        f"{run['machine']}, {run['dtype']}, {run['image'][0]}×{run['image'][1]}, {run['size']} "
        f"shape; {rounds}."
    )
    return f"{shown} {how} {text[0].upper()}{text[1:]}"


def difference_told(run: Run, control: str) -> str:
    """What images (steps, where it is extrapolated) with and without a control say of it at the
    most steps with guidance.
    """
    pieces, steps = Pieces(run=run, clock=CLOCK), max(run["steps"])
    difference_R = pieces.difference(control, steps, guidance=True)
    if difference_R is None:
        return "–"
    base_R = pieces.base(steps, guidance=True)
    given_R = [base + more for base, more in zip(base_R, difference_R, strict=True)]
    return told(added_percent(given_R, base_R), control)


def added(facts: dict[str, Any]) -> str:
    """A table for the documents: what a control adds at the most steps with guidance, by its parts
    and by the difference, in the first run of a file.
    """
    run = facts["runs"][0]
    steps = max(run["steps"])
    of = "steps" if run["extrapolated"] else "whole images"
    lines = [
        f"| {run['machine']}, {run['dtype']}: added to {steps} steps | sum of its parts | "
        f"difference of {of}, {run['rounds']} pairs |",
        "|---|--:|--:|",
    ]
    for control in (CONTROLNET, FULL, PLUGIN):
        row = next(
            row
            for row in run["rows"]
            if (row["control"], row["steps"], row["guidance"]) == (control, steps, True)
        )
        lines.append(
            f"| {control} | +{span(row['work_percent'])} % | {difference_told(run, control)} |"
        )
    return "\n".join(lines)


def _table(run: Run) -> str:
    columns = [(steps, guidance) for guidance in (True, False) for steps in run["steps"]]
    heads = [
        f"{steps} steps, {'guidance' if guidance else 'no guidance'}" for steps, guidance in columns
    ]
    lines = [f"|  | parameters | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    for control in (BARE, CONTROLNET, *ADAPTERS):
        there = {
            (row["steps"], row["guidance"]): row for row in run["rows"] if row["control"] == control
        }
        size = f"{run['parameters'][control] / 1e6:.1f} M"
        lines.append(
            f"| {control} | {size} | {' | '.join(_cell(there[column]) for column in columns)} |"
        )
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    if "overhead_percent" not in row:
        return f"{span(row['seconds'])} s"
    sign = "+" if row["overhead_percent"]["median"] >= 0 else ""
    return f"{digits(row['seconds']['median'])} s, {sign}{span(row['overhead_percent'])} %"


def span(values: dict[str, float]) -> str:
    """Median and range as the tables show them; one value of one round."""
    ends = (
        f" ({digits(values['min'])} to {digits(values['max'])})"
        if values["min"] < values["max"]
        else ""
    )
    return f"{digits(values['median'])}{ends}"


def digits(value: float, significant: int = 3) -> str:
    """So many significant digits, never an exponent.

    Example:
        >>> digits(0.012345), digits(43.21), digits(1234.5), digits(0.0)
        ('0.0123', '43.2', '1234', '0')
    """
    if value == 0.0:
        return "0"
    return f"{value:.{max(significant - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def main(path: Path, picture: Path | None = None) -> None:
    """Prints the tables of a file."""
    facts = read_json(path)
    if picture is not None:
        bars(facts["runs"][0]).savefig(picture)
    print(markdown(facts))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
