"""Line drawings of landmarks as MediaPipe's utilities draw them, fine enough for small networks.

A network at 128 px would lose what a line's integer end points round away. So the lines are drawn
on a canvas of 512 px or more, a whole multiple of the size wanted, as much thicker, and shrunk by
area: the grey of a line's edge then says where it is to a fraction of a pixel. From 512 px on it is
MediaPipe's plain line of one pixel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unplug.core import NoFaceError

from .condition import OPENCV, PILLOW, Condition, Parallel
from .picture import Picture, PictureWindow, checked, checked_size, square_window, whole

CANVAS = 512
# pixels of the canvas; a line with an end farther outside is left out, a nearer one is cut at the
# edge
REACH = 512
ELSEWHERE = "Give a picture with it in the middle"
Colour = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class DrawnLine:
    """A connection between two landmarks, in RGB."""

    start: int
    end: int
    colour: Colour


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """Landmarks and what is drawn between them.

    Args:
        points_K2: x and y in pixels of the picture.
        visible_K: a line with an invisible end is left out.
        lines: the lines in drawing order; a pair of points has one line.
    """

    points_K2: NDArray[np.float32]
    visible_K: NDArray[np.bool_]
    lines: tuple[DrawnLine, ...]


def draw(
    figures: Sequence[DrawnFigure],
    window: PictureWindow,
    height: int,
    width: int,
    *,
    nearest: bool = False,
) -> Picture:
    """Figures within a window of their picture, on black.

    Args:
        figures: the figures in drawing order.
        window: the part of the picture that is shown.
        height, width: the size of the result.
        nearest: the pixel of a coordinate is round(x), as in MediaPipe's C++ renderer, not the one
            that the point lies in.

    Returns:
        (height, width, 3) RGB.
    """
    import cv2

    factor = max(1, -(-CANVAS // max(height, width)))
    scale_2 = (width * factor / window.width, height * factor / window.height)
    pixel = np.round if nearest else np.floor
    placed = []
    for figure in figures:
        moved_K2 = figure.points_K2.astype(np.float64) - (window.left, window.top)
        placed.append(pixel(moved_K2 * scale_2).astype(np.int64))
    canvas_HWC = _cut(figures, placed, height * factor, width * factor, factor)
    if factor == 1:
        return canvas_HWC
    return np.asarray(
        cv2.resize(canvas_HWC, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8
    )


def _cut(
    figures: Sequence[DrawnFigure],
    placed: Sequence[NDArray[np.int64]],
    height: int,
    width: int,
    thickness: int,
) -> Picture:
    """Draws with a margin and cuts it off: OpenCV would cut a line itself, and by a pixel otherwise
    than the whole line runs.
    """
    margin = _margin(figures, placed, height, width)
    larger = np.zeros((height + 2 * margin, width + 2 * margin, 3), np.uint8)
    for figure, points_K2 in zip(figures, placed, strict=True):
        _lines(larger, figure, points_K2 + margin, thickness)
    return np.ascontiguousarray(larger[margin : margin + height, margin : margin + width])


def _margin(
    figures: Sequence[DrawnFigure], placed: Sequence[NDArray[np.int64]], height: int, width: int
) -> int:
    outside = [0]
    for figure, points_K2 in zip(figures, placed, strict=True):
        shown_V2 = points_K2[figure.visible_K]
        beyond_V2 = np.maximum(-shown_V2, shown_V2 - (width - 1, height - 1))
        outside.append(int(beyond_V2.max(initial=0)))
    return min(REACH, max(outside))


def _lines(
    canvas_HWC: Picture, figure: DrawnFigure, points_K2: NDArray[np.int64], thickness: int
) -> None:
    """Draws as MediaPipe's drawing utilities do: a line whose end is invisible or outside is left
    out.
    """
    import cv2

    height, width = canvas_HWC.shape[:2]
    inside_K2 = (points_K2 >= 0) & (points_K2 < (width, height))
    drawn_K = inside_K2.all(axis=1) & figure.visible_K
    corners = points_K2.tolist()
    for line in figure.lines:
        if drawn_K[line.start] and drawn_K[line.end]:
            cv2.line(canvas_HWC, corners[line.start], corners[line.end], line.colour, thickness)


class LineDrawing(Condition):
    """A condition that finds landmarks in the whole picture, at its own resolution, and draws lines
    between them.
    """

    parallel: ClassVar[Parallel] = "process"
    packages: ClassVar[tuple[tuple[str, ...], ...]] = (("mediapipe",), OPENCV, PILLOW)

    @property
    def nearest(self) -> bool:
        """Whether a point is drawn at the nearest pixel instead of in the one that it lies in; see
        `draw`.
        """
        return False

    @abstractmethod
    def figures(self, image_HWC: Picture, window: PictureWindow) -> list[DrawnFigure]:
        """What was found in a picture, of which `window` will be shown; at least one figure."""

    def __call__(self, image_HWC: Picture) -> Picture:
        """(H, W, 3): lines in the picture's own coordinates."""
        image_HWC = checked(image_HWC)
        return self._draw(image_HWC, whole(image_HWC), *image_HWC.shape[:2])

    def render(self, image_HWC: Picture, size: int) -> Picture:
        """(size, size, 3): lines in the centre square; the landmarks are found before anything is
        shrunk.
        """
        image_HWC = checked(image_HWC)
        return self._draw(image_HWC, square_window(image_HWC), checked_size(size), size)

    def _draw(self, image_HWC: Picture, window: PictureWindow, height: int, width: int) -> Picture:
        drawn_HWC = draw(
            self.figures(image_HWC, window), window, height, width, nearest=self.nearest
        )
        if not drawn_HWC.any():
            raise NoFaceError(
                "picture", f"nothing that {self.kind} draws lies inside it", ELSEWHERE
            )
        return drawn_HWC
