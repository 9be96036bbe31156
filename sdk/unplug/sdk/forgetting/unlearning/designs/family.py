"""A family: trunks of several sizes that share one head, since the features of each are mapped to
those of a reference.

Shapes: N, M samples, C pooled channels of a trunk, D random features, K answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins import MEMBERS, Checkpoint, PictureModel, load_checkpoint
from unplug.sdk.learning.data import Dataset, opened_again
from unplug.sdk.learning.training import split_of
from unplug.trust.bundle import is_safe

from .trunk import Consented, coarse, consented, moments, trunk_sha256
from .unfinished import Unfinished

LEAST_EXPLAINED = 0.2
"""The least share of the reference's features, over pictures that no trunk was trained on, that a
member's must explain.
"""
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Penalties of a map, a sample and a feature of spread 1."""
MOST_SPREAD = 3.0
"""What a map explains worse is not made up for by more than this factor."""


@dataclass(frozen=True, kw_only=True)
class Kin:
    """A trunk of a family, by its features of consented pictures.

    Args:
        name: the name of its folder.
        trunk: the checkpoint.
        model: the predictor over it.
        known: its own pictures as the design sees them.
        seen_ids: N names of pictures that all trunks were trained on.
        held_ids: M names of pictures that none was trained on.
    """

    name: str
    trunk: Checkpoint
    model: PictureModel
    known: Consented
    seen_ids: Sequence[str]
    held_ids: Sequence[str]

    @property
    def seen_NC(self) -> Tensor:
        """Pooled features of what all trunks were trained on."""
        return self.known.every.named(self.seen_ids).pooled_NC

    @property
    def held_MC(self) -> Tensor:
        """Pooled features of what none was trained on."""
        return self.known.every.named(self.held_ids).pooled_NC


@dataclass(frozen=True, kw_only=True)
class Link:
    """A trunk's way to the answers of a reference: its features are mapped to those of the
    reference.

    Args:
        penalty: the map's, of `PENALTIES`; 0 of a reference to itself, which needs none.
        spread: mapped features are as spread as the reference's; a ridge alone draws them to their
            mean.
        own: the trunk's own answer stands in the place of the reference's: both mean the same.
        explained: the share of the reference's features, over held pictures, that it explains.
        error: mean error of the reference's head on mapped features of held pictures, in years, or
            the share of wrong labels.
    """

    penalty: float
    spread: bool = False
    own: bool = False
    explained: float
    error: float


def kin_of(
    trunks: Sequence[Checkpoint],
    models: Sequence[PictureModel],
    data: Dataset,
    unfinished: Unfinished,
    *,
    show: bool = False,
) -> list[Kin]:
    """The trunks of a family, in the order given.

    Args:
        trunks: two or more.
        models: a predictor over each, see `PictureModel`.
        data: the data that all of them were trained on.
        unfinished: the passes that an earlier run made, and the device of the others.
        show: progress bars.

    Raises:
        InputError: a trunk of other borders or labels than the first.
        DataError: a trunk of other data; or too few pictures that all, or none, were trained on.
    """
    names = [trunk.path.resolve().name for trunk in trunks]
    for name, model in zip(names, models, strict=True):
        if _meant(model) != _meant(models[0]):
            raise _odd(name, f"it has other {model.group_word} than {names[0]}")
    splits = [opened_again(split_of(trunk), data, trunk.path).there(data) for trunk in trunks]
    seen_by_all = {*data.ids}.intersection(*(split.retain for split in splits))
    by_none = {*data.ids}.difference(*(split.train for split in splits))
    seen, held = ([name for name in data.ids if name in part] for part in (seen_by_all, by_none))
    if min(len(seen), len(held)) < 2:
        why = "its trunks have too few pictures that all, or that none of them, were trained on"
        raise DataError(f"data {data.spec}", why, "Train them with one `seed` and one split")
    return [
        Kin(
            name=name,
            trunk=trunk,
            model=model,
            known=consented(model, trunk, data, unfinished, more=held, show=show),
            seen_ids=seen,
            held_ids=held,
        )
        for name, trunk, model in zip(names, trunks, models, strict=True)
    ]


