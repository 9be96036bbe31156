"""Microsoft Face Synthetics: rendered faces with landmarks; no ages, every picture its own subject."""

from __future__ import annotations

import re

from ..source import Listing, Sample, existing_dir, not_empty
from .files import FileSource, image_files

_IMAGE = re.compile(r"^\d{6}\.png$")


class FaceSyntheticsSource(FileSource):
    """``facesynthetics:DIR``: ``000000.png`` (the ``_seg.png`` and ``_ldmks.txt`` beside it are not images of faces).

    Reference:
        Wood et al., Fake It Till You Make It, 2021.
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "facesynthetics")

    def listing(self) -> Listing:
        """All pictures of the folder; the data set gives no labels."""
        samples = tuple(
            Sample(id=path.name, payload=path, subject=path.stem) for path in image_files(self.root) if _IMAGE.match(path.name)
        )
        not_empty(samples, (), f"facesynthetics:{self.root}", "Give the folder that holds 000000.png")
        return Listing(samples=samples)
