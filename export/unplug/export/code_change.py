"""What rounding left of an edit, as an audit report tells it: facts alone, which a verifier without
NumPy reads.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TensorChange:
    """How much of one tensor is stored otherwise in the second file."""

    name: str
    weights: int
    changed: float


@dataclass(frozen=True, kw_only=True)
class CodeChange:
    """How much of a file is stored otherwise than in another.

    Args:
        changed: fraction of the matched weights whose stored bits differ, 0 to 1.
        weights: matched weights that were compared.
        tensors: matched tensors: same name, shape and type in both files.
        untouched: matched tensors without a single difference.
        unmatched: tensors of either file that have no such partner; they are not compared.
        unmatched_weights: the weights in them, of the larger side.
        least, most: the tensors with the smallest and the largest changed fraction; null where
            nothing matched.
    """

    changed: float | None
    weights: int
    tensors: int
    untouched: int
    unmatched: int
    unmatched_weights: int
    least: TensorChange | None
    most: TensorChange | None
