"""What a page is made of; the template draws each kind of block in one way.

A `Table`, `FigureGrid`, `FaceGrid` or `Notes` knows nothing of HTML; the template knows nothing of
audits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from unplug.core import NONE, fixed, percent, signed, span

if TYPE_CHECKING:
    from unplug.sdk.evidence.statistics import Estimate

Chip = Literal["pass", "fail", "warn", "neutral"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Args:
        text: the text in it.
        note: smaller, after it: an interval or a reason.
        role: draws the model's mark in front.
        chip: draws the text as a chip.
        mono: whether the type is monospaced, for digests and file names.
    """

    text: str
    _: KW_ONLY
    note: str = ""
    role: str | None = None
    chip: Chip | None = None
    mono: bool = False


def estimate_cell(
    item: Estimate | None, digits: int = 3, *, sign: bool = False, share: bool = False
) -> Cell:
    """A number with its interval below it, or a dash; `sign` writes a plus, `share` percent."""
    if item is None:
        return Cell(NONE)
    if share:
        return Cell(percent(item.value), note=span(item.low, item.high, 1, scale=100.0))
    return Cell(
        (signed if sign else fixed)(item.value, digits),
        note=span(item.low, item.high, digits, sign=sign),
    )


@dataclass(frozen=True)
class Column:
    """A head of a table; numbers are aligned right, with room for an interval where they have one;
    `wide` holds sentences.
    """

    label: str
    _: KW_ONLY
    number: bool = True
    unit: str = ""
    interval: bool = False
    wide: bool = False


def words(label: str, *, unit: str = "", wide: bool = False) -> Column:
    """A head over words, which are aligned left."""
    return Column(label, number=False, unit=unit, wide=wide)


@dataclass(frozen=True)
class Table:
    """A table whose first column names the row.

    Args:
        caption: a sentence on the contents.
        columns: its head.
        groups: (heading or "", rows).
        picks: the number, from 1 on, of each group's choice among the section's `choices`; empty
            where all stay in sight.
        inline: intervals stand next to their numbers, not below them.
        compact: no wider than it must be.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    groups: Sequence[tuple[str, Sequence[Sequence[Cell]]]]
    _: KW_ONLY
    picks: Sequence[int] = ()
    inline: bool = False
    compact: bool = False

    @classmethod
    def of(
        cls, caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], **more: Any
    ) -> Table:
        """A table whose rows are one group without a heading."""
        return cls(caption, columns, [("", rows)], **more)


@dataclass(frozen=True)
class Figure:
    """A plot: its SVG, what stands under it, and a narrow drawing of the same for phones where the
    first is wider than one.

    `pick` is the one of the section's `choices` that it belongs to, from 1 on; None stays in sight.
    """

    svg: str
    _: KW_ONLY
    caption: str = ""
    narrow: str | None = None
    pick: int | None = None


def both_widths(
    draw: Callable[..., str],
    widths: tuple[int, int],
    *,
    name: str,
    caption: str = "",
    pick: int | None = None,
) -> Figure:
    """A plot drawn for a page and for a phone, so that letters keep their size on both.

    Args:
        draw: called with ``name`` and ``width`` (CSS pixels); gives an SVG.
        widths: the widths of the two.
        name: prefix of ids; the width is put after it.
        caption, pick: see `Figure`.
    """
    wide, narrow = (draw(name=f"{name}-{width}", width=width) for width in widths)
    return Figure(wide, narrow=narrow, caption=caption, pick=pick)


@dataclass(frozen=True)
class FigureGrid:
    """Plots side by side, one below the other on a phone. `legend` names roles, where the plots
    themselves have no legend.
    """

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]
    _: KW_ONLY
    columns: int
    caption: str = ""
    legend: Sequence[str] = ()
    heading: str = ""


@dataclass(frozen=True, kw_only=True)
class FaceCard:
    """A thumbnail with its true age and what each model says (role, years)."""

    uri: str
    alt: str
    age: str
    predictions: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class FaceGrid:
    """A block of thumbnails of one set, each with the models' answers."""

    kind: ClassVar[str] = "faces"
    heading: str
    faces: Sequence[FaceCard]


@dataclass(frozen=True, kw_only=True)
class PictureRow:
    """A few small pictures of one model.

    Args:
        label: the request that the model got.
        role: the role of its mark.
        uris: the URIs of the pictures.
    """

    label: str
    role: str
    uris: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PictureGrid:
    """Rows of small pictures, which are to be compared column by column."""

    kind: ClassVar[str] = "pictures"
    caption: str
    rows: Sequence[PictureRow]


@dataclass(frozen=True)
class Notes:
    """A block of plain sentences."""

    kind: ClassVar[str] = "notes"
    lines: Sequence[str]


Block = Table | FigureGrid | FaceGrid | PictureGrid | Notes


@dataclass(frozen=True)
class Section:
    """A heading with blocks below it.

    `choices` name what a reader may look at alone (devices, say); two or more of them become a
    filter.
    """

    id: str
    heading: str
    lead: str
    blocks: Sequence[Block]
    _: KW_ONLY
    choices: Sequence[str] = ()
    chip: str = ""


@dataclass(frozen=True)
class KeyNumber:
    """A number that a reader should take away."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Missing:
    """A part that the given files do not allow, and what would bring it."""

    what: str
    why: str
