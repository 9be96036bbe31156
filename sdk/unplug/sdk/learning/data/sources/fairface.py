"""FairFace: faces with sex, race and a range of ages. A range is not an age: middles are read only
where somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ..source import Listing, Partition, Sample
from .age_tables import table_rows
from .files import below
from .listed import FolderSource, Listed

CLASSES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
AGE_EDGES = (0.0, 3.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 90.0)
"""Where the ranges begin; the last one is open, and 90 stands for its end."""
SEXES = {"Male": "male", "Female": "female"}
PARTS: tuple[tuple[Partition, str], ...] = (
    ("train", "fairface_label_train.csv"),
    ("test", "fairface_label_val.csv"),
)
"""The published validation set is what everybody tests on."""


class FairFaceSource(FolderSource):
    """``fairface:DIR``: the folder with ``fairface_label_train.csv`` and the pictures; ranges of
    ages are class labels.

    Reference:
        Karkkainen and Joo, FairFace: Face Attribute Dataset for Balanced Race, Gender, and Age,
        2021. Folders and tables: as the section on FairFace of MiVOLO's README (Kuprashevich and
        Tolstykh, 2023) draws them.
    """

    kind, expected = "fairface", "Give the folder with fairface_label_train.csv and train/"
    middles: ClassVar[bool] = False
    """Whether the middle of a range is given for an age."""

    def listing(self) -> Listing:
        """Samples with range, sex, race and partition."""
        base, listed = self._base(), Listed(root=self.root)
        columns = ("file", "age", "gender", "race")
        fix = "Give the folder that FairFace was unpacked to"
        for partition, file in PARTS:
            table = self.root / file
            for row in table_rows(table, str(table), fix, columns, needed="age"):
                name = row.get("file") or "?"
                with listed.reading(name):
                    listed.samples.append(self._sample(base, name, row, partition))
        return self.of(listed, classes=CLASSES, age_edges=AGE_EDGES if self.middles else None)

    def _sample(
        self, base: Path, name: str, row: Mapping[str, str], partition: Partition
    ) -> Sample:
        if row.get("age") not in CLASSES:
            raise ValueError(f"age {str(row.get('age'))[:20]!r} is none of its ranges")
        group = CLASSES.index(row["age"])
        # As long as the attributes of a table of one's own may be, see `csv.MAX_VALUE`.
        known = {"sex": SEXES.get(row.get("gender") or ""), "race": row.get("race")}
        return Sample(
            id=name,
            payload=below(base, name),
            label=group,
            age=(AGE_EDGES[group] + AGE_EDGES[group + 1]) / 2 if self.middles else None,
            partition=partition,
            attributes={key: value[:64] for key, value in known.items() if value},
        )

    def _base(self) -> Path:
        """Where ``train/1.jpg`` lies: in the folder itself, or in one named after the margin around
        the face.
        """
        places = [self.root, *sorted(self.root.glob("fairface-img-margin*"))]
        return next(
            (place for place in places if (place / "train").is_dir() or (place / "val").is_dir()),
            self.root,
        )


class FairFaceMiddlesSource(FairFaceSource):
    """``fairface-midpoints:DIR``: the middle of its range for everybody's age, as a choice of
    the caller.

    Training on middles works; numbers by year of age are refused.
    """

    middles = True
