"""Designs: models that were made to forget, each with its own exact way of doing so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from unplug.core import CheckpointError, InputError, Registry
from unplug.plugins import Checkpoint
from unplug.sdk.forgetting.tasks import GroupTask
from unplug.sdk.learning.data import Dataset, Split
from unplug.sdk.learning.training import Recipe, split_of

from .method import with_settings


class Design(Protocol):
    """A frozen dataclass of settings, which trains a model that can forget, and forgets with it."""

    def train(
        self,
        dataset: Dataset,
        split: Split,
        recipe: Recipe,
        out: Path,
        *,
        kind: type[GroupTask] = ...,
        trunk: Checkpoint | None = None,
        trunk_data: Dataset | None = None,
        family: Sequence[Checkpoint] = (),
        seed: int = 0,
        device: torch.device,
        restart: bool = False,
        show: bool = True,
    ) -> Checkpoint:
        """Trains on the retain set of a split and saves; the record's ``design`` names the design
        and its settings.
        """

    def forget(
        self,
        original: Checkpoint,
        dataset: Dataset,
        forget_ids: Sequence[str],
        out: Path,
        *,
        refit: bool,
        device: torch.device,
        show: bool,
    ) -> Checkpoint:
        """Forgets exactly and saves; `refit` computes the same from the rest alone, the oracle of
        audits.
        """

    def price(self, original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str]) -> float:
        """What forgetting would cost, as a fraction of the passes of a refit."""


DESIGNS: Registry[Callable[..., Design]] = Registry(
    "design",
    {
        "closed-form": "unplug.sdk.forgetting.unlearning.designs.closed_form:ClosedForm",
        "shards": "unplug.sdk.forgetting.unlearning.designs.shards:Shards",
    },
    group="unplug.designs",
)

SHARED = "closed-form"
"""The design whose head a family shares."""


def build_design(name: str, settings: Mapping[str, Any] | None = None) -> Design:
    """A design with some settings.

    Raises:
        InputError: an unknown design or setting, or a value out of range.
    """
    return with_settings(DESIGNS.get(name)(), settings or {}, f"design {name}")


def design_of(checkpoint: Checkpoint) -> str | None:
    """The design that a checkpoint was trained with, or None for an ordinary model.

    Raises:
        CheckpointError: a design that this version does not know; another method would break what
            it promises.
    """
    facts = checkpoint.record.get("design")
    if facts is None:
        return None
    name = str(facts.get("name")) if isinstance(facts, Mapping) else ""
    if name not in DESIGNS:
        why = f"its design {name!r} is not known here"
        raise CheckpointError(str(checkpoint.path), why, f"Known: {', '.join(DESIGNS)}")
    return name


def own_design(checkpoint: Checkpoint) -> Design | None:
    """`design_of`, with the settings that the checkpoint was trained with."""
    name = design_of(checkpoint)
    return None if name is None else build_design(name, checkpoint.record["design"].get("settings"))


def learned_by_design(original: Checkpoint) -> Split | None:
    """The stored split of a model made to forget, which may forget whose pictures are gone; None
    for an ordinary model.
    """
    return split_of(original) if design_of(original) else None


def request_price(
    original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str]
) -> float | None:
    """What a design asks for a request, as a fraction of the passes of a refit; None for an
    ordinary model.

    Raises:
        DataError: a sample that is not in the model, or nobody would be left.
        CheckpointError: see `design_of`; or what the design keeps is broken.
    """
    design = own_design(original)
    return None if design is None else design.price(original, dataset, forget_ids)


def check_design_request(
    design: str,
    method: str | None,
    options: Mapping[str, str] | None = None,
    budget: float | None = None,
) -> None:
    """Refuses a method, settings or a budget together with a design, which forgets in its own way
    at its own price.

    Raises:
        InputError: a method other than the design's and "retrain", a setting of one, or a budget.
    """
    if method not in (None, design, "retrain"):
        why = f"the model forgets by its design ({design}), exactly; another method would end that"
        raise InputError(f"method {method}", why, f"Leave `method` out (or: {design}, retrain)")
    if options:
        why = f"the design {design} has no settings of a request"
        raise InputError(f"setting {next(iter(options))}", why, "Leave it out")
    if budget is not None:
        why = f"the design {design} costs what the request needs"
        raise InputError(f"budget {budget:g}", why, "Leave it out")


def check_design(
    name: str | None,
    settings: Mapping[str, Any] | None,
    *,
    trunk: object = None,
    trunk_data: object = None,
    family: Sequence[object] = (),
    edges: object = None,
) -> None:
    """Refuses, before data are read, a wrong design and what does not go with it.

    Raises:
        InputError: no such design or setting; a trunk without a design; borders of another trunk;
            a family of one, next to a trunk, or of a design that has no head to share.
    """
    if name is None:
        asked = {
            "trunk": trunk,
            "trunk_data": trunk_data,
            "family": family or None,
            "design": settings or None,
        }
        if word := next((word for word, value in asked.items() if value is not None), None):
            known = [SHARED] if family else list(DESIGNS)
            fix = f"Give `forgettable` {' or '.join(known)} as well"
            raise InputError(f"`{word}`", "it belongs to a design", fix)
        return
    build_design(name, settings)
    if family and (name != SHARED or trunk is not None or len(family) < 2):
        why = f"two trunks or more share the head of `forgettable` {SHARED}"
        raise InputError("`family`", why, "Give each trunk by `family`, and no `trunk`")
    if edges is not None and (trunk is not None or family):
        why = "the groups are those of the `trunk`"
        raise InputError("`edges`", why, "Leave it out, or train another trunk")
