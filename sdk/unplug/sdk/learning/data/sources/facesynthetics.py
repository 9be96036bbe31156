"""Microsoft Face Synthetics: rendered faces with landmarks; no ages, every picture its own subject."""

from __future__ import annotations

import re

from ..source import Listing, Sample
from .listed import FolderSource, image_files

_IMAGE, _PARTS = re.compile(r"^\d{6}\.png$"), re.compile(r"^\d{6}_seg\.png$")


class FaceSyntheticsSource(FolderSource):
    """``facesynthetics:DIR``: ``000000.png`` (the ``_seg.png`` and ``_ldmks.txt`` next to it are
    not images of faces).

    Reference:
        Wood et al., Fake It Till You Make It, 2021.
    """

    kind, expected = "facesynthetics", "Give the folder that holds 000000.png"

    def listing(self) -> Listing:
        """All pictures of the folder; the data set gives no labels."""
        listed = image_files(self.root)
        for path in listed.files:
            if _IMAGE.match(path.name):
                listed.samples.append(Sample(id=path.name, payload=path, subject=path.stem))
            elif _PARTS.match(path.name):
                listed.leave(listed.name(path), "which part of the face each pixel shows")
            else:
                listed.refuse(listed.name(path), "its name is not six digits and .png")
        return self.of(listed)
