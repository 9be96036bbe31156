"""What a model looks at: a picture's centre square, a box, the face that MediaPipe finds, or that face put in its frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError, InputError, check_content
from unplug.sdk.data import decode_upright, square

from .alignment import Frame, align, eyes_of, face_problem

FACE_MARGIN = (
    0.01  # of the box of all landmarks, on each side: the median of 150 UTKFace photographs (80 % within -0.01 to 0.04)
)
MAX_FACES = 5
CENTRE = "centre square"
UNSOUGHT = (
    "no face was looked for: the model saw the centre square of the picture, which is right for faces that are cropped "
    "already; of any other photograph its age may be far off. Give --face-landmarker FILE, or --box"
)
"""What is told of an answer about such a square."""


def crop(
    path: Path, size: int, *, box: str | None = None, landmarker: Path | None = None, margin: float = FACE_MARGIN,
    frame: Frame | None = None,
) -> tuple[NDArray[np.uint8], str]:  # fmt: skip
    """What a model sees of a picture: (size, size, 3), and what was done in words.

    Args:
        path: a picture file.
        size: side of the result in pixels.
        box: "left,top,right,bottom" in pixels.
        landmarker: MediaPipe task file that finds the face; without it and a box the centre square is taken.
        margin: around the found face, as a fraction of its box; frame it as the training images are framed.
        frame: where the found face's eyes go, see `align`; None cuts out the square around it.

    Raises:
        DataError: the picture is broken, no face (or several) was found, or with a frame one too small or too dark.
        InputError: a box that does not lie in the picture, or no such task file.
    """
    image = decode_upright(path)
    if box is not None:
        corners = parse_box(box, image)
        return square(image.crop(corners), size), f"box {box}"
    if landmarker is None:
        return square(image, size), CENTRE
    if frame is not None:
        return _aligned(path, image, landmarker, size, frame)
    corners = _find_face(path, image, landmarker, margin)
    return square(image.crop(corners), size), f"face at {','.join(map(str, corners))}"


def parse_box(box: str, image: Image.Image) -> tuple[int, int, int, int]:
    """The corners that "left,top,right,bottom" names, in pixels of an image; `InputError` where they do not lie in it."""
    parts = box.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise InputError(f"--box {box}", "it is not four numbers", "Write LEFT,TOP,RIGHT,BOTTOM in pixels")
    left, top, right, bottom = (int(part) for part in parts)
    if not (0 <= left < right <= image.width and 0 <= top < bottom <= image.height):
        raise InputError(f"--box {box}", f"it does not lie within {image.width}x{image.height}", "Give a box inside the image")
    return left, top, right, bottom


def _aligned(path: Path, image: Image.Image, landmarker: Path, size: int, frame: Frame) -> tuple[NDArray[np.uint8], str]:
    faces = _found(image, landmarker)["eyes"]
    left, right = faces[0] if len(faces) == 1 else ((0.0, 0.0), (1.0, 0.0))
    made = align(np.asarray(image, dtype=np.uint8), left, right, size, frame)
    if (problem := face_problem(len(faces), left, right, made, frame)) is not None:
        raise DataError(str(path), problem, "Give a picture of one face, near and well lit, or name it with --box")
    return made, "eyes at " + " and ".join(f"{x:.0f},{y:.0f}" for x, y in (left, right))


def _find_face(path: Path, image: Image.Image, landmarker: Path, margin: float) -> tuple[int, int, int, int]:
    boxes = _found(image, landmarker)["boxes"]
    if len(boxes) != 1:
        found = "no face" if not boxes else f"{len(boxes)} faces"
        raise DataError(str(path), f"{found} found", "Give a picture of one face, or name it with --box LEFT,TOP,RIGHT,BOTTOM")
    left, top, right, bottom = boxes[0]
    side = max(right - left, bottom - top) * (1 + 2 * margin)
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2
    return (
        max(0, round(middle_x - side / 2)), max(0, round(middle_y - side / 2)),
        min(image.width, round(middle_x + side / 2)), min(image.height, round(middle_y + side / 2)),
    )  # fmt: skip


def _found(image: Image.Image, landmarker: Path) -> Mapping[str, Any]:
    """``boxes`` and ``eyes`` of all faces in a picture."""
    from unplug.core import call_in_child, memory_for, seconds_for

    check_landmarker(landmarker)
    # MediaPipe is a foreign runtime: in this process its import could crash torch (see DESIGN, traps).
    reply = call_in_child(
        "unplug.sdk.inference.crop:find_faces",
        {"task": str(landmarker.resolve())},
        {"image": np.asarray(image, dtype=np.uint8)},
        what="MediaPipe's face landmarker",
        timeout=seconds_for(1),
        memory=memory_for(landmarker),
    )
    return reply.values


def check_landmarker(landmarker: Path) -> None:
    """`InputError` where MediaPipe's task file is not there."""
    check_content(landmarker)
    if not landmarker.is_file():
        fix = "Get face_landmarker.task from MediaPipe's model page and pass --face-landmarker FILE"
        raise InputError(str(landmarker), "no such task file", fix)


def find_faces(job: Any) -> Any:
    """Child process: boxes (left, top, right, bottom) and eyes of all faces in ``image`` by MediaPipe's Face Landmarker."""
    from unplug.core import Reply

    with open_landmarker(job.values["task"]) as landmarker:
        return Reply(values=faces_in(landmarker, job.arrays["image"]))


def open_landmarker(task: str) -> Any:
    """Child process: MediaPipe's Face Landmarker out of its task file; `MissingExtraError` where it is not installed."""
    from unplug.core import MissingExtraError

    try:
        from mediapipe.tasks import python as tasks
        from mediapipe.tasks.python import vision
    except ImportError as error:
        raise MissingExtraError("mediapipe", "conditions") from error
    options = vision.FaceLandmarkerOptions(base_options=tasks.BaseOptions(model_asset_path=task), num_faces=MAX_FACES)
    return vision.FaceLandmarker.create_from_options(options)


def faces_in(landmarker: Any, image_HW3: NDArray[np.uint8]) -> dict[str, Any]:
    """Child process: ``boxes`` (left, top, right, bottom) and ``eyes`` of all faces that a landmarker finds, in pixels."""
    import mediapipe as mp

    pixels = np.ascontiguousarray(image_HW3)
    height, width = pixels.shape[:2]
    boxes, eyes = [], []
    for face in landmarker.detect(mp.Image(image_format=mp.ImageFormat.SRGB, data=pixels)).face_landmarks:
        x, y = [point.x * width for point in face], [point.y * height for point in face]
        boxes.append([min(x), min(y), max(x), max(y)])
        eyes.append(eyes_of(list(zip(x, y, strict=True))))
    return {"boxes": boxes, "eyes": eyes}
