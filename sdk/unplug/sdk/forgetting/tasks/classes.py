"""Classifiers of pictures: of our sizes, adopted, or ResNet-18, the network that unlearning
benchmarks are run on, which is measured and not shipped.

Shapes: B batch, C channels, H = W side, G classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unplug.core import Array, CheckpointError, DataError, InputError
from unplug.plugins import Checkpoint, Classifier
from unplug.sdk.learning.data import Dataset, Split, check_labels
from unplug.sdk.learning.training import (
    ClassPredictions,
    ImageSet,
    LabelledBatch,
    Predictions,
    Recipe,
    SampleSet,
    Sets,
    load_sets,
    model_card,
    predict,
    summarize,
)

from .groups import GroupTask
from .needs import Need

SHOWN = 12  # classes in one line
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
    """L = CE(z, y), for labels without an order.

    Args:
        recipe: a recipe with loss "ce"; of size "resnet18" the network is a `ResNet18`.
        edges: 0, 1, ..., G.
        names: names of the G classes, in the order of the logits.
        labels: all labels that the data of the training named, in their order: what goes by the
            number of a label still knows them when a class comes or leaves.
        width: channels of the first stage of a `ResNet18`; 64 is the paper's.

    Raises:
        InputError: a recipe with another loss, or with borders of ages.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...] = ()
    width: int = 64

    output: ClassVar[str] = "logits"
    outputs: ClassVar[tuple[str, ...]] = ("logits",)
    model_type: ClassVar[str] = "classes"
    called: ClassVar[str] = "a classifier"
    defaults: ClassVar[Mapping[str, Any]] = {"loss": "ce", "edges": None}
    unit: ClassVar[str] = "loss"
    lacks: ClassVar[tuple[Need, ...]] = ("ages",)
    error_name: ClassVar[str] = "Share of wrong answers on unseen pictures"
    error_digits: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if self.recipe.loss != "ce" or self.recipe.edges is not None:
            why = "it is for ages"
            raise InputError("classifier recipe", why, "Use loss ce, and no edges")

    @classmethod
    def of(cls, recipe: Recipe, names: Sequence[str], **more: Any) -> Self:
        """A task with named classes, at least 2."""
        edges = tuple(map(float, range(len(names) + 1)))
        return cls(recipe=recipe, edges=edges, names=tuple(names), **more)

    @classmethod
    def of_data(cls, recipe: Recipe, dataset: Dataset, split: Split, **more: Any) -> Self:
        """With the classes that the data have a picture of.

        Raises:
            DataError: data without labels, a class of one picture, or one that nobody is trained
                on.
            InputError: too few classes, too many, or names that cannot be used.
        """
        where = f"data {dataset.spec}"
        names = check_labels(where, dataset.samples, dataset.classes)
        learned = {dataset.samples[row].label for row in dataset.indices(split.retain)}
        for number, name in enumerate(dataset.classes):
            if name in names and number not in learned:
                why = f"no picture of class {name!r} is in the training set"
                raise DataError(where, why, "Add pictures of it, or draw another split (`seed`)")
        return cls.of(recipe, names, labels=dataset.classes, **more)

    @classmethod
    def groups_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        """The names of its classes, and the labels of its data."""
        names = tuple(checkpoint.model.classes)
        edges = tuple(map(float, range(len(names) + 1)))
        labels = tuple(checkpoint.record.get("labels", names))
        return {"edges": edges, "names": names, "labels": labels}

    @property
    def answers(self) -> dict[str, Any]:
        """The names of its classes."""
        return {"classes": list(self.names)}

    def build(self, train: SampleSet) -> nn.Module:
        """A `Classifier`, or a `ResNet18`, with random weights."""
        recipe = self.recipe
        if recipe.size == "resnet18":
            return ResNet18(classes=len(self.names), width=self.width, dropout=recipe.dropout)
        return Classifier(
            size=recipe.size,
            image_size=recipe.image_size,
            classes=self.names,
            dropout=recipe.dropout,
            network=self.adopted,
        )

    def refresh(self, model: nn.Module, retain: SampleSet) -> None:
        """Nothing is kept besides the weights."""

    def loss(self, model: nn.Module, outputs: Mapping[str, Tensor], batch: LabelledBatch) -> Tensor:
        """Training loss (B,), labels smoothed as the recipe says."""
        smoothing = self.recipe.smoothing
        return F.cross_entropy(
            self.logits(outputs), batch.group_B, reduction="none", label_smoothing=smoothing
        )

    def sets(
        self, dataset: Dataset, split: Split, device: torch.device, *, show: bool = False
    ) -> Sets:
        """The sets with their pixels and classes on the device."""
        return load_sets(dataset, split, None, device, self.names)

    def metrics(self, network: nn.Module, part: SampleSet) -> dict[str, Any]:
        """Accuracy, of all classes and of each."""
        return summarize(predict(network, part), self.edges)

    def describe(self, row: dict[str, Any]) -> str:
        """Accuracy and cross entropy in words."""
        return f"accuracy {100 * row['accuracy']:5.1f} %  loss {abs(row['loss']):.3f}"

    def describe_groups(self, row: dict[str, Any]) -> str:
        """Accuracy of each class, of many of the worst."""
        rows = [one for one in row["per_class"] if one["n"]]
        rows = sorted(rows, key=lambda one: one["accuracy"])[:SHOWN]
        worst = "" if len(rows) == len(row["per_class"]) else f", the worst {len(rows)}"
        return f"accuracy per class (test{worst}): " + ", ".join(
            f"{one['label']}: {100 * one['accuracy']:.0f} %" for one in rows
        )

    def facts(self) -> dict[str, Any]:
        """The labels of its data."""
        return {"labels": list(self.labels)}

    def check_twin(self, other: Checkpoint) -> None:
        """Pupil recipe and retain set, the classes.

        Raises:
            CheckpointError: others, or in another order.
        """
        if tuple(other.model.classes) != self.names:
            raise CheckpointError(
                str(other.path), "its classes are others than the original's", "Retrain it"
            )

    def card(self, record: dict[str, Any]) -> str:
        """The card with a table of the metrics."""
        return model_card(record, Classifier.called)

    def title(self, checkpoint: Checkpoint) -> str:
        """What it is, with the side of its pictures."""
        model = checkpoint.model
        return f"A picture classifier ({model.image_size} px in, {len(model.classes)} classes out)"

    def processing(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """How pictures become its input, and its output a label with a probability."""
        return {
            "preprocessing": {
                "crop": "centre square",
                "resize": checkpoint.model.image_size,
                "scale": "pixel / 255",
            },
            "postprocessing": {"classes": list(self.names), "unit": "probability"},
        }

    def said_of(self, part: ImageSet, named: Mapping[str, Array]) -> Predictions:
        """Joins the classes of a set to the logits that a file answered."""
        return ClassPredictions.of(named["logits"], part.group_N.cpu().numpy(), self.names)
