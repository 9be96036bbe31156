"""CLIP's tokenizer without a package: text to token ids, from a vocabulary and merges as data.

The same ids as ``transformers.CLIPTokenizer``; tests/vectors/pipeline holds ports to it. L tokens a
prompt.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from unplug.core import STRICT, InputError, ReportError

WORD_END = "</w>"
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
MARK = re.compile(r"(<\|)(startoftext|endoftext)(\|>)")
MAX_TOKENS, MAX_VOCABULARY, MAX_ADDED = 1024, 2**20, 1024
MAX_CHARACTERS = 2**16
"""The limit for a prompt; a longer one is refused. No prompt of L tokens needs as many."""
FEW_TOKENS = 8192
"""A vocabulary below this was made from the captions that its base learned; CLIP's, of 49,408, is
one of all the web.
"""
WHITE = (
    "\t\n\v\f\r "
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's property White_Space, written out: languages disagree about U+001C to U+001F and
U+0085.
"""
SPACES = re.compile(f"[{WHITE}]+")
CIRCLED = re.compile(
    "[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189]"
)
"""Unicode's Alphabetic symbols, which are no letters by their category."""
JOINERS = "\u200c\u200d"


def _byte_letters() -> dict[int, str]:
    """GPT-2's letter of each byte: printable ones stand for themselves, the others for U+0100 and
    on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(0x100 + place) for place, byte in enumerate(others)
    }


LETTERS = _byte_letters()


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A prompt as its text encoder takes it.

    Args:
        ids: L token ids: the start, the words', the end, padding.
        tokens: the number of tokens that the whole prompt has, start and end included; more than L
            were cut.
        spelled: words that are not tokens of their own, each once: the base spells them, and may
            never have seen them.
    """

    ids: tuple[int, ...]
    tokens: int
    spelled: tuple[str, ...] = ()

    @property
    def cut(self) -> bool:
        """Whether the base reads only the beginning of the prompt."""
        return self.tokens > len(self.ids)


