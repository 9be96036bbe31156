"""What a method may look at: what it declared to need, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from unplug.core import InputError
from unplug.sdk.tasks import NEEDS, Need
from unplug.sdk.training import Sets, TensorSet

from .method import Method, TrainingHook

NO_LABEL = -1


def present(sets: Sets, original: nn.Module, method: Method) -> dict[Need, bool]:
    """Whether each thing that a method can need is there."""
    labelled = all(bool((part.group_N >= 0).all()) for part in (sets.train, sets.forget))
    with_ages = all(not bool(torch.isnan(part.age_N).any()) for part in (sets.train, sets.forget))
    return {
        "retain data": len(sets.train) > 0,
        "forget data": len(sets.forget) > 0,
        "labels": labelled,
        "validation data": len(sets.validation) > 0,
        "ages": with_ages,
        "class logits": sets.train.has_classes,
        HOOKS: isinstance(method, TrainingHook) and method.prepared(original),
    }


def shown_to(method: Method, sets: Sets, original: nn.Module, withhold: Sequence[Need] = ()) -> Sets:
    """The sets as a method may see them: what it did not declare is empty, and so are labels.

    Args:
        method: declares `needs`.
        sets: retain (as ``train``), forget, validation and test.
        original: the model that is unlearned.
        withhold: what the caller does not give.

    Raises:
        InputError: the method needs what is not there or is withheld.
    """
    check_needs(method, [need for need, found in present(sets, original, method).items() if not found], withhold)

    def show(part: TensorSet, need: Need) -> TensorSet:
        part = part if need in method.needs else part.subset([])
        if "labels" not in method.needs:
            part = replace(part, group_N=torch.full_like(part.group_N, NO_LABEL))
        if "labels" not in method.needs and "ages" not in method.needs:
            part = replace(part, age_N=torch.full_like(part.age_N, float("nan")))
        return part

    return Sets(
        train=show(sets.train, "retain data"),
        forget=show(sets.forget, "forget data"),
        validation=show(sets.validation, "validation data"),
        test=sets.test.subset([]),
    )


def check_needs(method: Method, lacks: Sequence[Need], withhold: Sequence[Need] = ()) -> None:
    """Refuses a method that needs what is not there or is withheld.

    Args:
        method: declares `needs`.
        lacks: what is not there.
        withhold: what the caller does not give.

    Raises:
        InputError: naming the first such need, and how to list the methods that do without.
    """
    name = type(method).__name__
    for need in method.needs:
        if need in withhold:
            raise InputError(f"method {name}", f"it needs {need}, which is withheld", _advice(withhold))
        if need in lacks:
            fix = _HOOK if need == HOOKS else _advice([item for item in lacks if item != HOOKS])
            raise InputError(f"method {name}", f"it needs {need}, and there is none", fix)


HOOKS: Need = "training-time hooks"
_HOOK = "Train the original with the method's own hook, or choose a method that works afterwards"


def _advice(missing: Sequence[Need]) -> str:
    options = " ".join(f"--without '{need}'" for need in missing if need in NEEDS)
    return f"`unplug list methods {options}` lists the methods that work without"
