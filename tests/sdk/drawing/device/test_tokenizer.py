"""The same ids as transformers' CLIPTokenizer, with learned words and from every layout of a folder;
hostile data and endless prompts are refused.
"""

from __future__ import annotations

import runpy
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vectors.pipeline.make import (
    ADDED,
    ADDED_PROMPTS,
    PROMPTS,
    added_tokenizer,
    read_tokenizer,
)

from unplug.core import CheckpointError, InputError, ReportError, read_json, write_json
from unplug.sdk.drawing.device import (
    PIPELINE,
    AddedToken,
    GeneratorSource,
    Tokenizer,
    export_generator,
    load_pipeline,
)
from unplug.sdk.drawing.device import base_folder as reader
from unplug.sdk.drawing.device.tokenizer import MAX_CHARACTERS
from unplug.sdk.drawing.diffusion import plain_tokenizer

from .toy import toy

CASE = Path(__file__).parents[3] / "cases" / "textual-inversion"
PLAIN, LEARNED = read_tokenizer(), added_tokenizer()
START, END = "<|startoftext|>", "<|endoftext|>"
MARKS = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def as_transformers(added: list[dict[str, Any]]) -> Any:
    """transformers' tokenizer of the recorded vocabulary, with these tokens."""
    from tokenizers import AddedToken as Theirs
    from transformers import CLIPTokenizer

    by_content = {word["content"]: Theirs(**{"normalized": False} | word) for word in added}
    vocab = {token: number for number, token in enumerate(PLAIN.vocabulary)}
    merges: Any = [tuple(merge.split(" ")) for merge in PLAIN.merges]
    named: Any = {name: by_content.get(content, content) for name, content in MARKS.items()}
    theirs = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=PLAIN.length, **named)
    theirs.add_tokens(list(by_content.values()))
    return theirs


OURS = {"plain": PLAIN, "learned": LEARNED}


@cache
def theirs_of(kind: str) -> Any:
    """transformers' own of the same words."""
    return as_transformers(list(ADDED) if kind == "learned" else [])


def ids(theirs: Any, text: str) -> list[int]:
    most = theirs.model_max_length
    found: list[int] = theirs(
        text, padding="max_length", max_length=most, truncation=True
    ).input_ids
    return found


GOLDEN = [("plain", row["text"] * row.get("times", 1)) for row in PROMPTS]


@pytest.mark.parametrize(
    ("kind", "text"),
    GOLDEN + [("learned", text) for text in ADDED_PROMPTS],
    ids=lambda text: ascii(text)[:40],
)
def test_golden_prompts(kind: str, text: str) -> None:
    ours, theirs = OURS[kind], theirs_of(kind)
    encoded = ours.encode(text)
    assert list(encoded.ids) == ids(theirs, text) and len(encoded.ids) == ours.length
    assert encoded.tokens == len(theirs(text).input_ids) and encoded.cut == (
        encoded.tokens > ours.length
    )


assigned = st.characters(exclude_categories=("Cs", "Cn", "Co")).filter(
    lambda one: unicodedata.ucd_3_2_0.category(one) != "Cn"
)
"""Characters that are as old as Unicode 3.2: of newer ones, libraries differ about what is a letter."""
edges = st.sampled_from(
    [*" \t_,9", "  ", "' 's", "A1,", "\u0301", "\u200d", "\u24d0", "\xa0", "\u2160", "\xb2", "\x1c"]
)
words = st.sampled_from(
    [text for word in ADDED for text in (word["content"], word["content"].upper())]
)


@pytest.mark.parametrize("kind", OURS)
@given(st.lists(words | edges | st.text(assigned, max_size=3), max_size=14).map("".join))
def test_any_text(kind: str, text: str) -> None:
    ours, theirs = OURS[kind], theirs_of(kind)
    assert list(ours.encode(text).ids) == ids(theirs, text)


letters = st.text(st.sampled_from("ab <>_ A\u0130\xc4.\u0301"), min_size=1, max_size=4)
flags = st.tuples(*[st.booleans()] * 4).map(lambda found: dict(zip(FLAGS, found, strict=True)))


