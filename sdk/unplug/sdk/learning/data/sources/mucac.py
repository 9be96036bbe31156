"""MUCAC: CelebA-HQ faces with identities; gender, smile and youth as one of eight joint classes."""

from __future__ import annotations

from pathlib import Path

from ..source import Listing, Sample, SampleProblem, existing_dir, not_empty
from .age_tables import text_lines
from .files import FileSource

# columns of CelebA-HQ-attribute.txt, file name first
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


class MUCACSource(FileSource):
    """``mucac:DIR``: holds ``CelebA-HQ-identity.txt``, ``CelebA-HQ-attribute.txt`` and
    ``CelebA-HQ-img/``.

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities,
        2023, section 3.
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "mucac")

    def listing(self) -> Listing:
        """Samples with joint attribute class and identity."""
        identities = dict(
            line.split()[:2]
            for line in _lines(self.root / "CelebA-HQ-identity.txt")
            if len(line.split()) >= 2
        )
        folder = next(
            (
                self.root / name
                for name in ("CelebA-HQ-img", "images")
                if (self.root / name).is_dir()
            ),
            self.root,
        )
        samples: list[Sample] = []
        problems: list[SampleProblem] = []
        for line in _lines(self.root / "CelebA-HQ-attribute.txt")[2:]:
            fields = line.split()
            if len(fields) <= ATTRIBUTES[-1][1] or Path(fields[0]).name != fields[0]:
                problems.append(
                    SampleProblem(
                        id=fields[0] if fields else "?", reason="not a line of 40 attributes"
                    )
                )
                continue
            label = sum(
                1 << bit for bit, (_, column) in enumerate(ATTRIBUTES) if fields[column] == "1"
            )
            subject = identities.get(fields[0])
            samples.append(
                Sample(id=fields[0], payload=folder / fields[0], label=label, subject=subject)
            )
        not_empty(
            samples, problems, f"mucac:{self.root}", "Give the folder with CelebA-HQ-attribute.txt"
        )
        return Listing(samples=tuple(samples), problems=tuple(problems), classes=CLASSES)


def _lines(path: Path) -> list[str]:
    return list(text_lines(path, "Give the folder with CelebA-HQ's identity and attribute files"))
