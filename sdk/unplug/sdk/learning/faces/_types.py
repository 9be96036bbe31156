"""What a synthetic face is made of: frozen descriptions, and nothing that draws.

Lengths are in head units: 1 is half the width of the head at the cheekbones. Multipliers are near
1. Angles are degrees. "Right" is the subject's right, which is the left of the image.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ._palettes import (
    BACKGROUNDS,
    COLLARS,
    COLOURS,
    DRAWN,
    EYES,
    FRAMES,
    HAIR,
    HAIR_STYLES,
    WORN,
)

MAX_AGE = 90.0
_MAX_ANGLE = 60.0


def check_range(what: str, value: float, low: float, high: float, why: str) -> None:
    """Raise a ValueError that says what is wrong, why it matters and what to do."""
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{what} is {value!r}: {why}; pass a number from {low:g} to {high:g}.")


def check_name(what: str, value: str, known: Iterable[str]) -> None:
    """Raise a ValueError where a name is not one of those that can be drawn."""
    names = tuple(known)
    if value not in names:
        raise ValueError(
            f"{what} is {value!r}: nothing of that name can be drawn; pass one of "
            f"{', '.join(names)}."
        )


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One person: all that stays the same from one image to the next.

    Args:
        seed: Places of moles and freckles, run of the hair.
        skin: Skin tone, 0 (porcelain) to 1 (deep). undertone: -1 (pink) to 1 (golden).
        face_length, jaw, chin, cheeks, forehead: Proportions of the head, 0.85..1.15.
        eye_size, eye_gap: Multipliers, 0.85..1.2. eye_tilt: -1 (outer corner down) to 1 (up).
        eye_colour: Name of an iris colour.
        nose_length, nose_width, mouth_width, lip_fullness, ear_size: Multipliers, 0.75..1.35.
        brow_thickness, brow_arch, brow_height: Multipliers, 0.6..1.4.
        hair_colour, hair_style: Names; a grown-up's style (babies have fuzz).
        hairline: Tendency to lose hair, 0 (never) to 1 (early).
        grey_age: Age in years at which half the hair has turned grey.
        beard: 0 (none), 0.5 (stubble) to 1 (full), shown from about 19 years on.
        glasses: Name of a frame, or "none". moles: How many, 0..4. freckles: 0..1.
        clothes: Name of the colour this person likes to wear.
        age_offset: How much older (years, at mid-life) this person looks than their age.
        cue_offsets: The same per cue group (proportions, lines, sag, hair, marks).
    """

    seed: int
    skin: float
    undertone: float
    face_length: float
    jaw: float
    chin: float
    cheeks: float
    forehead: float
    eye_size: float
    eye_gap: float
    eye_tilt: float
    eye_colour: str
    nose_length: float
    nose_width: float
    mouth_width: float
    lip_fullness: float
    ear_size: float
    brow_thickness: float
    brow_arch: float
    brow_height: float
    hair_colour: str
    hair_style: str
    hairline: float
    grey_age: float
    beard: float
    glasses: str
    moles: int
    freckles: float
    clothes: str
    age_offset: float
    cue_offsets: tuple[float, float, float, float, float]

    def __post_init__(self) -> None:
        check_name("Identity.eye_colour", self.eye_colour, EYES)
        check_name("Identity.hair_colour", self.hair_colour, HAIR)
        check_name("Identity.hair_style", self.hair_style, HAIR_STYLES)
        check_name("Identity.glasses", self.glasses, ("none", *FRAMES))
        check_name("Identity.clothes", self.clothes, COLOURS)


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Head rotation in degrees, each within ±60 (drawn well within ±35).

    Args:
        yaw: Positive looks to the right of the image. pitch: Positive looks up.
        roll: Positive tilts clockwise as seen in the image.
    """

    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0

    def __post_init__(self) -> None:
        for name in ("yaw", "pitch", "roll"):
            value = float(getattr(self, name))
            check_range(
                f"Pose.{name}",
                value,
                -_MAX_ANGLE,
                _MAX_ANGLE,
                "a face seen from further round has no features to draw",
            )


@dataclass(frozen=True, kw_only=True)
class Expression:
    """A named point in a continuous space.

    Args:
        smile: -1 (corners down) to 1. jaw: Mouth opening, 0..1. brow: -1 (lowered) to 1 (raised).
        knit: Inner brows drawn down and together, -1 (up, sad) to 1 (angry). eyes: Opening,
            0.5..1.3 (1 at rest).
    """

    name: str = "neutral"
    smile: float = 0.0
    jaw: float = 0.0
    brow: float = 0.0
    knit: float = 0.0
    eyes: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Light:
    """The position of the light.

    Args:
        azimuth: Degrees, positive from the right of the image. elevation: Degrees above the eyes.
        strength: Contrast, 0.5..1.4. warmth: -1 (cool) to 1 (warm). exposure: Brightness, 0.7..1.2.
    """

    azimuth: float = -25.0
    elevation: float = 35.0
    strength: float = 1.0
    warmth: float = 0.1
    exposure: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Background:
    """The background: `kind` is plain, gradient, glow, stripes, dots, bokeh or hills; colours
    are palette names.
    """

    kind: str = "plain"
    colour: str = "sage"
    accent: str = "cream"
    seed: int = 0

    def __post_init__(self) -> None:
        check_name("Background.kind", self.kind, BACKGROUNDS)
        check_name("Background.colour", self.colour, COLOURS)
        check_name("Background.accent", self.accent, COLOURS)


@dataclass(frozen=True, kw_only=True)
class Camera:
    """How it was photographed.

    Args:
        zoom: Head size, 0.9..1.08. shift_x, shift_y: Framing, fraction of the image side, ±0.04.
        noise: Sensor noise, standard deviation in grey levels, 0..8. blur: Fraction of the image
            side, 0..0.012.
        seed: The seed of the noise.
    """

    zoom: float = 1.0
    shift_x: float = 0.0
    shift_y: float = 0.0
    noise: float = 0.0
    blur: float = 0.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class AgeJitter:
    """How much older each group of age cues looks in this one image, years at mid-life (good or bad
    night).
    """

    proportions: float = 0.0
    lines: float = 0.0
    sag: float = 0.0
    hair: float = 0.0
    marks: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FaceParams:
    """All of one image: drawing it needs nothing else.

    Args:
        identity: The person. age: Years, 0..90.
        pose, expression, light, background, camera, jitter: See their classes.
        clothes: Palette name of the clothes' colour. collar: crew, vee or shirt.
        wears: one of `WORN`, or "none". style: one of `DRAWN`, or "none".
    """

    identity: Identity
    age: float
    pose: Pose = field(default_factory=Pose)
    expression: Expression = field(default_factory=Expression)
    light: Light = field(default_factory=Light)
    background: Background = field(default_factory=Background)
    camera: Camera = field(default_factory=Camera)
    jitter: AgeJitter = field(default_factory=AgeJitter)
    clothes: str = "navy"
    collar: str = "crew"
    wears: str = "none"
    style: str = "none"

    def __post_init__(self) -> None:
        check_range(
            "FaceParams.age",
            self.age,
            0.0,
            MAX_AGE,
            "the ageing cues are defined for a human life span in years",
        )
        check_name("FaceParams.clothes", self.clothes, COLOURS)
        check_name("FaceParams.collar", self.collar, COLLARS)
        check_name("FaceParams.wears", self.wears, ("none", *WORN))
        check_name("FaceParams.style", self.style, ("none", *DRAWN))


@dataclass(frozen=True, kw_only=True)
class RenderedFace:
    """An image and where its landmarks are.

    Args:
        image: (size, size, 3) uint8 RGB, contiguous.
        landmarks: (K, 2) float32, x and y in pixels (0 is the outer edge of the first pixel), in
            the order of `LANDMARK_NAMES`.
    """

    image: NDArray[np.uint8]
    landmarks: NDArray[np.float32]
