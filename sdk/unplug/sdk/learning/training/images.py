"""Images with an age or a class each, resident on the device.

Shapes: N samples, B batch, C channels, H = W side in pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unplug.core import DataError, InputError
from unplug.sdk.learning.data import Dataset, check_labels

from .augment import augment
from .predictions import ClassPredictions, Predictions
from .recipe import Augment
from .samples import Batch, LabelledBatch, LabelledSet, SampleSet

EVAL_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class ImageBatch(LabelledBatch):
    """Part of an `ImageSet`: float images in [0, 1], ages in years, age groups or classes."""

    image_BCHW: Tensor
    age_B: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The images, which are all that a model is called with."""
        return (self.image_BCHW,)


@dataclass(frozen=True, kw_only=True)
class ImageSet(LabelledSet):
    """N images resident on one device.

    Args:
        ids: N sample ids.
        image_NCHW: uint8 pixels in channels-last memory.
        age_N: years; NaN where the data has classes instead.
        group_N: age group or class of each sample; -1 where labels are not shown.
        subject_N: see `SampleSet`.
    """

    image_NCHW: Tensor
    age_N: Tensor

    @property
    def device(self) -> torch.device:
        """The device that the pixels are on."""
        return self.age_N.device

    @property
    def eval_batch(self) -> int:
        """How many pictures are measured at once, `EVAL_BATCH`."""
        return EVAL_BATCH

    def holds(self) -> frozenset[str]:
        """Class logits always; labels and ages where every sample has one."""
        found = {
            "labels": bool((self.group_N >= 0).all()),
            "ages": not bool(torch.isnan(self.age_N).any()),
        }
        return frozenset({"class logits", *(name for name, there in found.items() if there)})

    def shown(self, *, labels: bool, ages: bool) -> ImageSet:
        """Without labels every group is -1; without both every age is NaN (a group tells about an
        age).
        """
        return replace(
            self,
            group_N=self.group_N if labels else torch.full_like(self.group_N, -1),
            age_N=self.age_N if labels or ages else torch.full_like(self.age_N, float("nan")),
        )

    def batch(self, index_B: Tensor) -> ImageBatch:
        """The samples at `index_B`, as floats in [0, 1]."""
        image_BCHW = (
            self.image_NCHW[index_B]
            .to(torch.float32, memory_format=torch.channels_last)
            .div_(255.0)
        )
        return ImageBatch(
            image_BCHW=image_BCHW, age_B=self.age_N[index_B], group_B=self.group_N[index_B]
        )

    def view(self, batch: ImageBatch, kind: Augment, generator: torch.Generator) -> ImageBatch:
        """The batch, augmented at random as the recipe says."""
        return replace(batch, image_BCHW=augment(batch.image_BCHW, kind, generator))

    def subset(self, index: Sequence[int] | Tensor) -> ImageSet:
        """The samples at `index` as a set of their own."""
        where = torch.as_tensor(index, dtype=torch.long, device=self.device)
        host = where.cpu().numpy()
        return ImageSet(
            ids=tuple(self.ids[position] for position in host),
            image_NCHW=self.image_NCHW[where].contiguous(memory_format=torch.channels_last),
            age_N=self.age_N[where],
            group_N=self.group_N[where],
            subject_N=self.subject_N[host],
        )

    def relabelled(self, group_N: Tensor, edges: tuple[float, ...]) -> ImageSet:
        """Other groups; known ages become the middles of them."""
        middle_G = torch.tensor(
            [(low + high) / 2 for low, high in itertools.pairwise(edges)], device=self.device
        )
        age_N = torch.where(
            torch.isnan(self.age_N), self.age_N, middle_G[group_N].to(self.age_N.dtype)
        )
        return replace(self, group_N=group_N, age_N=age_N)

    def predictions(self, model: nn.Module) -> ClassPredictions:
        """Logits, and expected ages of models that say some."""
        logits, ages = [], []
        for batch in self.in_order(self.eval_batch):
            # Full precision on every device: an audit compares these numbers with those of fp32
            # artifacts.
            outputs = model(*batch.inputs)
            logits.append(
                outputs["age_logits" if "age_logits" in outputs else "logits"]
                .double()
                .cpu()
                .numpy()
            )
            if "expected_age" in outputs:
                ages.append(outputs["expected_age"].double().cpu().numpy())
        if not ages:  # a model of classes alone is not measured in years, whatever the data knows
            names = getattr(model, "classes", ())
            return ClassPredictions.of(np.concatenate(logits), self.group_N.cpu().numpy(), names)
        return truth(self, np.concatenate(logits), np.concatenate(ages))


