"""The weights that an artifact stores, code by code: what rounding left of an edit is counted on
them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unplug.core import (
    Array,
    ArtifactError,
    Job,
    Reply,
    call_in_child,
    memory_for,
    require_modules,
    seconds_for,
)

from .artifact import Artifact
from .code_change import CodeChange, TensorChange
from .readers import READERS
from .targets import TARGETS

TIMEOUT_SECONDS = 300.0  # reading 4 GiB from a slow disk; a hostile file gets no longer


def stored_weights(artifact: Artifact) -> dict[str, Array]:
    """Weights by their names in the file, as stored: float32 or float16 numbers, or quantized
    codes.

    Args:
        artifact: an artifact from `load_artifact` or `export_checkpoint`; its target's reader runs
            in a child process.

    Returns:
        Name to array. Scalars, shapes and indices are left out; four-bit codes come as one byte
        each.

    Raises:
        ArtifactError: the file is broken, or claims more than it can hold.
        MissingExtraError: the package that reads this target is not installed.
        ConversionError: the reader crashed or took too long.
    """
    card = artifact.card
    READERS.get(card.target)
    target = TARGETS.get(card.target)
    require_modules(target.modules, target.extra)
    values = {"path": str(artifact.path.resolve()), "target": card.target}
    reply = call_in_child(
        "unplug.export.weights:read_weights",
        values,
        what=f"weights of {artifact.path.name}",
        timeout=seconds_for(0, TIMEOUT_SECONDS),
        memory=memory_for(artifact.path),
    )
    return reply.arrays


def read_weights(job: Job) -> Reply:
    """The child's side of `stored_weights`."""
    return Reply(values={}, arrays=READERS.get(job.values["target"])(Path(job.values["path"])))


def compare_codes(before: dict[str, Array], after: dict[str, Array]) -> CodeChange:
    """Counts stored numbers that differ bit by bit, in tensors of the same name, shape and type.

    Example:
        >>> compare_codes({"w": np.array([1.0, 2.0])}, {"w": np.array([1.0, 3.0])}).changed
        0.5
    """
    names = [name for name in before if name in after and _alike(before[name], after[name])]
    rows = [
        TensorChange(
            name=name,
            weights=before[name].size,
            changed=float((_bits(before[name]) != _bits(after[name])).mean()),
        )
        for name in names
    ]
    weights = sum(row.weights for row in rows)
    rest = [
        [array for name, array in side.items() if name not in names] for side in (before, after)
    ]
    return CodeChange(
        changed=sum(row.changed * row.weights for row in rows) / weights if weights else None,
        weights=weights,
        tensors=len(rows),
        untouched=sum(row.changed == 0.0 for row in rows),
        unmatched=sum(len(side) for side in rest),
        unmatched_weights=max(sum(array.size for array in side) for side in rest),
        least=min(rows, key=lambda row: (row.changed, row.name), default=None),
        most=max(rows, key=lambda row: (row.changed, row.name), default=None),
    )


def _alike(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _bits(array: Array) -> Array:
    """The numbers as unsigned integers: a NaN equals itself, and 0 is not -0."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def check_comparable(one: Artifact, other: Artifact) -> None:
    """Raises unless two artifacts are of one target and one precision.

    Raises:
        InputError: they are not; their codes would mean different things.
    """
    pair = [(item.card.target, item.card.precision) for item in (one, other)]
    if pair[0] != pair[1]:
        why = f"it is {' '.join(pair[0])}, and {other.path.name} is {' '.join(pair[1])}"
        raise ArtifactError(str(one.path), why, "Compare files of one target and one precision")
