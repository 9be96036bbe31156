"""What a method may look at: what it declared to need, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from unplug.core import InputError
from unplug.sdk.forgetting.tasks import NEEDS, Need
from unplug.sdk.learning.training import SampleSet, Sets

from .method import DEFAULT_METHOD, METHODS, Method, TrainingHook


def present(
    sets: Sets, original: nn.Module, method: Method, outside_FG: Tensor | None = None
) -> dict[Need, bool]:
    """Whether each thing that a method can need is there."""
    held = sets.train.holds() & sets.forget.holds()
    return {
        "retain data": len(sets.train) > 0,
        "forget data": len(sets.forget) > 0,
        "labels": "labels" in held,
        "validation data": len(sets.validation) > 0,
        "ages": "ages" in held,
        "class logits": "class logits" in held,
        HOOKS: isinstance(method, TrainingHook) and method.prepared(original),
        ANSWERS: outside_FG is not None,
    }


def needs_answers(method: str | None) -> bool:
    """Whether a method, by name, fits the answers of models that never saw whom a request names;
    None is the default one.
    """
    return ANSWERS in METHODS.get(method or DEFAULT_METHOD)().needs


def check_fleet(fleet: Path | str | None, method: str | None) -> None:
    """`InputError` where references are given to a method that reads none of their answers."""
    if fleet is not None and not needs_answers(method):
        why, fix = "the method reads no out-of-fold answers", "Use `method=folds`, or leave it out"
        raise InputError(f"`fleet={fleet}`", why, fix)


def shown_to(
    method: Method,
    sets: Sets,
    original: nn.Module,
    withhold: Sequence[Need] = (),
    outside_FG: Tensor | None = None,
) -> Sets:
    """The sets as a method may see them: what it did not declare is empty, and so are labels.

    Args:
        method: declares `needs`.
        sets: retain (as ``train``), forget, validation and test.
        original: the model that is unlearned.
        withhold: data that the caller does not give.
        outside_FG: see `ForgetProblem`.

    Raises:
        InputError: the method needs what is not there or is withheld.
    """
    there = present(sets, original, method, outside_FG)
    check_needs(method, [need for need in there if not there[need]], withhold)

    def show(part: SampleSet, need: Need) -> SampleSet:
        seen = part if need in method.needs else part.subset([])
        return seen.shown(labels="labels" in method.needs, ages="ages" in method.needs)

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
        lacks: data that are not there.
        withhold: data that the caller does not give.

    Raises:
        InputError: naming the first such need, and how to list the methods that do without.
    """
    name = type(method).__name__
    for need in method.needs:
        if need in withhold:
            why = f"it needs {need}, which is withheld"
            raise InputError(f"method {name}", why, _advice(withhold))
        if need in lacks:
            fix = _FIX.get(need) or _advice([other for other in lacks if other not in _FIX])
            raise InputError(f"method {name}", f"it needs {need}, and there is none", fix)


HOOKS: Need = "training-time hooks"
ANSWERS: Need = "out-of-fold answers"
_FIX: dict[Need, str] = {
    HOOKS: "Train the original with the method's own hook, or choose a method that works afterwards",
    ANSWERS: (
        "Give the folder that `unplug references` made of this original as `fleet`, or choose "
        "another method"
    ),
}


def _advice(missing: Sequence[Need]) -> str:
    options = " ".join(f"--without '{need}'" for need in missing if need in NEEDS)
    return f"`unplug list methods {options}` lists the methods that work without"
