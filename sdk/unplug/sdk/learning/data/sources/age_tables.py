"""Tables and lists that say what the samples of a folder are: of a bounded size, read from regular
files only.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TextIO

from unplug.core import DataError, counted, name_form, open_regular, read_regular, text_encoding

from .utkface import MAX_AGE

MAX_TABLE_BYTES = 128 * 2**20
# each is a sample in memory; the largest data set of faces that anybody trains on has as many
MAX_ROWS = 500_000

_RANGE = re.compile(r"[(\[]?\s*\d+\s*(-|–|to|,|;)\s*\d+\s*[)\]]?|\d+\s*\+")
_DECIMAL = re.compile(r"(\d+),(\d+)")
_MOMENT = re.compile(r"(?P<year>\d{4})(?:\.0+|-(?P<day>\d\d-\d\d)(?:[T ].*)?)?")
_SEPARATOR = re.compile(r"\"?sep=(.)\"?", re.IGNORECASE)

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
MOST_SHOWN = 12
SLIP = 0.8
"""How like each other two words are of which one may be the other misspelled; 1 is equal."""


def age_of(text: str, *, comma: bool = False) -> float | None:
    """Years in a cell of a table, 0 to 122, or None where it is empty; a range is not an age.

    Args:
        text: the cell.
        comma: whether the table writes decimals with a comma, see `TableRow`. Elsewhere "20,5" is
            20.5 as no range falls, and "20,25" is refused as it may be either.

    Example:
        >>> age_of("17.5"), age_of(""), age_of("20,25", comma=True)
        (17.5, None, 20.25)
        >>> age_of("20-29")
        Traceback (most recent call last):
        ValueError: age 20-29 is a range, not an age in years
    """
    if not text:
        return None
    if decimal := _DECIMAL.fullmatch(text):
        whole, part = map(int, decimal.groups())
        if not comma and part > whole:
            raise ValueError(
                f"age {text} is a range, or a number with a decimal comma: write {whole}.{part}"
            )
        text = text.replace(",", ".")
    if _RANGE.fullmatch(text):
        raise ValueError(f"age {text[:20]} is a range, not an age in years")
    age = float(text)
    if not (math.isfinite(age) and 0.0 <= age <= MAX_AGE):
        raise ValueError(f"age {text} is not plausible (0 to {MAX_AGE:.0f})")
    return age


def years_between(later: str, earlier: str) -> float:
    """Whole years from one cell to another: each a date (YYYY-MM-DD, with or without a time) or a
    year. Of two dates a year counts once its day has come; `ValueError` where there is no such age.

    Example:
        >>> years_between("2020-05-03", "2000-05-04"), years_between("2020-05-04 09:30", "2000-05-04")
        (19.0, 20.0)
        >>> years_between("2020-05-03", "1987")
        33.0
    """
    (year, day), (before, birthday) = _moment(later), _moment(earlier)
    years = year - before - bool(day and birthday and day < birthday)
    if not 0 <= years <= MAX_AGE:
        raise ValueError(f"{years} years from {earlier} to {later} are not plausible")
    return float(years)


def _moment(cell: str) -> tuple[int, str | None]:
    """A year, and its day as ``MM-DD`` where a date says it."""
    if (found := _MOMENT.fullmatch(cell)) is not None:
        with contextlib.suppress(ValueError):  # no such day
            if found["day"]:
                date.fromisoformat(f"{found['year']}-{found['day']}")
            return int(found["year"]), found["day"]
    raise ValueError(f"{cell[:20]!r} is neither a date (YYYY-MM-DD) nor a year")


class TableRow(dict[str, str]):
    """The cells of one row, by the columns that were asked for.

    Args:
        cells: the cells by column.
        line: the line of the file on which the row ends.
        comma: whether decimals may have a comma, as nothing else in this table is between cells.
    """

    __slots__ = ("comma", "line")

    def __init__(self, cells: dict[str, str], line: int, comma: bool) -> None:
        super().__init__(cells)
        self.line, self.comma = line, comma

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"line {self.line}"

    def age(self, column: str) -> float | None:
        """See `age_of`."""
        return age_of(self.get(column) or "", comma=self.comma)


def table_rows(
    table: Path,
    what: str,
    fix: str,
    columns: Collection[str],
    *,
    needed: str,
    beginning: str | None = None,
) -> list[TableRow]:
    """The rows of a CSV file with a header.

    Args:
        table: the file: UTF-8 or marked UTF-16, its cells between commas, semicolons, tabs or bars.
        what, fix: how an error begins and ends.
        columns: those to keep, found without regard to capital letters and blanks around them.
            Blanks around a cell go.
        needed: a column that must be there.
        beginning: columns whose names begin so are kept besides `columns`.

    Raises:
        DataError: no regular file, larger than 128 MiB, of more than 500,000 rows, without the
            needed column or with one twice, with a row of more cells than the header or without one
            of those to keep, or no CSV.
    """
    rows: list[TableRow] = []
    with _opened(table, what, fix) as handle:
        header, reader, line = _header(handle, what, columns, needed, beginning)
        places, first = list(header.columns.items()), line
        fewest, most = max(header.columns.values()) + 1, len(header.names)
        try:
            for cells in reader:
                line = first + reader.line_num
                if not any(
                    map(str.strip, cells)
                ):  # spreadsheets leave rows of nothing below the last one
                    continue
                if not fewest <= len(cells) <= most:
                    why = f"line {line} has {counted(len(cells), 'cell')} and the first line {most}"
                    raise DataError(
                        what,
                        why,
                        f"Write every cell, and one that holds a {header.between} in quotes",
                    )
                if len(rows) >= MAX_ROWS:
                    raise DataError(what, f"more than {MAX_ROWS} rows", "Split it")
                rows.append(
                    TableRow(
                        {name: cells[place].strip() for name, place in places}, line, header.comma
                    )
                )
        except csv.Error as error:
            why = (
                f"the row that begins on line {line + 1} is none ({error}); a quote may be "
                "missing, or one too many"
            )
            raise DataError(what, why, fix) from error
    return rows


@dataclass(frozen=True, kw_only=True)
class Header:
    """The first line of a table.

    Args:
        names: the names of all columns, trimmed.
        columns: name to place of those that are kept.
        separator: the character between cells.
    """

    names: tuple[str, ...]
    columns: Mapping[str, int]
    separator: str

    @property
    def comma(self) -> bool:
        """See `TableRow`."""
        return self.separator != ","

    @property
    def between(self) -> str:
        """The separator's name."""
        return SEPARATORS.get(self.separator, self.separator)

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the columns that are not kept."""
        return tuple(
            name
            for place, name in enumerate(self.names)
            if place not in self.columns.values() and name
        )


def table_header(
    table: Path,
    what: str,
    fix: str,
    columns: Collection[str],
    *,
    needed: str,
    beginning: str | None = None,
) -> Header:
    """The first line of a table alone; as `table_rows`."""
    with _opened(table, what, fix) as handle:
        return _header(handle, what, columns, needed, beginning)[0]


@contextlib.contextmanager
def _opened(table: Path, what: str, fix: str) -> Iterator[TextIO]:
    """A table as text; what goes wrong while it is read is a `DataError`."""
    try:
        with open_regular(
            table, max_bytes=MAX_TABLE_BYTES, error=DataError, too_large="Split it"
        ) as raw:
            head = raw.read(8) or b""  # None of a device that has nothing to say
            if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
                raise DataError(what, "it is a spreadsheet's own file, not text", fix)
            raw.seek(0)
            buffered = io.BufferedReader(raw)  # type: ignore[type-var]
            with io.TextIOWrapper(buffered, encoding=text_encoding(head), newline="") as handle:
                yield handle
    except (OSError, UnicodeError, csv.Error) as error:
        raise DataError(what, no_text(error), fix) from error


def no_text(error: Exception) -> str:
    """Why a text cannot be read, in words where it is of another encoding."""
    if isinstance(error, UnicodeDecodeError):
        return (
            f"it is not UTF-8 text (byte {error.object[error.start]:#04x} is none; Latin-1 or "
            "Windows' own, perhaps)"
        )
    return str(error)


def _header(
    handle: TextIO, what: str, columns: Collection[str], needed: str, beginning: str | None
) -> tuple[Header, Any, int]:
    """The header, a reader of what is below it, and the lines in front of that."""
    line, before = handle.readline(), 1
    if hint := _SEPARATOR.fullmatch(line.rstrip("\r\n")):  # what spreadsheets write for each other
        line, before = handle.readline(), 2
    if "\0" in line:
        raise DataError(
            what,
            "it holds NUL characters, as UTF-16 and UTF-32 without their mark do",
            "Save it as UTF-8",
        )
    read = {separator: _names(line, separator) for separator in (hint[1] if hint else SEPARATORS)}
    folded = {
        separator: [_column(name, columns, beginning) for name in names]
        for separator, names in read.items()
    }
    separator = next((separator for separator, meant in folded.items() if needed in meant), None)
    if separator is None:
        names = max((len(names), names) for names in read.values())[1]
        near = near_column(names, needed)
        why = f"it has no column {needed!r}{f'; {near!r} may be it' if near else ''}"
        raise DataError(
            what,
            f"{why}; it has {shown_columns(names)}" if line.strip() else "its first line is empty",
            "Name the columns in the first line"
            + (", or say which it is: csv:FILE,path=COLUMN" if needed == "path" else ""),
        )
    names, meant = read[separator], folded[separator]
    kept = [name for name in meant if name]
    if twice := next((name for name in kept if kept.count(name) > 1), None):
        raise DataError(
            what, f"line {before} has two columns {twice!r}", "Rename or remove one of them"
        )
    places = {name: place for place, name in enumerate(meant) if name}
    # strict: a lost quote would swallow the rows below it
    reader = csv.reader(handle, delimiter=separator, strict=True)
    return Header(names=names, columns=places, separator=separator), reader, before


def shown_columns(names: Sequence[str]) -> str:
    """The columns of a table, for messages."""
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(repr(name[:24]) for name in names[:MOST_SHOWN]) + more


def _names(line: str, separator: str) -> tuple[str, ...]:
    return tuple(name_form(name) for name in next(csv.reader([line], delimiter=separator), ()))


def _column(name: str, columns: Collection[str], beginning: str | None) -> str | None:
    """The column that a header means, or None."""
    plain = name.casefold()
    if beginning is not None and plain.startswith(beginning):
        return beginning + name[len(beginning) :].strip()
    return plain if plain in columns else None


NEAR = {
    "path": ("path file filename filepath image img picture photo", "name id"),
    "age": ("age ages", "years year yrs in of at real true"),
    "label": ("label labels class classes target category", "name id"),
    "partition": ("partition split fold set subset", "name"),
    "subject": (
        "person people name names identity identities user username subjects individual "
        "participant patient customer client "
        "member employee celebrity actor who personid subjectid userid patientid uid pid",
        "subject id ids number no nr key code first last full the of",
    ),
}
"""For each of our columns, words that others call it by, and words that stand next to them."""


def near_column(names: Iterable[str], wanted: str) -> str | None:
    """The first of some columns that nearly is one of ours: another word for it, or a slip of the
    pen.

    Example:
        >>> near_column(["file_name", "UserID"], "subject"), near_column(["sex", "Subjekt"], "subject")
        ('UserID', 'Subjekt')
    """
    others, beside = (set(words.split()) for words in NEAR.get(wanted, ("", "")))
    for name in names:
        words = set(re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold()))
        slip = (
            len(wanted) > 4
            and difflib.SequenceMatcher(None, "".join(words), wanted).ratio() >= SLIP
        )
        if slip or (words & others and words <= others | beside):
            return name
    return None


def told_of_keys(keys: Collection[str]) -> tuple[str, ...]:
    """What to tell of the keys of JSON records: where none is ``subject`` and one may be meant so."""
    near = None if "subject" in keys else near_column(sorted(keys), "subject")
    return (
        ()
        if near is None
        else (f"{near!r} is not read: who is in a picture is called 'subject' here",)
    )


def text_lines(path: Path, fix: str) -> Iterator[str]:
    """The lines of a UTF-8 file that are not blank.

    Raises:
        DataError: no regular file, larger than 128 MiB, or no UTF-8.
    """
    raw = read_regular(path, max_bytes=MAX_TABLE_BYTES, error=DataError, too_large="Split it")
    try:
        yield from (line for line in raw.decode(text_encoding(raw)).splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise DataError(str(path), no_text(error), fix) from error
