"""Prompts for synthetic faces, made from their attributes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_PERSON = {
    "baby": "a baby",
    "child": "a child",
    "teenager": "a teenager",
    "young adult": "a young adult",
    "adult": "an adult",
    "middle-aged": "a middle-aged person",
    "elderly": "an elderly person",
}
_EXPRESSION = {
    "neutral": "neutral expression",
    "smile": "smiling",
    "laugh": "laughing",
    "surprised": "surprised",
    "frown": "frowning",
    "sad": "sad",
    "speaking": "speaking",
}
_OPENINGS = ("a portrait of", "a photo of", "a picture of", "the face of", "")
_LEAST = 0.3
"""The smallest share of details that a prompt keeps, drawn from it to 1: short prompts are learned,
and whole ones.
"""


def prompt_of(attributes: Mapping[str, str], rng: np.random.Generator | None = None) -> str:
    """A prompt that names a face's attributes.

    Args:
        attributes: the attributes of one face, as `unplug.sdk.learning.faces.FaceParams.attributes`
            gives them.
        rng: draws the opening, the order and what is left out; None names everything in a fixed
            order.

    Returns:
        One line of lower-case words.

    Example:
        >>> prompt_of({"age": "child", "background": "mint dots", "beard": "none", "clothes": "navy", "expression": "smile",
        ...            "eyes": "blue", "glasses": "none", "hair_colour": "red", "hair_style": "bob", "skin": "fair"})
        'a portrait of a child, smiling, red bob, fair skin, blue eyes, navy clothes, mint dots background'
    """
    details = _details(attributes)
    opening = _OPENINGS[0]
    if rng is not None:
        opening = _OPENINGS[int(rng.integers(len(_OPENINGS)))]
        keep = rng.uniform(_LEAST, 1.0)
        details = [
            details[int(index)] for index in rng.permutation(len(details)) if rng.random() < keep
        ]
    return ", ".join([f"{opening} {_PERSON[attributes['age']]}".strip(), *details])


def _details(attributes: Mapping[str, str]) -> list[str]:
    style = attributes["hair_style"]
    hair = "bald head" if style == "bald" else f"{attributes['hair_colour']} {style}"
    details = [
        _EXPRESSION[attributes["expression"]],
        hair,
        f"{attributes['skin']} skin",
        f"{attributes['eyes']} eyes",
        f"{attributes['clothes']} clothes",
        f"{attributes['background']} background",
    ]
    details += [attributes[name] for name in ("beard", "glasses") if attributes[name] != "none"]
    return details
