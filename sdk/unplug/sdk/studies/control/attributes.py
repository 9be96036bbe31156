"""The words that a prompt names of a synthetic face, and where its renderer put the landmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from unplug.sdk.data import Dataset, SynthSource, parse_spec

ATTRIBUTES = (
    "age", "expression", "skin", "hair colour", "hair style", "eyes", "beard", "glasses", "clothes", "background colour",
    "background pattern",
)  # fmt: skip
NOT_NAMED = {"beard": "none", "glasses": "none"}
"""Words that no prompt says: it leaves such an attribute out."""
RECEDING = "receding "


def face_words(attributes: Mapping[str, str]) -> dict[str, str]:
    """A word for each attribute that a picture shows; a bald head has no hair colour.

    Args:
        attributes: as `unplug.sdk.faces.FaceParams.attributes` gives them.

    Example:
        >>> words = face_words({"age": "adult", "background": "sky blue dots", "beard": "none", "clothes": "navy",
        ...     "skin": "fair", "eyes": "blue", "expression": "sad", "glasses": "none", "hair_colour": "red",
        ...     "hair_style": "receding afro"})
        >>> words["hair style"], words["background colour"], words["background pattern"]
        ('afro', 'sky blue', 'dots')
    """
    colour, _, pattern = attributes["background"].rpartition(" ")
    words = {name: attributes[name] for name in ("age", "expression", "skin", "eyes", "beard", "glasses", "clothes")}
    words |= {"background colour": colour, "background pattern": pattern}
    words["hair style"] = attributes["hair_style"].removeprefix(RECEDING)
    if words["hair style"] != "bald":
        words["hair colour"] = attributes["hair_colour"]
    return words


def named_words(words: Mapping[str, str]) -> dict[str, str]:
    """Those of `face_words` that the face's full prompt names.

    Example:
        >>> named_words({"age": "baby", "beard": "none", "glasses": "gold glasses"})
        {'age': 'baby', 'glasses': 'gold glasses'}
    """
    return {name: word for name, word in words.items() if word != NOT_NAMED.get(name)}


def words_of(dataset: Dataset) -> tuple[dict[str, str], ...] | None:
    """`face_words` of every sample in order, or None where the data has no attributes."""
    source = parse_spec(dataset.spec)
    if not isinstance(source, SynthSource):
        return None
    return tuple(face_words(source.params(sample.payload).attributes()) for sample in dataset.samples)


def drawn_landmarks(dataset: Dataset, positions: Sequence[int]) -> NDArray[np.float32] | None:
    """Where the renderer put its landmarks (N, K, 2) in pixels, by `LANDMARK_NAMES`; None where nothing was drawn."""
    source = parse_spec(dataset.spec)
    if not isinstance(source, SynthSource):
        return None
    from unplug.sdk import faces

    params = (source.params(dataset.samples[position].payload) for position in positions)
    return np.stack([faces.render(one, dataset.size).landmarks for one in params])
