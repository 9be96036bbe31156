"""How far the landmarks of a face lie from where they were asked for.

Shapes: N pictures, K points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

OUTER_EYES = (33, 263)
"""The outer corners of the eyes among MediaPipe's 478 points."""
FAILURE = 0.08
"""NME from which on a face counts as missed."""

Points = NDArray[np.float32]


def eye_distance(points_K2: Points, outer: tuple[int, int] = OUTER_EYES) -> float:
    """Pixels between the outer corners of the eyes."""
    return float(np.linalg.norm(points_K2[outer[0]].astype(np.float64) - points_K2[outer[1]]))


def mean_error(found_K2: Points, wanted_K2: Points, unit: float) -> float:
    """NME = mean_k |found_k - wanted_k| / unit.

    Args:
        found_K2, wanted_K2: the same K points, in pixels of the same picture.
        unit: in pixels, above 0: the outer eye distance of the wanted face.

    Example:
        >>> wanted = np.array([[0, 0], [10, 0]], np.float32)
        >>> mean_error(wanted + 3, wanted, 10.0) == math.hypot(3, 3) / 10
        True

    Reference:
        Sagonas et al., 300 Faces In-The-Wild Challenge, 2016, section 4 (inter-ocular normalization).
    """
    return float(np.linalg.norm(found_K2.astype(np.float64) - wanted_K2, axis=1).mean() / unit)


def landmark_errors(found: Sequence[Points | None], wanted: Sequence[Points | None]) -> NDArray[np.float64]:
    """NME of each picture (N,); NaN where either has no face.

    Args:
        found: (478, 2) of each generated picture, or None.
        wanted: of the source pictures.
    """
    return np.array(
        [math.nan if a is None or b is None else mean_error(a, b, eye_distance(b)) for a, b in zip(found, wanted, strict=True)]
    )


def under(errors_N: NDArray[np.float64], wanted: Sequence[Points | None], limit: float = FAILURE) -> NDArray[np.float64]:
    """1 where the NME is below the limit and 0 elsewhere, also without a face (N,); NaN where none was asked for.

    Example:
        >>> face = np.zeros((1, 2), np.float32)
        >>> under(np.array([0.02, 0.08, math.nan, math.nan]), [face, face, face, None]).tolist()
        [1.0, 0.0, 0.0, nan]

    Reference:
        Sagonas et al., 300 Faces In-The-Wild Challenge, 2016, section 4 (cumulative errors over all faces).
    """
    return np.where([one is None for one in wanted], math.nan, errors_N < limit)


def true_errors(
    found: Sequence[Points | None], truth_NK2: Points, index_K: Sequence[int], outer: tuple[int, int]
) -> NDArray[np.float64]:
    """NME (N,) against known landmarks; NaN where no face was found.

    Args:
        found: (478, 2) of each generated picture, or None.
        truth_NK2: the K known points of each source picture.
        index_K: where each of them is among the 478.
        outer: which two of the K are the outer corners of the eyes.
    """
    rows = list(index_K)
    return np.array(
        [
            math.nan if a is None else mean_error(a[rows], truth_K2, eye_distance(truth_K2, outer))
            for a, truth_K2 in zip(found, truth_NK2, strict=True)
        ]
    )
