"""What may be said of a release wherever it is asked for: at a command line, in Python, in a
server's recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ReleaseChoices:
    """How to forget, and what to export.

    Args:
        method: of the forget step, see `unplug list methods`; without one the design's own way, or
            msg for an ordinary model.
        options: a hyperparameter of the method; may be repeated.
        budget: fraction of retraining; a design needs none.
        references: reference models to train, each with another seed: RMIA needs one, LiRA two. A
            design needs none, and with a fleet none is trained.
        fleet: what `unplug references` made: models that never saw a person, whoever she is. Each
            is ranked among them, and no oracle is trained.
        certification: what `unplug certify` wrote: evidence of the method, where one request is too
            few people to show anything.
        targets: comma-separated targets to export to.
        precisions: comma-separated precisions to export in.
        seed: of everything random.
    """

    method: str | None = None
    options: dict[str, str] = field(
        default_factory=dict, metadata={"flag": "--set", "metavar": "KEY=VALUE"}
    )
    budget: float = 0.05
    references: int = field(default=1, metadata={"flag": "--train-references", "range": (0, 64)})
    fleet: str | Path | None = field(default=None, metadata={"metavar": "DIR"})
    certification: str | Path | None = field(default=None, metadata={"metavar": "FILE"})
    targets: tuple[str, ...] = field(
        default=("litert", "coreml", "onnx"), metadata={"flag": "--to"}
    )
    precisions: tuple[str, ...] = field(default=("fp32", "fp16"), metadata={"flag": "--precision"})
    seed: int = 0
