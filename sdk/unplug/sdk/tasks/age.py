"""Face-age predictors: years, age groups, images in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from unplug.core import InputError
from unplug.plugins import Checkpoint
from unplug.sdk.data import Dataset, Split
from unplug.sdk.training import (
    RECORD_SCHEMA,
    AgeFamily,
    ImageSet,
    Predictions,
    Sets,
    load_sets,
    model_card,
    predict,
    recipe_of,
    summarize,
)

from .artifact import predict_artifact
from .memory import Footprint, footprint, image_bytes
from .needs import Need


class AgeKind:
    """See `Kind`."""

    model_type: ClassVar[str] = "age"
    schema: ClassVar[str] = RECORD_SCHEMA
    unit: ClassVar[str] = "years"
    lacks: ClassVar[tuple[Need, ...]] = ()

    def __init__(self, checkpoint: Checkpoint, *, device: torch.device, base: str | None = None) -> None:
        if base is not None:
            raise InputError(f"--base {base}", "an age predictor has none", "Leave it out")
        self.device = device
        self.family = AgeFamily(recipe=recipe_of(checkpoint), edges=tuple(checkpoint.model.age_edges))

    @property
    def image_size(self) -> int:
        """Of the recipe."""
        return self.family.recipe.image_size

    def sets(self, dataset: Dataset, split: Split, *, show: bool = False) -> Sets:
        """Pixels, ages and groups."""
        return load_sets(dataset, split, self.family.edges, self.device)

    def network(self, model: nn.Module) -> nn.Module:
        """The model itself."""
        return model

    def stored(self, network: nn.Module) -> nn.Module:
        """The model itself."""
        return network

    def metrics(self, network: nn.Module, part: ImageSet) -> dict[str, Any]:
        """Accuracy and mean absolute error."""
        return summarize(predict(network, part), self.family.edges)

    def describe(self, row: dict[str, Any]) -> str:
        """Both in words."""
        return f"accuracy {100 * row['accuracy']:5.1f} %  MAE {row['mae']:5.2f} years"

    def facts(self) -> dict[str, Any]:
        """None."""
        return {}

    def check_twin(self, other: Checkpoint) -> None:
        """The recipe and the retain set say all."""

    def card(self, record: dict[str, Any]) -> str:
        """With a table of the metrics."""
        return model_card(record)

    def footprint(self, network: nn.Module) -> Footprint:
        """By two small passes over images."""
        return footprint(network, self.image_size, self.device)

    def resident(self, samples: int) -> int:
        """Pixels, age, group."""
        return image_bytes(self.image_size, samples)

    def predict_artifact(self, artifact: Any, parts: Sequence[ImageSet]) -> list[Predictions]:
        """Logits and ages."""
        return predict_artifact(artifact, parts)
