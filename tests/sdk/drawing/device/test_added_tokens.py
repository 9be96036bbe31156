"""Learned words and marks are cut out of a prompt as transformers does, from every layout of a
tokenizer's folder.
"""

from __future__ import annotations

import runpy
import shutil
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vectors.pipeline.make import ADDED, ADDED_PROMPTS, added_tokenizer, read_tokenizer

from unplug.core import CheckpointError, ReportError, read_json, write_json
from unplug.sdk.cli import main
from unplug.sdk.drawing.device import (
    PIPELINE,
    AddedToken,
    GeneratorSource,
    export_generator,
    load_pipeline,
)
from unplug.sdk.drawing.device import base_folder as reader

from .toy import toy

CASE = Path(__file__).parents[3] / "cases" / "textual-inversion"
PLAIN, LEARNED = read_tokenizer(), added_tokenizer()
START, END = "<|startoftext|>", "<|endoftext|>"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def as_transformers(added: list[dict[str, Any]]) -> Any:
    """transformers' tokenizer of the recorded vocabulary, with these tokens."""
    from tokenizers import AddedToken as Theirs
    from transformers import CLIPTokenizer

    by_content = {item["content"]: Theirs(**{"normalized": False} | item) for item in added}
    marks: dict[str, Any] = {
        "bos_token": START,
        "eos_token": END,
        "unk_token": END,
        "pad_token": END,
    }
    vocab = {token: number for number, token in enumerate(PLAIN.vocabulary)}
    merges: Any = [tuple(item.split(" ")) for item in PLAIN.merges]
    named = {name: by_content.get(content, content) for name, content in marks.items()}
    theirs = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=PLAIN.length, **named)
    theirs.add_tokens(list(by_content.values()))
    return theirs


def ids(theirs: Any, text: str) -> list[int]:
    found: list[int] = theirs(
        text, padding="max_length", max_length=PLAIN.length, truncation=True
    ).input_ids
    return found


@pytest.fixture(scope="module")
def theirs() -> Any:
    return as_transformers(list(ADDED))


@pytest.mark.parametrize("text", ADDED_PROMPTS, ids=ascii)
def test_golden_prompts(theirs: Any, text: str) -> None:
    assert list(LEARNED.encode(text).ids) == ids(theirs, text)


old = st.characters(exclude_categories=("Cs", "Cn", "Co")).filter(
    lambda one: unicodedata.ucd_3_2_0.category(one) != "Cn"
)
edges = st.sampled_from(
    [
        " ",
        "  ",
        "\t",
        "a",
        "_",
        "\u0301",
        ",",
        "\u200d",
        "\u24d0",
        "\xa0",
        "\u2160",
        "9",
        "\xb2",
        "\x1c",
    ]
)
words = st.sampled_from(
    [text for item in ADDED for text in (item["content"], item["content"].upper())]
)


@settings(max_examples=100)
@given(st.lists(words | edges | st.text(old, max_size=3), max_size=14).map("".join))
def test_any_text_with_learned_words(theirs: Any, text: str) -> None:
    assert list(LEARNED.encode(text).ids) == ids(theirs, text)


letters = st.text(st.sampled_from("ab <>_ A\u0130\xc4.\u0301"), min_size=1, max_size=4)
flags = st.tuples(*[st.booleans()] * 4).map(lambda found: dict(zip(FLAGS, found, strict=True)))


@settings(max_examples=30)
@given(st.dictionaries(letters, flags, min_size=1, max_size=4), st.data())
def test_any_learned_words(named: dict[str, dict[str, bool]], data: st.DataObject) -> None:
    named = {word: own for word, own in named.items() if word not in PLAIN.vocabulary}
    vocabulary = (*PLAIN.vocabulary, *named)
    own = [AddedToken(id=vocabulary.index(word), **how) for word, how in named.items()]
    ours = replace(
        PLAIN,
        vocabulary=vocabulary,
        added=(AddedToken(id=PLAIN.start), AddedToken(id=PLAIN.end), *own),
    )
    try:
        ours.check("x")
    except ReportError:
        return  # alike once they are normalized: refused
    theirs = as_transformers([{"content": word, **how} for word, how in named.items()])
    for _ in range(3):
        text = "".join(
            data.draw(
                st.lists(st.sampled_from([*named, " ", "a", "B", "_", ","]) | letters, max_size=8)
            )
        )
        assert list(ours.encode(text).ids) == ids(theirs, text), text


