"""How a diffusion network is trained: frozen recipes, and what they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from unplug.plugins.errors import InputError

Precision = Literal["auto", "fp32", "bf16", "fp16"]
PRECISIONS: tuple[Precision, ...] = ("auto", "fp32", "bf16", "fp16")
Timesteps = Literal["uniform", "cubic"]
TIMESTEPS: tuple[Timesteps, ...] = ("uniform", "cubic")


@dataclass(frozen=True, kw_only=True)
class StepRecipe:
    """Optimization by steps, for every network of this package.

    Args:
        steps: optimizer steps, at least 1.
        batch_size: samples a step on each device, at least 1.
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
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision {self.precision!r}", "no such choice", f"Use one of {', '.join(PRECISIONS)}")
        ranges = {
            "steps": (1, 100_000_000),
            "batch_size": (1, 65_536),
            "lr": (1e-8, 10.0),
            "warmup": (0, 100_000_000),
            "weight_decay": (0.0, 10.0),
            "clip": (1e-6, 1e6),
            "ema": (0.0, 0.99999),
        }
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name} {getattr(self, name)}", "out of range", f"Use {low} to {high}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
