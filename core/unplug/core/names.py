"""Names of people and pictures: the form in which all doors compare them, and one check of a
request's names.

Programs change names: spreadsheets round, date and pad what they take for a number, macOS writes
another Unicode form.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence

from .errors import InputError
from .text import plain

SUBJECT = "subject:"
MOST_PLACES = 5  # names that a refusal counts up
_FOR_NOBODY = """
nan -nan na n/a n.a. <na> #n/a #na #nv #n/d null (null) none nil nat undefined unknown missing
- -- --- \u2013 \u2014 ? ?? ??? -1
"""
NOBODY = frozenset(_FOR_NOBODY.split())
"""What pandas, R, databases, spreadsheets and people write where a person's name is missing, in
small letters.
"""
_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mrz|mär|mai|okt|dez|janv|févr|avr|juin|juil|août|déc|ene|abr|ago|dic"
    r"|gen|mag|giu|lug|set|ott|mrt|mei|sept|mars)\.?"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?:z| ?[+-]\d{2}:?\d{2})?"
_DAY = rf"\d{{1,2}}[-. /]+{_MONTH}(?:[-. /]\d{{2,4}})?|\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}"
_DAY += r"|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}([-.])\d{1,2}\2\d{4}"
_ROUNDED = r"[+-]?\d+(?:[.,]\d+e[+-]?|e[+-])\d+|\d{16,}[.,]0+"
_SPOILT = (
    (r"[\s\S]*\0[\s\S]*", "it holds a NUL character, which no name has"),
    (
        _ROUNDED,
        "a spreadsheet rounded it; different people may have become one: write the whole number as "
        "text",
    ),
    (
        r"#[^\W\d_][\w/]*[!?]|##+|err:\d+",
        "it is a spreadsheet's error or too narrow a column, and no name",
    ),
    (rf"{SUBJECT}=.+", "it is a spreadsheet's formula: write its value"),
    (
        rf"{SUBJECT}(?:(?:{_DAY})(?:[t ]+{_TIME})?|{_TIME})",
        "a spreadsheet made a date of it: write the name as text",
    ),
)
"""Forms, and what they say. Dates and formulas only where people are named: ids of pictures may be
paths of numbers.
"""
_NO_LETTERS = ("Cf", "Pi", "Pf")
"""Unicode's categories of what does not show, and of quotes."""
_THOUSANDS = r"\d{1,3}(?:[,'\u2019 \u00a0\u202f]\d{3})+"
_PADDED = re.compile(
    rf"(?:\d+|{_THOUSANDS})[.,]0+|'\d+|{_THOUSANDS}|{_MONTH}[- ]\d\d", re.IGNORECASE
)


def name_form(name: str) -> str:
    """The form in which names are compared: Unicode's NFC, nothing invisible around them, also
    after ``subject:``.

    Forget files, the command line, the ledger and requests over HTTP use this one, so that a name
    means the same everywhere. Two names that differ otherwise, say in capital letters or in
    full-width ones, are two names.

    Example:
        >>> name_form(" subject: anna\\t"), name_form("faces/a b.png ")
        ('subject:anna', 'faces/a b.png')
        >>> name_form("Jose\u0301\u200b") == "Jos\u00e9"
        True
    """
    bare = _trimmed(name)
    return f"{SUBJECT}{_trimmed(bare.removeprefix(SUBJECT))}" if bare.startswith(SUBJECT) else bare


def _trimmed(text: str) -> str:
    if text.isascii():
        return text.strip()
    letters = unicodedata.normalize("NFC", text)
    shown = [
        place
        for place, letter in enumerate(letters)
        if not (letter.isspace() or unicodedata.category(letter) == "Cf")
    ]
    return letters[shown[0] : shown[-1] + 1] if shown else ""


def name_forms(name: str) -> tuple[str, ...]:
    """Texts that records may hold for a name: as it stands, as all doors write it today, and as
    macOS writes file names.

    Example:
        >>> len(name_forms("anna")), len(name_forms("Jos\u00e9"))
        (1, 2)
    """
    bare = name_form(name)
    if bare == name and name.isascii():
        return (name,)
    return tuple(
        dict.fromkeys(
            (
                name,
                *(
                    unicodedata.normalize(form, text)
                    for text in (name, bare)
                    for form in ("NFC", "NFD")
                ),
            )
        )
    )


def person_named(text: str | None) -> str | None:
    """The person meant by the text where a person's name belongs, in NFC, or None for nobody; see
    `NOBODY`.
    """
    trimmed = _trimmed(text or "")
    return (
        unicodedata.normalize("NFC", text or "")
        if trimmed and trimmed.casefold() not in NOBODY
        else None
    )


def spoilt_name(name: str) -> str | None:
    """What a program made of a name so that it says no more who was meant, in words; None where
    nothing shows.

    Args:
        name: the id of a sample, or ``subject:NAME``.

    Example:
        >>> spoilt_name("subject:1.00012E+11")
        'a spreadsheet rounded it; different people may have become one: write the whole number as text'
        >>> spoilt_name("subject:E11"), spoilt_name("subject:100012345678")
        (None, None)
    """
    return next(
        (why for form, why in _SPOILT if re.fullmatch(f"(?:{SUBJECT})?(?:{form})", name, re.I)),
        None,
    )


