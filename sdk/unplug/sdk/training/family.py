"""A family of models: how one is built for some data, what it is trained on, what it keeps of the training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from unplug.core import InputError
from unplug.plugins import AgePredictor

from .images import pictures
from .loop import Fit, fit, seeded
from .recipe import Recipe
from .resnet import ResNet18
from .samples import SampleSet
from .state import StateFile
from .task import AgeTask, ClassTask, Task, group_centers


class Family(Protocol):
    """What training, forgetting and measuring need to know of a kind of model.

    Attributes:
        recipe: how members of the family are trained.
        edges: G + 1 borders of the classes; for labels without an order 0, 1, ..., G.
    """

    @property
    def recipe(self) -> Recipe: ...

    @property
    def edges(self) -> tuple[float, ...]: ...

    def build(self, train: SampleSet) -> nn.Module:
        """A new model with random weights (drawn from torch's global generator) for this training data."""

    def task(self, model: nn.Module) -> Task:
        """The loss and the labels of a model of the family."""

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Counts again, without the forget set, what the model keeps of its training data beside its weights."""


@runtime_checkable
class OwnTraining(Protocol):
    """A family whose models are not trained in epochs by `fit`."""

    def fit(
        self, train: SampleSet, validation: SampleSet, *, seed: int, state: StateFile | None, show: bool, label: str
    ) -> Fit:
        """Trains a model from scratch."""


@dataclass(frozen=True, kw_only=True)
class AgeFamily:
    """Face-age predictors: age groups and an expected age.

    Args:
        recipe: size, image size, dropout and the rest of the training.
        edges: G + 1 age-group borders in years.
    """

    recipe: Recipe
    edges: tuple[float, ...]

    def build(self, train: SampleSet) -> nn.Module:
        """An `AgePredictor` with the mean training age of each group."""
        data = pictures(train)
        return AgePredictor(
            size=self.recipe.size, image_size=self.recipe.image_size, age_edges=self.edges,
            age_centers=group_centers(data.age_N, data.group_N, self.edges), dropout=self.recipe.dropout,
        )  # fmt: skip

    def task(self, model: nn.Module) -> Task:
        """Age groups and years."""
        assert isinstance(model, AgePredictor)
        return AgeTask(centers=model.age_centers, loss_name=self.recipe.loss, smoothing=self.recipe.smoothing)

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """The mean ages that the expectation uses were counted with the forget set, and would stay in the file that ships."""
        assert isinstance(model, AgePredictor)
        data = pictures(retain)
        centers = group_centers(data.age_N, data.group_N, self.edges)
        model.age_centers.copy_(torch.tensor(centers, dtype=torch.float32))


@dataclass(frozen=True, kw_only=True)
class ClassFamily:
    """ResNet-18 image classifiers, the reference network of the unlearning benchmarks.

    Args:
        recipe: of size "resnet18", with loss "ce".
        classes: G, at least 2.
        width: channels of the first stage; 64 is ResNet-18.

    Raises:
        InputError: a recipe of another network or loss.
    """

    recipe: Recipe
    classes: int
    width: int = 64

    def __post_init__(self) -> None:
        if self.recipe.size != "resnet18" or self.recipe.loss != "ce":
            raise InputError("classifier recipe", "it is for another network", "Use size resnet18 and loss ce")

    @property
    def edges(self) -> tuple[float, ...]:
        """0, 1, ..., G."""
        return tuple(float(edge) for edge in range(self.classes + 1))

    def build(self, train: SampleSet) -> nn.Module:
        """A `ResNet18`."""
        return ResNet18(classes=self.classes, width=self.width, dropout=self.recipe.dropout)

    def task(self, model: nn.Module) -> Task:
        """Labels without an order."""
        return ClassTask(smoothing=self.recipe.smoothing)

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Nothing is kept beside the weights."""


def new_model(family: Family, train: SampleSet, seed: int) -> nn.Module:
    """A freshly initialized model on the device of `train`; the weights follow from `seed`."""
    with seeded(seed, -1):
        model = family.build(train)
    return model.to(train.device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def fit_new(
    family: Family,
    train: SampleSet,
    validation: SampleSet,
    *,
    seed: int,
    state: StateFile | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    show: bool = False,
    label: str = "train",
) -> Fit:
    """Trains a model of a family from scratch on `train` (no files but `state`)."""
    if isinstance(family, OwnTraining):
        return family.fit(train, validation, seed=seed, state=state, show=show, label=label)
    model = new_model(family, train, seed)
    return fit(
        model, train, validation, family.task(model), family.recipe,
        seed=seed, edges=family.edges, state=state, on_epoch=on_epoch, show=show, label=label,
    )  # fmt: skip
