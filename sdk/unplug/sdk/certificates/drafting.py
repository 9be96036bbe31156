"""Drafts around a request, filled from ledger and certificate: an answer to the person, a record of processing, an annex.

What is not known stands there as ``[TO FILL IN: ...]``: a draft never sounds more certain than its sources. None is legal
advice, and each says so.

Reference: European Data Protection Board, Opinion 28/2024 on certain data protection aspects related to the processing of
personal data in the context of AI models (17 December 2024); GDPR, articles 12, 17, 19 and 30. Headings are in our own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from unplug.core import atomic_dir, percent
from unplug.sdk.ledger import Ledger, Request, pick

from .certificate import AttackLine, Certificate
from .history import only_held_out

HERE = Path(__file__).resolve().parent / "drafts"
DRAFTS = ("answer.md", "record.md", "annex-edpb-28-2024.md")
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&])")
NO_ADVICE = "This draft is no legal advice. Read it, change it, and have it checked before it is used."


def write_drafts(request: str, ledger: Ledger, out: Path, certificate: Certificate | None = None) -> tuple[Path, ...]:
    """Writes the three drafts as Markdown.

    Args:
        request: its id.
        ledger: that holds it.
        out: folder to write; older drafts there are replaced.
        certificate: of this request, opened with its issuer's key; without it, what it would fill stays open.

    Raises:
        InputError: no such request.
        OutputError: `out` holds something else, or cannot be written.
    """
    found = pick(ledger.requests(), request)
    with atomic_dir(out, owner=DRAFTS[0], ours=DRAFTS, private=True) as folder:
        for name in DRAFTS:
            (folder / name).write_text(_filled(name, found, certificate, ledger.day), encoding="utf-8")
    return tuple(out / name for name in DRAFTS)


def _filled(name: str, request: Request, certificate: Certificate | None, day: Callable[[str], date]) -> str:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=False, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters |= {"md": markdown_text, "percent": lambda value: percent(value, 2), "gap": _gap}
    environment.filters["day"] = day
    ended = next((entry for entry in reversed(request.history) if entry.kind in ("answered", "refused", "withdrawn")), None)
    return environment.get_template(f"{name}.j2").render(
        request=request, certificate=certificate, ended=ended, blank=blank, no_advice=NO_ADVICE,
        informed=[entry for entry in request.history if entry.kind == "informed"],
        touched=[entry for entry in request.history if entry.kind == "touched"],
        searches=[entry for entry in request.history if "trace_sha256" in entry.facts],
        held_out=certificate is None and only_held_out(request.history),
    )  # fmt: skip


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


def _gap(line: AttackLine) -> str:
    """How far the released model is from what never saw the person."""
    if line.gap is None:
        return blank("no difference was computed")
    if line.gap.low is None or line.gap.high is None:
        return f"{line.gap.value:+.3f}, without an interval"
    return f"{line.gap.value:+.3f} ({line.gap.low:+.3f} to {line.gap.high:+.3f})"
