"""``python -m tests.vectors.pictures.make``: what apps make of pictures before a network sees them,
byte for byte.

``square.json`` has pictures and their centre squares at other sizes (Pillow's bilinear filter);
``lines.json`` line drawings of landmarks (OpenCV's lines, shrunk by area); ``turned.json`` a
photograph turned upright, for every orientation of EXIF. Pictures are RGB, row by row, packed by
raw deflate, in base64.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from unplug.plugins.conditions.lines import DrawnFigure, DrawnLine, draw
from unplug.plugins.conditions.picture import PictureWindow
from unplug.sdk.learning.data import square

HERE = Path(__file__).parent
TOLERANCE = "equal"
SQUARES = (
    (65, 40, 32),
    (40, 65, 32),
    (16, 16, 64),
    (64, 64, 64),
    (63, 64, 64),
    (101, 67, 24),
    (17, 90, 5),
    (24, 24, 1),
    (33, 33, 32),
)
"""Width, height, side of the result."""
DRAWINGS = (
    {"window": (0.0, 0.0, 200.0, 150.0), "width": 128, "height": 96, "nearest": False},
    {"window": (25.0, 0.0, 150.0, 150.0), "width": 128, "height": 128, "nearest": False},
    {"window": (25.0, 0.0, 150.0, 150.0), "width": 64, "height": 64, "nearest": True},
    {"window": (25.5, 10.25, 130.0, 130.0), "width": 48, "height": 48, "nearest": False},
    {"window": (0.0, 0.0, 200.0, 150.0), "width": 256, "height": 192, "nearest": False},
    {"window": (0.0, 0.0, 200.0, 150.0), "width": 520, "height": 390, "nearest": False},
    {"window": (70.0, 50.0, 60.0, 60.0), "width": 171, "height": 171, "nearest": True},
)


def packed(picture_HWC: NDArray[np.uint8]) -> str:
    """Bytes of a picture as the files have them."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(picture_HWC.tobytes()) + deflate.flush()).decode()


def squares() -> dict[str, Any]:
    """Noise shows every wrong weight; a slope in one channel shows a shift."""
    rng = np.random.default_rng(20261124)
    cases = []
    for width, height, size in SQUARES:
        picture = rng.integers(0, 256, (height, width, 3), np.uint8)
        picture[..., 1] = np.linspace(0, 255, width)[None]
        made = square(Image.fromarray(picture), size)
        cases.append(
            {
                "width": width,
                "height": height,
                "size": size,
                "rgb": packed(picture),
                "square": packed(made),
            }
        )
    return {"tolerance": TOLERANCE, "cases": cases}


def figures() -> list[DrawnFigure]:
    """Stars of lines in every direction, single points, and ends outside of the picture."""
    rng = np.random.default_rng(7)
    points = np.concatenate(
        [rng.uniform((0, 0), (200, 150), (24, 2)), rng.uniform((-60, -60), (260, 210), (8, 2))]
    )
    points[3] = points[2]
    colours = [tuple(int(value) for value in rng.integers(1, 256, 3)) for _ in range(8)]
    lines = [DrawnLine(start=0, end=end, colour=colours[end % 8]) for end in range(1, 12)]
    lines += [
        DrawnLine(start=12 + step, end=13 + step, colour=colours[step % 8]) for step in range(19)
    ]
    lines += [
        DrawnLine(start=2, end=3, colour=(255, 255, 255)),
        DrawnLine(start=5, end=20, colour=(1, 2, 3)),
    ]
    visible = np.ones(len(points), bool)
    visible[20] = False
    far = np.array([[100.0, 75.0], [5000.0, 75.0], [20.0, 20.0], [20.0, 130.0], [180.0, 130.0]])
    box = [
        DrawnLine(start=start, end=end, colour=(0, 255, 64))
        for start, end in ((0, 1), (2, 3), (3, 4))
    ]
    return [
        DrawnFigure(points_K2=points.astype(np.float32), visible_K=visible, lines=tuple(lines)),
        DrawnFigure(points_K2=far.astype(np.float32), visible_K=np.ones(5, bool), lines=tuple(box)),
    ]


def drawings() -> dict[str, Any]:
    """The same figures through several windows."""
    made = figures()
    cases = []
    for case in DRAWINGS:
        left, top, width, height = case["window"]  # type: ignore[misc]
        window = PictureWindow(left=left, top=top, width=width, height=height)
        picture = draw(
            made, window, int(case["height"]), int(case["width"]), nearest=bool(case["nearest"])
        )  # type: ignore[call-overload]
        cases.append({**case, "rgb": packed(picture)})
    told = [
        {
            "points": item.points_K2.astype(np.float64).tolist(),
            "visible": item.visible_K.tolist(),
            "lines": [[line.start, line.end, *line.colour] for line in item.lines],
        }
        for item in made
    ]
    return {"tolerance": TOLERANCE, "figures": told, "cases": cases}


def turns() -> dict[str, Any]:
    """Every pixel is another; orientations that EXIF does not know are upright."""
    stored = np.arange(4 * 3 * 3, dtype=np.uint8).reshape(3, 4, 3)
    cases = []
    for orientation in range(10):
        picture = Image.fromarray(stored)
        picture.getexif()[0x112] = orientation
        upright = np.asarray(ImageOps.exif_transpose(picture))
        height, width, _ = upright.shape
        cases.append(
            {"orientation": orientation, "width": width, "height": height, "rgb": packed(upright)}
        )
    return {"tolerance": TOLERANCE, "width": 4, "height": 3, "rgb": packed(stored), "cases": cases}


def files() -> dict[str, str]:
    """File name to text."""
    made = {"square.json": squares(), "lines.json": drawings(), "turned.json": turns()}
    return {name: json.dumps(value, indent=1) + "\n" for name, value in made.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (HERE / name).write_text(text, encoding="utf-8")