def best_reference(family: Sequence[Kin]) -> tuple[Kin, dict[str, Link]]:
    """argmin_r sum_k error(r, k): the trunk whose head errs least over all of them, each through
    its map; with the link of each to it, by name.

    Args:
        family: the trunks; each model holds the head that the design fits on its consented
            pictures.
    """
    tried = [{kin.name: linked(reference, kin) for kin in family} for reference in family]
    errors = [sum(link.error for link in links.values()) for links in tried]
    best = errors.index(min(errors))
    return family[best], tried[best]


def linked(reference: Kin, kin: Kin) -> Link:
    """The map by which the head of a reference errs least on pictures that no trunk was trained on;
    of two such the one that explains more.
    """
    if kin is reference:
        return Link(penalty=0.0, explained=1.0, error=_error(reference, kin.held_MC))
    mean_C, spread_C = moments(seen_NC := reference.seen_NC)
    theirs_MC, links, answers = reference.held_MC, list[Link](), _answers(reference, kin)
    whole = max(float(((theirs_MC - mean_C) / spread_C).square().sum()), 1e-9)
    maps = ridges(kin.seen_NC, seen_NC, PENALTIES)
    for penalty, (weight_CC, bias_C) in zip(PENALTIES, maps, strict=True):
        left = (theirs_MC - kin.held_MC @ weight_CC.T - bias_C) / spread_C
        explained = 1.0 - float(left.square().sum()) / whole
        for spread in (False, True):
            for own in (False, True)[: 1 + bool(answers)]:
                link = Link(penalty=penalty, spread=spread, own=own, explained=explained, error=0.0)
                weight_KC, bias_K = bent((weight_CC, bias_C), link, kin.seen_NC, seen_NC, answers)
                error = _error(reference, kin.held_MC @ weight_KC.T + bias_K)
                links.append(replace(link, error=error))
    return min(links, key=lambda link: (link.error, -link.explained))


def bent(
    ridge: tuple[Tensor, Tensor], link: Link, mine_NC: Tensor, theirs_NC: Tensor, answers: int
) -> tuple[Tensor, Tensor]:
    """A ridge W x + b with what a link adds to it: g (W x + b - m) + m, with m the mean of the
    reference's features and g their spread over that of the mapped ones, at most `MOST_SPREAD`; its
    last rows read the own answer.
    """
    weight_CC, bias_C = (part.clone() for part in ridge)
    if link.spread:
        mapped_C = (mine_NC @ weight_CC.T + bias_C).std(0)
        gain_C = (theirs_NC.std(0) / mapped_C.clamp(min=1e-9)).clamp(max=MOST_SPREAD)
        weight_CC = gain_C[:, None] * weight_CC
        bias_C = gain_C * bias_C + (1.0 - gain_C) * theirs_NC.mean(0)
    if link.own:
        weight_CC[-answers:], bias_C[-answers:] = 0.0, 0.0
        weight_CC[-answers:, -answers:] = torch.eye(answers, dtype=weight_CC.dtype)
    return weight_CC, bias_C


def _answers(reference: Kin, kin: Kin) -> int:
    """How many of the last features of both trunks are their own answers; 0 where they differ."""
    answers = reference.model.answer_channels
    return answers if answers == kin.model.answer_channels else 0


@torch.no_grad()
def _error(reference: Kin, pooled_MC: Tensor) -> float:
    """Mean error of its head over the held pictures, of which these are features like its own."""
    model = reference.model
    assert model.lift is not None
    lifted_MD = pooled_MC @ model.lift.weight.double().cpu().T + model.lift.bias.double().cpu()
    head_KD, bias_K = model.classifier.weight.double().cpu(), model.classifier.bias.double().cpu()
    said_MK = lifted_MD.relu() @ head_KD.T + bias_K
    truth_M = reference.known.every.named(reference.held_ids).truth_N
    if model.more:
        return float((said_MK[:, -1] - truth_M).abs().mean())
    return float((said_MK.argmax(1) != truth_M).double().mean())


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


