"""How far pictures are from the condition that they were made with: one number a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unplug.plugins.conditions import build_condition
from unplug.sdk.conditions import landmarks_in_worker
from unplug.sdk.faces import LANDMARK_NAMES, MEDIAPIPE_INDEX

from .attributes import drawn_landmarks
from .edges import TOLERANCE, edge_scores
from .landmarks import Points, landmark_errors, true_errors, under
from .setup import Setup

Pixels = NDArray[np.uint8]
Values = dict[str, NDArray[np.float64]]


class ControlError(Protocol):
    """Numbers of pictures, each held against the condition that it was made with."""

    def __call__(self, pictures_NHWC: Pixels) -> Values:
        """By name (M,), of M pictures in the order of the sources."""

    def of_sources(self, order: Sequence[int]) -> Values:
        """The same of source pictures in some order, without looking at them again."""


@dataclass(frozen=True, kw_only=True)
class Landmarks:
    """The landmarks of the source pictures.

    Args:
        task: MediaPipe's task file, or "".
        wanted: (478, 2) of each source picture.
        drawn_NK2: where the renderer put its own, or None.
        show: progress bars.
    """

    task: str
    wanted: Sequence[Points | None]
    drawn_NK2: NDArray[np.float32] | None
    show: bool

    def __call__(self, pictures_NHWC: Pixels) -> Values:
        """``found`` (1 or 0), ``nme``, ``nme_8`` and, where they are known, ``true_nme``; NaN where no face was found."""
        return self.score(landmarks_in_worker(pictures_NHWC, self.task, show=self.show))

    def of_sources(self, order: Sequence[int]) -> Values:
        """See `ControlError`; the faces are known."""
        return self.score([self.wanted[index] for index in order])

    def score(self, found: Sequence[Points | None]) -> Values:
        """Numbers of found landmarks, None where there is no face."""
        nme_M = landmark_errors(found, self.wanted)
        values = {
            "found": np.array([float(one is not None) for one in found]),
            "nme": nme_M,
            "nme_8": under(nme_M, self.wanted),
        }
        if self.drawn_NK2 is not None:
            index = [MEDIAPIPE_INDEX[name] for name in LANDMARK_NAMES]
            outer = (LANDMARK_NAMES.index("right_eye_outer"), LANDMARK_NAMES.index("left_eye_outer"))
            values["true_nme"] = true_errors(found, self.drawn_NK2, index, outer)
        return values


@dataclass(frozen=True, kw_only=True)
class EdgeError:
    """The edges that were asked for.

    Args:
        options: settings of Canny, the condition's own.
        wanted_NHW: True on edges.
    """

    options: Mapping[str, str]
    wanted_NHW: NDArray[np.bool_]

    def __call__(self, pictures_NHWC: Pixels) -> Values:
        """``edge_precision``, ``edge_recall`` and ``edge_f1``."""
        canny, side = build_condition("canny", self.options), pictures_NHWC.shape[1]
        return self.score([canny.render(picture, side)[..., 0] > 0 for picture in pictures_NHWC])

    def of_sources(self, order: Sequence[int]) -> Values:
        """See `ControlError`; the edges are known."""
        return self.score([self.wanted_NHW[index] for index in order])

    def score(self, edges: Sequence[NDArray[np.bool_]]) -> Values:
        """Numbers of drawn edges."""
        scores = [
            edge_scores(drawn_HW, wanted_HW, TOLERANCE * drawn_HW.shape[0])
            for drawn_HW, wanted_HW in zip(edges, self.wanted_NHW, strict=True)
        ]
        precision, recall, f1 = np.array(scores, np.float64).T
        return {"edge_precision": precision, "edge_recall": recall, "edge_f1": f1}


@dataclass(frozen=True, kw_only=True)
class NoError:
    """For conditions that have no such number."""

    def __call__(self, pictures_NHWC: Pixels) -> Values:
        """Nothing."""
        return {}

    def of_sources(self, order: Sequence[int]) -> Values:
        """Nothing."""
        return {}


def control_error(setup: Setup) -> ControlError:
    """What judges pictures of the setup's condition."""
    kind, options = setup.request.condition, setup.request.options
    if kind == "face_landmark":
        task = str(options.get("task", ""))
        wanted = landmarks_in_worker(setup.source_NHWC, task, show=setup.show)
        positions = [int(position) for position in setup.dataset.indices(setup.sources.ids)]
        return Landmarks(task=task, wanted=wanted, drawn_NK2=drawn_landmarks(setup.dataset, positions), show=setup.show)
    if kind == "canny":
        return EdgeError(options=options, wanted_NHW=setup.condition_NHWC[..., 0] > 0)
    return NoError()
