"""MUFAC: Korean families, 8 age groups, official train / validation / test tables."""

from __future__ import annotations

import re
from pathlib import Path

from ..source import Listing, Partition, Sample
from .age_tables import table_rows
from .listed import FolderSource, Listed

AGE_EDGES = (0.0, 7.0, 13.0, 20.0, 31.0, 46.0, 56.0, 67.0, 81.0)
CLASSES = ("0-6", "7-12", "13-19", "20-30", "31-45", "46-55", "56-66", "67-80")
GROUPS = {letter: group for group, letter in enumerate("abcdefgh")}
PARTS: tuple[tuple[Partition, str, str], ...] = (
    ("train", "custom_train_dataset.csv", "train_images"),
    ("validation", "custom_val_dataset.csv", "val_images"),
    ("test", "custom_test_dataset.csv", "test_images"),
)
_FAMILY = re.compile(r"^(F\d+)_")


class MUFACSource(FolderSource):
    """``mufac:DIR``: the folder with ``custom_train_dataset.csv``; the household is the subject.

    Ages are known by group; a sample's age is the middle of its group.

    Reference:
        Choi and Na, Towards Machine Unlearning Benchmarks: Forgetting the Personal Identities,
        2023, section 3.
    """

    kind, expected = "mufac", "Give the folder with custom_train_dataset.csv and train_images/"

    def listing(self) -> Listing:
        """Samples with age group, household and official partition."""
        listed, columns = Listed(root=self.root), ("image_path", "age_class")
        fix = "Give the folder that MUFAC was unpacked to"
        for partition, file, folder in PARTS:
            table = self.root / file
            for row in table_rows(table, str(table), fix, columns, needed="image_path"):
                name, letter = row.get("image_path") or "?", row.get("age_class")
                with listed.reading(name):
                    listed.samples.append(self._sample(name, letter, folder, partition))
        return self.of(listed, classes=CLASSES, age_edges=AGE_EDGES)

    def _sample(self, name: str, letter: str | None, folder: str, partition: Partition) -> Sample:
        group = GROUPS.get(letter or "?")
        if group is None:
            raise ValueError(f"age_class {letter!r} is not one of a to h")
        if Path(name).name != name:
            raise ValueError("image_path is not a plain file name")
        family = _FAMILY.match(name)
        return Sample(
            id=f"{folder}/{name}",
            payload=self.root / folder / name,
            age=(AGE_EDGES[group] + AGE_EDGES[group + 1]) / 2,
            label=group,
            subject=family.group(1) if family else None,
            partition=partition,
        )
