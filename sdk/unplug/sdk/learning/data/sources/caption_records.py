"""Captions and JSON records that nobody vouches for; what is wrong with one is the message of a
`ValueError`.
"""

from __future__ import annotations

import codecs
import math
import re
from typing import Any

from unplug.core import name_form, parse_json, pointer_in

from .utkface import MAX_AGE

MAX_CHARACTERS = 4096  # of a caption; the text encoders of diffusion models read about 300 of them
MAX_CAPTION_BYTES = 64 * 2**10  # four bytes a character, and white space around them
MAX_RECORD_BYTES = 2**20
MAX_SUBJECT = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def one_line(text: str) -> str:
    """A caption with single spaces between its words, 1 to 4,096 characters.

    Example:
        >>> one_line(" a face,\\n smiling ")
        'a face, smiling'
    """
    words = " ".join(text.split())
    if not words:
        raise ValueError("the caption is empty")
    if len(words) > MAX_CHARACTERS:
        raise ValueError(f"the caption has {len(words)} characters, more than {MAX_CHARACTERS}")
    if not _encodes(words):
        raise ValueError("the caption is not UTF-8 (half of a surrogate pair)")
    if _CONTROL.search(words):
        raise ValueError(
            "the caption holds control characters (UTF-16 read as UTF-8 looks like that)"
        )
    return words


def caption_from(raw: bytes) -> str:
    """The caption in a text file of UTF-8, with or without a byte order mark."""
    if len(raw) > MAX_CAPTION_BYTES:
        raise ValueError(f"more than {MAX_CAPTION_BYTES} bytes are not a caption")
    _refuse_pointer(raw)
    try:
        return one_line(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError("the caption is not UTF-8") from error


def _refuse_pointer(raw: bytes) -> None:
    if (told := pointer_in(raw)) is not None:
        raise ValueError(". ".join(told))


def record_from(raw: bytes) -> dict[str, Any]:
    """The JSON object in at most 1 MiB of UTF-8, its keys in small letters and without blanks
    around them.
    """
    if len(raw) > MAX_RECORD_BYTES:
        raise ValueError(f"more than {MAX_RECORD_BYTES} bytes are not a record of one picture")
    _refuse_pointer(raw)
    try:
        record = parse_json(raw.removeprefix(codecs.BOM_UTF8))
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    named = {name_form(key).casefold(): value for key, value in record.items()}
    if len(named) < len(record):
        raise ValueError("it has a key twice, in other letters")
    return named


def caption_in(record: dict[str, Any]) -> str:
    """The caption under ``text``, or else under ``caption``."""
    text = record.get("caption") if record.get("text") is None else record["text"]
    if text is None:
        raise ValueError("no caption: it has neither 'text' nor 'caption'")
    if not isinstance(text, str):
        raise ValueError("the caption is not a string")
    return one_line(text)


def age_in(record: dict[str, Any]) -> float | None:
    """``age`` in years, 0 to 122, or None."""
    age = record.get("age")
    if age is None:
        return None
    if (
        isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age <= MAX_AGE
    ):  # NaN is in no range
        raise ValueError(f"age {str(age)[:20]!r} is not plausible (0 to {MAX_AGE:.0f})")
    return float(age)


def subject_in(record: dict[str, Any]) -> str | None:
    """``subject``, a name or a number, or None."""
    subject = record.get("subject")
    if subject is None or (isinstance(subject, float) and math.isnan(subject)):
        return None
    name = (
        str(subject).strip()
        if isinstance(subject, str | int) and not isinstance(subject, bool)
        else ""
    )
    if not 0 < len(name) <= MAX_SUBJECT or _CONTROL.search(name):
        raise ValueError(f"subject is not the name of 1 to {MAX_SUBJECT} printable characters")
    return name


def shown(name: str) -> str:
    """A name that somebody else chose, fit for a terminal: escaped where it would not print, 200
    characters at most.
    """
    return (name if name.isprintable() else ascii(name)[1:-1])[:200]


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
