"""``python -m tests.vectors.faces.make``: faces put in a frame, byte for byte, and what is too
little to judge.

``faces.json``: ``align`` has pictures, eyes, a frame and the result; ``problems`` what is told of a
photograph; ``manifests`` the ``preprocessing`` of a bundle, and the frame that it carries: none, or
none that may be used. Pictures are RGB, row by row, packed by raw deflate, in base64.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.vectors.pictures.make import packed

from unplug.core import InputError
from unplug.sdk.drawing.inference import Frame, align, face_problem, frame_in, light

HERE = Path(__file__).parent
CASES = (
    ((40, 40), (12.0, 14.0), (28.0, 14.0), 32, Frame()),
    ((60, 45), (20.25, 18.5), (38.75, 25.125), 24, Frame()),
    ((45, 60), (15.0, 30.0), (37.5, 20.5), 8, Frame()),
    ((50, 50), (2.0, 3.0), (30.0, 1.0), 20, Frame()),
    ((33, 31), (20.0, 16.0), (12.0, 15.0), 12, Frame()),
    ((21, 17), (8.0, 8.0), (9.5, 8.25), 48, Frame()),
    (
        (40, 40),
        (14.0, 19.0),
        (27.0, 20.0),
        24,
        Frame(left=(0.3, 0.45), right=(0.7, 0.4), least_eyes=1.0, least_light=0.0),
    ),
    ((80, 50), (4.0, 6.0), (76.0, 44.0), 3, Frame()),
)
"""Width and height, eyes, side, frame: enlarged, turned, shrunk, over an edge, upside down, small,
another frame, tiny.
"""


def picture(width: int, height: int, seed: int) -> Any:
    """Noise shows every wrong weight; a slope in one channel shows a shift."""
    made = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    made[..., 1] = np.linspace(0, 255, width)[None]
    return made


def cases() -> list[dict[str, Any]]:
    """`CASES` with their results."""
    found = []
    for seed, ((width, height), left, right, size, frame) in enumerate(CASES):
        shown = picture(width, height, seed)
        made = align(shown, left, right, size, frame)
        found.append(
            {
                "width": width,
                "height": height,
                "rgb": packed(shown),
                "left": left,
                "right": right,
                "size": size,
                "frame": placed(frame),
                "aligned": packed(made),
                "light": light(made),
            }
        )
    return found


def problems() -> list[dict[str, Any]]:
    """Of a face in one colour: how many were found, how far apart its eyes are, its colour, and
    what is told.
    """
    found = []
    for faces, apart, colour in (
        (0, 40.0, 90),
        (2, 40.0, 90),
        (7, 40.0, 90),
        (1, 40.0, 90),
        (1, 16.0, 90),
        (1, 15.99, 90),
        (1, 3.0, 0),
        (1, 40.0, 24),
        (1, 40.0, 23),
    ):
        shown = np.full((4, 4, 3), colour, np.uint8)
        told = face_problem(faces, (10.0, 10.0), (10.0 + apart, 10.0), shown)
        found.append({"faces": faces, "apart": apart, "colour": colour, "problem": told})
    return found


EYES = [[0.25, 0.4], [0.75, 0.5]]
PLAIN = {"crop": "centre square", "resize": 64, "scale": "pixel / 255"}
MANIFESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("no eyes", PLAIN),
    ("eyes alone", PLAIN | {"eyes": EYES}),
    ("eyes and limits", PLAIN | {"eyes": EYES, "least_eyes": 20, "least_light": 30.5}),
    ("nothing", {}),
    ("limits without eyes", PLAIN | {"least_eyes": 20}),
    ("eyes at the corners", {"eyes": [[0, 0], [1, 1]]}),
    ("eyes of null", {"eyes": None}),
    ("eyes of a number", {"eyes": 7}),
    ("no eye", {"eyes": []}),
    ("one eye", {"eyes": EYES[:1]}),
    ("three eyes", {"eyes": [*EYES, EYES[0]]}),
    ("an eye of one number", {"eyes": [[0.2], EYES[1]]}),
    ("an eye of three", {"eyes": [[0.2, 0.4, 0.1], EYES[1]]}),
    ("an eye of a word", {"eyes": [[0.2, "x"], EYES[1]]}),
    ("eyes on each other", {"eyes": [EYES[0], EYES[0]]}),
    ("an eye outside", {"eyes": [[-0.1, 0.4], EYES[1]]}),
    ("a limit of a word", {"eyes": EYES, "least_eyes": "x"}),
    ("a limit of null", {"eyes": EYES, "least_light": None}),
)
"""Parts of manifests, good and bad."""


def manifests() -> list[dict[str, Any]]:
    """`MANIFESTS` with what is read out of them."""
    found = []
    for what, said in MANIFESTS:
        item: dict[str, Any] = {
            "what": what,
            "preprocessing": said,
            "refused": False,
            "frame": None,
        }
        try:
            frame = frame_in(said, "manifest.json")
        except InputError:
            item["refused"] = True
        else:
            item["frame"] = None if frame is None else placed(frame)
        found.append(item)
    return found


def placed(frame: Frame) -> dict[str, Any]:
    """A frame as the file has it."""
    return {
        "left": frame.left,
        "right": frame.right,
        "least_eyes": frame.least_eyes,
        "least_light": frame.least_light,
    }


def main() -> None:
    """Writes ``faces.json`` beside this file."""
    made = {
        "tolerance": "equal",
        "align": cases(),
        "problems": problems(),
        "manifests": manifests(),
    }
    (HERE / "faces.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
