"""Image classifiers: ResNet-18, the network that unlearning benchmarks are run on; it is measured,
not shipped.

Shapes: B batch, C channels, H = W side, G classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.learning.training import LabelledBatch, Recipe, SampleSet

from .groups import GroupTask

STAGES = ((1, 1), (2, 2), (4, 2), (8, 2))  # width factor and stride, two blocks each


class BasicBlock(nn.Module):
    """relu( norm(conv3(relu(norm(conv3(x))))) + shortcut(x) )."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """(B, C, H, W) to (B, outputs, H / stride, W / stride)."""
        y_BCHW = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x_BCHW)))))
        return F.relu(y_BCHW + self.shortcut(x_BCHW))


class ResNet18(nn.Module):
    """RGB images in [0, 1] to G class logits.

    Args:
        classes: G.
        width: channels of the first stage, 64 in the paper.
        dropout: the dropout in front of the classifier.

    Example:
        >>> import torch
        >>> ResNet18(classes=4, width=8)(torch.zeros(2, 3, 32, 32))["logits"].shape
        torch.Size([2, 4])

    Reference:
        He et al., Deep Residual Learning for Image Recognition, 2016, table 1 (7x7 stem with
        pooling at any input size, as the starting kit of the 2023 unlearning challenge has it on
        CIFAR-10).
    """

    def __init__(self, classes: int = 10, width: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        blocks: list[Any] = []
        channels = width
        for factor, stride in STAGES:
            for first in (stride, 1):
                blocks.append(BasicBlock(channels, factor * width, first))
                channels = factor * width
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        """Class ``logits`` (B, G) of RGB images (B, 3, H, W) in [0, 1]."""
        x_BCHW = F.relu(self.norm1(self.conv1(image_BCHW * 4.0 - 2.0)))  # about unit variance
        x_BCHW = self.blocks(F.max_pool2d(x_BCHW, 3, 2, 1))
        return {"logits": self.classifier(self.dropout(x_BCHW.mean(dim=(2, 3))))}


@dataclass(frozen=True, kw_only=True)
class ClassTask(GroupTask):
    """L = CE(z, y), for labels without an order, of `ResNet18` classifiers.

    Args:
        recipe: a recipe of size "resnet18", with loss "ce".
        edges: see `of`.
        width: channels of the first stage; 64 is ResNet-18.

    Raises:
        InputError: a recipe of another network or loss.
    """

    width: int = 64

    output: ClassVar[str] = "logits"

    def __post_init__(self) -> None:
        if self.recipe.size != "resnet18" or self.recipe.loss != "ce":
            why = "it is for another network"
            raise InputError("classifier recipe", why, "Use size resnet18 and loss ce")

    @classmethod
    def of(cls, recipe: Recipe, classes: int, width: int = 64) -> Self:
        """A task with G classes, at least 2; their edges are 0, 1, ..., G."""
        edges = tuple(map(float, range(classes + 1)))
        return cls(recipe=recipe, edges=edges, width=width)

    def build(self, train: SampleSet) -> nn.Module:
        """A `ResNet18` with random weights."""
        return ResNet18(classes=len(self.edges) - 1, width=self.width, dropout=self.recipe.dropout)

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Nothing is kept besides the weights."""

    def loss(self, model: nn.Module, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """Training loss (B,), labels smoothed as the recipe says."""
        smoothing = self.recipe.smoothing
        return F.cross_entropy(
            self.logits(outputs), batch.group_B, reduction="none", label_smoothing=smoothing
        )
