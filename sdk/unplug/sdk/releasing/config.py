"""How to release: one frozen configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from .gates import Gates


@dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """How to release.

    Args:
        method: of the forget step.
        options: its hyperparameters, as text.
        budget: fraction of retraining.
        references: reference models (RMIA needs one, LiRA two), each a retraining with another seed.
        targets, precisions: what to export.
        gates: what must hold.
        bench_iterations, bench_repeats, threads: of the host bench.
        workers: targets converted at the same time.
        rounding: export the original and the oracle alike, to measure what export did to the edit.
        seed: of everything random.
    """

    method: str = "msg"
    options: dict[str, str] = field(default_factory=dict)
    budget: float = 0.05
    references: int = 1
    targets: tuple[str, ...] = ("litert", "coreml", "onnx")
    precisions: tuple[str, ...] = ("fp32", "fp16")
    gates: Gates = field(default_factory=Gates)
    bench_iterations: int = 50
    bench_repeats: int = 3
    threads: int = 2
    workers: int = 2
    rounding: bool = True
    seed: int = 0
