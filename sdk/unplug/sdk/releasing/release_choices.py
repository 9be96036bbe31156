"""What may be said of a release wherever it is asked for: at a command line, in Python, in a
server's recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class ReleaseChoices:
    """How to forget, and what to export.

    Args:
        method: the forget step's method, see `unplug list methods`; without one the design's own
            way, or msg for an ordinary model.
        options: a hyperparameter of the method; may be repeated.
        budget: fraction of retraining; a design needs none.
        references: reference models to train, each with another seed: RMIA needs one, LiRA two. A
            design needs none, and with a fleet none is trained.
        fleet: the folder from `unplug references`: models that never saw a person, among which that
            person is ranked. No oracle is trained.
        certification: the file from `unplug certify`: evidence for the method, where one request
            has too few people to show anything.
        targets: comma-separated targets to export to.
        precisions: comma-separated precisions to export in.
        seed: the seed of everything random.
        audit: full makes every attack on an exact release as well; its equality needs none.
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
    audit: Literal["needed", "full"] = "needed"
