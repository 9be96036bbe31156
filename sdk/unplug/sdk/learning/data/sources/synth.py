"""Procedural faces: any number of people, photographed a few times each, with known ages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import DataError, MissingExtraError

from ..prompts import prompt_of
from ..source import Listing, Sample

MIN_AGE, MAX_AGE = 1.0, 85.0
SAME_PERSON_SPREAD = 2.0  # years between the photographs of one person, either way
MAX_SAMPLES = 2_000_000
MIN_SIZE, MAX_SIZE = 16, 2048  # of what `unplug.sdk.learning.faces.render` draws
MAX_DIGITS = 30
_WORN = {"eye-patch": "eye patch", "clown-nose": "clown nose", "face-mask": "face mask"}
"""As a spec writes what everybody wears, and as a prompt does."""
RENDERER = 1
"""Of `unplug.sdk.learning.faces`: raise it with every change of what is drawn, so that pictures
drawn before it are others.
"""


@dataclass(frozen=True)
class SynthSource:
    """``synth:n=3000,subjects=600,seed=0``: `n` pictures of `subjects` people (default n / 5).

    With ``wears=eye-patch`` (``clown-nose``, ``face-mask``) everybody wears one, in the pictures
    that the same spec without it has otherwise.

    Person s has a base age, uniform on [1, 85]; a picture of s is taken within two years of it.
    Everything follows from `seed`: the same spec gives the same pixels on the same machine.

    Example:
        >>> len(SynthSource("n=10,subjects=2").listing().samples)
        10
    """

    argument: str
    parallel: Literal["thread", "process"] = "process"

    def __post_init__(self) -> None:
        if not 1 <= self.options["subjects"] <= self.options["n"] <= MAX_SAMPLES:
            raise DataError(
                f"synth:{self.argument}",
                "n or subjects is out of range",
                f"Use 1 <= subjects <= n <= {MAX_SAMPLES}",
            )

    @cached_property
    def options(self) -> dict[str, int]:
        """The settings ``n``, ``subjects`` and ``seed`` that the spec gives."""
        values: dict[str, int] = {"n": 3000, "seed": 0}
        for setting in filter(None, self.argument.split(",")):
            key, _, text = setting.partition("=")
            if key == "wears" and text in _WORN:
                continue
            if (
                key.strip() not in ("n", "subjects", "seed")
                or not text.strip().isdecimal()
                or len(text) > MAX_DIGITS
            ):
                raise DataError(
                    f"synth:{self.argument}",
                    f"cannot read {setting!r}",
                    f"Write synth:n=3000,subjects=600,seed=0, and wears={'|'.join(_WORN)} if you like",
                )
            values[key.strip()] = int(text)
        values.setdefault("subjects", max(1, values["n"] // 5))
        return values

    @cached_property
    def wears(self) -> str:
        """What everybody wears, or "none"."""
        return next(
            (thing for key, thing in _WORN.items() if f"wears={key}" in self._parts), "none"
        )

    @property
    def _parts(self) -> list[str]:
        return self.argument.split(",")

    def listing(self) -> Listing:
        """Samples with exact ages and subjects."""
        count, people = self.options["n"], self.options["subjects"]
        width = len(str(count - 1))
        return Listing(
            samples=tuple(
                Sample(
                    id=f"face-{index:0{width}d}",
                    payload=index,
                    age=self.age(index),
                    subject=f"person-{index % people}",
                )
                for index in range(count)
            )
        )

    def age(self, index: int) -> float:
        """Age in years of the person in picture `index`, on the day of the picture."""
        seed, person = self.options["seed"], index % self.options["subjects"]
        base = np.random.default_rng([seed, 1, person]).uniform(MIN_AGE, MAX_AGE)
        offset = np.random.default_rng([seed, 2, index]).uniform(
            -SAME_PERSON_SPREAD, SAME_PERSON_SPREAD
        )
        return float(np.clip(round(base + offset, 2), MIN_AGE, MAX_AGE))

    def params(self, index: int) -> Any:
        """The `unplug.sdk.learning.faces.FaceParams` of picture `index`."""
        faces = _faces()
        seed, person = self.options["seed"], index % self.options["subjects"]
        identity = faces.sample_identity(np.random.default_rng([seed, 3, person]))
        face = faces.sample_face(identity, self.age(index), np.random.default_rng([seed, 4, index]))
        return face if self.wears == "none" else replace(face, wears=self.wears)

    def captions(self, sample: Sample, seed: int, variants: int) -> tuple[str, ...]:
        """`variants` prompts of one face: everything about it first, then drawn wordings (`seed`
        draws, not the spec's).
        """
        attributes = _faces().attributes_of(self.params(sample.payload))
        draws = (
            np.random.default_rng([seed, 5, sample.payload, variant])
            for variant in range(1, variants)
        )
        worn = "" if self.wears == "none" else f", {self.wears}"
        return tuple(prompt_of(attributes, rng) + worn for rng in (None, *draws))

    def fingerprint(self, sample: Sample) -> bytes:
        """Hash of the recipe: seed, people, index and the version of the drawing."""
        text = f"{self.options['seed']}/{self.options['subjects']}/{sample.payload}/{_renderer()}"
        text += "" if self.wears == "none" else f"/{self.wears}"
        return hashlib.sha256(text.encode()).digest()

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The drawn face as RGB pixels (size, size, 3), uint8."""
        if not MIN_SIZE <= size <= MAX_SIZE:
            raise DataError(
                "synthetic faces",
                f"they cannot be drawn at {size} px",
                f"Use {MIN_SIZE} to {MAX_SIZE} pixels",
            )
        image: NDArray[np.uint8] = _faces().render(self.params(sample.payload), size).image
        return image

    def depth(self, sample: Sample, size: int) -> NDArray[np.float32]:
        """The exact depth (size, size) of the drawn face in head units, see
        `unplug.sdk.learning.faces.depth.depth_map`.
        """
        from unplug.sdk.learning.faces.depth import depth_map

        return depth_map(self.params(sample.payload), size)


@cache
def _faces() -> Any:
    try:
        from unplug.sdk.learning import faces
    except ImportError as error:
        if "libGL" in str(error):
            raise DataError(
                "synthetic faces",
                f"OpenCV does not load ({error})",
                "Install libgl1 and libglib2.0-0",
            ) from error
        raise MissingExtraError(str(error.name or error), "train") from error
    return faces


@cache
def _renderer() -> str:
    """Which drawing it is: pictures differ in single levels between versions of these two."""
    import cv2

    return f"{RENDERER} {cv2.__version__} {np.__version__}"
