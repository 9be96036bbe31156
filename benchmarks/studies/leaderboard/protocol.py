"""What a protocol fixes, so that numbers of other methods and machines can stand in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unplug.core import InputError, Registry
from unplug.plugins import ADOPTED
from unplug.sdk.forgetting.tasks import AgeTask, ClassTask
from unplug.sdk.forgetting.unlearning import PLANNED
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import Recipe, Task

from .half_samples import MIN_MODELS
from .metrics import Kind, PublishedNumber, Rank

TEN_GROUPS = (0.0, 5.0, 13.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 100.0)
"""Borders of the age groups of all rankings: those of the models that were ranked first, whatever
the default is today.
"""


@dataclass(frozen=True, kw_only=True)
class Override:
    """What one method is run with in one protocol, where its own defaults are not meant.

    Args:
        settings: hyperparameters as text, as ``--set`` takes them.
        epochs: of a published repair; the budget is then what so many epochs need. None keeps the
            protocol's budget.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    epochs: float | None = None


@dataclass(frozen=True, kw_only=True)
class BenchmarkProtocol:
    """Data, split, forget set, recipe, seeds and the number that ranks.

    Args:
        name: on the command line.
        summary: one paragraph for reports.
        kind: "age" (groups and years) or "class".
        recipe: of the original and of the oracle.
        split: (data, seed) to train, validation and test.
        pick: (data, split, seed) to the ids of the forget set.
        rank: which number orders the table.
        default_data: a data spec, or None where the user must bring the data.
        data_help: what to give as ``--data``.
        budget: fraction of retraining that a method may cost.
        originals: K originals, each of its own training seed.
        models: N retrained models, and N unlearned models of each method, spread over the
            originals.
        width: of the ResNet-18 (class protocols).
        network: of recipes of size "adopted", as `unplug.plugins.Adopted` is written down.
        overrides: per method.
        published: what others report, shown apart.

    Raises:
        InputError: more originals than models.
    """

    name: str
    summary: str
    kind: Kind
    recipe: Recipe
    split: Callable[[Dataset, int], Split]
    pick: Callable[[Dataset, Split, int], tuple[str, ...]]
    rank: Rank
    data_help: str
    default_data: str | None = None
    budget: float = 0.05
    originals: int = 8
    models: int = 64
    width: int = 64
    network: Mapping[str, Any] | None = None
    overrides: Mapping[str, Override] = field(default_factory=dict)
    published: tuple[PublishedNumber, ...] = ()

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

    def task(self, dataset: Dataset) -> Task:
        """The kind of model that is trained on this data.

        Raises:
            InputError: the data has no labels of the protocol's kind.
        """
        if self.kind == "age":
            adopted = self.network if self.recipe.size == ADOPTED else None
            return AgeTask(recipe=self.recipe, edges=borders(dataset), adopted=adopted)
        if not dataset.classes:
            raise InputError(
                f"data {dataset.spec}", "it has no classes", f"Give --data {self.data_help}"
            )
        return ClassTask.of(self.recipe, dataset.classes, width=self.width)

    def settings_of(self, method: str, given: Mapping[str, str]) -> dict[str, str]:
        """A method's settings as text: the caller's over the protocol's."""
        return {**self._override(method).settings, **given}

    def budget_of(self, method: str) -> float:
        """Fraction of retraining that a method may cost here."""
        epochs = self._override(method).epochs
        return self.budget if epochs is None else epochs / (self.recipe.epochs * PLANNED)

    def _override(self, method: str) -> Override:
        return self.overrides.get(method, Override())

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


def borders(dataset: Dataset) -> tuple[float, ...]:
    """Age groups of the ranking: the data set's own or else `TEN_GROUPS`."""
    return dataset.age_edges or TEN_GROUPS


PROTOCOLS: Registry[BenchmarkProtocol] = Registry(
    "protocol",
    {
        "people": "benchmarks.studies.leaderboard.protocols:PEOPLE",
        "people-wide": "benchmarks.studies.leaderboard.protocols:PEOPLE_WIDE",
        "challenge": "benchmarks.studies.leaderboard.protocols:CHALLENGE",
        "starting-kit": "benchmarks.studies.leaderboard.protocols:STARTING_KIT",
        "mufac": "benchmarks.studies.leaderboard.protocols:MUFAC",
        "mucac": "benchmarks.studies.leaderboard.protocols:MUCAC",
        "utkface": "benchmarks.studies.leaderboard.protocols:UTKFACE",
    },
    group="unplug.protocols",
)
