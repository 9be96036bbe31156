"""What the measured pieces come to, in seconds per image and percent of the bare base; a table for the README.

``python -m benchmarks.overhead.report docs/data/overhead.json`` prints it. R rounds.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.overhead.names import ADAPTERS, BARE, CONTROLNET, PLUGIN, RESIDUALS, STEPS
from unplug.plugins.files import read_json

BUDGET_PERCENT = {"cpu": 0.02, "cuda": 0.1}
"""Most that the plugin may add to 50 steps (docs: budgets)."""

Run = dict[str, Any]


def rows(run: Run) -> list[dict[str, Any]]:
    """One row for each control, number of steps, and batch.

    Within a round, with S steps: base = S step + decode, or a whole image where whole images were run;
    work = once + S (clone + add), or once + S network for a ControlNet; overhead = work / base. Beside it the difference:
    (once + S (step with - step without)) / base, or the difference of whole images.

    Args:
        run: with `samples` and `extrapolated`.
    """
    return [
        _row(run, control, steps, guidance)
        for guidance in (True, False)
        for steps in STEPS
        for control in (BARE, CONTROLNET, *ADAPTERS)
    ]


def _row(run: Run, control: str, steps: int, guidance: bool) -> dict[str, Any]:
    base_R = _base(run, steps, guidance)
    measured = len(base_R) * (1 if run["extrapolated"] else steps)
    row: dict[str, Any] = {"control": control, "steps": steps, "guidance": guidance, "measured_steps": measured}
    if control == BARE:
        return row | {"seconds": spread(base_R)}
    once_R, each_R = _need(run, "once", control, guidance), _each_step(run, control, guidance)
    work_R = _image(once_R, each_R, steps)
    difference_R = _difference(run, control, steps, guidance, once_R)
    situ_R = _image(once_R, _in_situ(run, control, guidance), steps)
    by_difference = control == CONTROLNET and difference_R is not None
    chosen_R = difference_R if by_difference else work_R
    whole_R = None if run["extrapolated"] else _need(run, "whole", control, guidance, steps)
    return row | {
        "seconds": spread(whole_R or _per_round(lambda base, more: base + more, base_R, chosen_R or [])),
        "by": "difference" if by_difference else "work",
        "overhead_percent": _percent(chosen_R, base_R),
        "work_percent": _percent(work_R, base_R),
        "difference_percent": _percent(difference_R, base_R),
        "in_situ_percent": _percent(situ_R, base_R),
        "once_s": spread(once_R),
        "each_step_s": spread(each_R),
    }


def _base(run: Run, steps: int, guidance: bool) -> list[float]:
    if not run["extrapolated"]:
        return _need(run, "whole", BARE, guidance, steps)
    step_R, decode_R = _need(run, "step", BARE, guidance), _need(run, "decode", BARE, None)
    return _per_round(lambda step, decode: steps * step + decode, step_R, decode_R)


def _each_step(run: Run, control: str, guidance: bool) -> list[float]:
    if control == CONTROLNET:
        return _need(run, "network", CONTROLNET, guidance)
    parts = (_need(run, part, RESIDUALS, guidance) for part in ("clone", "add"))
    return _per_round(lambda clone, add: clone + add, *parts)


def _in_situ(run: Run, control: str, guidance: bool) -> list[float] | None:
    clone_R, add_R = (_values(run, f"{part} in situ", RESIDUALS, guidance) for part in ("clone", "add"))
    if control == CONTROLNET or clone_R is None or add_R is None:
        return None
    return _per_round(lambda clone, add: clone + add, clone_R, add_R)


def _image(once_R: list[float], each_R: list[float] | None, steps: int) -> list[float] | None:
    return None if each_R is None else _per_round(lambda once, each: once + steps * each, once_R, each_R)


def _difference(run: Run, control: str, steps: int, guidance: bool, once_R: list[float]) -> list[float] | None:
    if not run["extrapolated"]:
        with_R = _need(run, "whole", control, guidance, steps)
        return _per_round(lambda given, base: given - base, with_R, _base(run, steps, guidance))
    given_R = _values(run, "step", CONTROLNET if control == CONTROLNET else RESIDUALS, guidance)
    if given_R is None:
        return None
    step_R = _need(run, "step", BARE, guidance)
    return _per_round(lambda once, given, step: once + steps * (given - step), once_R, given_R, step_R)


def _values(run: Run, part: str, control: str, guidance: bool | None, steps: int | None = None) -> list[float] | None:
    """The median of each round's repeats; None where it was not measured."""
    for sample in run["samples"]:
        if (sample["part"], sample["control"], sample["guidance"], sample["steps"]) == (part, control, guidance, steps):
            return [statistics.median(repeats) for repeats in sample["seconds"]]
    return None


