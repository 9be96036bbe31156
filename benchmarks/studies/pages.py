"""Tables of studies in Markdown: for the terminal, and for the pages of docs/."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def markdown_table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Collection[int] = (0,),
) -> str:
    r"""A table below its caption.

    Args:
        caption: without a colon.
        heads: of the columns.
        rows: a cell a column.
        texts: places of the columns that hold words; all others are aligned right.

    Example:
        >>> markdown_table("Ages", ["name", "age"], [["a|b", "3"]])
        'Ages:\n\n| name | age |\n|---|--:|\n| a\\|b | 3 |\n'
    """
    rule = "|" + "".join("---|" if place in texts else "--:|" for place in range(len(heads)))
    return "\n".join([f"{caption}:\n", _line(heads), rule, *map(_line, rows)]) + "\n"


def with_note(text: str, note: str) -> str:
    """A cell with an interval or a reason in brackets behind it, where there is one."""
    return f"{text} ({note})" if note else text


def _line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"
