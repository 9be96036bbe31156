"""The raw numbers of every row: floors, the bare base, and each control over all its trainings.

Shapes: S trainings, M pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.diffusion import losses

from .contenders import Contender, Entrant
from .errors import Values, control_error
from .judge import parameters
from .pictures import base_pictures, control_pictures, through_autoencoder
from .reader import Agreement, Reader
from .report import Row
from .rows import Draft
from .setup import Setup

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]
SOURCE = Row(name="source", label="source picture", role="floor")
SHUFFLED = Row(name="shuffled", label="another sample's source", role="floor")
DECODED = Row(name="autoencoder", label="source through autoencoder", role="floor")


def draw_drafts(setup: Setup, entrants: Mapping[str, Entrant], reader: Reader) -> tuple[list[Draft], dict[str, Pixels]]:
    """Draws all pictures and measures each of them.

    Args:
        setup: what the rows share.
        entrants: the trainings of each control.
        reader: reads features and attributes.

    Returns:
        A draft a row; and the pictures of the base and of each control's first training by label, for the grid.
    """
    error = control_error(setup)

    def draft(row: Row, pictures: Sequence[Pixels], loss_SM: Array | None = None, known: Values | None = None) -> Draft:
        values = [error(one) for one in pictures] if known is None else [known]
        stacked = {name: np.stack([own[name] for own in values]) for name in values[0]}
        seen = [reader(one) for one in pictures]
        if loss_SM is not None:
            stacked["loss"] = loss_SM
        attributes = _attributes([own for _, own in seen])
        return Draft(row=row, values=stacked, attributes=attributes, features=[one for one, _ in seen])

    setup.say(f"drawing {len(setup.sources)} pictures with each of {1 + len(entrants)} ways to make them")
    order, moved = range(len(setup.sources)), shuffled(setup.subjects(setup.sources))
    plain = base_pictures(setup)
    drafts = [
        draft(SOURCE, [setup.source_NHWC], known=error.of_sources(order)),
        draft(SHUFFLED, [setup.source_NHWC[moved]], known=error.of_sources(moved)),
        draft(DECODED, [through_autoencoder(setup)]),
        draft(_base_row(setup), [plain], _losses(setup, None)[None]),
    ]
    shown = {"base": plain}
    for name, entrant in entrants.items():
        own, control = entrant.own, entrant.own[0].control
        pictures = [control_pictures(setup, one) for one in own]
        row = Row(
            name=name, label=control.label, role="control", every_step=control.every_step,
            parameters=parameters(own[0].network), trainings=tuple(one.training for one in own), tried=entrant.tried,
        )  # fmt: skip
        drafts.append(draft(row, pictures, np.stack([_losses(setup, one) for one in own])))
        shown[control.label] = pictures[0]
    return drafts, shown


def shuffled(subject_M: NDArray[np.int64]) -> list[int]:
    """For each sample another one, by a turn of the list that meets the same person as seldom as any.

    Example:
        >>> shuffled(np.array([0, 1, 2, 0]))
        [2, 3, 0, 1]
    """
    shift = min(range(1, len(subject_M)), key=lambda turn: int((subject_M == np.roll(subject_M, turn)).sum()))
    return [int(index) for index in np.roll(np.arange(len(subject_M)), shift)]


def _base_row(setup: Setup) -> Row:
    base: Any = setup.base
    count = sum(parameters(part) for part in (base.unet, base.vae, base.text_encoder))
    return Row(name="base", label="base", role="base", parameters=count)


def _losses(setup: Setup, one: Contender | None) -> Array:
    """Noise prediction loss of each source (M,), mean over noise levels; None is the bare base."""
    control, network = (None, None) if one is None else (one.control, one.network)
    found = losses(control, network, setup.base, setup.sources, device=setup.device, seed=setup.request.seed)
    return np.asarray(found.mean(dim=1).double().numpy(), np.float64)


def _attributes(found: Sequence[Agreement]) -> dict[str, Array]:
    return {
        name: np.array([[np.nan if value is None else value for value in own[name]] for own in found], np.float64)
        for name in found[0]
    }
