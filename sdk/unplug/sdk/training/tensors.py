"""A set of samples as tensors on the device.

Shapes: N samples, B batch, C channels, H = W side in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from unplug.core import DataError
from unplug.sdk.data import Dataset

from .augment import Augment, augment

EVAL_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Part of a `TensorSet`: float images in [0, 1], ages in years, age groups."""

    image_BCHW: Tensor
    age_B: Tensor
    group_B: Tensor

    def __len__(self) -> int:
        return len(self.age_B)


@dataclass(frozen=True, kw_only=True)
class TensorSet:
    """N samples resident on one device.

    Args:
        ids: N sample ids.
        image_NCHW: uint8 pixels in channels-last memory.
        age_N: years; NaN where the data has classes instead.
        group_N: age group or class of each sample; -1 where labels are withheld.
        subject_N: integer per subject; samples without a known subject have one of their own.
    """

    ids: tuple[str, ...]
    image_NCHW: Tensor
    age_N: Tensor
    group_N: Tensor
    subject_N: np.ndarray

    has_classes: ClassVar[bool] = True
    """Whether a model of such samples says class logits."""

    @property
    def eval_batch(self) -> int:
        """Samples that a model is measured on at once."""
        return EVAL_BATCH

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index_B: Tensor) -> Batch:
        """The samples at `index_B`."""
        image_BCHW = self.image_NCHW[index_B].to(torch.float32, memory_format=torch.channels_last).div_(255.0)
        return Batch(image_BCHW=image_BCHW, age_B=self.age_N[index_B], group_B=self.group_N[index_B])

    def view(self, batch: Batch, kind: Augment, generator: torch.Generator) -> Batch:
        """A batch as training sees it: augmented."""
        return replace(batch, image_BCHW=augment(batch.image_BCHW, kind, generator))

    def subset(self, index: Sequence[int] | Tensor) -> TensorSet:
        """The samples at `index` as a set of their own."""
        where = torch.as_tensor(index, dtype=torch.long, device=self.age_N.device)
        host = where.cpu().numpy()
        return TensorSet(
            ids=tuple(self.ids[position] for position in host),
            image_NCHW=self.image_NCHW[where].contiguous(memory_format=torch.channels_last),
            age_N=self.age_N[where],
            group_N=self.group_N[where],
            subject_N=self.subject_N[host],
        )

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Index batches of one epoch in random order; a last batch of one joins the one before (batch norm needs two)."""
        order_N = torch.randperm(len(self), generator=generator).to(self.age_N.device)
        starts = list(range(0, len(self), batch_size))
        if len(starts) > 1 and len(self) - starts[-1] == 1:
            starts.pop()
        for position, start in enumerate(starts):
            yield order_N[start : starts[position + 1] if position + 1 < len(starts) else len(self)]


def steps_per_epoch(samples: int, batch_size: int) -> int:
    """Number of batches that `TensorSet.shuffled` gives."""
    full, rest = divmod(samples, batch_size)
    return max(1, full + (rest > 1)) if full else 1


def age_groups(ages: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Age group of each age: g with edge_g <= age < edge_{g+1}; ages outside fall into the first or last group."""
    return np.clip(np.searchsorted(np.asarray(edges), ages, side="right") - 1, 0, len(edges) - 2)


def to_tensors(dataset: Dataset, ids: Sequence[str], edges: Sequence[float], device: torch.device) -> TensorSet:
    """Loads some samples with their ages onto the device.

    Args:
        dataset: where the pixels are.
        ids: N sample ids.
        edges: G + 1 age-group borders in years.
        device: where the tensors go.

    Raises:
        DataError: a sample without an age.
    """
    age_N = dataset.ages[dataset.indices(ids)]
    if np.isnan(age_N).any():
        missing = ids[int(np.argmax(np.isnan(age_N)))]
        raise DataError(
            f"data {dataset.spec}", f"sample {missing} has no age", "The age predictor needs ages: use another data spec"
        )
    return _resident(dataset, ids, age_N, age_groups(age_N, edges), device)


def to_class_tensors(dataset: Dataset, ids: Sequence[str], device: torch.device) -> TensorSet:
    """Loads some samples with their class labels onto the device; ages are NaN.

    Raises:
        DataError: a sample without a class.
    """
    labels = [dataset.samples[int(index)].label for index in dataset.indices(ids)]
    if None in labels:
        raise DataError(
            f"data {dataset.spec}", f"sample {ids[labels.index(None)]} has no class", "Use a data spec with classes"
        )
    return _resident(dataset, ids, np.full(len(ids), np.nan, np.float32), np.array(labels, np.int64), device)


def _resident(dataset: Dataset, ids: Sequence[str], age_N: np.ndarray, group_N: np.ndarray, device: torch.device) -> TensorSet:
    index_N = dataset.indices(ids)
    pixels = torch.from_numpy(np.ascontiguousarray(dataset.pixels(index_N).transpose(0, 3, 1, 2)))
    numbers: dict[str, int] = {}
    owners = [dataset.samples[int(index)].subject or f"sample {dataset.samples[int(index)].id}" for index in index_N]
    return TensorSet(
        ids=tuple(ids),
        image_NCHW=pixels.to(device, memory_format=torch.channels_last),
        age_N=torch.from_numpy(age_N.copy()).to(device),
        group_N=torch.from_numpy(group_N.astype(np.int64)).to(device),
        subject_N=np.array([numbers.setdefault(owner, len(numbers)) for owner in owners]),
    )
