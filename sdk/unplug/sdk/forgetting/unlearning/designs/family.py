"""A family: trunks of several sizes that share one head, since the features of each are mapped to
those of the best.

Shapes: N, M samples, C pooled channels of a trunk, D random features, K answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins import MEMBERS, Checkpoint, Classifier, PictureModel, load_checkpoint
from unplug.sdk.learning.data import Dataset, opened_again
from unplug.sdk.learning.training import ImageSet, split_of
from unplug.trust.bundle import is_safe

from .trunk import coarse, grid_of, moments, pooled, tensors_of, trunk_sha256, truth_of

LEAST_EXPLAINED = 0.2
"""The least share of the best trunk's features, over pictures that no trunk was trained on, that a
member's must explain.
"""
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Penalties of a map, a sample and a feature of spread 1; the best on those pictures is taken."""


@dataclass(frozen=True, kw_only=True)
class Kin:
    """A trunk of a family, by what it says of consented pictures.

    Args:
        name: the name of its folder.
        trunk: the checkpoint.
        model: the predictor over it.
        seen_NC: pooled features of pictures that all trunks were trained on.
        held_MC: pooled features of pictures that none was trained on.
        skill: the share of the truth of the latter that its features explain.
    """

    name: str
    trunk: Checkpoint
    model: PictureModel
    seen_NC: Tensor
    held_MC: Tensor
    skill: float


def ranked(
    trunks: Sequence[Checkpoint],
    models: Sequence[PictureModel],
    data: Dataset,
    device: torch.device,
    *,
    show: bool = False,
) -> list[Kin]:
    """The trunks of a family, best first; the first is the reference, at whose features the head
    looks.

    Args:
        trunks: two or more.
        models: a predictor over each, see `PictureModel`.
        data: the data that all of them were trained on.
        device: the device for the passes over the pictures.
        show: progress bars.

    Raises:
        InputError: a trunk of other borders or labels than the first.
        DataError: a trunk of other data; or no picture that none was trained on.
    """
    names = [trunk.path.resolve().name for trunk in trunks]
    for name, model in zip(names, models, strict=True):
        if _meant(model) != _meant(models[0]):
            raise _odd(name, f"it has other {model.group_word} than {names[0]}")
    splits = [opened_again(split_of(trunk), data, trunk.path).there(data) for trunk in trunks]
    seen_by_all = {*data.ids}.intersection(*(split.retain for split in splits))
    by_none = {*data.ids}.difference(*(split.train for split in splits))
    ids = [[name for name in data.ids if name in part] for part in (seen_by_all, by_none)]
    if min(map(len, ids)) < 2:
        why = "its trunks have too few pictures that all, or that none of them, were trained on"
        raise DataError(f"data {data.spec}", why, "Train them with one `seed` and one split")
    seen, held = (tensors_of(models[0], data, part, device) for part in ids)
    truth_NK, truth_MK = (_truth(models[0], part) for part in (seen, held))
    family = []
    for name, trunk, model in zip(names, trunks, models, strict=True):
        seen_NC, held_MC = pooled(model, seen, show=show), pooled(model, held, show=show)
        skill = fitted(seen_NC, truth_NK, held_MC, truth_MK)[2]
        kin = Kin(
            name=name, trunk=trunk, model=model, seen_NC=seen_NC, held_MC=held_MC, skill=skill
        )
        family.append(kin)
    return sorted(family, key=lambda kin: -kin.skill)


def _truth(model: PictureModel, data: ImageSet) -> Tensor:
    truth_N = truth_of(model, data)
    if isinstance(model, Classifier):
        return one_hot(truth_N.long(), model.groups).double()
    return truth_N[:, None]


def check_trunks(trunks: Sequence[Checkpoint]) -> None:
    """Refuses trunks of one name, or of other sides than the first: `InputError`."""
    known = dict[str, int]()
    for trunk in trunks:
        name, side = trunk.path.resolve().name, trunk.model.image_size
        first, wanted = next(iter(known.items()), (name, side))
        if not is_name(name) or name.lower() in {*map(str.lower, known)}:
            raise _odd(name, "another trunk has the same name, or it is none for a file")
        if side != wanted:
            raise _odd(name, f"it takes {side} pixels where {first} takes {wanted}")
        known[name] = side


def _odd(name: str, why: str) -> InputError:
    return InputError(f"`family` {name}", why, "Give trunks of one task, side and data")


def _meant(model: PictureModel) -> dict[str, Any]:
    """What answers mean, but for where the reference's ages lie."""
    return {key: value for key, value in model.answers().items() if key != "age_centers"}


def fitted(x_NC: Tensor, y_NK: Tensor, x_MC: Tensor, y_MK: Tensor) -> tuple[Tensor, Tensor, float]:
    """W (K, C) and b (K,) of the ridge regression of y on x over both sets, with the penalty by which
    the first alone explains most of the second's variance, and the share of that.
    """
    mean_K = y_NK.mean(0)
    whole = max(float((y_MK - mean_K).square().sum()), 1e-9)
    tried = []
    for penalty, (weight_KC, bias_K) in zip(PENALTIES, _ridges(x_NC, y_NK), strict=True):
        left = float((y_MK - x_MC @ weight_KC.T - bias_K).square().sum())
        tried.append((1.0 - left / whole, penalty))
    explained, best = max(tried)
    ridges = _ridges(torch.cat([x_NC, x_MC]), torch.cat([y_NK, y_MK]))
    return *ridges[PENALTIES.index(best)], explained