def older(place: Path, padding: str = END, **config: Any) -> None:
    """The files that transformers 4 wrote, whose marks are normalized."""
    model = read_json(place / "tokenizer.json")["model"]
    (place / "tokenizer.json").unlink()
    write_json(place / "vocab.json", model["vocab"])
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (place / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    marks = {"bos_token": START, "eos_token": END, "unk_token": END}
    named = {name: {"content": content, "normalized": True} for name, content in marks.items()}
    write_json(place / "special_tokens_map.json", {**named, "pad_token": padding})
    usual = {"model_max_length": 16, "tokenizer_class": "CLIPTokenizer", "pad_token": padding}
    write_json(place / "tokenizer_config.json", usual | config)


def added_by_transformers(place: Path) -> None:
    from tokenizers import AddedToken as Theirs
    from transformers import CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(place)
    tokenizer.add_tokens(
        [Theirs("wug", single_word=True), Theirs("<L>", lstrip=True, normalized=False), "<my-look>"]
    )
    tokenizer.save_pretrained(place)


def listed_in_a_file(place: Path) -> None:
    older(place)
    size = len(read_json(place / "vocab.json"))
    write_json(place / "added_tokens.json", {"<cat-toy>": size})


def listed_in_the_configuration(place: Path) -> None:
    size = len(read_json(place / "tokenizer.json")["model"]["vocab"])
    marks = {
        str(size - 2): {"content": START, "special": True},
        str(size - 1): {"content": END, "special": True},
    }
    older(
        place, added_tokens_decoder={**marks, str(size): {"content": "<Cat>", "normalized": True}}
    )


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
        "padding of Stable Diffusion 2",
        "added_tokens_decoder",
    ],
)
def test_folders(
    base_folder: Path, tmp_path: Path, change: Callable[[Path], None], texts: tuple[str, ...]
) -> None:
    from transformers import CLIPTokenizer

    shutil.copytree(base_folder / "tokenizer", tmp_path / "tokenizer")
    change(tmp_path / "tokenizer")
    theirs, ours = (
        CLIPTokenizer.from_pretrained(tmp_path / "tokenizer"),
        reader.read_tokenizer(tmp_path),
    )
    for text in texts:
        wanted = theirs(text, padding="max_length", max_length=16, truncation=True).input_ids
        assert list(ours.encode(text).ids) == wanted, text


def test_a_record_keeps_them_and_older_ones_are_read(tmp_path: Path) -> None:
    pipeline = toy(tmp_path)
    assert "added" not in read_json(tmp_path / PIPELINE)["tokenizer"]
    learned = replace(
        pipeline.tokenizer, added=(AddedToken(id=pipeline.tokenizer.start, normalized=True),)
    )
    replace(pipeline, tokenizer=learned).save(tmp_path)
    assert load_pipeline(tmp_path).tokenizer == learned
    assert read_json(tmp_path / PIPELINE)["tokenizer"]["added"][0]["normalized"] is True


@pytest.mark.parametrize("places", [[0, 0], [10**6], [-1]])
def test_added_tokens_that_do_not_fit(places: list[int]) -> None:
    with pytest.raises(
        ReportError, match="added tokens outside of its vocabulary, empty, or alike"
    ):
        replace(PLAIN, added=tuple(AddedToken(id=place) for place in places)).check("x")


def learned_base(base_folder: Path, folder: Path, *contents: str) -> Path:
    """The tiny base with more words, saved as diffusers does."""
    import torch
    from diffusers import StableDiffusionPipeline

    pipe = StableDiffusionPipeline.from_pretrained(base_folder, safety_checker=None)
    assert pipe.tokenizer.add_tokens(list(contents)) == len(contents)
    pipe.text_encoder.resize_token_embeddings(len(pipe.tokenizer))
    table = pipe.text_encoder.get_input_embeddings().weight
    table.data[-1] = torch.randn(table.shape[1], generator=torch.Generator().manual_seed(1))
    pipe.save_pretrained(folder)
    return folder


def test_no_warning_of_a_learned_word(base_folder: Path, tmp_path: Path) -> None:
    base = learned_base(base_folder, tmp_path / "base", "<my-look>")
    call = ["generate", "--base", base, "--steps", 1, "--out", tmp_path / "x.png", "--prompt"]
    said = CliRunner().invoke(main, [*map(str, call), "a <my-look>"], catch_exceptions=False)
    assert said.exit_code == 0 and "never taught" not in said.stderr
    said = CliRunner().invoke(
        main, [*map(str, call), "a <my-look> zyzzyva"], catch_exceptions=False
    )
    assert 'this base was never taught "zyzzyva": expect nothing of it' in said.stderr


def test_what_files_cannot_say_is_refused_before_the_work(
    base_folder: Path, tmp_path: Path
) -> None:
    several = learned_base(base_folder, tmp_path / "several", "<look>", "<look>_1")
    larger = shutil.copytree(base_folder, tmp_path / "larger")
    added_by_transformers(larger / "tokenizer")  # its text encoder stays as it is
    for base, why in (
        (several, "'<look>' has several vectors"),
        (larger, "tokens, and its text encoder takes"),
    ):
        with pytest.raises(CheckpointError, match=why):
            export_generator(
                GeneratorSource(name="x", folder=base),
                targets=["onnx"],
                precisions=["fp32"],
                out=tmp_path / "o",
            )
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
    found = reader.read_tokenizer(tmp_path / "base")
    monkeypatch.setattr(
        "unplug.sdk.drawing.device.load_pipeline", lambda _: type("Files", (), {"tokenizer": found})
    )
    monkeypatch.setattr(sys, "argv", ["compare.py", str(tmp_path / "base"), str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(CASE / "compare.py"))
    assert not ended.value.code, capsys.readouterr().out
    assert 818 in found.encode("a child, <my-look> today").ids
