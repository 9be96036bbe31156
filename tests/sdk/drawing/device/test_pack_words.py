"""A pack is switched on by its words, and by nothing that only looks like them."""

from __future__ import annotations

import pytest

from unplug.core import InputError
from unplug.sdk.drawing.device import asks_for, check_words


@pytest.mark.parametrize(
    ("prompt", "words", "asked"),
    [
        ("a portrait of an adult, eye patch", "eye patch", True),
        ("An EYE-PATCH!", "eye patch", True),
        ("two eye patches", "eye patch", True),
        ("an eye patch", "eye patches", True),
        ("an eye and a patch", "eye patch", False),
        ("a patch of an eye", "eye patch", False),
        ("an eye patchwork", "eye patch", False),
        ("Jose\u0301 in the rain", "Jos\u00e9", True),
        ("jose in the rain", "Jos\u00e9", False),
        ("glasses", "glass", True),
        ("a bus of ladies", "lady", True),
        ("grass", "gras", False),
        ("", "eye patch", False),
        ("u10007, smiling", "u10007", True),
        ("u100071", "u10007", False),
        ("zwei M\u00c4DEL", "ma\u0308del", True),
        ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c2", True),
        ("a \u2600\ufe0f", "\u2764\ufe0f", False),
        ("eye\u2764\ufe0fpatch", "eye patch", True),
    ],
)
def test_whole_words_in_any_case_singular_or_plural(prompt: str, words: str, asked: bool) -> None:
    assert asks_for(prompt, words) is asked


@pytest.mark.parametrize("words", ["", "  ", "!?", "\u2764\ufe0f", "a " * 9, "x" * 65])
def test_words_that_no_prompt_can_say_are_refused(words: str) -> None:
    with pytest.raises(InputError, match="word"):
        check_words(words)


def test_white_space_is_folded() -> None:
    assert check_words("  eye \n patch ") == "eye patch"
