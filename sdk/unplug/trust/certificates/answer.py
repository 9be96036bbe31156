"""The draft of the answer to the person, filled from ledger and certificate.

What is not known stands there as ``[TO FILL IN: ...]``: a draft never sounds more certain than its
sources. It is not legal advice, and says so.

Reference: GDPR, articles 12, 17 and 19.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unplug.core import atomic_dir
from unplug.trust.ledger import Ledger, pick

from .certificate import Certificate
from .history import only_held_out

ANSWER = "answer.md"
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")
ENDS = ("answered", "refused", "withdrawn")


def draft_answer(
    request: str, ledger: Ledger, out: Path, certificate: Certificate | None = None
) -> Path:
    """Writes the draft as Markdown.

    Args:
        request: its id.
        ledger: the ledger that holds it.
        out: folder to write; an older draft there is replaced.
        certificate: the request's certificate, opened with its issuer's key; without it, the fields
            that it would fill stay open.

    Raises:
        InputError: no such request.
        OutputError: `out` holds something else, or cannot be written.
    """
    asked = pick(ledger.requests(), request)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": markdown_text, "day": ledger.day}
    text = environment.get_template(f"{ANSWER}.j2").render(
        request=asked,
        certificate=certificate,
        ended=next((entry for entry in reversed(asked.history) if entry.kind in ENDS), None),
        blank=blank,
        informed=[entry for entry in asked.history if entry.kind == "informed"],
        searches=[entry for entry in asked.history if "trace_sha256" in entry.facts],
        held_out=certificate is None and only_held_out(asked.history),
    )
    with atomic_dir(out, owner=ANSWER, ours=(), private=True) as folder:
        (folder / ANSWER).write_text(text, encoding="utf-8")
    return out / ANSWER


def blank(what: str) -> str:
    """What somebody must fill in, so that it is seen.

    Example:
        >>> blank("your address")
        '**[TO FILL IN: your address]**'
    """
    return f"**[TO FILL IN: {what}]**"


def markdown_text(text: object) -> str:
    """Text that Markdown shows as it is.

    Example:
        >>> markdown_text("A_1 <b> 2026-11-24")
        'A\\\\_1 \\\\<b\\\\> 2026-11-24'
    """
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))
