"""Face-age predictors: age groups by cross entropy, years by the expectation; images in memory.

Shapes: B batch, N samples, G age groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import ArtifactError, CheckpointError, InputError
from unplug.plugins import AgePredictor, Checkpoint
from unplug.sdk.drawing.inference import LEAST_EYES, LEAST_LIGHT
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import (
    RECORD_SCHEMA,
    ImageBatch,
    ImageSet,
    Predictions,
    SampleSet,
    Sets,
    load_sets,
    model_card,
    pictures,
    predict,
    recipe_of,
    summarize,
    truth,
)

from .groups import GroupTask
from .memory import Footprint, footprint, image_bytes
from .needs import Need
from .stored import StoredTask

AGE_SCALE = 10.0  # years that weigh as much as one nat of cross entropy
WIDTH = 4.0  # of the soft targets, in years


@dataclass(frozen=True, kw_only=True)
class AgeTask(GroupTask, StoredTask):
    """Age groups by cross entropy, years by the expectation, as the recipe's loss says.

    ce:       L = CE(z, q)                                with q the one-hot group, smoothed
    ce+l1:    L = CE(z, q) + |E[age] - age| / 10
    ordinal:  L = CE(z, t) + |E[age] - age| / 10          with t_g proportional to exp(-(c_g - age)^2 / 2 width^2)

    Args:
        recipe: size, image size, dropout, loss, smoothing and the rest of the training.
        edges: G + 1 age-group borders in years.
        adopted: how somebody else's network is built, see `unplug.plugins.Adopted`; None of our
            sizes.

    Reference:
        Gao et al., Deep Label Distribution Learning with Label Ambiguity, 2017, section 3 (soft age
        targets).
    """

    adopted: Mapping[str, Any] | None = None

    output: ClassVar[str] = "age_logits"
    model_type: ClassVar[str] = "age"
    schema: ClassVar[str] = RECORD_SCHEMA
    unit: ClassVar[str] = "years"
    lacks: ClassVar[tuple[Need, ...]] = ()
    error_name: ClassVar[str] = "Mean absolute error on unseen faces, in years"
    error_digits: ClassVar[int] = 2

    @classmethod
    def open(cls, checkpoint: Checkpoint, *, device: torch.device, base: str | None) -> AgeTask:
        """Recipe and age groups are the checkpoint's."""
        if base is not None:
            raise InputError(f"`base={base}`", "an age predictor has none", "Leave it out")
        adopted = checkpoint.model.adopted
        return cls(
            recipe=recipe_of(checkpoint),
            edges=tuple(checkpoint.model.age_edges),
            adopted=None if adopted is None else adopted.to_dict(),
        )

    @property
    def image_size(self) -> int:
        """Side in pixels, as the recipe says."""
        return self.recipe.image_size

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

    def network(self, model: nn.Module) -> nn.Module:
        """The model itself: it needs nothing else to compute a loss."""
        return model

    def stored(self, network: nn.Module) -> nn.Module:
        """The model itself: it has no base."""
        return network

    def metrics(self, network: nn.Module, part: SampleSet) -> dict[str, Any]:
        """Accuracy and mean absolute error."""
        return summarize(predict(network, part), self.edges)

    def describe(self, row: dict[str, Any]) -> str:
        """Accuracy and mean absolute error in words."""
        return f"accuracy {100 * row['accuracy']:5.1f} %  MAE {row['mae']:5.2f} years"

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

    def footprint(self, network: nn.Module, device: torch.device) -> Footprint:
        """The footprint, measured by two small passes over images."""
        return footprint(network, self.image_size, device)

    def resident(self, samples: int) -> int:
        """Bytes of the pixels, ages and groups of some samples."""
        return image_bytes(self.image_size, samples)

    def predict_artifact(self, artifact: Any, parts: Sequence[ImageSet]) -> list[Predictions]:
        """Logits and ages.

        Raises:
            ArtifactError: its outputs are not those of an age model.
            ConversionError: its runtime crashed.
        """
        from unplug.export import Session

        image_NCHW = np.concatenate([_pixels(part) for part in parts])
        with Session(artifact) as session:
            outputs = session.run_channels_first({"image": image_NCHW})
        if missing := [name for name in ("age_logits", "expected_age") if name not in outputs]:
            why = f"it has no output {' or '.join(missing)}, so it is not an age model"
            raise ArtifactError(str(artifact.path), why, "Audit the artifacts of an age model")
        ends = np.cumsum([len(part) for part in parts])[:-1]
        logits, ages = (np.split(outputs[name], ends) for name in ("age_logits", "expected_age"))
        return [
            truth(part, logit, age) for part, logit, age in zip(parts, logits, ages, strict=True)
        ]


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


def _pixels(part: ImageSet) -> np.ndarray:
    return part.image_NCHW.to(torch.float32).div_(255.0).contiguous().cpu().numpy()
