"""Pictures side by side."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

INK, PAPER = (40, 40, 44), (255, 255, 255)


def image_grid(
    rows: Sequence[Sequence[Image.Image]],
    *,
    labels: Sequence[str] = (),
    gap: int = 4,
    side: int | None = None,
    font_size: int = 15,
) -> Image.Image:
    """One picture of many, each `side` pixels wide.

    Args:
        rows: R rows of C pictures.
        labels: a word in front of each row, or none.
        gap: white pixels between pictures.
        side: the width of a cell in pixels (default: the first picture's width).
        font_size: the size of the labels' type in pixels.

    Example:
        >>> image_grid([[Image.new("RGB", (8, 8))] * 3] * 2, gap=2).size
        (32, 22)
    """
    side = side or rows[0][0].width
    font = ImageFont.load_default(size=font_size)
    left = gap + max((int(font.getlength(label)) + 2 * gap for label in labels), default=0)
    columns = max(len(row) for row in rows)
    sheet = Image.new("RGB", (left + columns * (side + gap), gap + len(rows) * (side + gap)), PAPER)
    draw = ImageDraw.Draw(sheet)
    for index, row in enumerate(rows):
        top = gap + index * (side + gap)
        if labels:
            draw.text(
                (left - 2 * gap, top + side // 2), labels[index], fill=INK, font=font, anchor="rm"
            )
        for column, picture in enumerate(row):
            cell = picture.convert("RGB")
            if cell.size != (side, side):
                cell = cell.resize((side, side), Image.Resampling.LANCZOS)
            sheet.paste(cell, (left + column * (side + gap), top))
    return sheet
