"""APPA-REAL: faces with the real age beside the one that about 38 people guessed; only the real one
is read.
"""

from __future__ import annotations

from ..source import Listing, Partition, Sample, SampleProblem, existing_dir, not_empty
from .age_tables import table_rows
from .files import FileSource, below

PARTS: tuple[tuple[Partition, str], ...] = (
    ("train", "train"),
    ("validation", "valid"),
    ("test", "test"),
)
FACE = "_face.jpg"
"""What the release adds to the name of a picture: the face, cut out and turned upright, with 40 %
around it.
"""


class AppaRealSource(FileSource):
    """``appa-real:DIR``: the folder with ``gt_avg_train.csv`` and ``train/``; the official
    partitions are kept.

    Reference:
        Agustsson et al., Apparent and real age estimation in still images with deep residual
        regressors on APPA-REAL, 2017. The layout is that of the release's own README, "APPA-REAL
        DATABASE".
    """

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "appa-real")

    def listing(self) -> Listing:
        """Samples with real age and official partition."""
        samples: list[Sample] = []
        problems: list[SampleProblem] = []
        for partition, folder in PARTS:
            table = self.root / f"gt_avg_{folder}.csv"
            columns, fix = (
                ("file_name", "real_age"),
                "Give the folder that APPA-REAL was unpacked to",
            )
            for row in table_rows(table, str(table), fix, columns, needed="real_age"):
                name = f"{folder}/{row.get('file_name')}{FACE}"
                try:
                    age = row.age("real_age")
                    if age is None or not row.get("file_name"):
                        raise ValueError("it has no name, or no real age")
                    samples.append(
                        Sample(
                            id=name, payload=below(self.root, name), age=age, partition=partition
                        )
                    )
                except ValueError as error:
                    problems.append(SampleProblem(id=name, reason=str(error)))
        not_empty(
            samples,
            problems,
            f"appa-real:{self.root}",
            "Give the folder with gt_avg_train.csv and train/",
        )
        return Listing(samples=tuple(samples), problems=tuple(problems))
