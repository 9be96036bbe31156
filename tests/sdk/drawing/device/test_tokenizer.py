"""The same ids as transformers' CLIPTokenizer; hostile data and endless prompts are refused."""

from __future__ import annotations

import time
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.vectors.pipeline.make import PROMPTS, read_tokenizer

from unplug.core import InputError, ReportError
from unplug.sdk.drawing.device.tokenizer import MAX_CHARACTERS

OURS = read_tokenizer()
START, END = "<|startoftext|>", "<|endoftext|>"


@pytest.fixture(scope="module")
def theirs() -> Any:
    """transformers' tokenizer of the same vocabulary and merges."""
    from transformers import CLIPTokenizer

    vocab = {token: number for number, token in enumerate(OURS.vocabulary)}
    merges: list[Any] = [tuple(item.split(" ")) for item in OURS.merges]
    marks = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=OURS.length, **marks)


def ids(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer(
        text, padding="max_length", max_length=OURS.length, truncation=True
    ).input_ids
    return found


@pytest.mark.parametrize("item", PROMPTS, ids=lambda item: ascii(item["text"][:20]))
def test_golden_prompts_have_transformers_ids(theirs: Any, item: dict[str, Any]) -> None:
    text = item["text"] * item.get("times", 1)
    found = OURS.encode(text)
    assert list(found.ids) == ids(theirs, text) and len(found.ids) == OURS.length
    assert found.tokens == len(theirs(text).input_ids) and found.cut == (found.tokens > OURS.length)


assigned = st.characters(exclude_categories=("Cs", "Cn", "Co")).filter(
    lambda one: unicodedata.ucd_3_2_0.category(one) != "Cn"
)
"""Characters that are as old as Unicode 3.2: of newer ones, libraries differ about what is a
letter.
"""


@given(st.text(assigned | st.sampled_from("' 'sA1,"), max_size=40))
def test_any_text_has_transformers_ids(theirs: Any, text: str) -> None:
    assert list(OURS.encode(text).ids) == ids(theirs, text)


def test_unknown_words_are_spelled() -> None:
    found = OURS.encode("zyzzyva")
    assert not found.cut and all(number < OURS.start for number in found.ids[1 : found.tokens - 1])
    assert (
        "".join(OURS.vocabulary[number] for number in found.ids[1 : found.tokens - 1])
        == "zyzzyva</w>"
    )


def test_long_prompts_are_cut_quickly_and_endless_ones_refused() -> None:
    started = time.process_time()
    assert OURS.encode("ab" * (MAX_CHARACTERS // 2)).cut
    assert time.process_time() - started < 60  # a scan for every merge would take hours
    with pytest.raises(
        InputError, match=f"prompt of {MAX_CHARACTERS + 1} characters: more than {MAX_CHARACTERS}"
    ):
        OURS.encode("a" * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocabulary": ("nothing", *OURS.vocabulary[1:])}, "no token for 1 of the bytes"),
        ({"vocabulary": (*OURS.vocabulary[:-1], "a")}, "a vocabulary of 818 tokens"),
        ({"length": 2}, "prompts of 2 tokens"),
        ({"length": 10**9}, "prompts of 1000000000 tokens"),
        ({"end": 818}, "outside of its vocabulary"),
        ({"padding": -1}, "outside of its vocabulary"),
        ({"merges": ("a b c",)}, "a merge that is not two tokens"),
        ({"merges": ("q q",)}, "a merge that is not two tokens"),
    ],
)
def test_data_that_does_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ReportError, match=words):
        replace(OURS, **change).check("pipeline.json")
