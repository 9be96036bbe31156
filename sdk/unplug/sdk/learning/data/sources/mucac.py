"""MUCAC: CelebA-HQ faces with identities; gender, smile and youth as one of eight joint classes."""

from __future__ import annotations

from pathlib import Path

from ..source import Listing, Sample
from .age_tables import text_lines
from .listed import FolderSource, Listed

# Numbers of the 40 attributes in a line of CelebA-HQ-attribute.txt; CelebA counts from 1.
ATTRIBUTES = (
    ("male", 21),
    ("smiling", 32),
    ("young", 40),
)
CLASSES = tuple(
    ", ".join(
        name if number >> bit & 1 else f"not {name}" for bit, (name, _) in enumerate(ATTRIBUTES)
    )
    for number in range(8)
)


class MUCACSource(FolderSource):
    """``mucac:DIR``: holds ``CelebA-HQ-identity.txt``, ``CelebA-HQ-attribute.txt`` and
    ``CelebA-HQ-img/``.

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities,
        2023, section 3.
    """

    kind, expected = "mucac", "Give the folder with CelebA-HQ-attribute.txt"

    def listing(self) -> Listing:
        """Samples with joint attribute class and identity."""
        identities = dict(
            line.split()[:2]
            for line in _lines(self.root / "CelebA-HQ-identity.txt")
            if len(line.split()) >= 2
        )
        places = [self.root / name for name in ("CelebA-HQ-img", "images")]
        folder = next((place for place in places if place.is_dir()), self.root)
        listed = Listed(root=self.root)
        for line in _lines(self.root / "CelebA-HQ-attribute.txt")[2:]:
            name, *fields = line.split()
            if len(fields) < ATTRIBUTES[-1][1] or Path(name).name != name:
                listed.refuse(name, "not a line of 40 attributes")
                continue
            label = sum(
                1 << bit for bit, (_, column) in enumerate(ATTRIBUTES) if fields[column - 1] == "1"
            )
            subject = identities.get(name)
            sample = Sample(id=name, payload=folder / name, label=label, subject=subject)
            listed.samples.append(sample)
        return self.of(listed, classes=CLASSES)


def _lines(path: Path) -> list[str]:
    return list(text_lines(path, "Give the folder with CelebA-HQ's identity and attribute files"))
