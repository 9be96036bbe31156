"""How a diffusion network is trained: frozen recipes, and what they share."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, get_args

from unplug.core import InputError
from unplug.plugins import DECODER_SIZES
from unplug.sdk.drawing.device import GuidanceSchedule
from unplug.sdk.learning.training import Augment

from .shipped import OURS

Precision = Literal["auto", "fp32", "bf16", "fp16"]
PackLayers = Literal["all", "attention"]
MAX_RANK, MAX_DRAWN, MAX_SUBSTEPS = 128, 50, 50
Distillation = Literal["progressive", "consistency"]
"""The model whose word a student takes for where its step leads, see `StudentLoss`."""
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
        batch_size: the batch size of a step.
        processes: the number of processes that share it.
        parts: the number of parts in which each process takes its share.

    Raises:
        InputError: the batch does not divide among processes and parts.

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
        weighting: the error to square for the loss, see `level_weight`.
        captions: prompts a picture.
        clutter: share of samples in whose condition lines are missing and others are too many.
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


@dataclass(frozen=True, kw_only=True)
class PackRecipe(StepRecipe):
    """How a pack is trained.

    Args:
        rank: the rank of the low-rank update of each layer.
        layers: "all" changes the convolutions too, which small sharp things need; "attention" is a
            fifth of the bytes.
        drop_text: share of prompts that are replaced by the empty one.
        captions: prompts a picture.
    """

    steps: int = 200
    batch_size: int = 12
    lr: float = 2e-3
    warmup: int = 10
    weight_decay: float = 0.0
    ema: float = 0.95
    rank: int = 8
    layers: PackLayers = "all"
    drop_text: float = 0.1
    captions: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prompting(self.drop_text, self.captions)
        if not isinstance(self.rank, int) or not 1 <= self.rank <= MAX_RANK:
            raise InputError(f"rank {self.rank}", "out of range", f"Use 1 to {MAX_RANK}")
        if self.layers not in ("all", "attention"):
            raise InputError(f"layers {self.layers!r}", "no such choice", "Use all or attention")


@dataclass(frozen=True, kw_only=True)
class StudentRecipe(StepRecipe):
    """How a student is trained.

    Args:
        drawn_steps: DDIM steps that the student draws a picture in, from 1.
        distillation: progressive asks the teacher for all substeps, consistency for one of them and
            the student for the rest.
        substeps: the teacher's substeps for one step of the student.
        teacher_guidance: scale of the teacher's classifier-free guidance, which the student learns
            to do without; 1 is none.
        teacher_schedule: how that scale goes over the noise levels, see `guidance_at`.
        rank: the rank of a low-rank student (LoRA); 0 trains all weights of the UNet.
        captions: prompts a picture.
    """

    steps: int = 400
    batch_size: int = 16
    lr: float = 1e-4
    ema: float = 0.99
    weight_decay: float = 0.0
    drawn_steps: int = 4
    distillation: Distillation = "consistency"
    substeps: int = 6
    teacher_guidance: float = OURS.guidance
    teacher_schedule: GuidanceSchedule = OURS.schedule
    rank: int = 0
    captions: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = {
            "drawn_steps": (1, MAX_DRAWN),
            "substeps": (1, MAX_SUBSTEPS),
            "rank": (0, MAX_RANK),
            "captions": (1, 64),
        }
        for name, (low, high) in whole.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise InputError(
                    f"{name} {value}", "out of range", f"Use a whole number from {low} to {high}"
                )
        if not (math.isfinite(self.teacher_guidance) and 1.0 <= self.teacher_guidance <= 50.0):
            raise InputError(
                f"teacher_guidance {self.teacher_guidance}", "out of range", "Use 1 (none) to 50"
            )
        for name, choices in {
            "teacher_schedule": get_args(GuidanceSchedule),
            "distillation": get_args(Distillation),
        }.items():
            if (choice := getattr(self, name)) not in choices:
                raise InputError(
                    f"{name} {choice!r}", "no such choice", f"Use {' or '.join(choices)}"
                )


@dataclass(frozen=True, kw_only=True)
class DecoderRecipe(StepRecipe):
    """How a quick decoder is trained.

    Args:
        size: size of a network: nano, small, base.
        crop: side of the training crops in pixels, a multiple of 8. A third of all steps see whole
            pictures, fewer of them, for the borders.
        drawn: pictures that the base draws from the captions, for its own latents.
        jitter: standard deviation of the noise on latents, which no base draws exactly.
        mark_weight: weight of the loss that writes a mark; more bits survive, and more of it is seen.
    """

    steps: int = 6000
    batch_size: int = 16
    lr: float = 2e-3
    weight_decay: float = 0.0
    ema: float = 0.998
    size: str = "small"
    crop: int = 64
    drawn: int = 256
    jitter: float = 0.05
    mark_weight: float = 0.1

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        **StepRecipe.ranges,
        "crop": (16, 4096),
        "drawn": (0, 100_000),
        "jitter": (0.0, 10.0),
        "mark_weight": (0.0, 100.0),
    }
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **StepRecipe.choices,
        "size": tuple(DECODER_SIZES),
    }
