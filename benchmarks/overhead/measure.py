"""Measuring: every piece in turn, round by round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from benchmarks.overhead.work import Work
from unplug.sdk.learning.training import synchronize

REPEAT_S = 1.0  # seconds of repeats of a short piece in each round
MOST = 20  # repeats

Names = tuple[str, str, bool | None, int | None]


Clock = Callable[[], float]


@dataclass(kw_only=True)
class Sample:
    """Seconds of a piece: the very first time, and each repeat of each round.

    Args:
        part, control, guidance, steps: as in `Work`.
        first_s: the very first time; what a process pays once for kernels and memory is in it.
        seconds: by the clock, for each round its repeats.
        processor_seconds: of all threads, likewise; None on a GPU and for pieces timed inside
            others.
    """

    part: str
    control: str
    guidance: bool | None
    steps: int | None
    first_s: float
    seconds: list[list[float]] = field(default_factory=list)
    processor_seconds: list[list[float]] | None = None


@torch.no_grad()
def measure(
    works: Sequence[Work],
    rounds: int,
    device: torch.device,
    sweep: Callable[[], None],
    clock: Clock = time.perf_counter,
    processor: Clock = time.process_time,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Sample]:
    """Every piece in turn in every round, A B C A B C, so that a drifting clock favours none; a
    first round warms up.

    Args:
        works: the pieces.
        rounds: that count.
        device: waited for before and after a piece.
        sweep: overwrites the caches.
        clock, processor: seconds, of the wall and of all threads.
        tell: is told every time.
    """
    samples: dict[Names, Sample] = {}
    warm_s: dict[Names, float] = {}
    for number in range(rounds + 1):
        for work in works:
            names: Names = (work.part, work.control, work.guidance, work.steps)
            times: list[float] = []
            processor_times: list[float] = []
            inside: dict[str, list[float]] = {}
            for _ in range(_repeats(work, warm_s.get(names))):
                if work.cold:
                    sweep()
                synchronize(device)
                start, busy = clock(), processor()
                found = work.run()
                synchronize(device)
                times.append((clock() - start) / work.units)
                processor_times.append((processor() - busy) / work.units)
                for part, seconds in found.items() if isinstance(found, dict) else ():
                    inside.setdefault(part, []).append(seconds)
            _keep(samples, names, number, times, None if device.type == "cuda" else processor_times)
            for part, values in inside.items():
                _keep(samples, (part, *names[1:]), number, values, None)
            warm_s.setdefault(names, times[-1])
            where = "" if work.guidance is None else batch_name(work.guidance)
            tell(
                f"round {number} {work.part} {work.control} {where}: "
                f"{statistics.median(times):.4g} s"
            )
    return list(samples.values())


def _keep(
    samples: dict[Names, Sample],
    names: Names,
    number: int,
    times: list[float],
    busy: list[float] | None,
) -> None:
    if number == 0:
        part, control, guidance, steps = names
        samples[names] = Sample(
            part=part,
            control=control,
            guidance=guidance,
            steps=steps,
            first_s=times[0],
            processor_seconds=None if busy is None else [],
        )
        return
    samples[names].seconds.append(times)
    kept = samples[names].processor_seconds
    if kept is not None and busy is not None:
        kept.append(busy)


def _repeats(work: Work, warm_s: float | None) -> int:
    """Once if long; twice to warm up, for the first time is no guide to the others; then as many as
    fit.
    """
    if not work.short:
        return 1
    return (
        2
        if warm_s is None
        else max(3, min(MOST, math.ceil(REPEAT_S / max(warm_s * work.units, 1e-9))))
    )


def batch_name(guidance: bool) -> str:
    """As the tables say it."""
    return "guidance" if guidance else "no guidance"
