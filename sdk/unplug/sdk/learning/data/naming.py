"""What users of some data should know of how these name people: nothing here changes who is who."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from unplug.core import counted, name_key, padded_name

from .source import Sample
from .sources.caption_records import shown

DIGITS = 15
"""What a spreadsheet keeps of a number; it writes zeros for the rest."""
MOST_TOLD = 3
"""The most that are told of one kind; the others are counted."""


def told_of_people(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Sentences on the people of some data: who counts as nobody, whose name a program changed,
    which names are nearly one.

    Args:
        samples: samples of one listing, in its order.
    """
    first: dict[str, Sample] = {}
    for sample in samples:
        if sample.subject is not None:
            first.setdefault(sample.subject, sample)
    return (
        *_nobody(samples),
        *_two_forms(samples),
        *_changed(first),
        *_rounded(first),
        *_alike(first),
    )


def _nobody(samples: Sequence[Sample]) -> Iterator[str]:
    strangers: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.subject is None and sample.written and sample.written.strip():
            strangers.setdefault(sample.written, []).append(sample)
    for text, pictures in strangers.items():
        one = len(pictures) == 1
        yield (
            f"subject {_name(text, pictures[0])} stands for nobody: "
            f"{counted(len(pictures), 'picture')} of unknown people, "
            f"{'which counts as a person' if one else 'each of which counts as a person'} of its "
            "own"
        )


def _two_forms(samples: Iterable[Sample]) -> Iterator[str]:
    """Names that stood there in other bytes, and whom they are one with."""
    forms: dict[str, dict[str, Sample]] = {}
    for sample in samples:
        if sample.subject is not None and not sample.subject.isascii():
            forms.setdefault(sample.subject, {}).setdefault(
                sample.written or sample.subject, sample
            )
    merged = [(name, list(written.values())) for name, written in forms.items() if len(written) > 1]
    for name, written in merged[:MOST_TOLD]:
        yield (
            f"subject {_name(name, written[1])} is written in {len(written)} Unicode forms: all "
            "are one person"
        )
    yield from _more(merged, "other names in several Unicode forms")


def _changed(first: dict[str, Sample]) -> Iterator[str]:
    padded = [name for name in first if padded_name(name)]
    if padded:
        what = "looks as if a program had added to it: requests must name it so"
        others = f"; {len(padded) - 1} others too" if len(padded) > 1 else ""
        yield f"subject {_name(padded[0], first[padded[0]])} {what}{others}"


def _rounded(first: dict[str, Sample]) -> Iterator[str]:
    """Numbers of more digits than a spreadsheet keeps, all of which end as it would end them."""
    long = [name for name in first if re.fullmatch(rf"\d{{{DIGITS + 1},}}", name)]
    zeros = [len(name) - DIGITS for name in long if set(name[DIGITS:]) == {"0"}]
    if len(zeros) == len(long) and sum(zeros) >= 2:  # once in a hundred by chance
        yield (
            f"subject {_name(long[0], first[long[0]])}: all numbers of more than {DIGITS} digits "
            f"({len(long)}) end in zeros, "
            "as a spreadsheet rounds them; different people may have become one"
        )


def _alike(first: dict[str, Sample]) -> Iterator[str]:
    keys: dict[str, list[str]] = {}
    for name in first:
        keys.setdefault(name_key(name), []).append(name)
    pairs = [names for names in keys.values() if len(names) > 1]
    for one, other, *_ in pairs[:MOST_TOLD]:
        why = (
            "differ only in capital letters, blanks, signs that do not show or zeros: they count "
            "as two people"
        )
        yield f"subjects {_name(one, first[one])} and {_name(other, first[other])} {why}"
    yield from _more(pairs, "other names that are nearly alike")


def _more(pairs: Sequence[object], what: str) -> Iterator[str]:
    if len(pairs) > MOST_TOLD:
        yield f"and {len(pairs) - MOST_TOLD} {what}"


def _name(name: str, sample: Sample) -> str:
    """A name and where it stands first."""
    return f"'{shown(name)}' ({sample.place or shown(sample.id)})"
