"""How far pictures are from the condition that they were made with: landmarks, or edges.

Shapes: N pictures, K points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from unplug.plugins.conditions import build_condition
from unplug.sdk.drawing.conditions import landmarks_in_worker
from unplug.sdk.learning.data import Dataset, SynthSource, parse_spec
from unplug.sdk.learning.faces import LANDMARK_NAMES, MEDIAPIPE_INDEX, render

from .setup import Setup

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
        Sagonas et al., 300 Faces In-The-Wild Challenge, 2016, section 4 (inter-ocular
        normalization).
    """
    return float(np.linalg.norm(found_K2.astype(np.float64) - wanted_K2, axis=1).mean() / unit)


def landmark_errors(
    found: Sequence[Points | None],
    wanted: Sequence[Points | None],
    outer: tuple[int, int] = OUTER_EYES,
) -> NDArray[np.float64]:
    """NME of each picture (N,), over the outer eye distance of the wanted face; NaN where either
    has no face.

    Args:
        found: (K, 2) of each generated picture, or None.
        wanted: the same points where they were asked for.
        outer: which two of the K are the outer corners of the eyes.
    """
    pairs = zip(found, wanted, strict=True)
    return np.array(
        [
            math.nan if a is None or b is None else mean_error(a, b, eye_distance(b, outer))
            for a, b in pairs
        ]
    )


def under(
    errors_N: NDArray[np.float64], wanted: Sequence[Points | None], limit: float = FAILURE
) -> NDArray[np.float64]:
    """1 where the NME is below the limit and 0 elsewhere, also without a face (N,); NaN where none
    was asked for.

    Example:
        >>> face = np.zeros((1, 2), np.float32)
        >>> under(np.array([0.02, 0.08, math.nan, math.nan]), [face, face, face, None]).tolist()
        [1.0, 0.0, 0.0, nan]

    Reference:
        Sagonas et al., 300 Faces In-The-Wild Challenge, 2016, section 4 (cumulative errors over all
        faces).
    """
    return np.where([one is None for one in wanted], math.nan, errors_N < limit)


TOLERANCE = 1.0 / 128
"""Of the picture's side: one pixel at 128. Scores at two sizes do not compare all the same, Canny's
lines being a pixel thin at any: F1 of unrelated synthetic faces was 0.20 at 64 px, 0.30 at 128 and
0.23 at 256. Each comparison measures its own.
"""

Edges = NDArray[np.bool_]


def edge_scores(drawn_HW: Edges, wanted_HW: Edges, tolerance: float) -> tuple[float, float, float]:
    """Precision, recall and F1 of drawn edges against wanted ones.

    P = share of drawn edge pixels at most `tolerance` from a wanted one; R = the other way round;
    F1 = 2 P R / (P + R). Where neither has an edge all three are 1; where one has none, its share
    is 0.

    Args:
        drawn_HW, wanted_HW: True on edges.
        tolerance: Euclidean distance in pixels, at least 0.

    Example:
        >>> wanted = np.zeros((8, 8), bool)
        >>> wanted[:, 4] = True
        >>> edge_scores(np.roll(wanted, 1, axis=1), wanted, 1.0), edge_scores(np.roll(wanted, 2, axis=1), wanted, 1.0)
        ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))

    Reference:
        Martin et al., Learning to Detect Natural Image Boundaries, IEEE TPAMI 26(5), 2004, section
        3 (with a tolerance and without its one-to-one matching).
    """
    if not drawn_HW.any() and not wanted_HW.any():
        return 1.0, 1.0, 1.0
    precision, recall = _near(drawn_HW, wanted_HW, tolerance), _near(wanted_HW, drawn_HW, tolerance)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return precision, recall, f1


def _near(of_HW: Edges, to_HW: Edges, tolerance: float) -> float:
    """Share of the pixels of one that are near the other."""
    if not of_HW.any() or not to_HW.any():
        return 0.0
    distance_HW = distance_transform_edt(~to_HW)
    return float((distance_HW[of_HW] <= tolerance + 1e-9).mean())