@dataclass(frozen=True, kw_only=True)
class AddedToken:
    """A token that is cut out of a text whole, before its words are: a mark, or a word learned
    later.

    Args:
        id: its place in the vocabulary, which holds its text.
        single_word: it counts only where no letter, digit or underscore touches it.
        lstrip: white space in front of it belongs to it.
        rstrip: white space after it belongs to it.
        normalized: it is looked for, and read itself, as `normalize` leaves a text, and so in lower
            case.
    """

    __pydantic_config__: ClassVar = STRICT

    id: int
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Byte-pair encoding as data.

    Args:
        vocabulary: all tokens; a token's id is its place.
        merges: pairs that become one token, most urgent first, each as "LEFT RIGHT".
        length: L, tokens of every prompt, padding included.
        start: id in front of the words.
        end: id after them.
        padding: id that fills up.
        added: tokens that are cut out whole; none: the start and the end, as they are written.
    """

    __pydantic_config__: ClassVar = STRICT

    vocabulary: tuple[str, ...]
    merges: tuple[str, ...]
    length: int
    start: int
    end: int
    padding: int
    added: tuple[AddedToken, ...] = ()

    def check(self, where: str) -> None:
        """Raises `ReportError`, naming `where`, unless every text has ids: what was read may come
        from anybody.
        """
        size = len(self.vocabulary)
        missing = [
            letter
            for letter in LETTERS.values()
            if letter not in self._ids or letter + WORD_END not in self._ids
        ]
        wrong = {
            f"a vocabulary of {size} tokens": not 0 < size <= MAX_VOCABULARY
            or len(self._ids) < size,
            f"prompts of {self.length} tokens": not 3 <= self.length <= MAX_TOKENS,
            "a start, an end or a padding outside of its vocabulary": not all(
                0 <= number < size for number in (self.start, self.end, self.padding)
            ),
            f"no token for {len(missing)} of the bytes": bool(missing),
            "a merge that is not two tokens which make a third": not all(
                map(self._fits, self.merges)
            ),
            "added tokens outside of its vocabulary, empty, or alike": not self._added_fit(),
        }
        for what, is_so in wrong.items():
            if is_so:
                raise ReportError(where, f"its tokenizer has {what}", "Export it again")

    def _fits(self, merge: str) -> bool:
        parts = merge.split(" ")
        return len(parts) == 2 and all(part in self._ids for part in (*parts, "".join(parts)))

    def _added_fit(self) -> bool:
        inside = all(0 <= item.id < len(self.vocabulary) for item in self.added)
        if not inside or len(self.added) > MAX_ADDED:
            return False
        names = [(item.normalized, self._content(item)) for item in self.added]
        # libraries differ about which of several blanks is such a token
        return all(name.strip() for _, name in names) and len(set(names)) == len(names)

    def _content(self, item: AddedToken) -> str:
        """What a text is searched for."""
        content = self.vocabulary[item.id]
        return normalize(content) if item.normalized else content

    @cached_property
    def _cutters(self) -> dict[bool, _Cutter]:
        """By whether they look at a normalized text."""
        added = self.added or [AddedToken(id=number) for number in {self.start, self.end}]
        return {
            kind: _Cutter({self._content(item): item for item in added if item.normalized == kind})
            for kind in (False, True)
        }

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.vocabulary)}

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {
            (left, right): rank
            for rank, (left, _, right) in enumerate(item.partition(" ") for item in self.merges)
        }

    def encode(self, text: str) -> Encoded:
        """Token ids of a prompt, cut and padded to L.

        Raises:
            InputError: see `check_text`.

        Example:
            >>> letters = [*LETTERS.values(), *(letter + WORD_END for letter in LETTERS.values())]
            >>> tokens = (*letters, "hi</w>", "<|startoftext|>", "<|endoftext|>")
            >>> bpe = Tokenizer(vocabulary=tokens, merges=("h i</w>",), length=6, start=513, end=514, padding=514)
            >>> bpe.encode(" Hi  HI").ids, bpe.encode("hi hi hi hi hi").tokens, bpe.encode("hi ho").spelled
            ((513, 512, 512, 514, 514, 514), 7, ('ho',))
        """
        check_text(text)
        numbers, spelled = list[int](), dict[str, None]()
        for part in self._parts(text):
            if isinstance(part, AddedToken):
                numbers.append(part.id)
                continue
            for word in split_words(part):
                tokens = self._merged(word)
                spelled |= {word: None} if len(tokens) > 1 else {}
                # CLIP's unknown token is its end
                numbers += [self._ids.get(token, self.end) for token in tokens]
        # Cut so that the end is always there: CLIP's answer is read at its place.
        kept = [self.start, *numbers[: self.length - 2], self.end]
        ids = (*kept, *[self.padding] * (self.length - len(kept)))
        return Encoded(ids=ids, tokens=len(numbers) + 2, spelled=tuple(spelled))

    def _parts(self, text: str) -> Iterator[str | AddedToken]:
        """Added tokens, and normalized text between them: first those of the text as it is, then
        those of the rest.
        """
        for part in self._cutters[False].cut(text):
            if isinstance(part, AddedToken):
                yield part
            else:
                yield from self._cutters[True].cut(normalize(part))

    def _merged(self, word: str) -> list[str]:
        """Merges a word's bytes: again and again the pair of the lowest rank becomes one, wherever
        it stands, left to right.
        """
        parts = [LETTERS[byte] for byte in word.encode("utf-8")]
        parts[-1] += WORD_END
        while urgent := [pair for pair in itertools.pairwise(parts) if pair in self._ranks]:
            parts = _joined(parts, min(urgent, key=self._ranks.__getitem__))
        return parts


class _Cutter:
    """Finds tokens in a text as the package tokenizers does: the leftmost first, of several the
    longest, none twice.
    """

    def __init__(self, tokens: Mapping[str, AddedToken]) -> None:
        self.tokens = tokens
        self.places = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))

    def cut(self, text: str) -> Iterator[str | AddedToken]:
        """The tokens, and what is between them."""
        done = 0
        for match in self.places.finditer(text) if self.tokens else ():
            token, (start, end) = self.tokens[match[0]], match.span()
            beside = text[start - 1 : start] + text[end : end + 1]
            if token.single_word and any(map(_in_word, beside)):
                continue
            if token.lstrip:
                start = max(len(text[:start].rstrip(WHITE)), done)
            if token.rstrip:
                end = len(text) - len(text[end:].lstrip(WHITE))
            if done < start:
                yield text[done:start]
            yield token
            done = end
        if done < len(text):
            yield text[done:]


def _in_word(character: str) -> bool:
    """Whether a character is one of words: Unicode's Alphabetic, marks, decimal digits, underscores
    and joiners.
    """
    kind = unicodedata.category(character)
    return (
        kind[0] in "LM"
        or kind in ("Nl", "Nd", "Pc")
        or character in JOINERS
        or bool(CIRCLED.match(character))
    )


def _joined(parts: list[str], pair: tuple[str, str]) -> list[str]:
    joined, place = list[str](), 0
    while place < len(parts):
        both = (parts[place], parts[place + 1]) == pair if place + 1 < len(parts) else False
        joined.append("".join(pair) if both else parts[place])
        place += 1 + both
    return joined


def untaught(spelled: Sequence[str], vocabulary: int) -> str | None:
    """A line on words that a base was never taught; None where there are none, or where its
    vocabulary is a general one.

    Args:
        spelled: words that are not tokens of their own.
        vocabulary: how many tokens there are. A small base has a token for every word of its
            captions.

    Example:
        >>> untaught(["dinosaur"], 1000), untaught(["dinosaur"], 49408)
        ('this base was never taught "dinosaur": expect nothing of it', None)
    """
    if not spelled or vocabulary >= FEW_TOKENS:
        return None
    more = f" and {len(spelled) - 3} more" if len(spelled) > 3 else ""
    some = ", ".join(f'"{word[:20]}"' for word in spelled[:3])
    return (
        f"this base was never taught {some}{more}: expect nothing of "
        f"{'them' if len(spelled) > 1 else 'it'}"
    )


def check_text(text: str, what: str = "prompt") -> None:
    """Raises `InputError`, naming `what`, of more than `MAX_CHARACTERS`, or of bytes from a command
    line that are no UTF-8.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f"{what} of {len(text)} characters", f"more than {MAX_CHARACTERS}", "Give a shorter one"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(what, "it is not UTF-8 text", "Give it in UTF-8") from error


