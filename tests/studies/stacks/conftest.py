"""Tiny data and families, in float64 to compare last digits."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from unplug.plugins import AGE_EDGES, SIZES, AgePredictor
from unplug.plugins.age_sizes import Bottlenecks, Size
from unplug.sdk.forgetting.tasks import AgeTask, ClassTask
from unplug.sdk.forgetting.tasks.classes import ResNet18
from unplug.sdk.learning.training import ImageSet, Recipe, SampleSet

EDGES = tuple(map(float, AGE_EDGES))
SHORT = Size(
    stem=8,
    stages=(Bottlenecks(channels=8, blocks=1, expand=1), Bottlenecks(channels=12, blocks=2)),
    head=32,
)
"""A nano with all its kinds of layer and few of each: float64 convolutions are slow."""


def faces(count: int, seed: int = 0) -> ImageSet:
    """Noise that is lighter the older it is."""
    generator = torch.Generator().manual_seed(seed)
    group_N = torch.randint(0, 10, (count,), generator=generator)
    noise = (
        torch.rand(count, 3, 32, 32, generator=generator) * 128 + group_N[:, None, None, None] * 12
    )
    return ImageSet(
        ids=tuple(f"face {number}" for number in range(count)),
        image_NCHW=noise.to(torch.uint8).contiguous(memory_format=torch.channels_last),
        age_N=group_N * 9.0 + 3.0,
        group_N=group_N,
        subject_N=np.arange(count),
    )


def age_task(kind: type[AgeTask] = AgeTask, **recipe: Any) -> AgeTask:
    return kind(
        recipe=Recipe(
            **{"size": "nano", "image_size": 32, "epochs": 2, "batch_size": 16, **recipe}
        ),
        edges=EDGES,
    )


def class_task(kind: type[ClassTask] = ClassTask, **recipe: Any) -> ClassTask:
    settings = {
        "size": "resnet18",
        "loss": "ce",
        "image_size": 32,
        "epochs": 2,
        "batch_size": 16,
        **recipe,
    }
    return kind.of(Recipe(**settings), "abcdefghij", width=8)


class WideAge(AgePredictor):
    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return super().forward(image_BCHW.double())


class WideResNet(ResNet18):
    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return super().forward(image_BCHW.double())


class WideAgeTask(AgeTask):
    """`AgeTask` in float64, with a shorter network."""

    def build(self, train: SampleSet) -> nn.Module:
        with patch.dict(SIZES, nano=SHORT):
            model = WideAge(
                size="nano",
                image_size=32,
                age_edges=EDGES,
                age_centers=self._centers(train),
                dropout=self.recipe.dropout,
            )
        return model.double()

    def logits(self, outputs: Any) -> Tensor:
        return outputs[self.output].double()


class WideClassTask(ClassTask):
    """`ClassTask` in float64."""

    def build(self, train: SampleSet) -> nn.Module:
        return WideResNet(classes=10, width=8, dropout=self.recipe.dropout).double()

    def logits(self, outputs: Any) -> Tensor:
        return outputs[self.output].double()