def ridges(x_NC: Tensor, y_NK: Tensor, penalties: Sequence[float]) -> list[tuple[Tensor, Tensor]]:
    """W (K, C) and b (K,) of the ridge regression of y on x by each of some penalties."""
    (mean_C, spread_C), mean_K = moments(x_NC), y_NK.mean(0)
    z_NC = (x_NC - mean_C) / spread_C
    value_C, vector_CC = torch.linalg.eigh(z_NC.T @ z_NC / len(z_NC))
    along_CK = vector_CC.T @ (z_NC.T @ (y_NK - mean_K)) / len(z_NC)
    weights = [
        (vector_CC @ (along_CK / (value_C[:, None] + penalty))).T / spread_C
        for penalty in penalties
    ]
    return [(weight_KC, mean_K - weight_KC @ mean_C) for weight_KC in weights]


@torch.no_grad()
def join(reference: Kin, kin: Kin, link: Link) -> None:
    """Makes a member of a trunk: the map from its features to the reference's, fitted again over
    seen and held pictures, is folded into its lift, L (W x + b) + l = (L W) x + (L b + l).

    Args:
        reference: its model has the lift that the design has drawn.
        kin: the trunk; its model is changed.
        link: its way to the reference.

    Raises:
        InputError: it explains too little.
    """
    if link.explained < LEAST_EXPLAINED:
        why = (
            f"its features explain {100 * link.explained:.0f} % of those of {reference.name}, and "
            f"at least {100 * LEAST_EXPLAINED:.0f} % are needed"
        )
        raise InputError(f"`family` {kin.name}", why, "Leave it out, or train it for longer")
    mine_NC, theirs_NC = (torch.cat([item.seen_NC, item.held_MC]) for item in (kin, reference))
    (ridge,) = ridges(mine_NC, theirs_NC, (link.penalty,))
    weight_CC, bias_C = bent(ridge, link, mine_NC, theirs_NC, _answers(reference, kin))
    first, own = reference.model.lift, kin.model.lift
    assert first is not None and own is not None
    lift_DC = first.weight.double().cpu()
    own.weight.copy_(coarse(lift_DC @ weight_CC))
    own.bias.copy_(coarse(first.bias.double().cpu() + lift_DC @ bias_C))
    # an age is read off the reference's centres, wherever those of this trunk's pictures lie
    buffers = dict(reference.model.named_buffers())
    if "age_centers" in buffers:
        kin.model.get_buffer("age_centers").copy_(buffers["age_centers"])


def family_of(checkpoint: Checkpoint) -> Checkpoint:
    """The family of a member, from the folder in which it was saved; of another model itself."""
    if "member" not in checkpoint.record["design"]:
        return checkpoint
    folder = checkpoint.path.resolve().parent.parent
    return load_checkpoint(folder, expect=checkpoint.model_type)


def ranking(checkpoint: Checkpoint) -> list[str]:
    """The names of a family, its reference's among them, best first: by the mean error on consented
    pictures that no trunk was trained on; of a model that stands alone none.

    Raises:
        CheckpointError: its record does not tell the members and those errors.
    """
    design = checkpoint.record.get("design") or {}
    named, errors = design.get("members"), design.get("errors")
    if named is None:
        return []
    if isinstance(named, Mapping) and isinstance(errors, Mapping):
        same = {*errors} == {*named, design.get("reference")} and len(errors) == len(named) + 1
        if same and all(map(is_name, errors)) and all(map(_is_error, errors.values())):
            return sorted(errors, key=lambda name: (errors[name], name))
    why = "its unplug.json does not tell the members of the family and what each errs"
    raise CheckpointError(str(checkpoint.path), why, "Restore the folder as it was saved")


def _is_error(value: object) -> bool:
    return isinstance(value, float) and 0.0 <= value < float("inf")


def members_of(checkpoint: Checkpoint) -> dict[str, Checkpoint]:
    """The members of a family but for its reference, best first; none of a model that stands alone.

    Raises:
        CheckpointError: see `ranking`; or one is missing, or of another kind.
    """
    return {
        name: load_checkpoint(checkpoint.path / MEMBERS / name, expect=checkpoint.model_type)
        for name in ranking(checkpoint)
        if name != checkpoint.record["design"]["reference"]
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
