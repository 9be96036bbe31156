"""Which models a leaderboard needs: names, seeds and jobs. The same configuration always gives the
same names.

Asking for more models later leaves those that are there: model number i has original i mod K and
unlearning seed i.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from unplug.core import InputError
from unplug.sdk.evidence.fleet import FleetJob
from unplug.sdk.forgetting.unlearning import METHODS, TrainingHook, build_method

from .protocol import BenchmarkProtocol

TRAIN = "benchmarks.studies.leaderboard.jobs:train"
RETRAINED_FROM = 10_000  # training seeds of the oracle, apart from those of the originals
UNLEARNED_FROM = 20_000
EVALUATION_SEEDS = (0, 1, 2)
TAG = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
MAX_BUDGET = 100.0  # as in `Meter`
ORACLE = "retrain"
"""The method that is the oracle itself; it has a row of its own and is never run as a method."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method as one leaderboard runs it.

    Args:
        method: its name.
        label: of its row: the name, or "NAME@TAG" where a board has the same method twice.
        given: settings as text, the caller's over the protocol's.
        settings: every hyperparameter.
        needs: what it reads.
        budget: fraction of retraining.
        hooked: whether it takes part in training, so that its runs start from originals of their
            own.
    """

    method: str
    label: str
    given: dict[str, str]
    settings: dict[str, Any]
    needs: tuple[str, ...]
    budget: float
    hooked: bool = False

    @property
    def key(self) -> str:
        """Part of the names of its results: method, settings and budget."""
        facts = json.dumps([self.method, self.settings, self.budget], sort_keys=True, default=str)
        plain = re.sub(r"[^A-Za-z0-9._-]", "-", self.method)
        return f"{plain}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def all_methods() -> tuple[str, ...]:
    """Every method that a board ranks: without the oracle, and without those that need a fleet,
    which a board has not.
    """
    return tuple(
        name
        for name in METHODS
        if name != ORACLE and "out-of-fold answers" not in METHODS.get(name)().needs
    )


def entry(protocol: BenchmarkProtocol, label: str, given: Mapping[str, str]) -> Entry:
    """A method with the protocol's settings and the caller's over them; ``budget`` among them is
    the method's own budget.

    A label of ``NAME@TAG`` is the method NAME, in a row of its own.

    Raises:
        InputError: an unknown method or setting, or a value out of range.
    """
    method, at, tag = label.partition("@")
    if at and not TAG.fullmatch(tag):
        raise InputError(
            f"method {label!r}",
            "what stands behind the @ is no short name",
            "Write for example msg@published",
        )
    text = protocol.settings_of(method, given)
    budget = text.pop("budget", None)
    built: Any = build_method(method, text)
    return Entry(
        method=method,
        label=label,
        given=text,
        settings={item.name: getattr(built, item.name) for item in fields(built)},
        needs=tuple(built.needs),
        budget=protocol.budget_of(method) if budget is None else _budget(method, budget),
        hooked=isinstance(built, TrainingHook),
    )


def _budget(method: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(
            f"{method}:budget={text}", "not a number", "Give a fraction of retraining such as 0.05"
        ) from error
    if not 0.0 < value <= MAX_BUDGET:
        raise InputError(
            f"{method}:budget={text}", "out of range", "Give a fraction of retraining such as 0.05"
        )
    return value


def original_name(seed: int) -> str:
    """Name of the result that holds an original."""
    return f"original-{seed}"


def retrained_name(seed: int) -> str:
    """Name of the result of a retrained model."""
    return f"retrained-{seed}"


def original_seeds(seed: int, count: int) -> list[int]:
    """Training seeds of K originals."""
    return [seed + number for number in range(count)]


def retrained_seeds(seed: int, count: int) -> list[int]:
    """Training seeds of N oracles."""
    return [seed + RETRAINED_FROM + number for number in range(count)]


def unlearning_seeds(seed: int, originals: int, models: int) -> list[tuple[int, int]]:
    """(training seed of the original, unlearning seed) of N unlearned models.

    Example:
        >>> unlearning_seeds(0, 2, 3)
        [(0, 20000), (1, 20001), (0, 20002)]
    """
    return [(seed + number % originals, seed + UNLEARNED_FROM + number) for number in range(models)]


def training_jobs(seed: int, originals: int, models: int) -> list[FleetJob]:
    """One job per original and per retrained model."""
    jobs = {original_name(value): ("original", value) for value in original_seeds(seed, originals)}
    jobs |= {retrained_name(value): ("retrained", value) for value in retrained_seeds(seed, models)}
    return [
        FleetJob(name=name, target=TRAIN, arguments={"role": role, "seed": value})
        for name, (role, value) in jobs.items()
    ]


def unlearned_names(item: Entry, seed: int, originals: int, models: int) -> list[tuple[str, int]]:
    """(name of the result, training seed of its original) of every model of a method."""
    return [
        (f"{item.key}-{original}-{own}", original)
        for original, own in unlearning_seeds(seed, originals, models)
    ]


def unlearning_jobs(
    entries: Sequence[Entry], seed: int, originals: int, models: int
) -> list[FleetJob]:
    """One job per method, original and unlearning seed; those of one original stand together."""
    pairs = sorted(unlearning_seeds(seed, originals, models))
    return [
        FleetJob(
            name=f"{item.key}-{original}-{own}",
            target="benchmarks.studies.leaderboard.jobs:unlearn",
            arguments={
                "method": item.method,
                "settings": item.given,
                "budget": item.budget,
                "original": original,
                "seed": own,
            },
        )
        for item in entries
        for original, own in pairs
    ]
