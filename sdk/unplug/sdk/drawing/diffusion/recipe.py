"""How a diffusion network is trained: frozen recipes, and what they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, get_args

from unplug.core import InputError
from unplug.sdk.learning.training import Augment

Precision = Literal["auto", "fp32", "bf16", "fp16"]
Timesteps = Literal["uniform", "cubic"]
Weighting = Literal["velocity", "noise"]


@dataclass(frozen=True, kw_only=True)
class StepRecipe:
    """Optimization by steps, for every network of this package.

    Args:
        steps: optimizer steps, at least 1.
        batch_size: samples a step over all devices, at least 1.
        lr: peak learning rate of AdamW; up over `warmup` steps, then down a cosine to a hundredth.
        warmup: steps.
        weight_decay: decoupled, on kernels and matrices only.
        clip: largest norm of the gradient.
        ema: decay of the averaged weights that are kept.
        precision: "auto" takes bf16 where the device computes it in hardware, else fp32.

    Raises:
        InputError: a value out of range.
    """

    steps: int = 4000
    batch_size: int = 32
    lr: float = 1e-3
    warmup: int = 100
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.999
    precision: Precision = field(default="auto", metadata={"flag": "--dtype"})

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "steps": (1, 100_000_000),
        "batch_size": (1, 65_536),
        "lr": (1e-8, 10.0),
        "warmup": (0, 100_000_000),
        "weight_decay": (0.0, 10.0),
        "clip": (1e-6, 1e6),
        "ema": (0.0, 0.99999),
    }

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"precision": get_args(Precision)}

    def __post_init__(self) -> None:
        for name, choices in self.choices.items():
            if (choice := getattr(self, name)) not in choices:
                fix = f"Use one of {', '.join(choices)}"
                raise InputError(f"{name} {choice!r}", "no such choice", fix)
        for name, (low, high) in self.ranges.items():
            value = getattr(self, name)
            if isinstance(low, int) and not isinstance(value, int):
                raise InputError(f"{name} {value}", "not a whole number", f"Use {low} to {high}")
            if not low <= value <= high:
                raise InputError(f"{name} {value}", "out of range", f"Use {low} to {high}")

    @property
    def augment(self) -> Augment:
        """Nothing is changed about a picture: its condition would have to follow."""
        return "none"

    def passes(self, samples: int) -> int:
        """Training passes, each forward and backward; by steps, however many samples there are."""
        return self.steps * self.batch_size

    def to_dict(self) -> dict[str, Any]:
        """The recipe's fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Any) -> Self:
        """The inverse of `to_dict`; `InputError` where a field is missing, unknown or of the wrong
        type.

        None is filled in: what a version that knew fewer of them trained cannot be trained again
        alike.
        """
        if not isinstance(raw, dict) or raw.keys() != {item.name for item in fields(cls)}:
            raise InputError(
                "recipe",
                "it is not one that this version of unplug wrote",
                "Train the original again",
            )
        try:
            return cls(**raw)
        except TypeError as error:
            raise InputError("recipe", str(error), "Train the original again") from error


def check_prompting(drop_text: float, captions: int) -> None:
    """`InputError` where the share of left-out prompts, or the number of prompts a picture, is out
    of range.
    """
    if not 0 <= drop_text <= 1:
        raise InputError(f"drop_text {drop_text}", "not a share", "Use 0 to 1")
    if not isinstance(captions, int) or not 1 <= captions <= 64:
        raise InputError(f"captions {captions}", "out of range", "Use 1 to 64")


def share_of(batch_size: int, *, processes: int = 1, parts: int = 1) -> int:
    """Samples that pass through a network at once, of a step's.

    Args:
        batch_size: of a step.
        processes: that share it.
        parts: in which each process takes its share.

    Raises:
        InputError: it does not divide.

    Example:
        >>> share_of(32, processes=2, parts=4)
        4
    """
    if batch_size % (processes * parts):
        why = f"it does not divide among {processes} process(es) that take {parts} part(s) each"
        raise InputError(f"batch_size {batch_size}", why, f"Use a multiple of {processes * parts}")
    return batch_size // (processes * parts)


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(StepRecipe):
    """How UNet and text encoder are trained together.

    Args:
        drop_text: share of prompts that are replaced by the empty one, for guidance without a
            classifier.
        captions: prompts drawn for each picture.
    """

    steps: int = 20_000
    batch_size: int = 32
    lr: float = 6e-4
    ema: float = 0.999
    drop_text: float = 0.1
    captions: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prompting(self.drop_text, self.captions)


@dataclass(frozen=True, kw_only=True)
class ControlRecipe(StepRecipe):
    """How a control is trained.

    Args:
        drop_text: share of prompts that are replaced by the empty one.
        timesteps: "uniform", or "cubic", which dwells on the noisy steps.
        weighting: whose squared error is the loss, see `level_weight`.
        captions: prompts a picture.
        clutter: share of samples in whose condition lines are missing and others are too many, see
            `clutter`.
        accumulate: parts in which a step's samples pass through the networks, for a base that does
            not fit otherwise.
        checkpointing: the base computes its activations twice instead of keeping them; the weights
            are the same.
    """

    steps: int = 3000
    lr: float = 1e-3
    drop_text: float = 0.1
    timesteps: Timesteps = "uniform"
    weighting: Weighting = "velocity"
    captions: int = 2
    clutter: float = 0.0
    accumulate: int = 1
    checkpointing: bool = False

    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **StepRecipe.choices,
        "timesteps": get_args(Timesteps),
        "weighting": get_args(Weighting),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prompting(self.drop_text, self.captions)
        if not 0 <= self.clutter <= 1:
            raise InputError(f"clutter {self.clutter}", "not a share", "Use 0 to 1")
        if not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise InputError(f"accumulate {self.accumulate}", "out of range", "Use 1 or more")
        share_of(self.batch_size, parts=self.accumulate)
