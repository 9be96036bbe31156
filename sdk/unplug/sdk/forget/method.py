"""What an unlearning method is, and the registry of those that unplug knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol

import torch

from unplug.plugins.age import AgePredictor
from unplug.plugins.errors import InputError
from unplug.plugins.registry import Registry
from unplug.sdk.train import Recipe, TensorSet
from unplug.sdk.train.state import StateFile
from unplug.sdk.train.task import AgeTask

from .budget import Meter

Need = Literal["retain data", "forget data", "labels", "validation data", "training-time hooks"]


@dataclass(frozen=True, kw_only=True)
class ForgetProblem:
    """All that a method may look at.

    Args:
        retain, forget, validation: data on the device.
        task: the per-sample training loss.
        recipe: how the original was trained.
        edges: age-group borders in years.
        meter: what may be spent; a method charges it before each pass.
        seed: of everything random.
        generator: a CPU generator that follows from `seed`.
        state: where a long method may keep its state, or None.
        show: progress bars.
        history: a method that trains in epochs adds its rows, as in ``metrics.jsonl``.
    """

    retain: TensorSet
    forget: TensorSet
    validation: TensorSet
    task: AgeTask
    recipe: Recipe
    edges: tuple[float, ...]
    meter: Meter
    seed: int
    generator: torch.Generator
    state: StateFile | None = None
    show: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


class Method(Protocol):
    """A frozen dataclass of hyperparameters that turns an original into an unlearned model.

    Attributes:
        needs: what it reads; a problem that lacks it is refused before it starts.
        default_budget: fraction of retraining when the caller names none; None is unlimited.
    """

    needs: ClassVar[tuple[Need, ...]]
    default_budget: ClassVar[float | None]

    def __call__(self, model: AgePredictor, problem: ForgetProblem) -> AgePredictor:
        """Changes `model` in place or builds another; returns it in eval mode."""


METHODS = Registry(
    "method",
    {
        "retrain": "unplug.sdk.forget.methods.retrain:Retrain",
        "finetune": "unplug.sdk.forget.methods.finetune:Finetune",
        "msg": "unplug.sdk.forget.methods.msg:MSG",
        "ct": "unplug.sdk.forget.methods.ct:CT",
    },
    group="unplug.methods",
)


def build_method(name: str, options: Mapping[str, str] | None = None) -> Method:
    """A method with some hyperparameters set from text (``--set lr=0.01``).

    Raises:
        InputError: an unknown method or hyperparameter, or a value of the wrong type.

    Example:
        >>> build_method("finetune", {"lr": "0.001"}).lr
        0.001
    """
    method: Any = METHODS.get(name)()
    known = {field.name: field for field in fields(method)}
    values: dict[str, Any] = {}
    for key, text in (options or {}).items():
        if key not in known:
            raise InputError(f"method {name}", f"it has no setting {key!r}", f"Known: {', '.join(known) or 'none'}")
        kind = type(getattr(method, key))
        try:
            values[key] = kind(text)
        except ValueError as error:
            raise InputError(f"{name} {key}={text}", f"not a value of type {kind.__name__}", "Write KEY=NUMBER") from error
    built: Method = replace(method, **values)
    return built