Pixels = NDArray[np.uint8]
Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class ControlError:
    """Holds pictures against the condition that each was made with: M numbers by name, NaN where a
    picture has none.

    Args:
        see: M pictures (M, S, S, 3) to what was found in each (landmarks, edges).
        score: what was found, in the order of the sources, to numbers by name (M,).
        wanted: what `see` finds in the source pictures, or what their conditions ask for.
    """

    see: Callable[[Pixels], Sequence[Any]]
    score: Callable[[Sequence[Any]], Values]
    wanted: Sequence[Any]

    def __call__(self, pictures_NHWC: Pixels) -> Values:
        """Numbers of generated pictures, in the order of the sources."""
        return self.score(self.see(pictures_NHWC))

    def of_sources(self, order: Sequence[int]) -> Values:
        """Numbers of source pictures in some order, without looking at them again."""
        return self.score([self.wanted[index] for index in order])


def control_error(setup: Setup) -> ControlError:
    """What judges pictures of the setup's condition; it gives no number for conditions other than
    faces and edges.
    """
    kind, options = setup.request.condition, setup.request.options
    if kind == "face_landmark":
        return _landmark_error(setup, str(options.get("task", "")))
    if kind == "canny":
        canny, wanted_NHW = build_condition("canny", options), setup.condition_NHWC[..., 0] > 0
        return ControlError(
            see=lambda pictures: [
                canny.render(picture, pictures.shape[1])[..., 0] > 0 for picture in pictures
            ],
            score=lambda edges: edge_errors(edges, wanted_NHW),
            wanted=list(wanted_NHW),
        )
    return ControlError(see=lambda _: (), score=lambda _: {}, wanted=list(setup.condition_NHWC))


def _landmark_error(setup: Setup, task: str) -> ControlError:
    wanted = landmarks_in_worker(setup.source_NHWC, task, show=setup.show)
    drawn_NK2 = drawn_landmarks(
        setup.dataset, [int(position) for position in setup.dataset.indices(setup.sources.ids)]
    )
    return ControlError(
        see=lambda pictures: landmarks_in_worker(pictures, task, show=setup.show),
        score=lambda found: face_errors(found, wanted, drawn_NK2),
        wanted=wanted,
    )


def face_errors(
    found: Sequence[Points | None], wanted: Sequence[Points | None], drawn_NK2: Points | None
) -> Values:
    """``found`` (1 or 0), ``nme``, ``nme_8`` and, where the renderer's landmarks are known,
    ``true_nme``.
    """
    nme_M = landmark_errors(found, wanted)
    values = {
        "found": np.array([float(one is not None) for one in found]),
        "nme": nme_M,
        "nme_8": under(nme_M, wanted),
    }
    if drawn_NK2 is not None:
        index = [MEDIAPIPE_INDEX[name] for name in LANDMARK_NAMES]
        outer = (LANDMARK_NAMES.index("right_eye_outer"), LANDMARK_NAMES.index("left_eye_outer"))
        values["true_nme"] = landmark_errors(
            [None if one is None else one[index] for one in found], list(drawn_NK2), outer
        )
    return values


def drawn_landmarks(dataset: Dataset, positions: Sequence[int]) -> Points | None:
    """Where the renderer put its landmarks (N, K, 2) in pixels, by `LANDMARK_NAMES`; None where
    nothing was drawn.
    """
    source = parse_spec(dataset.spec)
    if not isinstance(source, SynthSource):
        return None
    params = (source.params(dataset.samples[position].payload) for position in positions)
    return np.stack([render(one, dataset.size).landmarks for one in params])


def edge_errors(edges: Sequence[Edges], wanted_NHW: Edges) -> Values:
    """``edge_precision``, ``edge_recall`` and ``edge_f1`` of drawn edges against those of the
    conditions (M,).
    """
    scores = [
        edge_scores(drawn_HW, wanted_HW, TOLERANCE * drawn_HW.shape[0])
        for drawn_HW, wanted_HW in zip(edges, wanted_NHW, strict=True)
    ]
    precision, recall, f1 = np.array(scores, np.float64).T
    return {"edge_precision": precision, "edge_recall": recall, "edge_f1": f1}
