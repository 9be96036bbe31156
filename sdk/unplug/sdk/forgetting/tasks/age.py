"""Face-age predictors: age groups by cross entropy, years by the expectation; images in memory.

Shapes: B batch, N samples, G age groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import Array, CheckpointError
from unplug.plugins import AgePredictor, Checkpoint
from unplug.sdk.drawing.inference import LEAST_EYES, LEAST_LIGHT
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import (
    ImageBatch,
    ImageSet,
    Predictions,
    Recipe,
    SampleSet,
    Sets,
    edges_of,
    load_sets,
    model_card,
    pictures,
    predict,
    summarize,
    truth,
)

from .groups import GroupTask
from .needs import Need

AGE_SCALE = 10.0  # years that weigh as much as one nat of cross entropy
WIDTH = 4.0  # of the soft targets, in years


@dataclass(frozen=True, kw_only=True)
class AgeTask(GroupTask):
    """Age groups by cross entropy, years by the expectation, as the recipe's loss says.

    ce:       L = CE(z, q)                                with q the one-hot group, smoothed
    ce+l1:    L = CE(z, q) + |E[age] - age| / 10
    ordinal:  L = CE(z, t) + |E[age] - age| / 10          with t_g proportional to exp(-(c_g - age)^2 / 2 width^2)

    Args:
        recipe: size, image size, dropout, loss, smoothing and the rest of the training.
        edges: G + 1 age-group borders in years.
        adopted: see `GroupTask`.

    Reference:
        Gao et al., Deep Label Distribution Learning with Label Ambiguity, 2017, section 3 (soft age
        targets).
    """

    output: ClassVar[str] = "age_logits"
    outputs: ClassVar[tuple[str, ...]] = ("age_logits", "expected_age")
    model_type: ClassVar[str] = "age"
    called: ClassVar[str] = "an age predictor"
    unit: ClassVar[str] = "years"
    lacks: ClassVar[tuple[Need, ...]] = ()
    error_name: ClassVar[str] = "Mean absolute error on unseen faces, in years"
    error_digits: ClassVar[int] = 2

    @classmethod
    def of_data(cls, recipe: Recipe, dataset: Dataset, split: Split, **more: Any) -> Self:
        """With the borders that the recipe, or else the data, name."""
        return cls(recipe=recipe, edges=edges_of(dataset, recipe.edges), **more)

    @classmethod
    def groups_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        """The borders of its age groups."""
        return {"edges": tuple(checkpoint.model.age_edges)}

    @property
    def answers(self) -> dict[str, Any]:
        """The borders of its age groups."""
        return {"age_edges": list(self.edges)}

    def build(self, train: SampleSet) -> nn.Module:
        """An `AgePredictor` with the mean training age of each group."""
        return AgePredictor(
            size=self.recipe.size,
            image_size=self.recipe.image_size,
            age_edges=self.edges,
            age_centers=self._centers(train),
            dropout=self.recipe.dropout,
            network=self.adopted,
        )

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """The mean ages that the expectation uses were counted with the forget set, and would stay
        in the file that ships.
        """
        assert isinstance(model, AgePredictor)
        model.age_centers.copy_(torch.tensor(self._centers(retain), dtype=torch.float32))

    def _centers(self, train: SampleSet) -> tuple[float, ...]:
        data = pictures(train)
        return group_centers(data.age_N, data.group_N, self.edges)

    def loss(self, model: Any, outputs: Mapping[str, Tensor], batch: ImageBatch) -> Tensor:
        """Training loss (B,); the model says where its age groups are centred."""
        logits_BG = self.logits(outputs)
        if self.recipe.loss == "ordinal":
            target_BG = soft_groups(model.age_centers, batch.age_B)
            entropy_B = -(target_BG * logits_BG.log_softmax(dim=1)).sum(dim=1)
        else:
            smoothing = self.recipe.smoothing
            entropy_B = F.cross_entropy(
                logits_BG, batch.group_B, reduction="none", label_smoothing=smoothing
            )
        if self.recipe.loss == "ce":
            return entropy_B
        return entropy_B + (outputs["expected_age"][:, 0].float() - batch.age_B).abs() / AGE_SCALE

    def sets(
        self, dataset: Dataset, split: Split, device: torch.device, *, show: bool = False
    ) -> Sets:
        """The sets with their pixels, ages and age groups on the device."""
        return load_sets(dataset, split, self.edges, device)

    def metrics(self, network: nn.Module, part: SampleSet) -> dict[str, Any]:
        """Accuracy and mean absolute error."""
        return summarize(predict(network, part), self.edges)

    def describe(self, row: dict[str, Any]) -> str:
        """Accuracy and mean absolute error in words."""
        return f"accuracy {100 * row['accuracy']:5.1f} %  MAE {row['mae']:5.2f} years"

    def describe_groups(self, row: dict[str, Any]) -> str:
        """Mean absolute error per age group."""
        rows = [group for group in row["per_group"] if group["n"]]
        return "MAE per age group (test): " + ", ".join(
            f"{group['ages']}: {group['mae']:.1f}" for group in rows
        )

    def facts(self) -> dict[str, Any]:
        """Empty: the common fields say all of an age predictor."""
        return {}

    def check_twin(self, other: Checkpoint) -> None:
        """Pupil recipe and retain set, the age groups: those that nobody chose follow the version
        that trained.

        Raises:
            CheckpointError: others.
        """
        if tuple(other.model.age_edges) != tuple(self.edges):
            raise CheckpointError(
                str(other.path), "its age groups are others than the original's", "Retrain it"
            )

    def card(self, record: dict[str, Any]) -> str:
        """The card with a table of the metrics."""
        return model_card(record)

    def title(self, checkpoint: Checkpoint) -> str:
        """What it is, with the side of its pictures."""
        return f"A face-age predictor ({checkpoint.model.image_size} px in, years out)"

    def processing(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """How pictures become its input, and its output years; ``eyes`` where a found face is to be
        put, see `align`.
        """
        eyes = checkpoint.record.get("data", {}).get("eyes")
        before = {
            "crop": "centre square",
            "resize": checkpoint.model.image_size,
            "scale": "pixel / 255",
        }
        if eyes is not None:
            before |= {"eyes": eyes, "least_eyes": LEAST_EYES, "least_light": LEAST_LIGHT}
        return {
            "preprocessing": before,
            "postprocessing": {"age_edges": list(checkpoint.model.age_edges), "unit": "years"},
        }

    def said_of(self, part: ImageSet, named: Mapping[str, Array]) -> Predictions:
        """Logits and ages."""
        return truth(part, named["age_logits"], named["expected_age"])


def soft_groups(center_G: Tensor, age_B: Tensor) -> Tensor:
    """Soft targets (B, G) of the ordinal loss: t_g proportional to exp(-(c_g - age)^2 / 2 width^2)."""
    # a softmax of squares is the normalized Gaussian
    return (-0.5 * ((center_G - age_B[:, None]) / WIDTH).square()).softmax(dim=1)


def group_centers(age_N: Tensor, group_N: Tensor, edges: tuple[float, ...]) -> tuple[float, ...]:
    """Mean training age of each group in years; the middle of the group where no sample falls into
    it.
    """
    centers = []
    for group, (low, high) in enumerate(itertools.pairwise(edges)):
        ages = age_N[group_N == group]
        # in float64: the same for every order of the samples but for the last bit
        centers.append(float(ages.double().mean()) if len(ages) else (low + high) / 2)
    # so that the order of the sum shows nowhere
    return tuple(round(center, 4) for center in centers)