@settings(max_examples=30)
@given(st.dictionaries(letters, flags, min_size=1, max_size=4), st.data())
def test_any_learned_words(named: dict[str, dict[str, bool]], data: st.DataObject) -> None:
    named = {word: how for word, how in named.items() if word not in PLAIN.vocabulary}
    vocabulary = (*PLAIN.vocabulary, *named)
    learned = [AddedToken(id=vocabulary.index(word), **how) for word, how in named.items()]
    marks = (AddedToken(id=PLAIN.start), AddedToken(id=PLAIN.end))
    ours = replace(PLAIN, vocabulary=vocabulary, added=(*marks, *learned))
    try:
        ours.check("x")
    except ReportError:
        return  # alike once they are normalized: refused
    theirs = as_transformers([{"content": word, **how} for word, how in named.items()])
    part = st.sampled_from([*named, " ", "a", "B", "_", ","]) | letters
    for _ in range(3):
        text = "".join(data.draw(st.lists(part, max_size=8)))
        assert list(ours.encode(text).ids) == ids(theirs, text), text


def test_a_learned_word_of_blanks_is_refused() -> None:
    blank = AddedToken(id=len(PLAIN.vocabulary), lstrip=True, rstrip=True)
    ours = replace(PLAIN, vocabulary=(*PLAIN.vocabulary, " "), added=(blank,))
    with pytest.raises(ReportError, match="added tokens outside of its vocabulary, empty"):
        ours.check("x")


def test_long_prompts_are_cut_quickly_and_endless_ones_refused() -> None:
    started = time.process_time()
    assert PLAIN.encode("ab" * (MAX_CHARACTERS // 2)).cut
    assert time.process_time() - started < 60  # a scan for every merge would take hours
    why = f"prompt of {MAX_CHARACTERS + 1} characters: more than {MAX_CHARACTERS}"
    with pytest.raises(InputError, match=why):
        PLAIN.encode("a" * (MAX_CHARACTERS + 1))


ADDED_WRONG = "added tokens outside of its vocabulary, empty, or alike"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocabulary": ("nothing", *PLAIN.vocabulary[1:])}, "no token for 1 of the bytes"),
        ({"vocabulary": (*PLAIN.vocabulary[:-1], "a")}, "a vocabulary of 818 tokens"),
        ({"length": 2}, "prompts of 2 tokens"),
        ({"length": 10**9}, "prompts of 1000000000 tokens"),
        ({"end": 818}, "outside of its vocabulary"),
        ({"padding": -1}, "outside of its vocabulary"),
        ({"merges": ("a b c",)}, "a merge that is not two tokens"),
        ({"merges": ("q q",)}, "a merge that is not two tokens"),
        ({"added": (AddedToken(id=0), AddedToken(id=0))}, ADDED_WRONG),
        ({"added": (AddedToken(id=10**6),)}, ADDED_WRONG),
        ({"added": (AddedToken(id=-1),)}, ADDED_WRONG),
    ],
)
def test_data_that_does_not_fit(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ReportError, match=words):
        replace(PLAIN, **change).check("pipeline.json")


def test_a_record_keeps_learned_words_and_older_ones_are_read(tmp_path: Path) -> None:
    pipeline = toy(tmp_path)
    assert "added" not in read_json(tmp_path / PIPELINE)["tokenizer"]
    added = (AddedToken(id=pipeline.tokenizer.start, normalized=True),)
    learned: Tokenizer = replace(pipeline.tokenizer, added=added)
    replace(pipeline, tokenizer=learned).save(tmp_path)
    assert load_pipeline(tmp_path).tokenizer == learned
    assert read_json(tmp_path / PIPELINE)["tokenizer"]["added"][0]["normalized"] is True


