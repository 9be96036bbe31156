"""Numbers and names as the page writes them. Pure functions: values in, text out; None is an en
dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

NONE = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
PERCENT = "\N{NO-BREAK SPACE}%"
SPACES = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
"""Not printable to `str.isprintable`, and in our own texts: between a number and its unit."""

SHOWN = 24
"""Characters of a value that `one_line` shows."""


def fixed(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals, a true minus sign and no negative zero.

    Example:
        >>> fixed(-0.0001), fixed(0.5), fixed(-1.25, 1) == MINUS + "1.2", fixed(None) == NONE
        ('0.000', '0.500', True, True)
    """
    if value is None:
        return NONE
    text = f"{value:,.{digits}f}" if abs(value) < 1e9 else f"{value:.3g}"
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """`fixed` with a plus sign where it is due.

    Example:
        >>> signed(0.02), signed(0.0)
        ('+0.020', '0.000')
    """
    text = fixed(value, digits)
    positive = value is not None and value > 0 and bool(text.strip("0.,"))
    return f"+{text}" if positive else text


def span(
    low: float | None,
    high: float | None,
    digits: int = 3,
    *,
    sign: bool = False,
    scale: float = 1.0,
) -> str:
    """An interval; empty where there is none.

    Example:
        >>> span(0.1, 0.25), span(0.1, 0.2, 1, sign=True), span(None, None)
        ('0.100 to 0.250', '+0.1 to +0.2', '')
    """
    if low is None or high is None:
        return ""
    write = signed if sign else fixed
    return f"{write(low * scale, digits)} to {write(high * scale, digits)}"


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as percent.

    Example:
        >>> percent(0.0421) == "4.2" + PERCENT
        True
    """
    return NONE if value is None else f"{fixed(value * 100, digits)}{PERCENT}"


def count(value: int | None) -> str:
    """A whole number with thousands apart.

    Example:
        >>> count(1234567)
        '1,234,567'
    """
    return NONE if value is None else fixed(value, 0)


def size(value: int | None) -> str:
    """Bytes in decimal units.

    Example:
        >>> size(612), size(612_345), size(2_300_000)
        ('612 B', '612 kB', '2.30 MB')
    """
    if value is None:
        return NONE
    if value < 1000:
        return f"{value} B"
    return f"{value / 1e3:.0f} kB" if value < 999_500 else f"{value / 1e6:,.2f} MB"


def seconds(value: float | None) -> str:
    """A duration in the unit that suits it.

    Example:
        >>> seconds(0.0123), seconds(4.25), seconds(245.0), seconds(7500.0)
        ('12 ms', '4.2 s', '4 min 05 s', '2 h 05 min')
    """
    if value is None:
        return NONE
    if value < 1.0:
        return f"{value * 1e3:.0f} ms"
    if value < 60.0:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{fixed(whole // 3600, 0)} h {whole % 3600 // 60:02d} min"


def milliseconds(value: float | None) -> str:
    """A latency with three significant digits.

    Example:
        >>> milliseconds(0.8123), milliseconds(12.345), milliseconds(437.2)
        ('0.812', '12.3', '437')
    """
    if value is None:
        return NONE
    return (
        fixed(value, max(0, 2 - math.floor(math.log10(abs(value)))))
        if 1e-6 < abs(value) < 1e9
        else fixed(value, 0)
    )


def counted(value: int, one: str, many: str | None = None) -> str:
    """A whole number of things; `many` is their plural where that is not `one` with an "s".

    Example:
        >>> counted(1, "thread"), counted(2, "thread"), counted(1, "person", "people"), counted(1200, "person", "people")
        ('1 thread', '2 threads', '1 person', '1,200 people')
    """
    return f"{count(value)} {one if value == 1 else many or f'{one}s'}"


def short(digest: str | None) -> str:
    """The first twelve characters of a digest."""
    return NONE if not digest else digest[:12]


def plain(text: str, limit: int = 60) -> str:
    """Text of a bounded length without control characters, fit for a plot label.

    Example:
        >>> plain("a" * 10, 5), plain("x" + chr(7))
        ('aaaa…', 'x ')
    """
    clean = "".join(letter if letter.isprintable() else " " for letter in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def printable(text: str) -> str:
    """Text that a terminal only shows: what would move its cursor, colour it or turn its direction
    is written out.

    Line feeds, tabs and every letter stay. Names of files, tensors and devices come from strangers;
    so does what they are in.

    Example:
        >>> printable("a" + chr(27) + "[2Jb"), printable("age" + chr(0x202E) + "gpj.exe"), printable(chr(0xE9))
        ('a\\\\x1b[2Jb', 'age\\\\u202egpj.exe', 'é')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or _shown(letter) else _written_out(letter) for letter in text
    )


def _shown(letter: str) -> bool:
    return letter.isprintable() or letter in SPACES


def _written_out(letter: str) -> str:
    code = ord(letter)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain columns; numbers are right-aligned."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(header, widths, strict=True)).rstrip()
    ]
    for row in rows:
        cells = (_align(cell, width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _align(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1] in "+-0123456789" and cell else cell.ljust(width)


def one_line(item: Any) -> str:
    """How a result prints: a dataclass in one line, its short values as they are and the items of
    all others counted, so that no names of people are among them.

    Example:
        >>> from dataclasses import make_dataclass
        >>> print(one_line(make_dataclass("Rows", ["seed", "rows"])(0, ["a", "b"])))
        Rows(seed=0, rows: 2)
    """
    told = []
    for field in fields(item):
        value = getattr(item, field.name)
        if hasattr(value, "__len__") and not isinstance(value, str):
            told.append(f"{field.name}: {count(len(value))}")
        elif isinstance(value, str | int | float | Path):
            text = str(value) if isinstance(value, Path) else repr(value)
            told.append(f"{field.name}={text if len(text) <= SHOWN else f'{text[:SHOWN]}...'}")
    return f"{type(item).__name__}({', '.join(told)})"
