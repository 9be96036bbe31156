"""How to release: each field is an option of ``unplug release``, and an argument of the journey in
Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .gates import Gates, gates_from
from .release_choices import ReleaseChoices


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig(ReleaseChoices):
    """How to release, and what must hold.

    Args:
        oracle: with a fleet: train the oracle all the same.
        gates: a threshold, e.g. max_mae_above_retrained=0.5; `unplug list gates` names all.
        overrides: ship though this gate does not hold, and why; it stands in the manifest. May be
            repeated.
        bench_iterations: runs of each file that are timed, in each repeat.
        bench_repeats: times that each file is started anew and timed.
        threads: of each file's runtime while it is timed.
        workers: targets converted at the same time.
        rounding: measure what export did to the edit, by exporting the original and the oracle
            alike.
        others: data spec of other pictures of the same people, which no model saw, for one more
            attack.
        decision: what `unplug threshold` said of the original: nothing may move it, and it ships,
            fitted anew.
        decision_data: with a decision: people that no model learned from; without it the test set.
        evaluate: put what it is worth at age limits on the card and into the reports: fate-aev.
        faces: keep twelve pictures of people of the test set, never of the forgotten, for the local
            report.
    """

    oracle: bool = False
    gates: Gates = field(default_factory=Gates, metadata={"flag": "--gate", "metavar": "KEY=VALUE"})
    overrides: dict[str, str] = field(
        default_factory=dict, metadata={"flag": "--override", "metavar": "GATE=WHY"}
    )
    bench_iterations: int = field(default=50, metadata={"range": (1, 100_000)})
    bench_repeats: int = field(default=3, metadata={"range": (1, 1000)})
    threads: int = field(default=2, metadata={"range": (1, 1024)})
    workers: int = field(default=2, metadata={"range": (1, 64)})
    rounding: bool = True
    others: str | None = field(default=None, metadata={"metavar": "SPEC"})
    decision: Path | None = field(default=None, metadata={"metavar": "FILE"})
    decision_data: str | None = field(default=None, metadata={"metavar": "SPEC"})
    evaluate: str | None = field(default=None, metadata={"metavar": "PROTOCOL"})
    faces: bool = False


def asked_gates(given: Mapping[str, Any], config: Mapping[str, Any]) -> Gates:
    """The gates of a release with these thresholds and these fields of `ReleaseConfig`; see
    `gates_from`.
    """
    budget, decision = config.get("budget", ReleaseConfig.budget), config.get("decision")
    return gates_from(given, budget, decision=decision is not None)
