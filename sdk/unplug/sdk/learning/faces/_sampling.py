"""Draw people and pictures of them at random."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ._palettes import BACKGROUNDS, COLLARS, COLOURS, EYES, FRAMES, HAIR, HAIR_STYLES
from ._types import (
    MAX_AGE,
    AgeJitter,
    Background,
    Camera,
    Expression,
    FaceParams,
    Identity,
    Light,
    Pose,
    check_range,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

# Spread of the age cues, standard deviations in years at mid-life. Together they set how well age
# can be read at all: tuned so that a small MobileNet stands at about 5 years mean absolute error on
# people it never saw.
_PERSON_SPREAD = 1.8
_PERSON_CUE_SPREAD = 2.0
_IMAGE_CUE_SPREAD = 1.4

_STYLE_WEIGHTS = (0.12, 0.12, 0.07, 0.08, 0.09, 0.06, 0.09, 0.07, 0.09, 0.09, 0.06, 0.04, 0.02)
# Styles whose wearers keep most of their hair.
_KEEPS_HAIR = ("bob", "bun", "long", "ponytail")
# Spread, least and most of each multiplier.
_PROPORTIONS = {
    "face_length": (0.04, 0.9, 1.12),
    "jaw": (0.055, 0.88, 1.12),
    "chin": (0.08, 0.85, 1.18),
    "cheeks": (0.08, 0.85, 1.18),
    "forehead": (0.05, 0.9, 1.1),
    "eye_size": (0.06, 0.86, 1.2),
    "eye_gap": (0.045, 0.91, 1.1),
    "nose_length": (0.07, 0.85, 1.16),
    "nose_width": (0.12, 0.78, 1.3),
    "mouth_width": (0.08, 0.84, 1.18),
    "lip_fullness": (0.16, 0.65, 1.4),
    "ear_size": (0.12, 0.78, 1.3),
    "brow_thickness": (0.2, 0.6, 1.5),
    "brow_arch": (0.3, 0.4, 1.6),
    "brow_height": (0.1, 0.8, 1.2),
}
# Weights of the iris colours, for light and for dark skin.
_LIGHT_EYES = (0.3, 0.2, 0.15, 0.1, 0.15, 0.1)
_DARK_EYES = (0.45, 0.45, 0.1, 0.0, 0.0, 0.0)
_BACK_COLOURS = (
    "cream",
    "sand",
    "peach",
    "sage",
    "mint",
    "sky blue",
    "lavender",
    "pink",
    "grey",
    "teal",
    "mustard",
    "coral",
    "blue",
)

EXPRESSIONS: Mapping[str, Expression] = MappingProxyType(
    {
        "neutral": Expression(name="neutral"),
        "smile": Expression(name="smile", smile=0.85, jaw=0.08, eyes=0.94, brow=0.15),
        "laugh": Expression(name="laugh", smile=1.0, jaw=0.55, eyes=0.82, brow=0.3),
        "surprised": Expression(name="surprised", jaw=0.75, brow=1.0, eyes=1.25),
        "frown": Expression(name="frown", smile=-0.55, knit=0.75, brow=-0.3, eyes=0.9),
        "sad": Expression(name="sad", smile=-0.7, knit=-0.8, eyes=0.85),
        "speaking": Expression(name="speaking", jaw=0.35, smile=0.15),
    }
)
_EXPRESSION_WEIGHTS = (0.28, 0.36, 0.12, 0.07, 0.05, 0.05, 0.07)


def _pick(
    rng: np.random.Generator, names: tuple[str, ...], weights: tuple[float, ...] | None = None
) -> str:
    if weights is None:
        return names[int(rng.integers(len(names)))]
    total = sum(weights)
    return names[int(rng.choice(len(names), p=[w / total for w in weights]))]


def _hair_for(rng: np.random.Generator, skin: float) -> str:
    """Hair colours follow skin tones loosely, as they do in people."""
    dark = min(1.0, 0.25 + 1.2 * skin)
    weights = (dark, dark, 0.8, 0.5, 0.75, 0.3, 0.32, 0.3)
    light_share = max(0.05, 1.0 - 1.8 * skin)
    return _pick(
        rng, tuple(HAIR), tuple(w if i < 2 else w * light_share for i, w in enumerate(weights))
    )


def _proportions(rng: np.random.Generator) -> dict[str, float]:
    """Multipliers of one head, normal around 1 and clipped."""
    return {
        name: float(min(max(1.0 + spread * rng.standard_normal(), low), high))
        for name, (spread, low, high) in _PROPORTIONS.items()
    }


def sample_identity(rng: np.random.Generator) -> Identity:
    """Draw one person. The same generator state gives the same person."""
    skin = float(rng.random())
    grown_beard = rng.random() < 0.3
    style = _pick(rng, HAIR_STYLES, _STYLE_WEIGHTS)
    if grown_beard and style.startswith(("bob", "bun")):
        style = "short hair"
    cue = [float(v) for v in _PERSON_CUE_SPREAD * rng.standard_normal(5)]
    return Identity(
        **_proportions(rng),
        seed=int(rng.integers(2**31)),
        skin=skin,
        undertone=float(rng.uniform(-1.0, 1.0)),
        eye_tilt=float(rng.uniform(-1.0, 1.0)),
        eye_colour=_pick(rng, tuple(EYES), _LIGHT_EYES if skin < 0.5 else _DARK_EYES),
        hair_colour=_hair_for(rng, skin),
        hair_style=style,
        hairline=float(
            rng.uniform(0.0, 0.3) if style.startswith(_KEEPS_HAIR) else rng.beta(1.1, 1.6)
        ),
        grey_age=float(min(max(54.0 + 5.0 * rng.standard_normal(), 42.0), 68.0)),
        beard=float(rng.uniform(0.3, 1.0)) if grown_beard else 0.0,
        glasses=_pick(rng, tuple(FRAMES)) if rng.random() < 0.16 else "none",
        moles=int(rng.integers(0, 4)),
        freckles=float(rng.random() * max(0.0, 1.0 - 2.0 * skin)) if rng.random() < 0.4 else 0.0,
        clothes=_pick(rng, tuple(COLOURS)),
        age_offset=float(_PERSON_SPREAD * rng.standard_normal()),
        cue_offsets=(cue[0], cue[1], cue[2], cue[3], cue[4]),
    )


def _sample_expression(rng: np.random.Generator) -> Expression:
    """A named expression, a little weaker or stronger than its name's own point."""
    base = EXPRESSIONS[_pick(rng, tuple(EXPRESSIONS), _EXPRESSION_WEIGHTS)]
    k = float(rng.uniform(0.7, 1.05))

    def wobble(spread: float) -> float:
        return float(spread * rng.uniform(-1.0, 1.0))

    return Expression(
        name=base.name,
        smile=min(max(k * base.smile + 0.06 + wobble(0.12), -1.0), 1.0),
        jaw=min(max(k * base.jaw, 0.0), 1.0),
        brow=min(max(k * base.brow + wobble(0.15), -1.0), 1.0),
        knit=min(max(k * base.knit + wobble(0.08), -1.0), 1.0),
        eyes=min(max(1.0 + k * (base.eyes - 1.0) + wobble(0.05), 0.6), 1.3),
    )


