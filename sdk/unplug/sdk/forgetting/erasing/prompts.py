"""Prompts around which concepts are erased: what the words stand in, and what must go on working."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from unplug.core import InputError, read_regular
from unplug.sdk.drawing.device import asks_for
from unplug.sdk.drawing.diffusion import is_ours
from unplug.sdk.learning.data import Captioned, parse_spec

COUNT = 96
MAX_BYTES, MAX_PROMPTS, LEAST = 2**20, 10_000, 8
_SUBJECTS = (
    *("a person", "a woman", "a man", "a child", "two friends", "a crowd", "a dog", "a cat"),
    *("a bird", "a horse", "a tree", "a flower", "a mountain lake", "a beach", "a city street"),
    *("a house", "a kitchen", "a car", "a bicycle", "a table", "a book", "a bowl of fruit"),
    *("a castle", "a spaceship"),
)
_FORMS = ("a photo of {}", "a painting of {}", "a picture of {}", "{}")
_HELD_OUT = ("a drawing of {}", "an old photograph of {}", "a close-up of {}", "{} at night")


def usual_prompts(
    base_name: str, words: Sequence[str], *, seed: int, held_out: bool = False
) -> tuple[str, ...]:
    """Prompts that suit a base and say none of some words: what synthetic faces are described by
    for bases of `unplug train base`, else things and scenes.

    Args:
        base_name: see `load_base`.
        words: the words of all concepts.
        seed: draws the faces.
        held_out: whether the prompts are for judges: then things and scenes have other sentences.
    """
    if is_ours(base_name):
        source = parse_spec(f"synth:n={2 * COUNT},subjects={2 * COUNT},seed={seed}")
        assert isinstance(source, Captioned)
        samples = source.listing().samples
        every = [source.captions(sample, seed, 2)[1] for sample in samples]
    else:
        forms = _HELD_OUT if held_out else _FORMS
        every = [form.format(thing) for form, thing in itertools.product(forms, _SUBJECTS)]
    return without(every, words)[:COUNT]


def read_lines(path: Path, what: str) -> tuple[str, ...]:
    """The lines of a text file that say something.

    Raises:
        InputError: no such file, not UTF-8, none, or more than `MAX_PROMPTS` lines.
    """
    try:
        text = read_regular(path, max_bytes=MAX_BYTES, error=InputError).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), "it is not UTF-8 text", "Save it as UTF-8") from error
    lines = tuple(filter(None, map(str.strip, text.splitlines())))
    if not 1 <= len(lines) <= MAX_PROMPTS:
        why = f"it has {len(lines)} lines"
        raise InputError(str(path), why, f"Write 1 to {MAX_PROMPTS} {what}, one a line")
    return lines


def without(prompts: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """The prompts that ask for none of some words.

    Raises:
        InputError: fewer than `LEAST` are left.
    """
    left = tuple(text for text in prompts if not any(asks_for(text, one) for one in words))
    if len(left) < LEAST:
        why = f"{len(left)} of {len(prompts)} say none of {', '.join(map(repr, words))}"
        raise InputError("prompts", why, f"Give {LEAST} or more that say none of them")
    return left
