"""A CSV table of image paths: ``path`` and any of ``id``, ``age``, ``label``, ``subject``,
``partition``, ``attr:NAME``, or what settings after the file's name say is meant by them.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from unplug.core import DataError, name_form

from ..source import SETTING, Listing, Partition, Sample, spec_parts
from .age_tables import (
    SLIP,
    Header,
    TableRow,
    near_column,
    shown_columns,
    table_header,
    table_rows,
    years_between,
)
from .files import FileSource, below, on_disk
from .listed import Listed

COLUMNS = ("path", "id", "age", "label", "subject", "partition")
FIX = "Save it as UTF-8 CSV"
ATTRIBUTE = "attr:"
"""What the name of a column begins with that says something of the person, say ``attr:sex``."""
FOLDER = "folder"
"""In the place of a column: the name of the folder that a picture lies in."""
MAX_ATTRIBUTES, MAX_VALUE = 16, 64


@dataclass(frozen=True, kw_only=True)
class Only:
    """Which rows count: those with a value in a column, or those with any other.

    Args:
        column: the table's column.
        value: capitals and blanks around it do not matter.
        others: those without it.
    """

    column: str
    value: str
    others: bool

    def __str__(self) -> str:
        return f"{self.column}{'!' if self.others else ''}={self.value}"

    def takes(self, row: Mapping[str, str]) -> bool:
        """Whether a row counts."""
        return (_folded(row[self.column]) == _folded(self.value)) != self.others


class CSVSource(FileSource):
    """``csv:FILE``; relative paths start at the table's folder and may not lead out of it.

    ``csv:FILE,path=photo,subject=user_id,age=taken - born,consent=yes`` says which columns are
    meant: ``OURS=COLUMN``, or ``OURS=`` for none; an age may be the difference of two columns of
    dates or years; ``subject=folder`` is the name of the folder that a picture lies in. What is
    named otherwise picks rows: ``consent=yes``, ``consent!=yes``.
    """

    def __init__(self, argument: str) -> None:
        _, self.table, settings = spec_parts(f"csv:{argument}")
        self.where = f"csv:{argument}"
        if not self.table.is_file():
            raise DataError(self.where, "no such file", "Check the path after the colon")
        self.meant: dict[str, str] = {}
        self.only: list[Only] = []
        words = SETTING.split(settings)[1:]  # key, sign and value of each
        for key, sign, value in zip(words[::3], words[1::3], words[2::3], strict=True):
            self._set(key, bool(sign), value.strip())

    def _set(self, key: str, others: bool, value: str) -> None:
        ours = key if key.startswith(ATTRIBUTE) else key.casefold()
        if others or not (ours in COLUMNS or ours.startswith(ATTRIBUTE)):
            self.only.append(Only(column=_folded(key), value=value, others=others))
        elif ours in self.meant:
            raise DataError(self.where, f"it says twice which column is {ours!r}", "Say it once")
        else:
            self.meant[ours] = value

    def listing(self) -> Listing:
        """Samples with what the columns say; a wrong age is a problem, and an empty one where others
        are there.
        """
        told, rows = self._told(), self._rows()
        aged = any(row.get(self._column("age")) for row in rows)
        classes = tuple(sorted({label for row in rows if (label := self._cell(row, "label"))}))
        index = {name: number for number, name in enumerate(classes)}
        listed, seen = Listed(root=self.table.parent), set[str]()
        for row in rows:
            path = self._cell(row, "path")
            name = self._cell(row, "id") or path or "a row"
            try:
                if not path:
                    raise ValueError("it names no picture")
                if name in seen:
                    raise ValueError("the id appears twice")
                seen.add(name)
                listed.samples.append(self._sample(name, row, index, aged))
            except ValueError as error:
                listed.refuse(name, f"{row.place}: {error}")
        expected = "Give a table with the columns path and age, in years"
        return listed.listing(self.where, expected, classes=classes, told=told)

    def _column(self, ours: str) -> str:
        """The table's column that is one of ours, or would be."""
        return _folded(self.meant.get(ours, ours))

    def _cell(self, row: Mapping[str, str], ours: str) -> str:
        return row.get(self._column(ours), "")

    @cached_property
    def _header(self) -> Header:
        """The first line, looked at once, with the columns that are read.

        Raises:
            DataError: a column that settings name is not there; the difference of an age is none.
        """
        named = {_folded(text): ours for ours, text in self.meant.items() if text}
        named |= {item.column: "" for item in self.only}
        first = table_header(
            self.table, self.where, FIX, [*named, *COLUMNS], needed=self._column("path")
        )
        there = {_folded(name): name for name in first.names}
        for column, ours in named.items():
            if column in there or (ours, column) == ("subject", FOLDER):
                continue
            if ours != "age" or _difference(column, there) is None:
                raise self._no_column(column, ours, first.names)
        used = {*named, *(_difference(self._column("age"), there) or ())}
        used |= {ours for ours in COLUMNS if ours not in self.meant}
        return table_header(
            self.table,
            self.where,
            FIX,
            used & there.keys(),
            needed=self._column("path"),
            beginning=ATTRIBUTE,
        )

    def _no_column(self, column: str, ours: str, names: Sequence[str]) -> DataError:
        text = self.meant.get(ours, column)
        shown = shown_columns(names)
        if ours == "age" and "-" in text:
            parts = [part.strip() for part in text.split(" - " if " - " in text else "-")]
            unknown = [part for part in parts if _folded(part) not in map(_folded, names)]
            why = f"age={text[:60]} is not a difference of two of its columns"
            text = unknown[0] if unknown else text
        elif ours:
            why = f"it has no column {text[:60]!r} to be {ours!r}"
        else:
            why = f"it has no column {text[:60]!r}"
        near = difflib.get_close_matches(_folded(text), map(_folded, names), n=1)
        known = {_folded(name): name for name in names}
        if not near and not ours:
            near = difflib.get_close_matches(column, COLUMNS, n=1, cutoff=SLIP)
        fix = f"Did you mean {known.get(near[0], near[0])!r}?" if near else "Name one of these"
        if ours == "age" and not near:
            fix = "Write age=COLUMN, or age=A - B of two columns of dates or years"
        return DataError(self.where, f"{why}; it has {shown}", fix)

    def _told(self) -> tuple[str, ...]:
        """What the first line says that is not read; refused where it may be one of ours."""
        header = self._header
        for ours in ("subject", "age", "label", "partition"):
            absent = ours not in self.meant and ours not in header.columns
            if absent and (near := near_column(header.unread, ours)):
                why = f"its column {near!r} is not read, and may be what is called {ours!r} here"
                fix = f"Write {self.where},{ours}={near}, or {ours}= if it is something else"
                raise DataError(self.where, why, fix)
        if not header.unread:
            return ()
        known = self.meant.get("subject") or "subject" in header.columns
        nobody = "" if known else "; none says who is in a picture ('subject')"
        return (f"columns that are not read: {', '.join(map(repr, header.unread))}{nobody}",)

    def _rows(self) -> list[TableRow]:
        rows = table_rows(
            self.table,
            self.where,
            FIX,
            self._header.columns,
            needed=self._column("path"),
            beginning=ATTRIBUTE,
        )
        named = {column for row in rows[:1] for column in row if column.startswith(ATTRIBUTE)}
        if len(named) > MAX_ATTRIBUTES or any(
            not column.removeprefix(ATTRIBUTE).strip() for column in named
        ):
            why = (
                f"its {len(named)} columns {ATTRIBUTE}NAME are more than {MAX_ATTRIBUTES}, or one "
                "has no name"
            )
            raise DataError(self.where, why, "Keep those that groups are made of, and name them")
        for only in self.only:
            values = Counter(row[only.column] for row in rows)
            rows = [row for row in rows if only.takes(row)]
            if not rows:
                there = ", ".join(repr(value[:20]) for value, _ in values.most_common(3))
                raise DataError(self.where, f"no row has {only}", f"There are {there}")
        return rows

    def _sample(self, name: str, row: TableRow, index: dict[str, int], aged: bool) -> Sample:
        root, path = self.table.parent.resolve(), self._cell(row, "path")
        file = on_disk(root, path) if Path(path).is_absolute() else below(root, path)
        partition = self._cell(row, "partition") or None
        if partition is not None and partition not in get_args(Partition):
            raise ValueError(f"partition {partition!r} is none of {', '.join(get_args(Partition))}")
        subject = self._cell(row, "subject")
        if self._column("subject") == FOLDER and FOLDER not in self._header.columns:
            subject = Path(path).parent.name
        label = self._cell(row, "label")
        return Sample(
            id=name,
            payload=file,
            age=self._age(row, aged),
            label=index[label] if label else None,
            subject=subject or None,
            partition=partition,  # type: ignore[arg-type]
            attributes=dict(self._attributes(row)),
            place=row.place,
        )

    def _age(self, row: TableRow, aged: bool) -> float | None:
        column = self._column("age")
        two = None if column in self._header.columns else _difference(column, self._header.columns)
        for part in two or ((column,) if aged else ()):
            if not row[part]:
                raise ValueError(f"its {part!r} is empty")
        return row.age(column) if two is None else years_between(row[two[0]], row[two[1]])

    def _attributes(self, row: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        named = {ours: self._column(ours) for ours in self.meant if ours.startswith(ATTRIBUTE)}
        cells = {ours: row[column] for ours, column in named.items() if column}
        for column, value in {**row, **cells}.items():
            if column.startswith(ATTRIBUTE) and value:
                if len(value) > MAX_VALUE or not value.isprintable():
                    raise ValueError(
                        f"{column[:40]} is not text of 1 to {MAX_VALUE} printable characters"
                    )
                yield column.removeprefix(ATTRIBUTE).strip(), value


def _folded(name: str) -> str:
    """How columns and values are compared."""
    return name_form(name).casefold()


def _difference(text: str, columns: Mapping[str, object]) -> tuple[str, str] | None:
    """The two columns of ``A - B``, or None where it is none; names may hold dashes themselves."""
    for place, sign in enumerate(text):
        pair = text[:place].strip(), text[place + 1 :].strip()
        if sign == "-" and pair[0] in columns and pair[1] in columns:
            return pair
    return None