def padded_name(name: str) -> bool:
    """Whether a program may have added to a name and still says who is meant: ``123.0``, ``1,234``,
    ``Mar-01``.
    """
    return _PADDED.fullmatch(name) is not None


def name_key(name: str) -> str:
    """A key that names share where only what people and programs mix up differs; two names of one
    key are still two.

    Capital letters, accents' forms, blanks, quotes, signs that do not show, zeros around a number.

    Example:
        >>> name_key("subject:Anna") == name_key("subject:an\\u200bna"), name_key("007") == name_key("7.0")
        (True, True)
    """
    kind = SUBJECT if name.startswith(SUBJECT) else ""
    text = unicodedata.normalize("NFKC", name_form(name).removeprefix(kind)).casefold()
    text = "".join(
        letter
        for letter in text
        if letter not in "\"'`" and unicodedata.category(letter) not in _NO_LETTERS
    )
    if number := re.fullmatch(r"0*(\d+|\d{1,3}(?:,\d{3})+)(?:[.,]0+)?", "".join(text.split())):
        digits = "".join(filter(str.isdecimal, number[1]))
        return f"{kind}{digits.lstrip('0') or '0'}"
    return f"{kind}{' '.join(text.split())}"


class KnownNames:
    """The names that some data hold, by the form in which they are compared.

    Args:
        names: all sample ids, and ``subject:NAME`` of all people.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._of: dict[str, dict[str, None]] = {}
        for name in names:
            self._of.setdefault(name_form(name), {})[name] = None

    def alike(self, name: str) -> tuple[str, ...]:
        """The data's names of the same form: one where it is known, none, or several that differ in
        white space alone.
        """
        return tuple(self._of.get(name_form(name), ()))

    def near(self, names: Iterable[str]) -> str:
        """Which name of the data one of some unknown ones may mean, as the end of a sentence; empty
        where none is near.
        """
        keys = {name_key(form): form for form in self._of}
        for name in names:
            if near := keys.get(name_key(name)):
                why = (
                    "differs only in capital letters, blanks, quotes, signs that do not show or "
                    "zeros"
                )
                return f"; {plain(near)!r} is there, which {why}"
        return ""

    def close(self, name: str) -> tuple[str, ...]:
        """The data's names that one nobody has may be a slip of: at most three, the nearest first."""
        return tuple(difflib.get_close_matches(name_form(name), self._of))


def checked_names(
    names: Sequence[str], known: KnownNames | None = None, *, places: bool = True
) -> tuple[str, ...]:
    """The names of a request in the form in which they are compared, each once: the one check that
    every door makes.

    Args:
        names: the names as given.
        known: those of the data in which they will be looked for; None checks no more than their
            form.
        places: say which ones the data lack, and not only how many.

    Raises:
        InputError: there are none, one is empty, stands for nobody or is what a program made of a
            name, or the data hold one not at all or several times. What and why name nobody, for
            they go where names must not (over HTTP, into logs); what to do quotes the first.
    """
    if not names:
        raise InputError(
            "the request", "it names nobody", "Name at least one sample id or subject:NAME"
        )
    forms = [name_form(name) for name in names]
    if empty := [place for place, form in enumerate(forms, 1) if form in ("", SUBJECT)]:
        raise InputError(
            "the request",
            _places(empty, forms, "empty"),
            "Write a sample id or subject:NAME, or leave it out",
        )
    if wrong := [(place, why) for place, form in enumerate(forms, 1) if (why := _no_name(form))]:
        told = f"{_places([place for place, _ in wrong], forms, 'not to be found')}: {wrong[0][1]}"
        raise InputError("the request", told, "Write them as the data should have them")
    if known is None:
        return tuple(dict.fromkeys(forms))
    counts = [len(known.alike(form)) for form in forms]
    if strangers := [place for place, count in enumerate(counts, 1) if not count]:
        first = forms[strangers[0] - 1][:60]
        fix = (
            f"Check {first!r}: `unplug data inspect SPEC --ids` lists the ids; whom another data "
            "set holds is another request"
        )
        fix += known.near(forms[place - 1] for place in strangers)
        raise InputError(
            "the request", _places(strangers, forms, "unknown to the data", places), fix
        )
    if several := [place for place, count in enumerate(counts, 1) if count > 1]:
        fix = (
            f"Rename them in the data, {forms[several[0] - 1][:60]!r} first: a request must never "
            "forget somebody else"
        )
        why = _places(
            several, forms, "several in the data that differ in white space alone", places
        )
        raise InputError("the request", why, fix)
    return tuple(dict.fromkeys(forms))


def _no_name(form: str) -> str | None:
    """Why nobody can be asked for by a name in its form, in words that do not repeat it; None where
    somebody may be.
    """
    if form.startswith(SUBJECT) and person_named(form.removeprefix(SUBJECT)) is None:
        return "it stands for nobody, and a person has a name"
    return spoilt_name(form)


def _places(places: Sequence[int], names: Sequence[str], what: str, listing: bool = True) -> str:
    """How many of the names are something, and which: ``1 of 2 names are empty (number 2)``."""
    if not listing:
        return f"{len(places)} of {len(names)} names are {what}"
    listed = ", ".join(map(str, places[:MOST_PLACES])) + (
        ", ..." if len(places) > MOST_PLACES else ""
    )
    return f"{len(places)} of {len(names)} names are {what} (number {listed})"
