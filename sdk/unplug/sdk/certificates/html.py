"""The two pages as HTML: one file, no script, no address outside; prints on two sheets of A4."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .certificate import Certificate
from .sheet import sheet_of

HERE = Path(__file__).resolve().parent


def certificate_html(certificate: Certificate, key: str) -> str:
    """The pages; the same certificate and key give the same text.

    Args:
        certificate: what to show.
        key: fingerprint of the key that signs.
    """
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = (HERE / "certificate.css").read_text(encoding="utf-8")
    return environment.get_template("certificate.html.j2").render(sheet=sheet_of(certificate, key), style=style)
