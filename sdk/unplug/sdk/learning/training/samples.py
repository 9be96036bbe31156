"""What every kind of model is trained on: a set of samples that gives batches, and a batch of named
tensors.

Shapes: N samples, B batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import register_pytree_node, tree_map

from unplug.core import InputError

if TYPE_CHECKING:
    from .predictions import Predictions
    from .recipe import Augment


def _tensors(batch: Any) -> tuple[list[Tensor], tuple[str, ...]]:
    names = tuple(field.name for field in fields(batch))
    return [getattr(batch, name) for name in names], names


@dataclass(frozen=True, kw_only=True)
class Batch(ABC):
    """B samples as named tensors, each with B first. A kind's own batch is a frozen dataclass of
    tensors.

    Every subclass is a pytree, so that `torch.func.vmap` takes a batch apart into samples.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register_pytree_node(
            cls, _tensors, lambda values, names: cls(**dict(zip(names, values, strict=True)))
        )

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with; the other tensors are the truth."""

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def device(self) -> torch.device:
        """The device that the batch's tensors are on."""
        return self.inputs[0].device


@dataclass(frozen=True, kw_only=True)
class LabelledBatch(Batch):
    """Samples with a class each, `group_B`."""

    group_B: Tensor


@dataclass(frozen=True, kw_only=True)
class SampleSet(ABC):
    """N samples that are ready on one device.

    Args:
        ids: N sample ids.
        subject_N: integer per subject; samples without a known subject have one of their own.
    """

    ids: tuple[str, ...]
    subject_N: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device that batches are made on."""

    @property
    @abstractmethod
    def eval_batch(self) -> int:
        """Samples that a model is measured on at once."""

    @abstractmethod
    def holds(self) -> frozenset[str]:
        """Which of "labels", "ages" and "class logits" (of a model of such samples) there are."""

    @abstractmethod
    def shown(self, *, labels: bool, ages: bool) -> Self:
        """The set as somebody may see it to whom labels or ages are not shown."""

    @abstractmethod
    def batch(self, index_B: Tensor) -> Batch:
        """The samples at the indices `index_B` (B,)."""

    @abstractmethod
    def view(self, batch: Any, kind: Augment, generator: torch.Generator) -> Batch:
        """A batch as training sees it: at random, with the recipe's augmentation."""

    @abstractmethod
    def subset(self, index: Sequence[int] | Tensor) -> Self:
        """The samples at `index` as a set of their own."""

    @abstractmethod
    def predictions(self, model: nn.Module) -> Predictions:
        """What a model, in eval mode, says of the set, in full precision; called by `predict`."""

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """The whole set once, from the first sample to the last."""
        for index_B in torch.arange(len(self), device=self.device).split(batch_size):
            yield self.batch(index_B)

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Index batches of one epoch in random order; a last batch of one joins the one before
        (batch norm needs two).
        """
        order_N = torch.randperm(len(self), generator=generator).to(self.device)
        starts = list(range(0, len(self), batch_size))
        if len(starts) > 1 and len(self) - starts[-1] == 1:
            starts.pop()
        for position, start in enumerate(starts):
            yield order_N[start : starts[position + 1] if position + 1 < len(starts) else len(self)]


@dataclass(frozen=True, kw_only=True)
class LabelledSet(SampleSet):
    """Samples with a class each: `group_N`, -1 where labels are not shown. Its batches are
    `LabelledBatch`.
    """

    group_N: Tensor

    @abstractmethod
    def relabelled(self, group_N: Tensor, edges: tuple[float, ...]) -> Self:
        """The samples with other classes, and whatever else follows from a class with these
        borders.
        """


def steps_per_epoch(samples: int, batch_size: int) -> int:
    """Number of batches that `SampleSet.shuffled` gives."""
    full, rest = divmod(samples, batch_size)
    return max(1, full + (rest > 1)) if full else 1


@overload
def labelled(part: Batch) -> LabelledBatch: ...
@overload
def labelled(part: SampleSet) -> LabelledSet: ...
def labelled(part: Batch | SampleSet) -> LabelledBatch | LabelledSet:
    """A batch or set of samples with classes, for methods that declared to need them; `InputError`
    where it has none.
    """
    if not isinstance(part, (LabelledBatch, LabelledSet)):
        raise InputError(
            type(part).__name__, "its samples have no classes", "Choose a method that needs none"
        )
    return part


_B = TypeVar("_B", bound=Batch)


def joined(one: _B, other: _B) -> _B:
    """Two batches of one kind as one, the first one's samples first."""
    both: _B = tree_map(_cat, one, other)
    return both


def _cat(one: Tensor, other: Tensor) -> Tensor:
    both = torch.cat([one, other])
    return both.contiguous(memory_format=torch.channels_last) if both.ndim == 4 else both
