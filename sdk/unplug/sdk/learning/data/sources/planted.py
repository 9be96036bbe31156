"""Other data with canary people in them: the ages of some are wrong, and the pictures are as they
were.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unplug.core import STRICT, DataError, read_dataclass

from ..source import Listing, Sample, Source, existing_dir, parse_spec

FILE = "planted.json"
MAX_BYTES = 64 * 2**20
KIND = "canaries"
OLDEST = 130.0
_AGAIN = "Plant them again: python -m benchmarks.studies canaries plant"


@dataclass(frozen=True, kw_only=True)
class Planted:
    """``unplug-planted/1``: which pictures have a wrong age. Who of them is trained on stands in
    the split next to it alone.

    Args:
        data: the data spec that they are planted in.
        ages: id to the age that is given in the place of the true one.
        seed: the seed of the wrong ages.
    """

    __pydantic_config__: ClassVar = STRICT

    data: str
    ages: dict[str, float]
    seed: int
    schema: Literal["unplug-planted/1"] = "unplug-planted/1"


class CanariesSource:
    """``canaries:DIR``: a folder that ``python -m benchmarks.studies canaries plant`` made.

    Args:
        argument: the folder.

    Raises:
        DataError: no such folder, or its table of wrong ages is not whole; canaries in data that
            hold canaries already.
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, KIND)
        self.where = f"{KIND}:{self.root}"
        if not (self.root / FILE).is_file():
            raise DataError(self.where, f"it holds no {FILE}", _AGAIN)
        self.planted = read_dataclass(Planted, self.root / FILE, DataError, max_bytes=MAX_BYTES)
        if self.planted.data.partition(":")[0].strip() == KIND:
            raise DataError(
                self.where,
                "it plants canaries in data that have some already",
                "Plant them in the data themselves",
            )
        if bad := sorted(
            name for name, age in self.planted.ages.items() if not 0.0 <= age <= OLDEST
        ):
            raise DataError(
                self.where, f"an age is outside 0 to {OLDEST:g} years (first: {bad[0]})", _AGAIN
            )

    @cached_property
    def pictures_of(self) -> Source:
        """The data in which they are planted, whose pictures these are."""
        return parse_spec(self.planted.data)

    @property
    def parallel(self) -> Literal["thread", "process"]:
        """How pictures are decoded side by side: as the data do in which the canaries are planted."""
        return self.pictures_of.parallel

    def listing(self) -> Listing:
        """The data's samples, the planted ones under their wrong ages."""
        listing, ages = self.pictures_of.listing(), self.planted.ages
        if lost := len(ages.keys() - {sample.id for sample in listing.samples}):
            why = f"{lost} of its {len(ages)} canary pictures are not in {self.planted.data}"
            raise DataError(self.where, why, _AGAIN)
        samples = tuple(
            replace(item, age=ages[item.id]) if item.id in ages else item
            for item in listing.samples
        )
        return replace(listing, samples=samples)

    def fingerprint(self, sample: Sample) -> bytes:
        """The data's own fingerprint, which says nothing of the age."""
        return self.pictures_of.fingerprint(sample)

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """A picture (size, size, 3), as the data give it in which the canaries are planted."""
        return self.pictures_of.decode(sample, size)
