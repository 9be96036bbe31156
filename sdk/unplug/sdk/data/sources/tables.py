"""Tables and lists that say what the samples of a folder are: of a bounded size, read from regular files only."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from unplug.core import DataError, open_regular, read_regular

from .utkface import MAX_AGE

MAX_TABLE_BYTES = 128 * 2**20
MAX_ROWS = 500_000  # each is a sample in memory; the largest data set of faces that anybody trains on has as many

_RANGE = re.compile(r"[(\[]?\s*\d+\s*(-|–|to|,|;)\s*\d+\s*[)\]]?|\d+\s*\+")


def age_of(text: str) -> float | None:
    """Years in a cell of a table, 0 to 122, or None where it is empty; a range is no age.

    Example:
        >>> age_of("17.5"), age_of("")
        (17.5, None)
        >>> age_of("20-29")
        Traceback (most recent call last):
        ValueError: age 20-29 is a range, and no age in years
    """
    if not text:
        return None
    if _RANGE.fullmatch(text):
        raise ValueError(f"age {text[:20]} is a range, and no age in years")
    age = float(text)
    if not (math.isfinite(age) and 0.0 <= age <= MAX_AGE):
        raise ValueError(f"age {text} is not plausible (0 to {MAX_AGE:.0f})")
    return age


def table_rows(
    table: Path,
    what: str,
    fix: str,
    columns: Collection[str] | None = None,
    *,
    needed: str | None = None,
    beginning: str | None = None,
) -> list[dict[str, str]]:
    """The rows of a CSV file with a header.

    Args:
        table: the file, UTF-8.
        what, fix: how an error begins and ends.
        columns: those to keep; None keeps all. Missing cells are empty, and blanks around a cell go.
        needed: a column that must be there.
        beginning: columns whose names begin so are kept beside `columns`.

    Raises:
        DataError: no regular file, larger than 128 MiB, of more than 500,000 rows, without the needed column, or no CSV.
    """
    rows: list[dict[str, str]] = []
    try:
        with (
            open_regular(table, max_bytes=MAX_TABLE_BYTES, error=DataError, too_large="Split it") as raw,
            io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig", newline="") as handle,  # type: ignore[type-var]
        ):
            reader = csv.DictReader(handle)
            if needed is not None and needed not in (reader.fieldnames or ()):
                raise DataError(what, f"it has no column {needed!r}", "Name the columns in the first line")
            kept = columns if columns is None or beginning is None else {
                *columns, *(name for name in reader.fieldnames or () if name.startswith(beginning))
            }  # fmt: skip
            for row in reader:
                if len(rows) >= MAX_ROWS:
                    raise DataError(what, f"more than {MAX_ROWS} rows", "Split it")
                named = ((key, value) for key, value in row.items() if isinstance(key, str))
                rows.append({key: (value or "").strip() for key, value in named if kept is None or key in kept})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(what, str(error), fix) from error
    return rows


def text_lines(path: Path, fix: str) -> Iterator[str]:
    """The lines of a UTF-8 file that are not blank.

    Raises:
        DataError: no regular file, larger than 128 MiB, or no UTF-8.
    """
    raw = read_regular(path, max_bytes=MAX_TABLE_BYTES, error=DataError, too_large="Split it")
    try:
        yield from (line for line in raw.decode("utf-8").splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise DataError(str(path), str(error), fix) from error
