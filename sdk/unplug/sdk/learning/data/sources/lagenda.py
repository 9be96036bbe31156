"""LAGENDA: pictures with several people, the boxes of their faces, age and sex; a sample is one
face.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import DataError

from ..decode import decode_upright, fingerprint_file, square
from ..source import Listing, Sample, existing_dir
from .age_tables import TableRow, table_rows
from .files import below
from .listed import Listed

TABLES = ("lagenda_annotation.csv", "annotation.csv")
BOX = ("face_x0", "face_y0", "face_x1", "face_y1")
SEXES = {"F": "female", "M": "male"}
NOBODY = "-1"
"""What stands where nobody said an age, and in all four places of a box where no face was found."""
LEAST_SIDE = 5
"""Pixels of a face below which its makers leave it out."""


@dataclass(frozen=True)
class LagendaFace:
    """One face of a picture: left, top, right, bottom in pixels."""

    path: Path
    box: tuple[int, int, int, int]


class LagendaSource:
    """``lagenda:DIR``: the folder with ``lagenda_annotation.csv`` and ``lag_benchmark/``.

    People without an age are no samples. It was published as a benchmark: no part of it is for
    training. A box that leads out of its picture is cut at the edge, as its makers do. Some people
    with an age have no box of a face and at least one picture that is listed is missing, so the
    whole of it is read with ``on_bad="skip"``.

    Reference:
        Kuprashevich and Tolstykh, MiVOLO: Multi-input Transformer for Age and Gender Estimation,
        2023, section 4. The columns: ``mivolo/data/data_reader.py`` of its repository; the cut at
        the edge: ``mivolo/data/dataset/reader_age_gender.py``.
    """

    parallel: Literal["thread", "process"] = "thread"

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "lagenda")

    def listing(self) -> Listing:
        """Samples with age and sex; one without the box of a face is a problem."""
        places = [self.root / name for name in TABLES]
        table = next((place for place in places if place.is_file()), places[0])
        columns, listed = ("img_name", "age", "gender", *BOX), Listed(root=self.root)
        fix = "Give the folder that LAGENDA was unpacked to"
        for row in table_rows(table, str(table), fix, columns, needed="age"):
            if row["age"] in (NOBODY, ""):
                continue
            name = f"{row.get('img_name')}#{','.join(row.get(side) or '?' for side in BOX)}"
            with listed.reading(name):
                box, sex = _box(row), SEXES.get(row.get("gender") or "")
                face = LagendaFace(path=below(self.root, row["img_name"]), box=box)
                attributes = {} if sex is None else {"sex": sex}
                sample = Sample(id=name, payload=face, age=row.age("age"), attributes=attributes)
                listed.samples.append(sample)
        expected = "Give the folder with lagenda_annotation.csv and lag_benchmark/"
        return listed.listing(f"lagenda:{self.root}", expected)

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the picture's bytes and the box."""
        face: LagendaFace = sample.payload
        return hashlib.sha256(fingerprint_file(face.path) + repr(face.box).encode()).digest()

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The square around the face as RGB pixels (size, size, 3), uint8."""
        face: LagendaFace = sample.payload
        image = decode_upright(face.path)
        left, right = (min(max(place, 0), image.width) for place in face.box[::2])
        top, bottom = (min(max(place, 0), image.height) for place in face.box[1::2])
        if right - left < LEAST_SIDE or bottom - top < LEAST_SIDE:
            why = (
                f"of the box {','.join(map(str, face.box))} nothing lies within "
                f"{image.width}x{image.height}"
            )
            raise DataError(str(face.path), why, "Give the pictures that the table was made for")
        half, x, y = max(right - left, bottom - top) / 2, (left + right) / 2, (top + bottom) / 2
        low, high = (
            (max(0, round(x - half)), max(0, round(y - half))),
            (round(x + half), round(y + half)),
        )
        return square(
            image.crop((*low, min(image.width, high[0]), min(image.height, high[1]))), size
        )


def _box(row: TableRow) -> tuple[int, int, int, int]:
    sides = [row.get(side) or NOBODY for side in BOX]
    if all(side == NOBODY for side in sides):
        raise ValueError("it has no box of a face")
    try:
        left, top, right, bottom = (int(float(side)) for side in sides)
    except (ValueError, OverflowError) as error:
        raise ValueError("its box of a face is not four numbers") from error
    if not (-(10**6) < left < right < 10**6 and -(10**6) < top < bottom < 10**6):
        raise ValueError("its box of a face is not a box")
    return left, top, right, bottom
