"""FairFace: faces with sex, race and a range of ages. A range is no age: middles are read only
where somebody asks.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from ..source import Listing, Partition, Sample, SampleProblem, existing_dir, not_empty
from .age_tables import TableRow, table_rows
from .files import FileSource, below

CLASSES = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
AGE_EDGES = (0.0, 3.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 90.0)
"""Where the ranges begin; the last one is open, and 90 stands for its end."""
SEXES = {"Male": "male", "Female": "female"}
PARTS: tuple[tuple[Partition, str], ...] = (
    ("train", "fairface_label_train.csv"),
    ("test", "fairface_label_val.csv"),
)
"""The published validation set is what everybody tests on."""


class FairFaceSource(FileSource):
    """``fairface:DIR``: the folder with ``fairface_label_train.csv`` and the pictures; ranges of
    ages are class labels.

    Reference:
        Karkkainen and Joo, FairFace: Face Attribute Dataset for Balanced Race, Gender, and Age,
        2021. Folders and tables: as the section on FairFace of MiVOLO's README (Kuprashevich and
        Tolstykh, 2023) draws them.
    """

    def __init__(self, argument: str, *, middles: bool = False) -> None:
        self.root, self.middles = existing_dir(argument, "fairface"), middles

    def listing(self) -> Listing:
        """Samples with range, sex, race and partition."""
        base = self._base()
        middles = [(low + high) / 2 for low, high in itertools.pairwise(AGE_EDGES)]
        samples: list[Sample] = []
        problems: list[SampleProblem] = []
        for partition, table in PARTS:
            for row in self._rows(self.root / table):
                name = row.get("file") or "?"
                try:
                    if row.get("age") not in CLASSES:
                        raise ValueError(f"age {str(row.get('age'))[:20]!r} is none of its ranges")
                    group = CLASSES.index(row["age"])
                    said = {"sex": SEXES.get(row.get("gender") or ""), "race": row.get("race")}
                    attributes = {key: value[:64] for key, value in said.items() if value}
                    samples.append(
                        Sample(
                            id=name,
                            payload=below(base, name),
                            label=group,
                            age=middles[group] if self.middles else None,
                            partition=partition,
                            attributes=attributes,
                        )
                    )
                except ValueError as error:
                    problems.append(SampleProblem(id=name, reason=str(error)))
        not_empty(
            samples,
            problems,
            f"fairface:{self.root}",
            "Give the folder with fairface_label_train.csv and train/",
        )
        edges = AGE_EDGES if self.middles else None
        return Listing(
            samples=tuple(samples), problems=tuple(problems), classes=CLASSES, age_edges=edges
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

    def _rows(self, table: Path) -> list[TableRow]:
        columns = ("file", "age", "gender", "race")
        return table_rows(
            table,
            str(table),
            "Give the folder that FairFace was unpacked to",
            columns,
            needed="age",
        )


class FairFaceMiddlesSource(FairFaceSource):
    """``fairface-midpoints:DIR``: the middle of its range for everybody's age, as a choice of
    whoever asks.

    Training on middles works; numbers by year of age are refused.
    """

    def __init__(self, argument: str) -> None:
        super().__init__(argument, middles=True)
