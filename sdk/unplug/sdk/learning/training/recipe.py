"""How a model is trained: one frozen recipe, shared by the original and its oracle."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from unplug.core import InputError
from unplug.plugins import ADOPTED, MAX_IMAGE_SIZE, MIN_IMAGE_SIZE, check_edges, halved, size_of

NOT_OURS = (ADOPTED, "resnet18")
WHOLE = ("image_size", "epochs", "batch_size")
Schedule = Literal["one-cycle", "cosine", "constant"]
Augment = Literal["none", "flip", "standard"]
AUGMENTS: tuple[Augment, ...] = ("none", "flip", "standard")
Loss = Literal["ce", "ce+l1", "ordinal"]
LOSSES: tuple[Loss, ...] = ("ce", "ce+l1", "ordinal")
SCHEDULES: tuple[Schedule, ...] = ("one-cycle", "cosine", "constant")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the weights, but the data and the seed.

    Args:
        size: nano, small, base, or one written out, say 16:16x1e1,24x2,32x3k5:384:2122 (channels
            of the stem, channels x blocks of each stage, pooled channels, strides); in records also
            "adopted" and "resnet18", which are not ours.
        image_size: side in pixels, 32 to 224.
        epochs: passes over the training set, at least 1.
        batch_size: the batch size, at least 2 (batch norm).
        lr: peak learning rate of AdamW.
        weight_decay: decoupled, on convolution and linear weights only.
        schedule: "one-cycle" (linear up over 25 %, cosine down), "cosine" (down only) or
            "constant".
        loss: see `AgeTask`.
        smoothing: label smoothing.
        augment: changes to training pictures: none, flip or standard.
        dropout: the dropout in front of the classifier.
        ema: decay of the averaged weights that are kept, 0 turns averaging off.
        edges: rising borders of the age groups in years; None takes the data set's own, or else
            `AGE_EDGES`.

    Raises:
        InputError: a value out of range.
    """

    size: str = "small"
    image_size: int = field(default=64, metadata={"flag": "--pixels"})
    epochs: int = 40
    batch_size: int = 32
    lr: float = 4e-3
    weight_decay: float = 0.02
    schedule: Schedule = "one-cycle"
    loss: Loss = "ordinal"
    smoothing: float = 0.0
    augment: Augment = "standard"
    dropout: float = 0.1
    ema: float = 0.99
    edges: tuple[float, ...] | None = None

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "image_size": (MIN_IMAGE_SIZE, MAX_IMAGE_SIZE),
        "epochs": (1, 100_000),
        "batch_size": (2, 65_536),
        "lr": (1e-8, 10.0),
        "weight_decay": (0.0, 10.0),
        "smoothing": (0.0, 0.5),
        "dropout": (0.0, 0.9),
        "ema": (0.0, 0.99999),
    }

    def __post_init__(self) -> None:
        if self.size not in NOT_OURS:
            size_of(self.size)
        choices = {
            "schedule": SCHEDULES,
            "loss": LOSSES,
            "augment": AUGMENTS,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} {getattr(self, name)!r}",
                    "no such choice",
                    f"Use one of {', '.join(allowed)}",
                )
        if self.edges is not None:
            check_edges(self.edges)
        if self.smoothing and self.loss == "ordinal":
            raise InputError(
                "smoothing",
                "the ordinal loss has soft targets of its own",
                "Use it with `loss=ce` or `loss=ce+l1`",
            )
        for name, (low, high) in self.ranges.items():
            if name in WHOLE and not isinstance(getattr(self, name), int):
                raise InputError(
                    f"{name} {getattr(self, name)!r}", "not a whole number", f"Use {low} to {high}"
                )
            if not low <= getattr(self, name) <= high:
                raise InputError(
                    f"{name} {getattr(self, name)}", "out of range", f"Use {low} to {high}"
                )

    def halved(self) -> Recipe:
        """The recipe of a new network, which halves pictures of every side equally often."""
        if self.size in NOT_OURS:
            return self
        return replace(self, size=halved(self.size, self.image_size))

    def passes(self, samples: int) -> int:
        """Training passes, each forward and backward, over a set of some samples."""
        return self.epochs * samples

    def to_dict(self) -> dict[str, Any]:
        """The recipe's fields, ready for JSON; without edges that nobody chose, as records had it
        before there was a choice.
        """
        return {
            name: value
            for name, value in asdict(self).items()
            if name != "edges" or value is not None
        }

    @classmethod
    def from_dict(cls, raw: Any) -> Recipe:
        """The inverse of `to_dict`; `InputError` where a field is unknown or of the wrong type."""
        known = {field.name for field in fields(cls)}
        if not isinstance(raw, dict) or not raw.keys() <= known:
            raise InputError(
                "recipe",
                "it is not one that this version of unplug wrote",
                "Train the original again",
            )
        edges = raw.get("edges")
        try:
            return (
                cls(**raw) if edges is None else cls(**{**raw, "edges": tuple(map(float, edges))})
            )
        except TypeError as error:
            raise InputError("recipe", str(error), "Train the original again") from error


def learning_rate(step: int, total: int, peak: float, schedule: Schedule) -> float:
    """Learning rate of one step.

    one-cycle: peak/25 up to peak linearly over the first quarter, then peak (1 + cos(pi u)) / 2;
    cosine: the second part alone.

    Args:
        step: 0 to total - 1.
        total: steps of the whole run.
        peak: highest rate.
        schedule: see `Recipe`.

    Example:
        >>> [round(learning_rate(step, 4, 1.0, "cosine"), 3) for step in range(4)]
        [1.0, 0.854, 0.5, 0.146]
    """
    if schedule == "constant":
        return peak
    progress = step / max(1, total)
    warm = 0.25 if schedule == "one-cycle" else 0.0
    if progress < warm:
        return peak * (1 / 25 + (1 - 1 / 25) * progress / warm)
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))
