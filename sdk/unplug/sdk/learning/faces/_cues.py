"""Age in years -> how strongly each sign of age shows.

Nobody shows their age exactly. Each group of cues sees its own apparent age: the true one, plus
what this person always shows (`Identity.age_offset`, `cue_offsets`), plus this image's own
`AgeJitter`. The shifts are given in years at mid-life and shrink towards birth, where a year
changes a face most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._types import AgeJitter, Identity

# Age (years) at which the shifts reach their nominal size; below it they shrink in proportion, to
# this floor.
_FULL_SHIFT_AGE = 34.0
_LEAST_SHIFT = 0.1


@dataclass(frozen=True, kw_only=True)
class AgeCues:
    """Strengths, most of them 0..1.

    Args:
        baby: 1 at birth, 0.1 at fifteen. mature: 0 before puberty, 1 from the early twenties.
        lines, folds, crow: Forehead lines, nasolabial folds, crow's feet. bags: Under the eyes.
            neck: Lines there.
        sag: Jowls and hooded lids. hollow: Cheeks and temples. thin_lips: Loss of lip volume.
        growth: Factor on nose and ears. grey: Share of grey hair. recede: Hairline; thin: Hair
            density lost.
        fuzz: 1 where only baby hair grows. spots: Age spots. rough: Skin texture. dull: Loss of
            colour.
        beard: How much beard can grow.
    """

    baby: float
    mature: float
    lines: float
    folds: float
    crow: float
    bags: float
    neck: float
    sag: float
    hollow: float
    thin_lips: float
    growth: float
    grey: float
    recede: float
    thin: float
    fuzz: float
    spots: float
    rough: float
    dull: float
    beard: float


def ramp(x: float, low: float, high: float) -> float:
    """0 below `low`, 1 above `high`, straight between."""
    return min(max((x - low) / (high - low), 0.0), 1.0)


def smooth(x: float, low: float, high: float) -> float:
    """Like `ramp`, with an easy start and end."""
    t = ramp(x, low, high)
    return t * t * (3.0 - 2.0 * t)


def age_cues(identity: Identity, age: float, jitter: AgeJitter) -> AgeCues:
    """Cue strengths of one person at one age in one image."""
    weight = max(_LEAST_SHIFT, min(1.0, age / _FULL_SHIFT_AGE))
    base = identity.age_offset
    o = identity.cue_offsets
    shape, lines, sag, hair, marks = (
        max(0.0, age + weight * (base + offset + shift))
        for offset, shift in zip(
            o,
            (jitter.proportions, jitter.lines, jitter.sag, jitter.hair, jitter.marks),
            strict=True,
        )
    )
    bald = identity.hairline
    return AgeCues(
        baby=math.exp(-shape / 6.5),
        mature=smooth(shape, 9.0, 21.0),
        lines=ramp(lines, 21.0, 84.0),
        folds=ramp(lines, 18.0, 80.0),
        crow=ramp(lines, 24.0, 82.0),
        bags=ramp(lines, 20.0, 80.0),
        neck=ramp(lines, 40.0, 85.0),
        sag=ramp(sag, 24.0, 86.0),
        hollow=ramp(sag, 40.0, 88.0),
        thin_lips=ramp(sag, 20.0, 84.0),
        growth=1.0 + 0.27 * ramp(sag, 18.0, 90.0),
        grey=smooth(hair, identity.grey_age - 25.0, identity.grey_age + 25.0),
        recede=bald * smooth(hair, 22.0, 74.0),
        thin=(0.25 + 0.75 * bald) * ramp(hair, 35.0, 88.0),
        fuzz=1.0 - smooth(hair, 0.5, 3.2),
        spots=ramp(marks, 48.0, 86.0),
        rough=ramp(marks, 20.0, 86.0),
        dull=ramp(marks, 25.0, 88.0),
        beard=identity.beard * smooth(hair, 16.0, 22.0),
    )
