"""UTKFace: age, sex and race in the file names, ``AGE_GENDER_RACE_TIMESTAMP.jpg``; subjects
unknown.
"""

from __future__ import annotations

import re

from ..source import Listing, Sample
from .listed import FolderSource, image_files

MAX_AGE = 122.0  # the oldest person on record
EYES = ((0.3045, 0.3037), (0.6831, 0.3037))
"""Medians over the 4,941 of 5,000 photographs in which MediaPipe finds a face."""
SEXES = {"0": "male", "1": "female"}
_TIMESTAMP = re.compile(r"[0-9]{14,}")
RACES = {"0": "White", "1": "Black", "2": "Asian", "3": "Indian", "4": "Others"}
"""In the words of the data set, whose annotators judged by the picture."""


class UTKFaceSource(FolderSource):
    """``utkface:DIR``.

    Example:
        >>> parse_age("29_0_1_20170104202114602.jpg.chip.jpg")
        29.0
        >>> parse_attributes("29_0_1_20170104202114602.jpg.chip.jpg")
        {'sex': 'male', 'race': 'Black'}

    Reference:
        Zhang et al., Age Progression/Regression by Conditional Adversarial Autoencoder, 2017,
        section 5.1.
    """

    kind = "utkface"
    expected = "Give the folder of files named AGE_GENDER_RACE_TIMESTAMP.jpg"

    def listing(self) -> Listing:
        """Samples with ages, sex and race; a file name without a plausible age is a problem."""
        listed = image_files(self.root)
        for path in listed.files:
            name = listed.name(path)
            with listed.reading(name):
                age, attributes = parse_age(path.name), parse_attributes(path.name)
                sample = Sample(id=name, payload=path, age=age, attributes=attributes)
                listed.samples.append(sample)
        return self.of(listed, eyes=EYES)


def parse_age(name: str) -> float:
    """Age in years, 0 to 122, at the front of a UTKFace file name; `ValueError` where there is
    none.
    """
    parts = name.split("_")
    without_race = len(parts) == 3 and _TIMESTAMP.match(parts[2]) is not None
    if not (len(parts) >= 4 or without_race) or not parts[0].isascii() or not parts[0].isdigit():
        raise ValueError("the file name is not AGE_GENDER_RACE_TIMESTAMP")
    if len(parts[0]) > 3 or float(parts[0]) > MAX_AGE:
        raise ValueError(f"age {parts[0]} in the file name is not plausible (0 to {MAX_AGE:.0f})")
    return float(parts[0])


def parse_attributes(name: str) -> dict[str, str]:
    """Sex and race after the age in a UTKFace file name; what is missing or odd there is left out:
    nobody knows it.

    Three files lack the race, and the timestamp stands in its place.

    Example:
        >>> parse_attributes("61_1_20170109142408075.jpg")
        {'sex': 'female'}
    """
    _, *codes = name.split("_")
    readings = (("sex", SEXES, codes[:1]), ("race", RACES, codes[1:2]))
    return {
        attribute: words[code[0]]
        for attribute, words, code in readings
        if code and code[0] in words
    }
