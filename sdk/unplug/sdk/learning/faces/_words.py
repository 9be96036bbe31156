"""A face in words, for prompts."""

from __future__ import annotations

from ._cues import age_cues
from ._palettes import skin_word
from ._types import FaceParams

_AGE_WORDS = (
    (2.0, "baby"),
    (13.0, "child"),
    (20.0, "teenager"),
    (30.0, "young adult"),
    (45.0, "adult"),
    (62.0, "middle-aged"),
)


def age_word(age: float) -> str:
    """The word for an age in years."""
    for limit, word in _AGE_WORDS:
        if age < limit:
            return word
    return "elderly"


def attributes_of(params: FaceParams) -> dict[str, str]:
    """Words for a prompt: age, hair, skin, eyes, expression, background, beard, glasses; always
    with the same keys.
    """
    person = params.identity
    cues = age_cues(person, params.age, params.jitter)
    colour = person.hair_colour
    if cues.grey > 0.85:
        colour = "white"
    elif cues.grey > 0.45:
        colour = "grey"
    style = person.hair_style
    if cues.fuzz > 0.5:
        style = "baby fuzz"
    elif cues.recede > 0.72 or (style == "bald" and params.age >= 18.0):
        style = "bald"
    elif cues.recede > 0.4:
        style = f"receding {style}"
    elif style == "bald":
        style = "buzz cut"
    beard = "none" if cues.beard < 0.2 else "stubble" if cues.beard < 0.6 else "beard"
    return {
        "age": age_word(params.age),
        "background": f"{params.background.colour} {params.background.kind}",
        "beard": beard,
        "clothes": params.clothes,
        "expression": params.expression.name,
        "eyes": person.eye_colour,
        "glasses": person.glasses if params.age >= 4.0 else "none",
        "hair_colour": colour,
        "hair_style": style,
        "skin": skin_word(person.skin),
    }
