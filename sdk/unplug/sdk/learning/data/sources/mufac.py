"""MUFAC: Korean families, 8 age groups, official train / validation / test tables."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from ..source import Listing, Partition, Sample, SampleProblem, existing_dir, not_empty
from .age_tables import TableRow, table_rows
from .files import FileSource

AGE_EDGES = (0.0, 7.0, 13.0, 20.0, 31.0, 46.0, 56.0, 67.0, 81.0)
CLASSES = ("0-6", "7-12", "13-19", "20-30", "31-45", "46-55", "56-66", "67-80")
GROUPS = {letter: group for group, letter in enumerate("abcdefgh")}
PARTS: tuple[tuple[Partition, str, str], ...] = (
    ("train", "custom_train_dataset.csv", "train_images"),
    ("validation", "custom_val_dataset.csv", "val_images"),
    ("test", "custom_test_dataset.csv", "test_images"),
)
_FAMILY = re.compile(r"^(F\d+)_")


class MUFACSource(FileSource):
    """``mufac:DIR``: the folder with ``custom_train_dataset.csv``; the household is the subject.

    Ages are known by group; a sample's age is the middle of its group.

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities,
        2023, section 3.
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "mufac")

    def listing(self) -> Listing:
        """Samples with age group, household and official partition."""
        samples: list[Sample] = []
        problems: list[SampleProblem] = []
        for partition, table, folder in PARTS:
            for row in _rows(self.root / table):
                name = row.get("image_path") or "?"
                group = GROUPS.get(row.get("age_class") or "?")
                if group is None:
                    problems.append(
                        SampleProblem(
                            id=name, reason=f"age_class {row.get('age_class')!r} is none of a to h"
                        )
                    )
                    continue
                if Path(name).name != name:
                    problems.append(
                        SampleProblem(id=name, reason="image_path is not a plain file name")
                    )
                    continue
                family = _FAMILY.match(name)
                samples.append(
                    Sample(
                        id=f"{folder}/{name}",
                        payload=self.root / folder / name,
                        age=_MIDDLES[group],
                        label=group,
                        subject=family.group(1) if family else None,
                        partition=partition,
                    )
                )
        not_empty(
            samples,
            problems,
            f"mufac:{self.root}",
            "Give the folder with custom_train_dataset.csv and train_images/",
        )
        return Listing(
            samples=tuple(samples), problems=tuple(problems), classes=CLASSES, age_edges=AGE_EDGES
        )


_MIDDLES = tuple((low + high) / 2 for low, high in itertools.pairwise(AGE_EDGES))


def _rows(table: Path) -> list[TableRow]:
    return table_rows(
        table,
        str(table),
        "Give the folder that MUFAC was unpacked to",
        ("image_path", "age_class"),
        needed="image_path",
    )
