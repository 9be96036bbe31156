"""``python -m tests.vectors.app.make``: what an app computes around a model, out of Python's own
functions.

``pictures.json``: centre squares and boxes of pictures (Pillow's bilinear filter) and the tensors
that networks get; ``faces.json``: line drawings of face landmarks (MediaPipe's drawing utilities,
OpenCV's lines), by the SHA-256 of their pixels, and the boxes that age models look at;
``ages.json`` and ``labels.json``: outputs to answers; ``statistics.json``: of latencies and of parity;
``numbers.json``: doubles in the spelling of RFC 8785. `generator` and `bundle` beside this file
make networks, `bench` a plan.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rfc8785 import dumps

from unplug.core import TensorSpec
from unplug.export.metrics import compare, verdict
from unplug.mobile_bench.statistics import (
    drift,
    mean_interval,
    outlier_share,
    relative_spread,
    summarize,
    typical_latency,
)
from unplug.mobile_bench.sustained import windows
from unplug.plugins.conditions.face_landmark import FaceLandmark, face_lines
from unplug.plugins.conditions.lines import DrawnFigure, draw
from unplug.plugins.conditions.picture import square_window
from unplug.sdk.drawing.conditions import scaled
from unplug.sdk.drawing.inference.answer import age_rows, class_rows
from unplug.sdk.drawing.inference.crop import face_box
from unplug.sdk.learning.data import square

HERE = Path(__file__).parent
SEED = 20261124
TOLERANCES = {
    "pictures": "equal, tensors within 1e-7: a language may multiply and add in one rounding",
    "faces": "equal",
    "ages": "absolute 1e-6: float32 in Python",
    "statistics": (
        "relative 1e-9: sums in another order; intervals 1e-6, whose quantiles of Student's t come "
        "from a table"
    ),
    "numbers": "equal",
}
SQUARES = (
    (65, 40, 32),
    (40, 65, 32),
    (16, 16, 64),
    (24, 24, 24),
    (33, 34, 33),
    (101, 67, 24),
    (17, 90, 5),
    (23, 24, 1),
)
"""Width, height, side of the result."""
BOXES = ((60, 50, (7, 3, 47, 43), 16), (60, 50, (0, 10, 31, 50), 20), (60, 50, (59, 0, 60, 50), 8))
FACES = (
    (200, 150, 128, "unplug"),
    (150, 200, 256, "unplug"),
    (200, 150, 64, "mediapipe"),
    (200, 150, 100, "unplug"),
    (301, 300, 512, "unplug"),
    (90, 120, 600, "mediapipe"),
    (640, 480, 16, "unplug"),
    (200, 150, 128, "mediapipe"),
)
"""Width and height of the photograph, side of the drawing, style."""


def coded(array: NDArray[np.uint8]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def noise(width: int, height: int, seed: int) -> NDArray[np.uint8]:
    """A picture in which every wrong weight shows, and by a slope in one channel every shift."""
    picture_HWC = np.random.default_rng([SEED, seed]).integers(0, 256, (height, width, 3), np.uint8)
    picture_HWC[..., 1] = np.linspace(0, 255, width)[None]
    return picture_HWC


def pictures() -> dict[str, Any]:
    """Pictures, what is cut out of them, and what networks get of it."""
    cases, tensors = [], []
    for number, (width, height, size) in enumerate(SQUARES):
        picture = noise(width, height, number)
        made = coded(square(Image.fromarray(picture), size))
        cases.append(
            {
                "width": width,
                "height": height,
                "box": None,
                "size": size,
                "rgb": coded(picture),
                "square": made,
            }
        )
    for number, (width, height, box, size) in enumerate(BOXES):
        picture = noise(width, height, 100 + number)
        made = coded(square(Image.fromarray(picture).crop(box), size))
        cases.append(
            {
                "width": width,
                "height": height,
                "box": list(box),
                "size": size,
                "rgb": coded(picture),
                "square": made,
            }
        )
    picture = noise(6, 5, 200)
    for layout in ("NCHW", "NHWC"):
        for ends in ((0.0, 1.0), (-1.0, 1.0), (-2.5, 2.25), None):
            spec = TensorSpec(
                name="image", shape=(1, 3, 5, 6), layout="NCHW", range=ends, colour="RGB"
            )
            values = scaled(picture[None], spec)
            told = spec.in_layout(layout)
            laid = values if layout == "NCHW" else values.transpose(0, 2, 3, 1)
            tensors.append({"spec": asdict(told), "values": laid.ravel().astype(float).tolist()})
    return {
        "cases": cases,
        "picture": {"width": 6, "height": 5, "rgb": coded(picture)},
        "tensors": tensors,
    }


def points_of(width: int, height: int, seed: int) -> NDArray[np.float32]:
    """A face's 478 points: not where a face has them, so that lines go everywhere, also out of the
    picture.
    """
    rng = np.random.default_rng([SEED, 1000 + seed])
    points_K2 = rng.uniform((0.2 * width, 0.2 * height), (0.8 * width, 0.8 * height), (478, 2))
    far = rng.choice(478, 40, replace=False)
    points_K2[far] = rng.uniform(
        (-0.6 * width, -0.6 * height), (1.6 * width, 1.6 * height), (40, 2)
    )
    points_K2[[10, 61, 263, 33]] = [
        [0, 0],
        [0.5 * width, 0.5 * height],
        [width, height],
        [-9 * width, 40 * height],
    ]
    points_K2[338] = points_K2[10]
    return points_K2.astype(np.float32)


def faces() -> dict[str, Any]:
    """Drawings and boxes."""
    cases = []
    for number, (width, height, size, style) in enumerate(FACES):
        points_K2 = points_of(width, height, number)
        figure = DrawnFigure(
            points_K2=points_K2, visible_K=np.ones(478, bool), lines=face_lines(style)
        )
        window = square_window(np.zeros((height, width, 3), np.uint8))
        drawn = draw([figure], window, size, size, nearest=FaceLandmark(style=style).nearest)  # type: ignore[arg-type]
        cases.append(
            {
                "width": width,
                "height": height,
                "size": size,
                "style": style,
                "box": box_of(points_K2, width, height),
                "points": coded(points_K2.astype("<f4").view(np.uint8)),
                "lit": int((drawn > 0).any(axis=2).sum()),
                "sha256": hashlib.sha256(drawn.tobytes()).hexdigest(),
            }
        )
    return {"cases": cases}


def box_of(points_K2: NDArray[np.float32], width: int, height: int) -> list[int]:
    """The box that an age model looks at, where the landmarker finds these points."""
    inside_K2 = points_K2.clip((1, 1), (width - 1, height - 1)).astype(np.float64)
    return [*face_box(inside_K2[None], width, height)]


def ages() -> dict[str, Any]:
    """Outputs of a model and what is said of them."""
    rng = np.random.default_rng(SEED)
    edges = (0.0, 13.0, 18.0, 25.0, 60.0, 116.0)
    outputs = {
        "age_logits": (rng.normal(size=(6, 5)) * 4).astype(np.float32),
        "expected_age": rng.uniform(0, 100, (6, 1)).astype(np.float32),
    }
    rows = age_rows(outputs, edges, [(Path("x.png"), "centre square")] * 6)
    cases = [
        {
            "age_logits": logits.astype(float).tolist(),
            "expected_age": float(age[0]),
            "age": row["age"],
            "groups": {group["ages"]: group["probability"] for group in row["groups"]},
        }
        for logits, age, row in zip(
            outputs["age_logits"], outputs["expected_age"], rows, strict=True
        )
    ]
    return {"edges": list(edges), "cases": cases}


def labels() -> dict[str, Any]:
    """Outputs of a classifier and what is said of them: equal scores stay in their order."""
    rng = np.random.default_rng(SEED + 1)
    names = ["bird", "cat", "chien", "dog", "Eule", "fish", "猫"]
    logits = (rng.normal(size=(4, len(names))) * 3).astype(np.float32)
    logits[3] = [-1, 90, 90, -90, 2, 2, 2]
    said = [
        [[one["label"], one["probability"]] for one in row["labels"]]
        for row in class_rows(logits, names)
    ]
    cases = [
        {"logits": given.astype(float).tolist(), "labels": found}
        for given, found in zip(logits, said, strict=True)
    ]
    return {"classes": names, "tolerance": 1e-12, "cases": cases}


def statistics() -> dict[str, Any]:
    """Of runs that are even, drift, have outliers, are many, or of one alone; and of cold starts."""
    rng = np.random.default_rng(SEED)
    even = rng.lognormal(1.0, 0.1, 50)
    runs = (
        even,
        even[:1],
        even[:7],
        even * np.linspace(1, 1.4, 50),
        np.append(even, [90.0] * 5),
        rng.lognormal(0, 0.3, 1003),
        np.ones(9),
    )
    cases = []
    for latencies_N in runs:
        values, slope = latencies_N.tolist(), drift(latencies_N)
        ends = np.cumsum(latencies_N / 1e3).tolist()
        cases.append(
            {
                "latencies": values,
                "summary": asdict(summarize(values)),
                "drift": None if slope is None else slope.value,
                "outlier_share": outlier_share(values),
                "windows": [asdict(item) for item in windows(ends, values, 7)],
            }
        )
    starts = []
    for count in (1, 2, 3, 7, 30, 31, 45):
        medians = rng.lognormal(1.0, 0.05, count).tolist()
        typical, mean = typical_latency(medians), mean_interval(medians)
        assert typical is not None
        starts.append(
            {
                "medians": medians,
                "typical": typical.value,
                "typical_ends": typical.ends,
                "mean": mean.value,
                "mean_ends": mean.ends,
                "spread": relative_spread(medians),
            }
        )
    return {"runs": cases, "starts": starts, "parity": parity()}


def parity() -> list[dict[str, Any]]:
    """Outputs, references, and how near they are."""
    rng = np.random.default_rng(SEED + 1)
    reference = rng.normal(size=20).astype(np.float32)
    zeros = np.zeros(20, np.float32)
    rows = []
    for wanted, got in (
        (reference, reference),
        (reference, reference * np.float32(1.001)),
        (zeros, reference),
        (reference, reference + 1),
    ):
        near = compare(wanted, got)
        rows.append(
            {
                "reference": wanted.astype(float).tolist(),
                "output": got.astype(float).tolist(),
                "exact": near.exact,
                "psnr_db": near.psnr_db,
                "verdict": verdict(near, 60.0),
            }
        )
    return rows


def numbers() -> dict[str, Any]:
    """Doubles by their bits: over all powers that our JSON may hold, powers of two and of ten with
    their neighbours.
    """
    rng = np.random.default_rng(SEED)
    bits = (
        rng.integers(0, int(np.float64(2.0**53).view(np.uint64)), 400, np.uint64)
        .view(np.float64)
        .tolist()
    )
    edges = [2.0**power for power in range(-1074, 53, 23)] + [
        10.0**power for power in range(-30, 16)
    ]
    near = [float(np.nextafter(value, side)) for value in edges for side in (0.0, 2.0**52)]
    values = [value for value in (*bits, *edges, *near, 0.1, 1 / 3, 5e-324, 2.0**53 - 1) if value]
    return {"cases": [[struct.pack(">d", value).hex(), dumps(value).decode()] for value in values]}


MADE = {
    "pictures.json": pictures,
    "faces.json": faces,
    "ages.json": ages,
    "labels.json": labels,
    "statistics.json": statistics,
    "numbers.json": numbers,
}


def text_of(name: str) -> str:
    """One file as the repository keeps it."""
    return (
        json.dumps(
            {"tolerances": TOLERANCES, **MADE[name]()}, sort_keys=True, separators=(",", ":")
        )
        + "\n"
    )


def main() -> None:
    """Writes all of them."""
    for name in MADE:
        (HERE / name).write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