def normalize(text: str) -> str:
    """Unicode's NFC, runs of white space as one space, and each character in lower case by itself.

    Example:
        >>> normalize("A  CAFE\\u0301")
        'a café'
    """
    # Lone surrogates, which no UTF-8 has, become question marks first.
    composed = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
    return "".join(character.lower() for character in SPACES.sub(" ", composed))


def split_words(text: str) -> list[str]:
    """Contractions, runs of letters, single digits, and runs of anything else but white space, from
    left to right.

    Example:
        >>> split_words("it's 42 cats!? ok")
        ['it', "'s", '4', '2', 'cats', '!?', 'ok']
    """
    words, place = list[str](), 0
    while place < len(text):
        contraction = next((item for item in CONTRACTIONS if text.startswith(item, place)), None)
        kind = _kind(text[place])
        end = place + 1
        if contraction is not None:
            end = place + len(contraction)
        elif mark := MARK.match(
            text, place
        ):  # of CLIP, where it was written in capitals: no token, and yet words of its own
            words += mark.groups()
            place = mark.end()
            continue
        elif kind in "LO":
            while end < len(text) and _kind(text[end]) == kind:
                end += 1
        if kind != "S":
            words.append(text[place:end])
        place = end
    return words


def _kind(character: str) -> str:
    """L a letter, N a number, S white space, O anything else."""
    if character in WHITE:
        return "S"
    category = unicodedata.category(character)[0]
    return category if category in "LN" else "O"