def _need(run: Run, part: str, control: str, guidance: bool | None, steps: int | None = None) -> list[float]:
    found = _values(run, part, control, guidance, steps)
    if found is None:
        raise ValueError(f"{part} of {control} was not measured")
    return found


def _per_round(function: Callable[..., float], *series: Sequence[float]) -> list[float]:
    return [function(*values) for values in zip(*series, strict=True)]


def spread(values_R: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values_R), "min": min(values_R), "max": max(values_R)}


def _percent(added_R: Sequence[float] | None, base_R: Sequence[float]) -> dict[str, float] | None:
    return None if added_R is None else spread(_per_round(lambda added, base: 100 * added / base, added_R, base_R))


def budget(run: Run) -> list[dict[str, Any]]:
    """What the plugin adds to 50 steps, against its budget; met where the median is."""
    limit = BUDGET_PERCENT[run["device"]]
    return [
        {"guidance": row["guidance"], "limit_percent": limit, "percent": row["overhead_percent"],
         "met": row["overhead_percent"]["median"] <= limit}
        for row in run["rows"]
        if row["control"] == PLUGIN and row["steps"] == max(STEPS)
    ]  # fmt: skip


def markdown(facts: dict[str, Any]) -> str:
    """A table for each device and precision, with how it was measured above it."""
    return "\n\n".join(f"{caption(run)}\n\n{_table(run)}" for run in facts["runs"])


def caption(run: Run) -> str:
    """What a table shows, in a sentence or two."""
    side = run["image"][0]
    text = f"{run['machine']}, {run['dtype']}, {side}×{side}, {run['size']} shape; medians of {run['rounds']} rounds, range in brackets."
    if run["extrapolated"]:
        count = next(row["measured_steps"] for row in run["rows"])
        text += f" Extrapolated: an image is its steps times a measured step (each kind timed {count} times), plus decoding."
    return text


def cells(run: Run) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the table."""
    columns = [(steps, guidance) for guidance in (True, False) for steps in STEPS]
    header = ("", "parameters", *(f"{steps} steps, {'guidance' if guidance else 'no guidance'}" for steps, guidance in columns))
    lines = []
    for control in (BARE, CONTROLNET, *ADAPTERS):
        found = {(row["steps"], row["guidance"]): row for row in run["rows"] if row["control"] == control}
        size = f"{run['parameters'][control] / 1e6:.1f} M"
        lines.append((control, size, *(_cell(found[column]) for column in columns)))
    return header, lines


def _table(run: Run) -> str:
    header, lines = cells(run)
    rule = "|---|" + "---:|" * (len(header) - 1)
    return "\n".join([f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


def _cell(row: dict[str, Any]) -> str:
    if "overhead_percent" not in row:
        return f"{_span(row['seconds'])} s"
    return f"{digits(row['seconds']['median'])} s, +{_span(row['overhead_percent'])} %"


def _span(values: dict[str, float]) -> str:
    return f"{digits(values['median'])} ({digits(values['min'])} to {digits(values['max'])})"


def digits(value: float, significant: int = 3) -> str:
    """So many significant digits, never an exponent.

    Example:
        >>> digits(0.012345), digits(43.21), digits(1234.5), digits(0.0)
        ('0.0123', '43.2', '1234', '0')
    """
    if value == 0.0:
        return "0"
    return f"{value:.{max(significant - 1 - math.floor(math.log10(abs(value))), 0)}f}"


if __name__ == "__main__":
    print(markdown(read_json(Path(sys.argv[1]))))
