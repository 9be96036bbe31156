"""The pictures that plugins follow: drawn already, or to be drawn from photographs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import Child, DataError, Reply, memory_for, seconds_for
from unplug.plugins.conditions import Condition, Picture, build_condition, checked, checked_size
from unplug.sdk.learning.data import decode_upright, square

from .face_frame import frame_face
from .pool import PICTURE_SECONDS, START_SECONDS, as_text
from .steering import Steering


def draw_conditions(
    steerings: Sequence[Steering], kinds: Sequence[str], size: int
) -> list[NDArray[np.uint8]]:
    """The condition of each steering, (size, size, 3) in RGB; what needs a foreign runtime is drawn
    in one child process.

    Of pictures that are not square the centre square is taken.

    Args:
        steerings: the plugins, each with the picture that it follows.
        kinds: the condition that each plugin follows: canny, face_landmark, ...
        size: side in pixels.

    Raises:
        DataError: no such picture, a broken or tiny one, one that shows nothing, or a photograph in
            which the condition is not found.
        InputError, MissingExtraError, ConversionError: the condition could not
            be drawn: its settings are wrong, its packages are missing, or its process died.
    """
    with Child() as child:
        return [
            _drawn(steering, kind, size, child)
            for steering, kind in zip(steerings, kinds, strict=True)
        ]


def _drawn(steering: Steering, kind: str, size: int, child: Child) -> NDArray[np.uint8]:
    if isinstance(steering.image, Path) and not steering.image.exists():
        raise DataError(
            steering.source, "no such file", "Check the path of the condition or photograph"
        )
    try:
        drawn_HWC = (
            _from_photo(steering, kind, size, child) if steering.photo else _read(steering, size)
        )
        check_condition(drawn_HWC, steering.source)
    except DataError as error:
        raise type(error)(steering.source, error.why, error.fix) from error
    return drawn_HWC


def check_condition(condition_HWC: NDArray[np.uint8], what: str) -> None:
    """Raises `DataError`, naming `what`, where a condition shows nothing: all its pixels are of one
    colour.
    """
    if condition_HWC.size == 0 or (condition_HWC == condition_HWC[:1, :1]).all():
        why = "the condition is empty: all its pixels are of one colour"
        raise DataError(what, why, "Draw it with `unplug condition`, or leave the plugin out")


def _read(steering: Steering, size: int) -> NDArray[np.uint8]:
    return square(Image.fromarray(checked(_pixels(steering.image))), size)


def _pixels(image: Path | Picture) -> Picture:
    if isinstance(image, np.ndarray):
        return image
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of what the decoder judges anyway
        return np.asarray(decode_upright(image), dtype=np.uint8)


def _from_photo(steering: Steering, kind: str, size: int, child: Child) -> NDArray[np.uint8]:
    condition = build_condition(kind, steering.options).resolve()
    checked_size(size)
    image_HWC = checked(_pixels(steering.image))
    if steering.frame is None:
        return _render(condition, image_HWC, size, child)
    framed = frame_face(image_HWC, steering.frame, child)
    return framed.blacken(_render(condition, np.asarray(framed.image), size, child))


def _render(condition: Condition, image_HWC: Picture, size: int, child: Child) -> NDArray[np.uint8]:
    if condition.parallel != "process":
        with condition:
            return condition.render(image_HWC, size)
    values = {"kind": condition.kind, "options": as_text(condition), "size": size}
    reply = child.call(
        "unplug.sdk.drawing.conditions.picture:condition_of_job",
        values,
        {"image": image_HWC},
        what=f"condition {condition.kind}",
        timeout=seconds_for(1, START_SECONDS + PICTURE_SECONDS),
        memory=memory_for(),
    )
    return np.asarray(reply.arrays["condition"])


def condition_of_job(job: Any) -> Reply:
    """Child process: the condition of the job's ``image``."""
    with build_condition(job.values["kind"], job.values["options"]) as condition:
        drawn_HWC = condition.render(job.arrays["image"], job.values["size"])
    return Reply(values={}, arrays={"condition": drawn_HWC})