def _ridges(x_NC: Tensor, y_NK: Tensor) -> list[tuple[Tensor, Tensor]]:
    """W (K, C) and b (K,) by each of `PENALTIES`."""
    (mean_C, spread_C), mean_K = moments(x_NC), y_NK.mean(0)
    z_NC = (x_NC - mean_C) / spread_C
    value_C, vector_CC = torch.linalg.eigh(z_NC.T @ z_NC / len(z_NC))
    along_CK = vector_CC.T @ (z_NC.T @ (y_NK - mean_K)) / len(z_NC)
    weights = [
        (vector_CC @ (along_CK / (value_C[:, None] + penalty))).T / spread_C
        for penalty in PENALTIES
    ]
    return [(weight_KC, mean_K - weight_KC @ mean_C) for weight_KC in weights]


@torch.no_grad()
def joined(reference: Kin, lifted: PictureModel, kin: Kin) -> dict[str, float]:
    """Makes a member of a trunk: the map from its features to the reference's is folded into its
    lift, L (W x + b) + l = (L W) x + (L b + l).

    Args:
        reference: the best trunk.
        lifted: the model over it, with the lift that the design has drawn.
        kin: the trunk; its model is changed.

    Returns:
        The share of the reference's features that it ``explained``, and the ``grid`` of its own.

    Raises:
        InputError: it explains too little.
    """
    spread_C = moments(reference.seen_NC)[1]
    mine = kin.seen_NC, reference.seen_NC / spread_C, kin.held_MC, reference.held_MC / spread_C
    weight_CC, bias_C, explained = fitted(*mine)
    if explained < LEAST_EXPLAINED:
        why = (
            f"its features explain {100 * explained:.0f} % of those of {reference.name}, and at "
            f"least {100 * LEAST_EXPLAINED:.0f} % are needed"
        )
        raise InputError(f"`family` {kin.name}", why, "Leave it out, or train it for longer")
    assert lifted.lift is not None and kin.model.lift is not None
    lift_DC = lifted.lift.weight.double().cpu() * spread_C
    kin.model.lift.weight.copy_(coarse(lift_DC @ weight_CC))
    kin.model.lift.bias.copy_(coarse(lifted.lift.bias.double().cpu() + lift_DC @ bias_C))
    # an age is read off the reference's centres, wherever those of this trunk's pictures lie
    buffers = dict(lifted.named_buffers())
    if "age_centers" in buffers:
        kin.model.get_buffer("age_centers").copy_(buffers["age_centers"])
    return {"explained": explained, "grid": grid_of(moments(kin.seen_NC)[1])}


def family_of(checkpoint: Checkpoint) -> Checkpoint:
    """The family of a member, from the folder in which it was saved; of another model itself."""
    if "member" not in checkpoint.record["design"]:
        return checkpoint
    folder = checkpoint.path.resolve().parent.parent
    return load_checkpoint(folder, expect=checkpoint.model_type)


def members_of(checkpoint: Checkpoint) -> dict[str, Checkpoint]:
    """The other members of a family, best first; none of a model that stands alone.

    Raises:
        CheckpointError: one is missing, or of another kind.
    """
    named = (checkpoint.record.get("design") or {}).get("members")
    if named is None:
        return {}
    if not isinstance(named, Mapping) or not all(map(is_name, named)):
        why = "its unplug.json names no members"
        raise CheckpointError(str(checkpoint.path), why, "Restore the folder as it was saved")
    return {
        name: load_checkpoint(checkpoint.path / MEMBERS / name, expect=checkpoint.model_type)
        for name in named
    }


def is_name(name: object) -> bool:
    """Whether a member may be called so: it is the name of a folder, in bundles as well."""
    return isinstance(name, str) and "/" not in name and is_safe(name)


def check_members(checkpoint: Checkpoint, own: Sequence[str]) -> dict[str, Checkpoint]:
    """`members_of`, with the head of the reference (its tensors `own`) and the trunks that were
    joined to it.

    Raises:
        CheckpointError: see `members_of`; or another trunk, or another head.
    """
    members, weights = members_of(checkpoint), checkpoint.model.state_dict()
    for name, member in members.items():
        theirs = member.model.state_dict()
        facts: Any = checkpoint.record["design"]["members"][name]
        known = facts.get("trunk_sha256") if isinstance(facts, Mapping) else None
        same = all(torch.equal(theirs[key], weights[key]) for key in own)
        if not same or trunk_sha256(member.model, own) != known:
            part = "trunk" if same else "head"
            why = f"its {part} is not that of the family"
            raise CheckpointError(str(member.path), why, "Restore the folder as it was saved")
    return members
