"""A finished leaderboard's folder, opened again: its originals to unlearn from, its retrained
models to score against.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unplug.core import InputError, read_json

from .jobs import Bench, bench
from .membership import Oracle
from .plan import Entry, original_name, retrained_name, unlearned_names
from .pool import Pool, Truths, read_pool
from .report import LeaderboardReport, Row, read_leaderboard
from .run import RUN_FILE


@dataclass(frozen=True, kw_only=True)
class Board:
    """What ``python -m benchmarks.studies leaderboard --out FOLDER`` left.

    Args:
        folder: with leaderboard.json and models/.
        report: the former.
        local: the context of the jobs.
    """

    folder: Path
    report: LeaderboardReport
    local: Bench

    @classmethod
    def open(cls, folder: Path) -> Board:
        """Reads a folder.

        Raises:
            InputError: the data is not the leaderboard's any more.
        """
        report, run = read_leaderboard(folder / "leaderboard.json"), read_json(folder / RUN_FILE)
        local = bench(
            protocol=report.protocol,
            spec=report.data["spec"],
            recipe=report.recipe,
            width=run["recipe"]["width"],
            seed=report.seeds["split"][0],
            device="cpu",
            models=str((folder / "models").resolve()),
            forget=run.get("forget"),
        )
        if (local.dataset.digest, local.split.sha256) != (
            report.data["digest"],
            report.data["split_sha256"],
        ):
            raise InputError(
                str(folder), "its data or split changed", "Restore the data, or run the leaderboard"
            )
        return cls(folder=folder, report=report, local=local)

    @property
    def budget(self) -> float:
        """The budget as a fraction of retraining."""
        return float(self.report.settings["budget"])

    @cached_property
    def truths(self) -> Truths:
        """Ages and classes of every set."""
        return Truths.of(self.local.sets)

    @cached_property
    def oracle(self) -> Oracle:
        """The retrained models, which every method is compared with."""
        names = [(retrained_name(own), own) for own in self.report.seeds["retrained"]]
        return Oracle(read_pool(self.folder / "models", names, self.truths)[0])

    @cached_property
    def before(self) -> Pool:
        """What the originals say, before anything was forgotten."""
        names = [(original_name(own), own) for own in self.report.seeds["originals"]]
        return read_pool(self.folder / "models", names, self.truths)[0]

    def unlearned(self, row: Row) -> Pool:
        """The models of a method's row."""
        known = Entry(
            method=row.name.partition("@")[0],
            label=row.name,
            given={},
            settings=row.settings,
            needs=row.needs,
            budget=self.budget if row.budget is None else row.budget,
        )
        seeds = self.report.seeds
        names = unlearned_names(
            known, seeds["split"][0], len(seeds["originals"]), len(self.oracle.pool)
        )
        return read_pool(self.folder / "models", names, self.truths)[0]

    def facts(self) -> dict[str, Any]:
        """For a report: what was unlearned from and scored against."""
        return {
            "protocol": self.report.protocol,
            "data": self.report.data,
            "budget": self.budget,
            "originals": len(self.report.seeds["originals"]),
            "retrained": len(self.oracle.pool),
        }
