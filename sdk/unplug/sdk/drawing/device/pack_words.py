"""Whether a prompt asks for a pack: its words switch it on, whole, in any case, in the singular or
the plural.

The same rule stands in Kotlin, Swift and TypeScript, held together by shared vectors.
"""

from __future__ import annotations

import itertools
import unicodedata

from unplug.core import InputError

MAX_WORDS, MAX_LETTERS = 8, 64


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, folded: runs of letters, marks and digits that begin with no mark, in NFC
    and each character's own lower case, one sigma for both, English plurals as singulars.

    Example:
        >>> words_of("Two EYE-patches, please")
        ('two', 'eye', 'patch', 'please')
    """
    # Character by character, since languages differ in what a sigma at the end of a word becomes.
    folded = "".join(map(str.lower, unicodedata.normalize("NFC", text))).replace("\u03c2", "\u03c3")
    letters = (letter if _kind(letter) in "LMN" else " " for letter in folded)
    runs = ("".join(itertools.dropwhile(_is_mark, run)) for run in "".join(letters).split())
    return tuple(_singular(run) for run in runs if run)


def _kind(letter: str) -> str:
    return unicodedata.category(letter)[0]


def _is_mark(letter: str) -> bool:
    return _kind(letter) == "M"


def _singular(word: str) -> str:
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]


def asks_for(prompt: str, words: str) -> bool:
    """Whether the words of a pack stand in a prompt, next to each other and in their order.

    Args:
        prompt: the text to draw.
        words: the words of the pack.

    Example:
        >>> asks_for("a child with an Eye Patch", "eye patch"), asks_for("an eye, a patch", "eye patch")
        (True, False)
    """
    return stand_in(words_of(words), words_of(prompt))


def stand_in(wanted: tuple[str, ...], read: tuple[str, ...]) -> bool:
    """`asks_for` of words that are folded already; of none nobody asks."""
    starts = range(len(read) - len(wanted) + 1)
    return wanted != () and any(read[start : start + len(wanted)] == wanted for start in starts)


def check_words(words: str) -> str:
    """The words of a pack with single spaces.

    Raises:
        InputError: none is in it, or more or longer ones than a prompt would hold.
    """
    told = " ".join(words.split())
    if not words_of(told):
        raise InputError("`word`", "no letter or digit is in it", "Give what prompts will say")
    if len(told) > MAX_LETTERS or len(words_of(told)) > MAX_WORDS:
        why = f"it has more than {MAX_WORDS} words or {MAX_LETTERS} letters"
        raise InputError("`word`", why, "Give the one or two words that prompts will say")
    return told
