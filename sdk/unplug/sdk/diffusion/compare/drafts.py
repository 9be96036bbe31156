"""The raw numbers of every row: floors, the bare base, and each control over all its trainings.

Shapes: S trainings, M pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..control import Control
from ..measure import losses
from .contenders import Contender, build
from .errors import control_error
from .judge import parameters
from .pictures import base_pictures, control_pictures, through_autoencoder
from .reader import Agreement, Reader
from .report import Row
from .rows import Draft
from .setup import Setup

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]
SOURCE = Row(name="source", label="source picture", role="floor")
DECODED = Row(name="autoencoder", label="source through autoencoder", role="floor")


def draw_drafts(
    setup: Setup, contenders: Mapping[str, tuple[Contender, ...]], reader: Reader
) -> tuple[list[Draft], dict[str, Pixels]]:
    """Draws all pictures and measures each of them.

    Args:
        setup: what the rows share.
        contenders: the trainings of each control.
        reader: reads features and attributes.

    Returns:
        A draft a row; and the pictures of the base and of each control's first training by label, for the grid.
    """
    error = control_error(setup)

    def draft(row: Row, pictures: Sequence[Pixels], loss_SM: Array | None = None) -> Draft:
        values = [error(one) for one in pictures]
        stacked = {name: np.stack([own[name] for own in values]) for name in values[0]}
        seen = [reader(one) for one in pictures]
        if loss_SM is not None:
            stacked["loss"] = loss_SM
        attributes = _attributes([own for _, own in seen])
        return Draft(row=row, values=stacked, attributes=attributes, features=[one for one, _ in seen])

    setup.say(f"drawing {len(setup.sources)} pictures with each of {1 + len(contenders)} ways to make them")
    plain = base_pictures(setup)
    drafts = [draft(SOURCE, [setup.source_NHWC]), draft(DECODED, [through_autoencoder(setup)])]
    drafts.append(draft(_base_row(setup), [plain], _losses(setup, None, None)[None]))
    shown = {"base": plain}
    for name, own in contenders.items():
        control: Control = own[0].control
        pictures = [control_pictures(setup, one) for one in own]
        loss_SM = np.stack([_losses(setup, control, one.load(setup)) for one in own])
        row = Row(
            name=name, label=control.label, role="control", every_step=control.every_step,
            parameters=parameters(own[0].load(setup) if own[0].training.given else build(setup, control)),
            trainings=tuple(one.training for one in own),
        )  # fmt: skip
        drafts.append(draft(row, pictures, loss_SM))
        shown[control.label] = pictures[0]
    return drafts, shown


def _base_row(setup: Setup) -> Row:
    base: Any = setup.base
    count = sum(parameters(part) for part in (base.unet, base.vae, base.text_encoder))
    return Row(name="base", label="base", role="base", parameters=count)


def _losses(setup: Setup, control: Control | None, network: nn.Module | None) -> Array:
    """Noise prediction loss of each source (M,), mean over noise levels; None is the bare base."""
    found = losses(control, network, setup.base, setup.sources, device=setup.device, seed=setup.request.seed)
    return np.asarray(found.mean(dim=1).double().numpy(), np.float64)


def _attributes(found: Sequence[Agreement]) -> dict[str, Array]:
    return {
        name: np.array([[np.nan if value is None else value for value in own[name]] for own in found], np.float64)
        for name in found[0]
    }
