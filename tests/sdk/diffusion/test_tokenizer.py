"""The small base's tokenizer: every text in tokens, none of them unknown, the same ones in any CLIPTokenizer."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import InputError
from unplug.sdk.diffusion.tokenizer import _words, encode, learn_merges, open_tokenizer, train_tokenizer

from .conftest import WORDS

LENGTH = 12


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train_tokenizer(WORDS, tmp_path_factory.mktemp("words"), vocabulary=560, length=LENGTH)


def model_of(tokenizer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return {key: found[key] for key in ("vocab", "merges")}


@given(text=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40))
def test_any_text_is_tokens_that_give_it_back(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text).input_ids
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert (ids[0], ids[-1]) == (start, end) and not {start, end, tokenizer.unk_token_id} & set(ids[1:-1])
    said = tokenizer.backend_tokenizer.normalizer.normalize_str(text)
    assert "".join(tokenizer.decode(ids, skip_special_tokens=True).split()) == "".join(said.split())
    assert len(ids) - 2 <= len(said.encode())  # a byte a token at worst


@given(words=st.lists(st.text("abc", min_size=1, max_size=7), max_size=12), most=st.integers(0, 12))
def test_against_counting_anew_after_every_merge(words: list[str], most: int) -> None:
    """Each merge is of a pair that is in most places; of equals the trainer takes which it likes, always the same."""
    spelled = [[*word[:-1], f"{word[-1]}</w>"] for word in words]
    merges = learn_merges(words, most)
    for merge in merges:
        pairs = Counter(pair for symbols in spelled for pair in itertools.pairwise(symbols))
        assert pairs[merge] == max(pairs.values())
        for symbols in spelled:
            place = 0
            while place < len(symbols) - 1:
                if (symbols[place], symbols[place + 1]) == merge:
                    symbols[place : place + 2] = ["".join(merge)]
                place += 1
    made = {"".join(merge) for merge in merges}
    assert len(made) == most or (len(made) < most and all(len(symbols) == 1 for symbols in spelled))
    assert learn_merges(words, most) == merges


def test_every_process_learns_the_same(tokenizer: Any) -> None:
    """The trainer numbers letters at the end of words by a hash table, where they are not told to it."""
    code = f"from unplug.sdk.diffusion.tokenizer import learn_merges; print(learn_merges({_words(WORDS)!r}, 46))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    merges = [tuple(pair) for pair in model_of(tokenizer)["merges"]]
    assert ast.literal_eval(said.stdout) == merges == learn_merges(_words(WORDS), 46)


def test_merges_counted_by_hand(tmp_path: Path) -> None:
    # l-o is in three words, every other pair in two at most; the words' order and number do not count.
    made = train_tokenizer(["low lower", "lowest"], tmp_path, vocabulary=515, length=8)
    assert [tuple(pair) for pair in model_of(made)["merges"]] == [("l", "o")]
    assert made.convert_ids_to_tokens(made("low").input_ids) == ["<|startoftext|>", "lo", "w</w>", "<|endoftext|>"]
    with pytest.raises(InputError, match=r"vocabulary 513: too small for the bytes. Use 514 or more"):
        train_tokenizer(WORDS, tmp_path / "none", vocabulary=513, length=8)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("vocabulary", [514, 530])
def test_no_more_tokens_than_asked_for(tmp_path: Path, vocabulary: int) -> None:
    made = train_tokenizer(WORDS, tmp_path, vocabulary=vocabulary, length=8)
    assert len(made) == vocabulary
    assert sorted(made.get_vocab().values()) == list(range(vocabulary))


def test_the_saved_folder_gives_the_same_ids(tmp_path: Path, tokenizer: Any) -> None:
    from transformers import CLIPTokenizer

    made = train_tokenizer(WORDS, tmp_path, vocabulary=560, length=LENGTH)
    loaded = CLIPTokenizer.from_pretrained(tmp_path)
    assert model_of(open_tokenizer(tmp_path)) == model_of(made)
    texts = [*WORDS, "", "Ünïcode ñ 漢字 😀", "don't 123", "A  B\n\tc", "x" * 100]
    assert loaded.model_max_length == LENGTH and len(loaded) == len(made)
    assert encode(loaded, texts).tolist() == encode(made, texts).tolist()
    short, empty, long = encode(tokenizer, ["a child", "", "zebra " * 50]).tolist()
    start, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    assert empty == [start] + [end] * (LENGTH - 1)
    assert short[0] == start and end not in short[1:3] and short[3:] == [end] * (LENGTH - 3)
    assert len(long) == LENGTH and (long[0], long[-1]) == (start, end) and end not in long[1:-1]