def _sample_light(rng: np.random.Generator) -> Light:
    return Light(
        azimuth=float(rng.uniform(-50.0, 50.0)),
        elevation=float(rng.uniform(10.0, 60.0)),
        strength=float(rng.uniform(0.65, 1.1)),
        warmth=float(rng.uniform(-0.5, 0.8)),
        exposure=float(rng.uniform(0.94, 1.12)),
    )


def _sample_camera(rng: np.random.Generator) -> Camera:
    return Camera(
        zoom=float(rng.uniform(0.93, 1.05)),
        shift_x=float(rng.uniform(-0.02, 0.02)),
        shift_y=float(rng.uniform(-0.015, 0.015)),
        noise=float(rng.uniform(0.0, 4.0)),
        blur=float(rng.uniform(0.0, 0.006)) if rng.random() < 0.4 else 0.0,
        seed=int(rng.integers(2**31)),
    )


def sample_face(
    identity: Identity, age: float, rng: np.random.Generator, *, frontal: bool = False
) -> FaceParams:
    """Draw one picture of a person.

    Args:
        identity: The person. age: Years, 0..90. rng: The source of all randomness.
        frontal: Face the camera within ±3 degrees (else yaw to ±30, pitch to ±20, roll to ±20,
            mostly less).

    Raises:
        ValueError: The age is outside 0..90.
    """
    check_range(
        "age", age, 0.0, MAX_AGE, "the ageing cues are defined for a human life span in years"
    )
    spread = (1.2, 1.2, 1.2, 3.0, 3.0, 3.0) if frontal else (10.0, 6.0, 5.0, 30.0, 20.0, 20.0)
    yaw, pitch, roll = (
        float(min(max(s * rng.standard_normal(), -limit), limit))
        for s, limit in zip(spread[:3], spread[3:], strict=True)
    )
    colour = _pick(rng, _BACK_COLOURS)
    accent = _pick(rng, tuple(c for c in (*_BACK_COLOURS, "white", "navy") if c != colour))
    jitter = _IMAGE_CUE_SPREAD * rng.standard_normal(5)
    return FaceParams(
        identity=identity,
        age=float(age),
        pose=Pose(yaw=yaw, pitch=pitch, roll=roll),
        expression=_sample_expression(rng),
        light=_sample_light(rng),
        background=Background(
            kind=_pick(rng, BACKGROUNDS),
            colour=colour,
            accent=accent,
            seed=int(rng.integers(2**31)),
        ),
        camera=_sample_camera(rng),
        jitter=AgeJitter(
            proportions=float(jitter[0]),
            lines=float(jitter[1]),
            sag=float(jitter[2]),
            hair=float(jitter[3]),
            marks=float(jitter[4]),
        ),
        clothes=identity.clothes if rng.random() < 0.6 else _pick(rng, tuple(COLOURS)),
        collar=_pick(rng, COLLARS),
    )
