"""Measuring: every piece in turn, round by round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from benchmarks.overhead.work import Work
from unplug.sdk.train.device import synchronize

REPEAT_S = 1.0  # seconds of repeats of a short piece in each round
MOST = 20  # repeats

Names = tuple[str, str, bool | None, int | None]


@dataclass(kw_only=True)
class Sample:
    """Seconds of a piece: the very first time, and each repeat of each round."""

    part: str
    control: str
    guidance: bool | None
    steps: int | None
    first_s: float
    seconds: list[list[float]] = field(default_factory=list)


@torch.no_grad()
def measure(
    works: Sequence[Work], rounds: int, device: torch.device, sweep: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter, tell: Callable[[str], None] = lambda line: None,
) -> list[Sample]:  # fmt: skip
    """Every piece in turn in every round, A B C A B C, so that a drifting clock favours none; a first round warms up.

    Args:
        works: the pieces.
        rounds: that count.
        sweep: overwrites the caches.
        clock: seconds.
        tell: is told every time.
    """
    samples: dict[Names, Sample] = {}
    warm_s: dict[Names, float] = {}
    for number in range(rounds + 1):
        for work in works:
            names: Names = (work.part, work.control, work.guidance, work.steps)
            times: list[float] = []
            inside: dict[str, list[float]] = {}
            for _ in range(_repeats(work, warm_s.get(names))):
                if work.cold:
                    sweep()
                synchronize(device)
                start = clock()
                found = work.run()
                synchronize(device)
                times.append((clock() - start) / work.units)
                for part, seconds in found.items() if isinstance(found, dict) else ():
                    inside.setdefault(part, []).append(seconds)
            for part, values in {work.part: times, **inside}.items():
                _keep(samples, (part, *names[1:]), values, number)
            warm_s.setdefault(names, times[-1])
            tell(f"round {number} {work.part} {work.control} {_batch(work.guidance)}: {statistics.median(times):.4g} s")
    return list(samples.values())


def _keep(samples: dict[Names, Sample], names: Names, values: list[float], number: int) -> None:
    if number == 0:
        part, control, guidance, steps = names
        samples[names] = Sample(part=part, control=control, guidance=guidance, steps=steps, first_s=values[0])
    else:
        samples[names].seconds.append(values)


def _repeats(work: Work, warm_s: float | None) -> int:
    """Once if long; twice to warm up, for the first time is no guide to the others; then as many as fit."""
    if not work.short:
        return 1
    return 2 if warm_s is None else max(3, min(MOST, math.ceil(REPEAT_S / max(warm_s * work.units, 1e-9))))


def _batch(guidance: bool | None) -> str:
    return "" if guidance is None else ("with guidance" if guidance else "without guidance")
