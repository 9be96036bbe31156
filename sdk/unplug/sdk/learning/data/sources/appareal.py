"""APPA-REAL: faces with the real age and the one that about 38 people guessed; only the real one
is read.
"""

from __future__ import annotations

from ..source import Listing, Partition, Sample
from .age_tables import table_rows
from .files import below
from .listed import FolderSource, Listed

PARTS: tuple[tuple[Partition, str], ...] = (
    ("train", "train"),
    ("validation", "valid"),
    ("test", "test"),
)
FACE = "_face.jpg"
"""What the release adds to the name of a picture: the face, cut out and turned upright, with 40 %
around it.
"""


class AppaRealSource(FolderSource):
    """``appa-real:DIR``: the folder with ``gt_avg_train.csv`` and ``train/``; the official
    partitions are kept.

    Reference:
        Agustsson et al., Apparent and real age estimation in still images with deep residual
        regressors on APPA-REAL, 2017. The layout is that of the release's own README, "APPA-REAL
        DATABASE".
    """

    kind, expected = "appa-real", "Give the folder with gt_avg_train.csv and train/"

    def listing(self) -> Listing:
        """Samples with real age and official partition."""
        listed, columns = Listed(root=self.root), ("file_name", "real_age")
        fix = "Give the folder that APPA-REAL was unpacked to"
        for partition, folder in PARTS:
            table = self.root / f"gt_avg_{folder}.csv"
            for row in table_rows(table, str(table), fix, columns, needed="real_age"):
                name = f"{folder}/{row.get('file_name')}{FACE}"
                with listed.reading(name):
                    age = row.age("real_age")
                    if age is None or not row.get("file_name"):
                        raise ValueError("it has no name, or no real age")
                    file = below(self.root, name)
                    sample = Sample(id=name, payload=file, age=age, partition=partition)
                    listed.samples.append(sample)
        return self.of(listed)
