"""What tasks have in common whose models answer a picture with one logit a group or class; pictures
in memory.

Shapes: B batch, N samples, G groups.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from unplug.core import Array, ArtifactError, InputError
from unplug.plugins import Checkpoint
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import (
    RECORD_SCHEMA,
    Fit,
    ImageSet,
    LabelledBatch,
    Predictions,
    Recipe,
    SampleSet,
    StateFile,
    fit_new,
    recipe_of,
)

from .memory import Footprint, footprint, image_bytes
from .stored import StoredTask


@dataclass(frozen=True, kw_only=True)
class GroupTask(StoredTask):
    """p(y | x) = softmax(z)_y, with z the model's named output.

    Args:
        adopted: how somebody else's network is built, see `unplug.plugins.Adopted`; None of our
            sizes.

    Attributes:
        outputs: names of all outputs of its models.
        called: what a model of the kind is, with its article.
        defaults: fields of a recipe that are others than for ages.
    """

    adopted: Mapping[str, Any] | None = None

    schema: ClassVar[str] = RECORD_SCHEMA
    outputs: ClassVar[tuple[str, ...]]
    called: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    @abstractmethod
    def of_data(cls, recipe: Recipe, dataset: Dataset, split: Split, **more: Any) -> Self:
        """The task with the groups that a recipe or the data name; `DataError` or `InputError`
        where they name none that can be learned.
        """

    @classmethod
    @abstractmethod
    def groups_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        """The fields of the task that say which groups a model knows."""

    @classmethod
    def open(cls, checkpoint: Checkpoint, *, device: torch.device, base: str | None) -> Self:
        """Recipe and groups are the checkpoint's."""
        if base is not None:
            raise InputError(f"`base={base}`", f"{cls.called} has none", "Leave it out")
        adopted = checkpoint.model.adopted
        return cls(
            recipe=recipe_of(checkpoint),
            adopted=None if adopted is None else adopted.to_dict(),
            **cls.groups_of(checkpoint),
        )

    @property
    @abstractmethod
    def answers(self) -> dict[str, Any]:
        """The arguments of a model that say what its answers mean."""

    @property
    def image_size(self) -> int:
        """Side in pixels, as the recipe says."""
        return self.recipe.image_size

    @property
    def ignorance(self) -> float:
        """ln G: a uniform guess."""
        return math.log(len(self.edges) - 1)

    def fit(
        self,
        train: SampleSet,
        validation: SampleSet,
        *,
        seed: int,
        state: StateFile | None,
        show: bool,
        label: str,
    ) -> Fit:
        """Trains a new model in the recipe's epochs."""
        return fit_new(self, train, validation, seed=seed, state=state, show=show, label=label)

    def log_prob(self, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """log softmax(z)_y of the true group (B,)."""
        return self.logits(outputs).log_softmax(dim=1).gather(1, batch.group_B[:, None])[:, 0]

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Logits of the groups (B, G) in float32."""
        return outputs[self.output].float()

    def network(self, model: nn.Module) -> nn.Module:
        """The model itself: it needs nothing else to compute a loss."""
        return model

    def stored(self, network: nn.Module) -> nn.Module:
        """The model itself: it has no base."""
        return network

    def footprint(self, network: nn.Module, device: torch.device) -> Footprint:
        """The footprint, measured by two small passes over images."""
        return footprint(network, self.image_size, device)

    def resident(self, samples: int) -> int:
        """Bytes of the pixels, ages and groups of some samples."""
        return image_bytes(self.image_size, samples)

    @abstractmethod
    def describe_groups(self, row: dict[str, Any]) -> str:
        """What a row of `metrics` says of each group, in a line of words."""

    @abstractmethod
    def said_of(self, part: ImageSet, named: Mapping[str, Array]) -> Predictions:
        """Joins the truth of a set to what a file answered, by name of output."""

    def predict_artifact(self, artifact: Any, parts: Sequence[ImageSet]) -> list[Predictions]:
        """What a file answers.

        Raises:
            ArtifactError: its outputs are not those of such a model.
            ConversionError: its runtime crashed.
        """
        from unplug.export import Session

        image_NCHW = np.concatenate([_pixels(part) for part in parts])
        with Session(artifact) as session:
            outputs = session.run_channels_first({"image": image_NCHW})
        if missing := [name for name in self.outputs if name not in outputs]:
            why = f"it has no output {' or '.join(missing)}, so it is not {self.called}"
            raise ArtifactError(str(artifact.path), why, f"Audit the artifacts of {self.called}")
        ends = np.cumsum([len(part) for part in parts])[:-1]
        split = {name: np.split(outputs[name], ends) for name in self.outputs}
        return [
            self.said_of(part, {name: arrays[place] for name, arrays in split.items()})
            for place, part in enumerate(parts)
        ]


def _pixels(part: ImageSet) -> np.ndarray:
    return part.image_NCHW.to(torch.float32).div_(255.0).contiguous().cpu().numpy()
