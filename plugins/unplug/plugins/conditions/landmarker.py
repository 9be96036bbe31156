"""What the conditions that MediaPipe finds share: its import, its task files, its landmarks as
arrays.

MediaPipe is a foreign runtime. In a process that later imports a converter it can crash the
interpreter, so that data sets and commands draw these conditions in child processes
(`unplug.sdk.drawing.conditions`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import InputError, MissingExtraError, check_content

from .picture import Picture

ENLARGE_BELOW = 256
"""Longest side below which a picture is enlarged before landmarks are sought in it.

The landmark network looks at 256x256 pixels. On 60 synthetic faces shrunk to 32 / 64 / 128 px this
takes the error (by the distance of the outer eye corners) from 10.8 / 3.9 / 1.2 % to 5.8 / 1.7 /
0.5 %, and at 20 px finds 51 of them instead of 45.
"""
VISIBLE = 0.5  # MediaPipe's drawing utilities leave out points below it, too
LIBRARIES = (
    "Install the system library that it names (on Debian: libgl1 libegl1 libgles2 libglib2.0-0)"
)


def vision() -> Any:
    """``mediapipe.tasks.python.vision``, imported on first use.

    Raises:
        MissingExtraError: MediaPipe is not installed.
        InputError: it is, but does not load.
    """
    try:
        from mediapipe.tasks.python import vision as module
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name or "mediapipe"), "conditions") from error
    except (ImportError, OSError) as error:
        raise InputError("MediaPipe", f"it does not load ({error})", LIBRARIES) from error
    return module


def resolve_task(kind: str, task: str, variable: str, file: str, page: str) -> str:
    """The absolute path of a task file.

    Args:
        kind: the condition, for messages.
        task: the setting; "" falls back to the environment.
        variable: the environment variable.
        file, page: the file to get, and the page that has it.

    Raises:
        InputError: neither the argument nor the environment names a file.
    """
    name = task or os.environ.get(variable, "")
    fix = f"Get {file} from {page} and set {variable} to it, or give `task=FILE`"
    if not name:
        raise InputError(
            f"condition {kind}", "it needs a MediaPipe task file and none is named", fix
        )
    check_content(Path(name))
    if not Path(name).is_file():
        raise InputError(name, "no such task file", fix)
    return str(Path(name).resolve())


def open_task(task: str, page: str, create: Callable[[Any], Any]) -> Any:
    """A landmarker made from a task file.

    Args:
        task: path.
        page: the web page that has such files, for the message.
        create: makes the landmarker from MediaPipe's ``BaseOptions``.

    Raises:
        InputError: the file is broken or of another task, or MediaPipe's library does not load.
    """
    from mediapipe.tasks.python import BaseOptions

    try:
        return create(BaseOptions(model_asset_path=task))
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        if isinstance(error, OSError) and ".so" in reason:
            raise InputError("MediaPipe", f"it does not load ({reason})", LIBRARIES) from error
        raise InputError(
            task, f"MediaPipe cannot use it ({reason})", f"Get it again from {page}"
        ) from error


def detect(
    landmarker: Any, image_HWC: Picture, task: str, page: str, *, enlarge: bool = True
) -> Any:
    """What a landmarker finds in a picture; with `enlarge` a small one is enlarged first.

    Raises:
        InputError: MediaPipe stops with an error, which a sound task file does not bring about.
    """
    try:
        return landmarker.detect(mediapipe_image(enlarged(image_HWC) if enlarge else image_HWC))
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            task, f"MediaPipe stops on a picture ({reason})", f"Get it again from {page}"
        ) from error


def enlarged(image_HWC: Picture) -> Picture:
    """A small picture enlarged (landmarks are relative, so nothing else changes); a larger one as
    it is.
    """
    height, width = image_HWC.shape[:2]
    if max(height, width) >= ENLARGE_BELOW:
        return image_HWC
    factor = ENLARGE_BELOW / max(height, width)
    larger = (max(1, round(width * factor)), max(1, round(height * factor)))
    resized = Image.fromarray(image_HWC).resize(larger, Image.Resampling.BICUBIC)
    return np.asarray(resized, dtype=np.uint8)


def mediapipe_image(image_HWC: Picture) -> Any:
    """The picture as MediaPipe takes it."""
    from mediapipe import Image as MediaPipeImage
    from mediapipe import ImageFormat

    return MediaPipeImage(image_format=ImageFormat.SRGB, data=np.ascontiguousarray(image_HWC))


def placed(landmarks: Sequence[Any], image_HWC: Picture) -> NDArray[np.float64]:
    """Landmarks as (K, 2), x and y in pixels of the picture; the left edge of the first pixel is 0."""
    relative_K2 = np.array([(point.x, point.y) for point in landmarks], dtype=np.float64).reshape(
        -1, 2
    )
    return relative_K2 * (image_HWC.shape[1], image_HWC.shape[0])


def pixels(landmarks: Sequence[Any], image_HWC: Picture) -> NDArray[np.float32]:
    """The same in single precision, as they are drawn."""
    return placed(landmarks, image_HWC).astype(np.float32)


def visible(landmarks: Sequence[Any]) -> NDArray[np.bool_]:
    """Which landmarks MediaPipe takes for visible and present (K,); those that it does not rate
    count as both.
    """
    return np.array(
        [
            all(
                rating is None or rating >= VISIBLE for rating in (point.visibility, point.presence)
            )
            for point in landmarks
        ]
    )
