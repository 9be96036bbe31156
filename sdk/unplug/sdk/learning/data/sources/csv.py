"""A CSV table of image paths: ``path`` and any of ``id``, ``age``, ``label``, ``subject``,
``partition``, ``attr:NAME``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from unplug.core import DataError, expanded

from ..source import Listing, Partition, Sample
from .age_tables import TableRow, near_column, table_header, table_rows
from .files import FileSource, below, on_disk
from .listed import Listed

COLUMNS = ("path", "id", "age", "label", "subject", "partition")
FIX = "Save it as UTF-8 CSV"
ATTRIBUTE = "attr:"
"""What the name of a column begins with that says something of the person, say ``attr:sex``."""
MAX_ATTRIBUTES, MAX_VALUE = 16, 64


class CSVSource(FileSource):
    """``csv:FILE``; relative paths start at the table's folder and may not lead out of it."""

    def __init__(self, argument: str) -> None:
        self.table = expanded(argument)
        if not self.table.is_file():
            raise DataError(f"csv:{argument}", "no such file", "Check the path after the colon")

    def listing(self) -> Listing:
        """Samples with what the columns say; a wrong age is a problem."""
        told, rows = self._told(), self._rows()
        classes = tuple(sorted({row["label"] for row in rows if row.get("label")}))
        index = {name: number for number, name in enumerate(classes)}
        listed, seen = Listed(root=self.table.parent), set[str]()
        for row in rows:
            name = row.get("id") or row["path"]
            try:
                if name in seen:
                    raise ValueError("the id appears twice")
                seen.add(name)
                listed.samples.append(self._sample(name, row, index))
            except ValueError as error:
                listed.refuse(name, f"{row.place}: {error}")
        expected = "Give a table with the columns path and age, in years"
        return listed.listing(f"csv:{self.table}", expected, classes=classes, told=told)

    def _told(self) -> tuple[str, ...]:
        """What the first line says that is not read; refused where it may be one of ours."""
        where = f"csv:{self.table}"
        header = table_header(self.table, where, FIX, COLUMNS, needed="path", beginning=ATTRIBUTE)
        for ours in ("subject", "age", "label", "partition"):
            if ours not in header.columns and (near := near_column(header.unread, ours)):
                why = f"its column {near!r} is not read, and may be what is called {ours!r} here"
                raise DataError(
                    where,
                    why,
                    f"Call it {ours!r}, or remove it or call it {ATTRIBUTE}NAME if it is something "
                    "else",
                )
        if not header.unread:
            return ()
        nobody = (
            "" if "subject" in header.columns else "; none says who is in a picture ('subject')"
        )
        return (f"columns that are not read: {', '.join(map(repr, header.unread))}{nobody}",)

    def _rows(self) -> list[TableRow]:
        where = f"csv:{self.table}"
        rows = table_rows(self.table, where, FIX, COLUMNS, needed="path", beginning=ATTRIBUTE)
        named = {column for row in rows[:1] for column in row if column.startswith(ATTRIBUTE)}
        if len(named) > MAX_ATTRIBUTES or any(
            not column.removeprefix(ATTRIBUTE).strip() for column in named
        ):
            why = (
                f"its {len(named)} columns {ATTRIBUTE}NAME are more than {MAX_ATTRIBUTES}, or one "
                "has no name"
            )
            raise DataError(where, why, "Keep those that groups are made of, and name them")
        return rows

    def _sample(self, name: str, row: TableRow, index: dict[str, int]) -> Sample:
        root, path = self.table.parent.resolve(), row["path"]
        file = on_disk(root, path) if Path(path).is_absolute() else below(root, path)
        partition = row.get("partition") or None
        if partition is not None and partition not in get_args(Partition):
            raise ValueError(f"partition {partition!r} is none of {', '.join(get_args(Partition))}")
        return Sample(
            id=name,
            payload=file,
            age=row.age("age"),
            label=index[row["label"]] if row.get("label") else None,
            subject=row.get("subject") or None,
            partition=partition,  # type: ignore[arg-type]
            attributes=dict(_attributes(row)),
            place=row.place,
        )


def _attributes(row: dict[str, str]) -> Iterator[tuple[str, str]]:
    for column, value in row.items():
        if column.startswith(ATTRIBUTE) and value:
            if len(value) > MAX_VALUE or not value.isprintable():
                raise ValueError(
                    f"{column[:40]} is not text of 1 to {MAX_VALUE} printable characters"
                )
            yield column.removeprefix(ATTRIBUTE).strip(), value
