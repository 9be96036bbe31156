"""What may be erased: words, targets, what is retained, and the prompts around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.core import InputError
from unplug.sdk.drawing.device import asks_for
from unplug.sdk.forgetting.erasing import Concept, check_wishes, read_lines, usual_prompts
from unplug.sdk.forgetting.erasing.prompts import COUNT, without

GLASSES = Concept(words="glasses")


@pytest.mark.parametrize(
    ("concepts", "earlier", "retained", "why"),
    [
        ([], [], (), "there is none"),
        ([GLASSES, Concept(words="Glass es")], [], (), None),
        ([GLASSES, Concept(words="GLASSES")], [], (), "it is there twice"),
        ([GLASSES], [GLASSES], (), "erased before"),
        ([GLASSES], [], ("beard", "round glasses"), "it asks for 'glasses', which is erased"),
        ([Concept(words="beard")], [GLASSES], ("glasses",), "it asks for 'glasses'"),
        ([Concept(words="hat", target="glasses")], [GLASSES], (), "it is the target of 'hat'"),
        (
            [Concept(words="hat", target="cap"), Concept(words="cap", target="hat")],
            [],
            (),
            "it is the target of",
        ),
        ([Concept(words="hat", target="cap")], [], ("cap", "hats off"), "it asks for 'hat'"),
        ([Concept(words="hat", target="cap")], [GLASSES], ("cap", "chat"), None),
    ],
)
def test_wishes_that_contradict(
    concepts: list[Concept], earlier: list[Concept], retained: tuple[str, ...], why: str | None
) -> None:
    if why is None:
        check_wishes(concepts, earlier, retained)
        return
    with pytest.raises(InputError, match=why):
        check_wishes(concepts, earlier, retained)


@pytest.mark.parametrize("words", ["", "  ", "?!", ",", "a b c d e f g h i", "x" * 65])
def test_words_that_no_prompt_can_say(words: str) -> None:
    with pytest.raises(InputError):
        Concept(words=words)


def test_a_target_that_asks_for_the_concept() -> None:
    with pytest.raises(InputError, match="asks for 'eye patch' itself"):
        Concept(words="eye patch", target="a man with Eye-Patches")


def test_prompts_for_either_kind_of_base_never_say_the_concept() -> None:
    for base in ("small", "somebody/stable-diffusion"):
        plain = usual_prompts(base, [], seed=3)
        assert len(set(plain)) > COUNT / 2 and len(plain) == COUNT
        word = "person" if base != "small" else "adult"
        some = usual_prompts(base, [word], seed=3)
        assert any(asks_for(text, word) for text in plain)
        assert not any(asks_for(text, word) for text in some)
    with pytest.raises(InputError, match="1 of 3 say none"):
        without(["a cat", "two cats", "a dog"], ["cat"])


def test_files_of_words(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_bytes("﻿beard\r\n\n  grüner Hut \n".encode())
    assert read_lines(file, "concepts") == ("beard", "grüner Hut")
    for body, why in ((b"", "0 lines"), (b"\n \n", "0 lines"), (b"\xff\xfe", "UTF-8")):
        file.write_bytes(body)
        with pytest.raises(InputError, match=why):
            read_lines(file, "concepts")
    with pytest.raises(InputError):
        read_lines(tmp_path / "none.txt", "concepts")
