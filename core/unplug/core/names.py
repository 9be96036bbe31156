"""Names of people and pictures: one form in which all doors compare them, and what programs make of them.

A spreadsheet rounds, dates and pads what it takes for a number; macOS writes file names in another Unicode form than keyboards do.
"""

from __future__ import annotations

import re
import unicodedata

SUBJECT = "subject:"
"""Begins the name of a person in a request; what has none is the id of a sample."""
NOBODY = frozenset(
    "nan -nan na n/a n.a. <na> #n/a #na #nv #n/d null (null) none nil nat undefined unknown missing - -- --- – — ? ?? ??? -1".split()
)
"""What stands for a missing value where a person's name belongs, in small letters: pandas, R, databases, spreadsheets, people."""
_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mrz|mär|mai|okt|dez|janv|févr|avr|juin|juil|août|déc|ene|abr|ago|dic"
    r"|gen|mag|giu|lug|set|ott|mrt|mei|sept|mars)\.?"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?:z| ?[+-]\d{2}:?\d{2})?"
_DAY = rf"\d{{1,2}}[-. /]+{_MONTH}(?:[-. /]\d{{2,4}})?|\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}"
_DAY += r"|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}([-.])\d{1,2}\2\d{4}"
_ROUNDED = r"[+-]?\d+(?:[.,]\d+e[+-]?|e[+-])\d+|\d{16,}[.,]0+"
_SPOILT = (
    (_ROUNDED, "a spreadsheet rounded it; different people may have become one: write the whole number as text"),
    (r"#[^\W\d_][\w/]*[!?]|##+|err:\d+", "it is a spreadsheet's error or too narrow a column, and no name"),
    (rf"{SUBJECT}=.+", "it is a spreadsheet's formula: write its value"),
    (rf"{SUBJECT}(?:(?:{_DAY})(?:[t ]+{_TIME})?|{_TIME})", "a spreadsheet made a date of it: write the name as text"),
)
"""Forms, and what they say. Dates and formulas only where people are named: ids of pictures may be paths of numbers."""
_THOUSANDS = r"\d{1,3}(?:[,'’ \u00a0\u202f]\d{3})+"
_PADDED = re.compile(rf"(?:\d+|{_THOUSANDS})[.,]0+|'\d+|{_THOUSANDS}|{_MONTH}[- ]\d\d", re.IGNORECASE)
_QUOTES = str.maketrans("", "", "\"'’‘“”„«»`´")


def bare_name(text: str) -> str:
    """The form in which names are compared: Unicode's NFC, nothing invisible around it, also behind ``subject:``.

    Two names that differ otherwise, say in capital letters or in full-width ones, are two names.

    Example:
        >>> bare_name(" subject: Jose\\u0301\\u200b\\r") == "subject:Jos\\u00e9"
        True
    """
    bare = _trimmed(text)
    return f"{SUBJECT}{_trimmed(bare.removeprefix(SUBJECT))}" if bare.startswith(SUBJECT) else bare


def _trimmed(text: str) -> str:
    if text.isascii():
        return text.strip()
    letters = unicodedata.normalize("NFC", text)
    shown = [place for place, letter in enumerate(letters) if not (letter.isspace() or unicodedata.category(letter) == "Cf")]
    return letters[shown[0] : shown[-1] + 1] if shown else ""


def name_forms(name: str) -> tuple[str, ...]:
    """Texts that records may hold for a name: as it stands, as all doors write it today, and as macOS writes file names.

    Example:
        >>> len(name_forms("anna")), len(name_forms("Jos\u00e9"))
        (1, 2)
    """
    bare = bare_name(name)
    if bare == name and name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, *(unicodedata.normalize(form, text) for text in (name, bare) for form in ("NFC", "NFD")))))


def person_named(text: str | None) -> str | None:
    """Who is meant by the text where a person's name belongs, in NFC, or None for nobody; see `NOBODY`."""
    trimmed = _trimmed(text or "")
    return unicodedata.normalize("NFC", text or "") if trimmed and trimmed.casefold() not in NOBODY else None


def spoilt_name(name: str) -> str | None:
    """What a program made of a name so that it says no more who was meant, in words; None where nothing shows.

    Args:
        name: the id of a sample, or ``subject:NAME``.

    Example:
        >>> spoilt_name("subject:1.00012E+11")
        'a spreadsheet rounded it; different people may have become one: write the whole number as text'
        >>> spoilt_name("subject:E11"), spoilt_name("subject:100012345678")
        (None, None)
    """
    return next((why for form, why in _SPOILT if re.fullmatch(f"(?:{SUBJECT})?(?:{form})", name, re.I)), None)


def padded_name(name: str) -> bool:
    """Whether a program may have added to a name and still says who is meant: ``123.0``, ``1,234``, ``Mar-01``."""
    return _PADDED.fullmatch(name) is not None


def name_refusal(name: str) -> str | None:
    """Why nobody can be asked for by a name, in words; None where somebody may be."""
    bare = bare_name(name)
    person = bare.removeprefix(SUBJECT) if bare.startswith(SUBJECT) else None
    if not bare or person == "":
        return "it is empty"
    if person is not None and person_named(person) is None:
        return "it stands for nobody: a person has a name"
    return spoilt_name(bare)


def name_key(name: str) -> str:
    """A key that names share where only what people and programs mix up differs; two names of one key are still two.

    Capital letters, accents' forms, blanks, quotes, signs that do not show, zeros around a number.

    Example:
        >>> name_key("subject:Anna") == name_key("subject:an\\u200bna"), name_key("007") == name_key("7.0")
        (True, True)
    """
    kind = SUBJECT if name.startswith(SUBJECT) else ""
    text = unicodedata.normalize("NFKC", bare_name(name).removeprefix(kind)).casefold().translate(_QUOTES)
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    if number := re.fullmatch(r"0*(\d+|\d{1,3}(?:,\d{3})+)(?:[.,]0+)?", "".join(text.split())):
        digits = "".join(filter(str.isdecimal, number[1]))
        return f"{kind}{digits.lstrip('0') or '0'}"
    return f"{kind}{' '.join(text.split())}"