def truth(data: ImageSet, logits_NG: NDArray[Any], age_N: NDArray[Any]) -> ClassPredictions:
    """Joins the truth of a set to outputs that came from anywhere (a checkpoint or an artifact)."""
    return ClassPredictions(
        logits_NG=np.asarray(logits_NG, dtype=np.float64),
        age_N=np.asarray(age_N, dtype=np.float64).reshape(-1),
        true_age_N=data.age_N.double().cpu().numpy(),
        true_group_N=data.group_N.cpu().numpy(),
    )


@overload
def pictures(part: Batch) -> ImageBatch: ...
@overload
def pictures(part: SampleSet) -> ImageSet: ...
def pictures(part: Batch | SampleSet) -> ImageBatch | ImageSet:
    """A batch or set of images, for what works on pixels or ages; `InputError` where it holds
    something else.
    """
    if not isinstance(part, (ImageBatch, ImageSet)):
        raise InputError(
            type(part).__name__,
            "its samples are not pictures",
            "Use what works on samples of any kind",
        )
    return part


def age_groups(ages: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Age group of each age: g with edge_g <= age < edge_{g+1}; ages outside fall into the first or
    last group.
    """
    return np.clip(np.searchsorted(np.asarray(edges), ages, side="right") - 1, 0, len(edges) - 2)


def to_tensors(
    dataset: Dataset, ids: Sequence[str], edges: Sequence[float], device: torch.device
) -> ImageSet:
    """Loads some samples with their ages onto the device.

    Args:
        dataset: the data set with the pixels.
        ids: N sample ids.
        edges: G + 1 age-group borders in years.
        device: the device for the tensors.

    Raises:
        DataError: a sample without an age.
    """
    age_N = dataset.ages[dataset.indices(ids)]
    if np.isnan(age_N).any():
        missing = ids[int(np.argmax(np.isnan(age_N)))]
        raise DataError(
            f"data {dataset.spec}",
            f"sample {missing} has no age",
            "The age predictor needs ages: use another data spec"
            + (", or `unplug train classes` for its labels" if dataset.classes else ""),
        )
    return _resident(dataset, ids, age_N, age_groups(age_N, edges), device)


def to_class_tensors(
    dataset: Dataset, ids: Sequence[str], classes: Sequence[str], device: torch.device
) -> ImageSet:
    """Loads some samples with their class labels onto the device; ages are NaN.

    Args:
        dataset: the data set with the pixels.
        ids: N sample ids.
        classes: names of the classes, in the order of the model's logits.
        device: the device for the tensors.

    Raises:
        DataError: a sample without a class, or with one that is not among them.
    """
    samples = [dataset.samples[int(index)] for index in dataset.indices(ids)]
    labels = [sample.label for sample in samples]
    if None in labels:
        raise DataError(
            f"data {dataset.spec}",
            f"sample {ids[labels.index(None)]} has no class",
            "A classifier needs labels: use a data spec with classes",
        )
    check_labels(f"data {dataset.spec}", samples, dataset.classes, classes)
    place = {name: number for number, name in enumerate(classes)}
    group_N = [place[dataset.classes[label]] for label in labels if label is not None]
    return _resident(
        dataset, ids, np.full(len(ids), np.nan, np.float32), np.array(group_N, np.int64), device
    )


def _resident(
    dataset: Dataset,
    ids: Sequence[str],
    age_N: np.ndarray,
    group_N: np.ndarray,
    device: torch.device,
) -> ImageSet:
    index_N = dataset.indices(ids)
    pixels = torch.from_numpy(np.ascontiguousarray(dataset.pixels(index_N).transpose(0, 3, 1, 2)))
    numbers: dict[str, int] = {}
    owners = [dataset.samples[int(index)].person for index in index_N]
    return ImageSet(
        ids=tuple(ids),
        image_NCHW=pixels.to(device, memory_format=torch.channels_last),
        age_N=torch.from_numpy(age_N.copy()).to(device),
        group_N=torch.from_numpy(group_N.astype(np.int64)).to(device),
        subject_N=np.array([numbers.setdefault(owner, len(numbers)) for owner in owners]),
    )


@overload
def predict(model: nn.Module, data: ImageSet) -> ClassPredictions: ...
@overload
def predict(model: nn.Module, data: SampleSet) -> Predictions: ...
def predict(model: nn.Module, data: SampleSet) -> Predictions:
    """Runs a model in eval mode over a set; its mode is put back afterwards."""
    was_training = model.training
    with torch.no_grad():
        said = data.predictions(model.eval())
    model.train(was_training)
    return said
