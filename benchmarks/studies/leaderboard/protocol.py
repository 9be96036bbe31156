"""What a protocol fixes, so that numbers of other methods and machines can stand in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from unplug.core import InputError, Registry
from unplug.plugins import ADOPTED
from unplug.sdk.evidence.auditing import MIN_MODELS
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import Recipe

TEN_GROUPS = (0.0, 5.0, 13.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 100.0)
"""Borders of the age groups of all rankings: those of the models that were ranked first, whatever
the default is today.
"""


@dataclass(frozen=True, kw_only=True)
class BenchmarkProtocol:
    """Data, split, forget set, recipe, seeds and the number that ranks.

    Args:
        name: on the command line.
        summary: one paragraph for reports.

        recipe: of the original and of the oracle.
        split: (data, seed) to train, validation and test.
        pick: (data, split, seed) to the ids of the forget set.

        default_data: a data spec, or None where the user must bring the data.
        data_help: what to give as ``--data``.
        budget: fraction of retraining that a method may cost.
        originals: K originals, each of its own training seed.
        models: N retrained models, and N unlearned models of each method, spread over the
            originals.
        network: of recipes of size "adopted", as `unplug.plugins.Adopted` is written down.

    Raises:
        InputError: more originals than models.
    """

    name: str
    summary: str
    recipe: Recipe
    split: Callable[[Dataset, int], Split]
    pick: Callable[[Dataset, Split, int], tuple[str, ...]]
    data_help: str
    default_data: str | None = None
    budget: float = 0.05
    originals: int = 64
    models: int = 64
    network: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.originals <= self.models or self.models < MIN_MODELS:
            raise InputError(
                f"{self.originals} originals, {self.models} models",
                "out of range",
                f"Use {MIN_MODELS} models or more, and no more originals than models",
            )

    def data(self, spec: str | None) -> str:
        """The data spec to use.

        Raises:
            InputError: none was given and the protocol has none.
        """
        chosen = spec or self.default_data
        if chosen is None:
            raise InputError(
                f"protocol {self.name}",
                "it brings no data of its own",
                f"Give --data {self.data_help}",
            )
        return chosen

    def task(self, dataset: Dataset) -> AgeTask:
        """The kind of model that is trained on this data: age groups of its own, else
        `TEN_GROUPS`.
        """
        adopted = self.network if self.recipe.size == ADOPTED else None
        edges = dataset.age_edges or TEN_GROUPS
        return AgeTask(recipe=self.recipe, edges=edges, adopted=adopted)

    def forget_split(self, dataset: Dataset, seed: int) -> Split:
        """The split with its forget set."""
        split = self.split(dataset, seed)
        return split.with_forget(self.pick(dataset, split, seed))

    def with_(
        self, *, recipe: Mapping[str, Any] | None = None, **changes: Any
    ) -> BenchmarkProtocol:
        """A variation; None keeps a value.

        Raises:
            InputError: a recipe or a number out of range.
        """
        kept = {name: value for name, value in changes.items() if value is not None}
        values = {name: value for name, value in (recipe or {}).items() if value is not None}
        return replace(self, recipe=replace(self.recipe, **values), **kept)


PROTOCOLS: Registry[BenchmarkProtocol] = Registry(
    "protocol",
    {
        "people": "benchmarks.studies.leaderboard.protocols:PEOPLE",
        "people-wide": "benchmarks.studies.leaderboard.protocols:PEOPLE_WIDE",
    },
    group="unplug.protocols",
)
