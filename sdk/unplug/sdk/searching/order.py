"""What is asked of a search: budgets, effort, and a device; known without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unplug.core import InputError
from unplug.mobile_bench import Calibration, calibrate

HERE, PRECISION = "host", "fp32"
QUICK = {"candidates": 3, "seeds": 1, "pictures": 2000}
QUICK_RECIPE = {"epochs": 6}
"""A search of minutes: what may be others in `SearchOrder` and in the recipe."""


@dataclass(frozen=True, kw_only=True)
class SearchOrder:
    """What to search for.

    Args:
        at: budgets in milliseconds, each for one picture.
        candidates: sizes a budget that begin; every third goes on to train three times as long.
        seeds: trainings of each finalist.
        pictures: train on at most so many, of whole people (default: all).
        workers: trainings at once (default: one a core).
        backend: see `unplug list backends` (default: processes, and loop on CUDA).
        cluster: address of a Ray cluster, whose machines share the folder of `out`.
    """

    at: Sequence[float] = field(default=(0.05, 0.1, 0.3, 1.0), metadata={"metavar": "MS,MS"})
    candidates: int = field(default=9, metadata={"range": (1, 243)})
    seeds: int = field(default=3, metadata={"range": (1, 16)})
    pictures: int | None = field(default=None, metadata={"range": (100, 10**8)})
    workers: int | None = field(default=None, metadata={"range": (1, 256)})
    backend: str | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        rising = sorted({*self.at})
        if not rising or not 0.0 < rising[0] <= rising[-1] <= 10_000.0:
            raise InputError("`at`", "no milliseconds above 0", "Write them with commas: .1,.3,1")


@dataclass(frozen=True, kw_only=True)
class TimedOn:
    """A device, and what is known of it.

    Args:
        on: short name, "host" for this machine.
        rows: bench reports of the device.
        artifacts: the files of those rows, where they do not lie next to the reports.
        delegate, threads: the settings of the rows (default: those of most rows; of this machine
            one thread).
    """

    on: str = HERE
    rows: Sequence[Path] = ()
    artifacts: Sequence[Path] = ()
    delegate: str | None = None
    threads: int | None = None

    @property
    def here(self) -> bool:
        """Whether sizes are timed on this machine."""
        return self.on == HERE and not self.rows

    def calibration(self) -> Calibration:
        """What estimates rest on; errors as of `unplug.mobile_bench.calibrate`."""
        return calibrate(
            PRECISION,
            device=self.on,
            rows=self.rows,
            files=self.artifacts,
            delegate=self.delegate,
            threads=self.threads,
        )
