"""Her names in texts: whole words by Unicode, in any case and form, as they stand or escaped."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

PIECE = 2**16
"""Letters that are compared at once, so that a long text takes little memory."""
_HIDDEN = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_BLANKS, _SLASHES = re.compile(r"(?: (?=[\s_+])|[^\S ]|[_+])[\s_+]*"), re.compile(r"[\\/]+")
_MARKS = re.compile(r"[^\w\s!-~]{64,}")
"""No name, and Unicode's forms of a run of marks take quadratic time."""
_UNITS = (
    "%[0-9a-fA-F]{2}",
    r"\\u\{?[0-9a-fA-F]{4,6}\}?",
    r"\\x[0-9a-fA-F]{2}",
    r"\\[0-3][0-7]{2}",
    r"=(?:[0-9A-F]{2}|\r?\n)",
)
_ESCAPED = re.compile(
    "|".join(("&#?[0-9A-Za-z]{1,31};", *(f"{unit}(?:{unit})*" for unit in _UNITS)))
)
_SIGNS = re.compile(r"[%&\\=]")
"""As addresses, HTML, JSON, sources of programs and mails write what is not ASCII."""
ENCODED = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{200}|(?:[A-Za-z0-9+/]{60,80}\r?\n){3})"
    r"|;base64,|=\?[\w-]{1,40}\?[bBqQ]\?|^begin(?:-base64)? [0-7]{3} |^=ybegin |<~[!-u]{60}"
    r"|^content-transfer-encoding:\s*(?:base64|quoted|x-uu)",
    re.IGNORECASE | re.MULTILINE,
)
"""A text that holds something which was made text of: base64, hexadecimal digits, parts of mails.
"""


def _plain(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "%":
        return unquote(text)
    if text[0] == "&":
        return html.unescape(text)
    if text[:2] == "\\u":
        codes = (min(int(code, 16), 0x10FFFF) for code in re.findall("[0-9a-fA-F]{4,6}", text))
        letters = "".join(map(chr, codes))
        return letters.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if text[0] == "\\" and text[1] != "x":
        return bytes(int(code, 8) for code in text.split("\\")[1:]).decode("utf-8", "replace")
    return bytes.fromhex("".join(re.findall("[0-9a-fA-F]{2}", text))).decode("utf-8", "replace")


def folded(text: str) -> str:
    """The form in which words are compared: no case, one form of each letter, nothing that does not
    show.

    Example:
        >>> folded("Stra\u00dfe 7") == folded("STRASSE_7"), folded("Jose\u0301") == folded("JOS\u00c9")
        (True, True)
    """
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKC", _MARKS.sub(" ", _HIDDEN.sub("", text))).casefold()
        text = unicodedata.normalize("NFKC", text).replace("i\u0307", "i").replace("\u0131", "i")
    return _SLASHES.sub("/", _BLANKS.sub(" ", text))


def _joins(letter: str) -> bool:
    """Whether two such letters side by side are of one word; scripts without case write names
    without a blank around them.
    """
    kind = unicodedata.category(letter)
    return kind[0] in "LNM" and kind != "Lo"


class PersonWords:
    """Finds some names in texts.

    Args:
        names: the names as the data have them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {form: name for name in names if (form := folded(name).strip())}
        self._lengths: dict[str, set[int]] = {}
        classes = ["", ""]
        for form in self._names:
            classes[_joins(form[0])] += re.escape(form[0])
            self._lengths.setdefault(form[0], set()).add(len(form))
        forms = zip(("", "(?<![0-9a-z])"), classes, strict=True)
        self._starts = re.compile(
            "|".join(f"{before}[{firsts}]" for before, firsts in forms if firsts) or "(?!)"
        )
        self._overlap = 8 * max(map(len, self._names), default=0) + 64

    def within(self, text: str) -> set[str]:
        """Those of the names that are in a text, whole, as it stands or with its escapes undone."""
        names = set[str]()
        for start in range(0, len(text), PIECE):
            piece, last = (
                text[max(0, start - self._overlap) : start + PIECE],
                start + PIECE >= len(text),
            )
            plain = _ESCAPED.sub(_plain, piece) if _SIGNS.search(piece) else piece
            for form in {piece, plain}:
                names |= self._in_piece(folded(form), start == 0, last)
        return names

    def among(self, value: Any) -> set[str]:
        """Those that are in a text or a key of a JSON value."""
        names, level = set[str](), [value]
        while level:
            for part in level:
                names |= self.within(part) if isinstance(part, str) else set()
            level = [
                inner
                for part in level
                if isinstance(part, dict | list)
                for inner in ((*part.keys(), *part.values()) if isinstance(part, dict) else part)
            ]
        return names

    def in_bytes(self, raw: bytes) -> set[str]:
        """Those that are in bytes in clear, as UTF-8, Latin-1 or UTF-16."""
        texts = (
            raw.decode("utf-8", "replace"),
            raw.decode("latin-1"),
            *(raw[at:].decode("utf-16-le", "replace") for at in (0, 1)),
        )
        return set().union(*(self.within(text) for text in texts))

    def _in_piece(self, text: str, first: bool, last: bool) -> set[str]:
        names = set[str]()
        for match in self._starts.finditer(text):
            start = match.start()
            for length in self._lengths[text[start]]:
                end = min(start + length, len(text))
                name = self._names.get(text[start:end])
                # whole in the next piece
                cut = (start == 0 and not first) or (end == len(text) and not last)
                if name is not None and not cut and _is_whole(text, start, end):
                    names.add(name)
        return names


def _is_whole(text: str, start: int, end: int) -> bool:
    before, behind = text[start - 1 : start], text[end : end + 1]
    if before and _joins(before) and _joins(text[start]):
        return False
    is_mark = bool(behind) and unicodedata.category(behind)[0] == "M"
    return not is_mark and not (behind and _joins(behind) and _joins(text[end - 1]))
