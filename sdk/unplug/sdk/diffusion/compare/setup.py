"""What all rows of a comparison share: the base, the data, which pictures are made, and what they are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.plugins.checkpoint import Checkpoint, load_checkpoint
from unplug.plugins.conditions import build_condition, identity
from unplug.plugins.errors import DataError, InputError
from unplug.sdk.data import Dataset, Split, load_dataset, load_split, make_split
from unplug.sdk.train.run import split_of

from ..base import use_fast_attention
from ..control_set import ControlSet, base_digest, load_control_set
from ..load import base_record, image_size_of, load_base
from .request import CompareRequest

HELD_OUT = 0.05
"""Share of the samples for validation and for test, as in ``unplug train plugin``."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A comparison before anything was trained.

    Args:
        request: what was asked for.
        base: the frozen pipeline. base_sha256: of its weights.
        dataset, split: the data.
        train: what every control is trained on.
        sources: M held-out samples: their conditions, first prompts and pictures are what rows are made from.
        others: held-out samples besides those: the real pictures of the Fréchet distance.
        missing: samples without the condition.
        condition: its identity (settings, versions).
        plugin: the checkpoint that was given.
        device: where to compute.
        show: progress bars.
        say: takes progress lines.
    """

    request: CompareRequest
    base: Any
    base_sha256: str
    dataset: Dataset
    split: Split
    train: ControlSet
    sources: ControlSet
    others: ControlSet
    missing: int
    condition: dict[str, Any]
    plugin: Checkpoint | None
    device: torch.device
    show: bool
    say: Callable[[str], None]

    @cached_property
    def source_NHWC(self) -> NDArray[np.uint8]:
        """The M source pictures."""
        return self.dataset.pixels(self.dataset.indices(self.sources.ids))

    @cached_property
    def other_NHWC(self) -> NDArray[np.uint8]:
        """The other held-out pictures."""
        return self.dataset.pixels(self.dataset.indices(self.others.ids))

    @cached_property
    def condition_NHWC(self) -> NDArray[np.uint8]:
        """The M conditions."""
        return np.asarray(self.sources.condition[self.sources.rows])

    @property
    def prompts(self) -> list[str]:
        """The first prompt of each source."""
        return [self.sources.prompts[index] for index in self.sources.prompt[self.sources.rows, 0]]

    @property
    def picture_seeds(self) -> list[int]:
        """Of the noise that each picture starts from, the same in every row."""
        return [self.request.seed + index for index in range(len(self.sources))]

    def subjects(self, data: ControlSet) -> NDArray[np.int64]:
        """Subject numbers of a set's samples."""
        return np.asarray(data.subject[data.rows])


def prepare(request: CompareRequest, *, device: torch.device, show: bool, say: Callable[[str], None]) -> Setup:
    """Loads the base and the data; conditions, latents and text come from the cache or go into it.

    Raises:
        InputError, DataError, CheckpointError: what the base, the data, the split and the plugin's checkpoint raise; fewer
            held-out samples than pictures.
    """
    base = load_base(request.base, device=device)
    use_fast_attention(base.unet, device)  # as in training; else a resumed comparison would compute in another way
    dataset = load_dataset(request.spec, image_size_of(base), on_bad=request.on_bad, show=show)
    plugin = None if request.plugin is None else load_checkpoint(request.plugin, expect="plugin")
    split = _split(request, dataset, plugin)
    data, missing = load_control_set(
        base, dataset, request.condition, request.options, captions=request.recipe.captions, seed=request.seed, show=show
    )
    test = data.subset(split.test)
    if len(test) < request.pictures:
        why = f"the test set has {len(test)} samples with the condition"
        raise InputError(f"--pictures {request.pictures}", why, f"Ask for {len(test)} at most, or give more data")
    sources, others = test.ids[: request.pictures], (*test.ids[request.pictures :], *split.validation)
    return Setup(
        request=request, base=base, base_sha256=base_digest(base), dataset=dataset, split=split,
        train=data.subset(split.retain), sources=data.subset(sources), others=data.subset(others), missing=missing,
        condition=identity(build_condition(request.condition, request.options).resolve()), plugin=plugin,
        device=device, show=show, say=say,
    )  # fmt: skip


def _split(request: CompareRequest, dataset: Dataset, plugin: Checkpoint | None) -> Split:
    if request.split is not None:
        split = load_split(request.split)
    elif plugin is not None:
        split = split_of(plugin)
    else:
        split = make_split(dataset, seed=request.seed, validation=HELD_OUT, test=HELD_OUT)
    if split.data_digest != dataset.digest:
        raise DataError(f"data {dataset.spec}", "the split was made from other data (digest differs)", "Make the split again")
    return split


def seen_by_base(setup: Setup) -> bool:
    """Whether the base was trained on the same data, so that it may know some of the held-out pictures."""
    data = base_record(setup.request.base).get("data")
    return isinstance(data, dict) and data.get("digest") == setup.dataset.digest
