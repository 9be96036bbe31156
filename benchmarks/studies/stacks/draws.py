"""Everything random of some steps of M models, drawn as each model would draw it alone.

Shapes: S steps, M models, B batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from unplug.sdk.learning.training import (
    Augment,
    SampleSet,
    Task,
    augment_as_drawn,
    autocast,
    draw_augment,
    pictures,
    seeded,
)

from .stacking import MaskedDropout, draw_mask, dropouts, side_by_side


@dataclass(frozen=True, kw_only=True)
class Site:
    """A dropout that a model runs through: its name, what it is given, and its probability."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    p: float


@dataclass(frozen=True, kw_only=True)
class DrawStep:
    """One step: samples (M B,), numbers of the views (M B, 7) and masks (M, B, ...) of every
    dropout.
    """

    index: Tensor
    view: Tensor
    masks: tuple[Tensor, ...]


def dropout_sites(model: nn.Module, data: SampleSet) -> tuple[Site, ...]:
    """Every dropout of a model, in the order in which it draws."""
    with autocast(data.device):
        found = dropouts(model, data.batch(torch.arange(2, device=data.device)).inputs)
    return tuple(Site(name=name, shape=shape, dtype=dtype, p=p) for name, shape, dtype, p in found)


def draw_steps(
    data: SampleSet,
    keys: Sequence[tuple[int, ...]],
    batch_size: int,
    steps: int,
    kind: Augment,
    sites: Sequence[Site],
) -> Iterator[DrawStep]:
    """Steps over endless epochs of a set, for models whose generators follow from `keys` (see
    `seeded`).

    The order and the views come from the generator, the masks from torch's global one, as in
    `train.loop`. All is drawn before the first step: the masks are kept as booleans, one an
    activation in front of a classifier and sample.
    """
    drawn = [_alone(data, key, batch_size, steps, kind, sites) for key in keys]
    for parts in zip(*drawn, strict=True):
        yield DrawStep(
            index=torch.cat([part.index for part in parts]),
            view=torch.cat([part.view for part in parts]),
            masks=tuple(
                torch.stack(masks) for masks in zip(*(part.masks for part in parts), strict=True)
            ),
        )


def _alone(
    data: SampleSet,
    key: tuple[int, ...],
    batch_size: int,
    steps: int,
    kind: Augment,
    sites: Sequence[Site],
) -> list[DrawStep]:
    device = data.device
    with seeded(*key) as generator:
        batches = _endless(data, batch_size, generator)
        found = []
        for _ in range(steps):
            index_B = next(batches)
            # `augment` draws nothing for "none": the generator then goes straight on to the next
            # epoch's order.
            view_B7 = (
                torch.empty(len(index_B), 0)
                if kind == "none"
                else draw_augment(len(index_B), generator)
            )
            masks = tuple(
                draw_mask(len(index_B), site.shape, site.dtype, site.p, device) for site in sites
            )
            found.append(DrawStep(index=index_B, view=view_B7, masks=masks))
        return found


def _endless(data: SampleSet, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield from data.shuffled(batch_size, generator)


def step_losses(
    stacked: nn.Module,
    models: Sequence[nn.Module],
    data: SampleSet,
    step: DrawStep,
    task: Task,
    kind: Augment,
    sites: Sequence[Site],
) -> Tensor:
    """Mean training loss (M,) of each model's own batch."""
    batch = data.batch(step.index)
    if kind != "none":
        drawn = pictures(batch)
        batch = replace(drawn, image_BCHW=augment_as_drawn(drawn.image_BCHW, kind, step.view))
    for site, mask in zip(sites, step.masks, strict=True):
        module = stacked.get_submodule(site.name)
        assert isinstance(module, MaskedDropout)
        module.mask = mask
    with autocast(batch.device):
        outputs = stacked(*side_by_side(batch.inputs, len(models)))
    return task.loss(models[0], outputs, batch).view(len(models), -1).mean(dim=1)
