"""A leaderboard from its configuration to its files: trains, unlearns, measures, ranks and writes.

A second call does only what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import InputError, OutputError, TrainingError, json_sha256, read_json, write_json
from unplug.sdk.evidence.fleet import BACKENDS, Context, FleetJob, has_result, run_jobs
from unplug.sdk.learning.data import load_dataset, read_forget_file

from .challenge_metric import Variant
from .jobs import Bench, bench, train_stacked
from .plan import TRAIN, entry, training_jobs, unlearned_names, unlearning_jobs
from .probe import probe_rows
from .protocol import BenchmarkProtocol
from .report import LeaderboardReport

RUN_SCHEMA = "unplug-leaderboard-run/1"
RUN_FILE = "run.json"
STACKED = "stacked-train"


@dataclass(frozen=True, kw_only=True)
class LeaderboardConfig:
    """The arguments of ``python -m benchmarks.studies leaderboard``.

    Args:
        protocol: with the caller's numbers of models and originals, budget and recipe.
        spec: of the data, or None for the protocol's own.
        methods: names of `METHODS`.
        settings: hyperparameters as text, per method; ``budget`` among them is the method's own
            budget.
        out: folder of the results.
        forget: file of the forget set; None picks the protocol's.
        seed: of the split, the forget set and everything that follows.
        device: where models live.
        backend: of `unplug.sdk.evidence.fleet.BACKENDS`, or "stacked-train": trainings many at once
            in this process (see `fit_stacked`), unlearning in worker processes.
        workers, cluster: see `unplug.sdk.evidence.fleet.run_jobs`.
        rule: how the challenge's F finds its windows, see
            `challenge_metric.epsilons`.
    """

    protocol: BenchmarkProtocol
    methods: Sequence[str]
    out: Path
    device: torch.device
    spec: str | None = None
    settings: Mapping[str, Mapping[str, str]]
    forget: Path | None = None
    seed: int = 0
    backend: str = "processes"
    workers: int | None = None
    cluster: str | None = None
    rule: Variant = "code"

    @property
    def models(self) -> Path:
        """Where the result of every model is kept."""
        return self.out / "models"


def run_leaderboard(
    config: LeaderboardConfig, say: Callable[[str], None], *, show: bool = False
) -> LeaderboardReport:
    """Does what is missing, scores everything, and writes ``leaderboard.json``.

    Args:
        config: what to run.
        say: is given a line per stage.
        show: progress bars.

    Raises:
        InputError: the data, a method or a setting is wrong, or `out` holds another leaderboard.
        TrainingError: an original or a retrained model could not be trained.
    """
    from .table import score_all

    protocol = config.protocol
    if config.backend != STACKED:
        # an unknown name must not be found out after hours of decoding
        BACKENDS.get(config.backend)
    entries = [
        entry(protocol, method, config.settings.get(method, {})) for method in config.methods
    ]
    arguments = _arguments(config)
    local = bench(**arguments)
    given = check_folder(config, local)
    fleet = _Fleet(
        config=config,
        local=local,
        context=Context(target="benchmarks.studies.leaderboard.jobs:bench", arguments=arguments),
        given=given,
    )
    training = training_jobs(config.seed, protocol.originals, protocol.models)
    say(f"training {protocol.originals} originals and {protocol.models} retrained models")
    if failed := fleet.run(training, say, show):
        name, why = next(iter(failed.items()))
        raise TrainingError(
            f"model {name}", why.strip().splitlines()[-1], "Correct the recipe or the data"
        )
    unlearning = unlearning_jobs(entries, config.seed, protocol.originals, protocol.models)
    say(f"unlearning: {len(entries)} methods, {protocol.models} models each")
    failed = fleet.run(unlearning, say, show)
    rows = [
        [job.name for job in training if job.arguments["role"] == role]
        for role in ("retrained", "original")
    ]
    pairs = (
        unlearned_names(item, config.seed, protocol.originals, protocol.models) for item in entries
    )
    rows += [[name for name, _ in own] for own in pairs]
    if asked := probe_rows(config.out, rows, local, given):
        say(f"asked {asked} models about views, after rounding and how fast they relearn")
    say("scoring")
    report = score_all(config, entries, local, failed, show=show)
    report.save(config.out / "leaderboard.json")
    return report


@dataclass(frozen=True, kw_only=True)
class _Fleet:
    config: LeaderboardConfig
    local: Bench
    context: Context
    given: str

    def run(
        self, jobs: Sequence[FleetJob], say: Callable[[str], None], show: bool
    ) -> dict[str, str]:
        """Runs what has no result; gives what failed."""
        folder = self.config.models
        # By the leaderboard's own fingerprint, which knows no path and no device: a folder may
        # move, and so may the run.
        missing = [job for job in jobs if not has_result(folder, job.name, self.given)]
        if len(missing) < len(jobs):
            say(f"  {len(jobs) - len(missing)} of {len(jobs)} are there already")
        if not missing:
            return {}
        if self.config.backend == STACKED and missing[0].target == TRAIN:
            say(
                f"  {len(missing)} models in "
                f"{train_stacked(self.local, missing, self.given, show=show):.0f} s"
            )
            return {}
        backend = "processes" if self.config.backend == STACKED else self.config.backend
        done = run_jobs(
            missing,
            self.context,
            folder,
            backend=backend,
            workers=self.config.workers,
            show=show,
            fingerprint=self.given,
            cluster=self.config.cluster,
        )
        say(
            f"  {done.done} models in {done.seconds:.0f} s"
            + (f", {len(done.failed)} failed" if done.failed else "")
        )
        for name, why in list(done.failed.items())[:3]:
            say(f"  {name} failed: {why.strip().splitlines()[-1]}")
        return done.failed


def _arguments(config: LeaderboardConfig) -> dict[str, Any]:
    return {
        "protocol": config.protocol.name,
        "spec": config.protocol.data(config.spec),
        "recipe": config.protocol.recipe.to_dict(),
        "width": config.protocol.width,
        "seed": config.seed,
        "device": str(config.device),
        "models": str(config.models.resolve()),
        "forget": None if config.forget is None else _forget_ids(config, config.forget),
    }


def _forget_ids(config: LeaderboardConfig, file: Path) -> list[str]:
    """What a forget file names; workers are given the ids, so that the file may change."""
    protocol = config.protocol
    return list(
        read_forget_file(
            file, load_dataset(protocol.data(config.spec), protocol.recipe.image_size, show=False)
        )
    )


def check_folder(config: LeaderboardConfig, local: Bench) -> str:
    """Refuses a folder of another leaderboard, marks an empty one as this one's; gives the
    fingerprint of its results.

    Raises:
        OutputError: the folder holds something else.
        InputError: it holds a leaderboard of another protocol, data, recipe or seed.
    """
    facts = {
        "protocol": config.protocol.name,
        "data": local.dataset.digest,
        "split": local.split.sha256,
        "recipe": {**config.protocol.recipe.to_dict(), "width": config.protocol.width},
        "classes": list(local.task.edges),
        "seed": config.seed,
    }
    if config.forget is not None:
        facts["forget"] = list(local.split.forget)
    path = config.out / RUN_FILE
    if path.is_file():
        _compare(read_json(path), facts, config.out)
    elif config.out.exists() and (not config.out.is_dir() or any(config.out.iterdir())):
        raise OutputError(
            str(config.out),
            "it exists and holds no leaderboard",
            "Choose another --out or remove it",
        )
    else:
        write_json(path, {"schema": RUN_SCHEMA, **facts})
    return json_sha256(facts)


def _compare(there: Any, facts: Mapping[str, Any], out: Path) -> None:
    known = isinstance(there, dict) and there.get("schema") == RUN_SCHEMA
    different = [name for name, value in facts.items() if not known or there.get(name) != value]
    if different:
        why = f"it holds a leaderboard of another {', '.join(different)}"
        raise InputError(str(out), why, "Choose another --out, or give what that one was made with")
