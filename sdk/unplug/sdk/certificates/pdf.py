"""The two pages as PDF, drawn by ReportLab: no browser is needed, and the same certificate is the same bytes."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from unplug.core import require_modules

from .certificate import Certificate
from .sheet import Grid, Pairs, Piece, Prose, Sheet, sheet_of

INK, MUTED, LINE, ACCENT, DESK = "#15181d", "#565d68", "#dfe2e7", "#1a5fa8", "#eceef1"
TONES = {"good": "#17633a", "bad": "#a3201c", "open": "#7a5200"}
FACES = {"Sheet": "DejaVuSans", "Sheet-Bold": "DejaVuSans-Bold", "Sheet-Mono": "DejaVuSansMono"}
"""Of the fonts that Matplotlib ships: embedded, with Latin, Greek and Cyrillic letters."""
MARGIN, TOP, BOTTOM, GUTTER = 48.0, 36.0, 40.0, 8.0
"""Points."""


def check_pdf() -> None:
    """Raises `MissingExtraError` where ``[certificate]`` is not installed."""
    require_modules(["reportlab"], "certificate")


def certificate_pdf(certificate: Certificate, key: str) -> bytes:
    """The pages, A4; the same certificate and key give the same bytes.

    Args:
        certificate: what to show.
        key: fingerprint of the key that signs.

    Raises:
        MissingExtraError: ``[certificate]`` is not installed.
    """
    check_pdf()
    from reportlab.lib.pagesizes import A4
    from reportlab.platypus import KeepInFrame, PageBreak, SimpleDocTemplate, Spacer

    _fonts()
    sheet, buffer = sheet_of(certificate, key), io.BytesIO()
    width = A4[0] - 2 * MARGIN
    made = SimpleDocTemplate(
        buffer, pagesize=A4, leftMargin=MARGIN - 6, rightMargin=MARGIN - 6, topMargin=TOP, bottomMargin=BOTTOM,
        title=sheet.title, subject=sheet.subtitle, author=certificate.issuer or "unplug", invariant=1, lang="en",
    )  # fmt: skip
    story: list[Any] = []
    for number, blocks in enumerate(sheet.pages):
        page = [PageBreak()] if number else _head(sheet, width)
        page += [item for block in blocks for item in (*_block(block, width), Spacer(1, 9))]
        # Two pages, whatever stands on them: what is longer is drawn smaller.
        story += [*page[:number], KeepInFrame(width, A4[1] - TOP - BOTTOM - 12, page[number:], mode="shrink")]
    made.build(story, onFirstPage=_foot(sheet), onLaterPages=_foot(sheet))
    return buffer.getvalue()


@cache
def _fonts() -> None:
    """Registers the three faces, once a process."""
    import matplotlib
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for name, file in FACES.items():
        pdfmetrics.registerFont(TTFont(name, str(folder / f"{file}.ttf")))


def _style(points: float, *, font: str = "Sheet", colour: str = INK, **more: Any) -> Any:
    from reportlab.lib.styles import ParagraphStyle

    return ParagraphStyle(
        f"{font} {points}", fontName=font, fontSize=points, leading=more.pop("leading", points * 1.35), textColor=colour, **more
    )  # fmt: skip


def _text(text: str, style: Any) -> Any:
    """A paragraph of plain text: what looks like markup in it is shown, not obeyed."""
    from reportlab.platypus import Paragraph

    return Paragraph(escape(text), style)


def _head(sheet: Sheet, width: float) -> list[Any]:
    from reportlab.platypus import Spacer, Table

    lead = Table([[_text(sheet.lead, _style(9.5))]], colWidths=[width])
    lead.setStyle([("LINEBEFORE", (0, 0), (0, 0), 2, ACCENT), ("LEFTPADDING", (0, 0), (0, 0), 10), *_padding(1)])
    return [
        _text("unplug", _style(8.5, font="Sheet-Bold", colour=ACCENT)),
        _text(sheet.title, _style(19, font="Sheet-Bold")),
        _text(sheet.subtitle, _style(8, colour=MUTED)), Spacer(1, 9), lead, Spacer(1, 10),
    ]  # fmt: skip


def _foot(sheet: Sheet) -> Any:
    def draw(canvas: Any, document: Any) -> None:
        canvas.setFont("Sheet", 6.5)
        canvas.setFillColor(MUTED)
        canvas.drawString(MARGIN, 24, sheet.foot)
        canvas.drawRightString(document.pagesize[0] - MARGIN, 24, f"{document.page} / {len(sheet.pages)}")

    return draw


def _padding(points: float) -> list[tuple[Any, ...]]:
    return [("TOPPADDING", (0, 0), (-1, -1), points), ("BOTTOMPADDING", (0, 0), (-1, -1), points + 1)]


def _block(block: Pairs | Grid | Prose, width: float) -> list[Any]:
    title = _text(block.title, _style(9.5, font="Sheet-Bold", spaceAfter=2))
    if isinstance(block, Pairs):
        return [title, _pairs(block, width)]
    if isinstance(block, Grid):
        note = [_text(block.note, _style(7, colour=MUTED, spaceBefore=3))] if block.note else []
        return [title, _grid(block, width), *note]
    return [title, *(_line(item) for item in block.lines)]


def _piece(item: Piece, points: float = 8.0) -> list[Any]:
    font = "Sheet-Mono" if item.mono else "Sheet-Bold" if item.tone else "Sheet"
    shown = [_text(item.text, _style(points - 1.0 if item.mono else points, font=font, colour=TONES.get(item.tone, INK)))]
    if item.note:
        shown.append(_text(item.note, _style(7, colour=MUTED)))
    return shown


def _pairs(block: Pairs, width: float) -> Any:
    from reportlab.platypus import Table

    label = _style(7.2, colour=MUTED)
    if block.across == 1:
        rows = [[_text(name, label), _piece(item)] for name, item in block.rows]
        made = Table(rows, colWidths=[0.17 * width, 0.83 * width])
    else:
        cells = [[_text(name, label), *_piece(item)] for name, item in block.rows]
        cells += [[]] * (-len(cells) % block.across)
        rows = [cells[at : at + block.across] for at in range(0, len(cells), block.across)]
        made = Table(rows, colWidths=[width / block.across] * block.across)
    made.setStyle([*_common(), ("LINEABOVE", (0, 0), (-1, 0), 0.5, LINE), *_padding(2)])
    return made


def _grid(block: Grid, width: float) -> Any:
    from reportlab.platypus import Table

    head = [_text(label, _style(7.2, colour=MUTED)) for label in block.head]
    made = Table(
        [head, *[[_piece(item) for item in row] for row in block.rows]], colWidths=[share * width for share in block.widths],
        repeatRows=1,
    )  # fmt: skip
    made.setStyle([*_common(), ("LINEABOVE", (0, 0), (-1, -1), 0.5, LINE), *_padding(1.5)])
    return made


def _common() -> list[tuple[Any, ...]]:
    return [
        ("VALIGN", (0, 0), (-1, -1), "TOP"), ("LEFTPADDING", (0, 0), (-1, -1), 0), ("RIGHTPADDING", (0, 0), (-1, -1), GUTTER),
    ]  # fmt: skip


def _line(item: Piece) -> Any:
    if item.mono:
        return _text(item.text, _style(7.2, font="Sheet-Mono", backColor=DESK, borderPadding=4, spaceBefore=6, spaceAfter=8))
    text = f"{item.text} {item.note}".rstrip()
    return _text(f"–  {text}", _style(8, leftIndent=10, firstLineIndent=-10))
