"""IMDB-WIKI: faces of actors and of people with a page, with a date of birth and the year of the
picture, in a MATLAB file.

The file is read in a child process with bounded memory: it is compressed, and a small one can hold
a large table.
"""

from __future__ import annotations

import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from unplug.core import DataError, Reply, call_in_child, memory_for, open_regular, seconds_for

from ..source import Listing, Sample
from .age_tables import MAX_ROWS
from .files import below
from .listed import FolderSource, Listed
from .utkface import MAX_AGE

TABLES = ("imdb", "wiki")
MAX_MAT_BYTES = 256 * 2**20
MATLAB_EPOCH = 366
"""Days that MATLAB's serial dates are ahead of Python's ordinals."""
SEXES = {0.0: "female", 1.0: "male"}
AGAIN = "Give the folder that imdb_crop.tar or wiki_crop.tar was unpacked to"


class ImdbWikiSource(FolderSource):
    """``imdb-wiki:DIR``: the folder with ``imdb.mat`` or ``wiki.mat``; the name is the subject.

    The picture counts as taken in the middle of its year, as its makers count, so an age may be off
    by one; its makers do not vouch for dates either. Pictures with no face or a second one in them
    are problems: who is meant is not known.

    Reference:
        Rothe et al., Deep expectation of real and apparent age from a single image without facial
        landmarks, 2016. The fields are those that the data set's own page lists.
    """

    kind, expected = "imdb-wiki", AGAIN

    def listing(self) -> Listing:
        """Samples with age in whole years, name and sex."""
        name = next((name for name in TABLES if (self.root / f"{name}.mat").is_file()), None)
        if name is None:
            raise DataError(
                f"imdb-wiki:{self.root}", "it holds neither imdb.mat nor wiki.mat", AGAIN
            )
        table = self.root / f"{name}.mat"
        open_regular(table, max_bytes=MAX_MAT_BYTES, error=DataError, too_large=AGAIN).close()
        reply = call_in_child(
            "unplug.sdk.learning.data.sources.imdbwiki:read_table",
            {"path": str(table.resolve()), "name": name},
            what=f"reading {table.name}",
            timeout=seconds_for(1),
            memory=memory_for(table),
        )
        columns = reply.arrays
        paths, names = (
            bytes(columns[key]).decode("utf-8").split("\n") for key in ("paths", "names")
        )
        listed = Listed(root=self.root)
        for row, (path, person) in enumerate(zip(paths, names, strict=True)):
            numbers = {key: float(columns[key][row]) for key in NUMBERS}
            with listed.reading(path):
                listed.samples.append(self._sample(path, person, numbers))
        return self.of(listed)

    def _sample(self, path: str, name: str, row: dict[str, float]) -> Sample:
        if not math.isfinite(row["face_score"]):
            raise ValueError("no face was found in it")
        if not math.isnan(row["second_face_score"]):
            raise ValueError("two faces were found in it")
        age, sex = age_at(row["dob"], row["photo_taken"]), SEXES.get(row["gender"])
        attributes = {} if sex is None else {"sex": sex}
        return Sample(
            id=path,
            payload=below(self.root, path),
            age=age,
            subject=name or None,
            attributes=attributes,
        )


NUMBERS = ("dob", "photo_taken", "gender", "face_score", "second_face_score")


def age_at(born: float, year: float) -> float:
    """Whole years between a MATLAB date of birth and the first of July of a year; `ValueError`
    where that is not an age.

    Example:
        >>> age_at(723671, 2009)  # the fifth of May 1981
        28.0
    """
    if not (
        math.isfinite(born)
        and math.isfinite(year)
        and MATLAB_EPOCH < born < 800_000
        and 1800 <= year <= 2100
    ):
        raise ValueError("its date of birth or the year of the picture is impossible")
    # MATLAB's day 367 is Python's first of January of the year 1.
    birth = date.fromordinal(1) + timedelta(days=int(born) - MATLAB_EPOCH - 1)
    age = int(year) - birth.year - ((birth.month, birth.day) > (7, 1))
    if not 0 <= age <= MAX_AGE:
        raise ValueError(f"age {age} is not plausible (0 to {MAX_AGE:.0f})")
    return float(age)


def read_table(job: Any) -> Reply:
    """Child process: the columns of a table in a MATLAB file, text as UTF-8 with a line a row."""
    from scipy.io import loadmat

    path, name = Path(job.values["path"]), job.values["name"]
    try:
        table = loadmat(path, variable_names=[name])[name][0, 0]
        arrays = {key: np.asarray(table[key], dtype=np.float64).reshape(-1) for key in NUMBERS}
        texts = [
            [_text(item) for item in np.asarray(table[key]).reshape(-1)]
            for key in ("full_path", "name")
        ]
    except Exception as error:
        raise DataError(
            str(path), f"it is not a table of IMDB-WIKI ({type(error).__name__}: {error})", AGAIN
        ) from error
    counts = {*map(len, arrays.values()), *map(len, texts)}
    if len(counts) != 1 or not 0 < max(counts) <= MAX_ROWS:
        raise DataError(str(path), f"its columns have {sorted(counts)} rows", AGAIN)
    joined = (np.frombuffer("\n".join(column).encode(), dtype=np.uint8) for column in texts)
    return Reply(values={}, arrays={**arrays, **dict(zip(("paths", "names"), joined, strict=True))})


def _text(item: Any) -> str:
    """A cell's text on one line."""
    parts = np.asarray(item).reshape(-1)
    text = str(parts[0]) if len(parts) else ""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:256]
