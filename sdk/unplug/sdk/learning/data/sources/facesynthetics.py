"""Microsoft Face Synthetics: rendered faces with landmarks; no ages, every picture its own subject."""

from __future__ import annotations

import re

from ..source import Listing, Sample, existing_dir, not_empty
from .files import FileSource
from .listed import image_files

_IMAGE, _PARTS = re.compile(r"^\d{6}\.png$"), re.compile(r"^\d{6}_seg\.png$")


class FaceSyntheticsSource(FileSource):
    """``facesynthetics:DIR``: ``000000.png`` (the ``_seg.png`` and ``_ldmks.txt`` beside it are not
    images of faces).

    Reference:
        Wood et al., Fake It Till You Make It, 2021.
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "facesynthetics")

    def listing(self) -> Listing:
        """All pictures of the folder; the data set gives no labels."""
        found, samples = image_files(self.root), []
        for path in found.files:
            if _IMAGE.match(path.name):
                samples.append(Sample(id=path.name, payload=path, subject=path.stem))
            elif _PARTS.match(path.name):
                found.leave(found.name(path), "which part of the face each pixel shows")
            else:
                found.refuse(found.name(path), "its name is not six digits and .png")
        not_empty(
            samples,
            found.problems,
            f"facesynthetics:{self.root}",
            "Give the folder that holds 000000.png",
            found.left_out,
        )
        return Listing(
            samples=tuple(samples), problems=tuple(found.problems), left_out=found.left_out
        )