def older(place: Path, padding: str = END, **config: Any) -> None:
    """The files that transformers 4 wrote, whose marks are normalized."""
    model = read_json(place / "tokenizer.json")["model"]
    (place / "tokenizer.json").unlink()
    write_json(place / "vocab.json", model["vocab"])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (place / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    named = {name: {"content": content, "normalized": True} for name, content in MARKS.items()}
    write_json(place / "special_tokens_map.json", {**named, "pad_token": padding})
    usual = {"model_max_length": 16, "tokenizer_class": "CLIPTokenizer", "pad_token": padding}
    write_json(place / "tokenizer_config.json", usual | config)


def added_by_transformers(place: Path) -> None:
    from tokenizers import AddedToken as Theirs
    from transformers import CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(place)
    look = Theirs("<L>", lstrip=True, normalized=False)
    tokenizer.add_tokens([Theirs("wug", single_word=True), look, "<my-look>"])
    tokenizer.save_pretrained(place)


def listed_in_a_file(place: Path) -> None:
    older(place)
    size = len(read_json(place / "vocab.json"))
    write_json(place / "added_tokens.json", {"<cat-toy>": size})


def listed_in_the_configuration(place: Path) -> None:
    size = len(read_json(place / "tokenizer.json")["model"]["vocab"])
    start, end = ({"content": mark, "special": True} for mark in (START, END))
    cat = {"content": "<Cat>", "normalized": True}
    older(place, added_tokens_decoder={size - 2: start, size - 1: end, size: cat})


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (added_by_transformers, ("a wug, wugs", "a  <L> b <l>", "a <my-look>, <MY-LOOK>")),
        (listed_in_a_file, ("a <cat-toy> x", "<|STARTOFTEXT|>")),
        (lambda place: older(place, padding="!"), ("a child!", "hi!!")),
        (listed_in_the_configuration, ("a <cat> b", "a <CAT>", "<|STARTOFTEXT|>")),
    ],
    ids=[
        "transformers 5",
        "added_tokens.json",
        "Stable Diffusion 2's padding",
        "added_tokens_decoder",
    ],
)
def test_folders(
    base_folder: Path, tmp_path: Path, change: Callable[[Path], None], texts: tuple[str, ...]
) -> None:
    from transformers import CLIPTokenizer

    shutil.copytree(base_folder / "tokenizer", tmp_path / "tokenizer")
    change(tmp_path / "tokenizer")
    theirs = CLIPTokenizer.from_pretrained(tmp_path / "tokenizer", model_max_length=16)
    for ours in (reader.read_tokenizer(tmp_path), plain_tokenizer(theirs)):
        for text in texts:
            assert list(ours.encode(text).ids) == ids(theirs, text), text


def test_learned_words_that_files_cannot_say_are_refused(base_folder: Path, tmp_path: Path) -> None:
    """And one that can be said is no word that the base was never taught."""
    several = Path(shutil.copytree(base_folder, tmp_path / "several"))
    larger = Path(shutil.copytree(base_folder, tmp_path / "larger"))
    for folder, words in ((several, ["<look>", "<look>_1"]), (larger, ["<look>"])):
        from transformers import CLIPTokenizer

        tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
        tokenizer.add_tokens(words)  # its text encoder stays as it is
        tokenizer.save_pretrained(folder / "tokenizer")
        assert plain_tokenizer(tokenizer).encode("a <look> zyzzyva").spelled == ("zyzzyva",)
    for folder, why in (
        (several, "'<look>' has several vectors"),
        (larger, "tokens, and its text encoder takes"),
    ):
        source = GeneratorSource(name="x", folder=folder)
        with pytest.raises(CheckpointError, match=why):
            export_generator(source, targets=["onnx"], precisions=["fp32"], out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.long
def test_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``make.py BASE``, the export's reader of it in place of the files, and ``compare.py``'s own
    sentences.
    """
    monkeypatch.setattr(sys, "argv", ["make.py", str(tmp_path / "base")])
    runpy.run_path(str(CASE / "make.py"))
    tokenizer = reader.read_tokenizer(tmp_path / "base")
    files = type("Files", (), {"tokenizer": tokenizer})
    monkeypatch.setattr("unplug.sdk.drawing.device.load_pipeline", lambda _: files)
    monkeypatch.setattr(sys, "argv", ["compare.py", str(tmp_path / "base"), str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(CASE / "compare.py"))
    assert not ended.value.code, capsys.readouterr().out
    assert 818 in tokenizer.encode("a child, <my-look> today").ids
