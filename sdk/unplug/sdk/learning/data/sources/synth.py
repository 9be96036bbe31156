"""Procedural faces: any number of people, photographed a few times each, with known ages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
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
GLASSES = "glasses"
_KINDS: Mapping[str, Mapping[str, str]] = {
    "wears": {
        "eye-patch": "eye patch",
        "clown-nose": "clown nose",
        "face-mask": "face mask",
        GLASSES: GLASSES,
    },
    "style": {"pencil": "pencil drawing", "poster": "poster print"},
}
"""As a spec writes what people wear and how pictures are drawn, and as a prompt does. Each name has
its own part of a draw, by its place: add new ones at the end.
"""
_STREAMS = {"wears": 6, "style": 7}
_FRAMES = 8
RENDERER = 1
"""The version of `unplug.sdk.learning.faces`: raise it with every change of what is drawn, so that
pictures drawn before it are others.
"""


@dataclass(frozen=True)
class SynthSource:
    """``synth:n=3000,subjects=600,seed=0``: `n` pictures of `subjects` people (default n / 5).

    With ``wears=eye-patch`` (``clown-nose``, ``face-mask``, ``glasses``) everybody wears one, and
    with ``style=pencil`` (``poster``) all is drawn so, in the pictures that the same spec without it
    has otherwise. ``wears=eye-patch+clown-nose,share=.15`` puts each on a random 15 % of pictures,
    at most one a picture, and ``style`` likewise; one name less changes no picture of the others.

    Person s has a base age, uniform on [1, 85]; a picture of s is taken within two years of it.
    Everything follows from `seed`: the same spec gives the same pixels on the same machine.

    Example:
        >>> len(SynthSource("n=10,subjects=2").listing().samples)
        10
    """

    argument: str
    parallel: Literal["thread", "process"] = "process"

    def __post_init__(self) -> None:
        _ = self._mixed  # a wrong spec is told at once
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
            if key in (*_KINDS, "share"):
                continue  # of `_mixed`
            if (
                key.strip() not in ("n", "subjects", "seed")
                or not text.strip().isdecimal()
                or len(text) > MAX_DIGITS
            ):
                raise self._unread(setting)
            values[key.strip()] = int(text)
        values.setdefault("subjects", max(1, values["n"] // 5))
        return values

    @cached_property
    def _mixed(self) -> dict[str, dict[str, tuple[float, float]]]:
        """For each kind, the part of a draw from 0 to 1 in which a picture has each thing or style."""
        parts = (setting.partition("=")[::2] for setting in self.argument.split(","))
        told = {key: text for key, text in parts if key in (*_KINDS, "share")}
        if "share" not in told:
            shares = {key: self._all_of(key, text) for key, text in told.items()}
            return {key: {name: (0.0, 1.0)} for key, name in shares.items()}
        text = told.pop("share")
        if not re.fullmatch(r"[01]?\.?\d{1,9}", text) or not told:
            raise self._unread(f"share={text}")
        return {key: self._parts_of(key, names, float(text)) for key, names in told.items()}

    def _all_of(self, key: str, text: str) -> str:
        if text not in _KINDS[key]:
            raise self._unread(f"{key}={text}")
        return _KINDS[key][text]

    def _parts_of(self, key: str, text: str, share: float) -> dict[str, tuple[float, float]]:
        places, wanted = list(_KINDS[key]), text.split("+")
        if not set(wanted) <= set(places) or len(set(wanted)) < len(wanted):
            raise self._unread(f"{key}={text}")
        last = max(map(places.index, wanted)) + 1
        if last * share > 1:
            raise DataError(
                f"synth:{self.argument}",
                f"share {share:g} is too large: {places[last - 1]} is number {last} of its kind, and "
                "each has its own part of a draw",
                f"Use at most {1 / last:.2g}, or leave the share out for everybody",
            )
        starts = {name: share * places.index(name) for name in wanted}
        return {_KINDS[key][name]: (low, low + share) for name, low in starts.items()}

    def _unread(self, setting: str) -> DataError:
        kinds = ", ".join(f"{key}={'|'.join(names)}" for key, names in _KINDS.items())
        return DataError(
            f"synth:{self.argument}",
            f"cannot read {setting!r}",
            f"Write synth:n=3000,subjects=600,seed=0, and if you like {kinds}: one for everybody, or "
            "some joined by + with share=0.15",
        )

    def _own_glasses(self, index: int) -> bool:
        """Whether no frame is put on in picture `index`: there is one, or a child too young for it."""
        plain = SynthSource(",".join(f"{name}={value}" for name, value in self.options.items()))
        own: bool = plain.params(index).identity == self.params(index).identity
        return own

    def _has(self, key: str, index: int) -> str:
        """What picture `index` shows of a kind, or "none"."""
        if (parts := self._mixed.get(key)) is None:
            return "none"
        draw = np.random.default_rng([self.options["seed"], _STREAMS[key], index]).random()
        return next((name for name, (low, high) in parts.items() if low <= draw < high), "none")

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
        worn, style = self._has("wears", index), self._has("style", index)
        if worn == GLASSES:
            face = faces.with_glasses(face, np.random.default_rng([seed, _FRAMES, index]))
            worn = "none"
        return face if worn == style == "none" else replace(face, wears=worn, style=style)

    def captions(self, sample: Sample, seed: int, variants: int) -> tuple[str, ...]:
        """`variants` prompts of one face: everything about it first, then drawn wordings (`seed`
        draws, not the spec's).
        """
        face = self.params(sample.payload)
        attributes = _faces().attributes_of(face)
        draws = (
            np.random.default_rng([seed, 5, sample.payload, variant])
            for variant in range(1, variants)
        )
        more = "".join(f", {name}" for name in (face.wears, face.style) if name != "none")
        return tuple(prompt_of(attributes, rng) + more for rng in (None, *draws))

    def fingerprint(self, sample: Sample) -> bytes:
        """Hash of the recipe: seed, people, index and the version of the drawing."""
        text = f"{self.options['seed']}/{self.options['subjects']}/{sample.payload}/{_renderer()}"
        for key in _KINDS:
            name = self._has(key, sample.payload)
            if name == GLASSES and self._own_glasses(sample.payload):
                continue
            text += "" if name == "none" else f"/{name}"
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
