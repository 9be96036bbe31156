"""Captions: in tables, in text files and drawn for synthetic faces; every mismatch is named."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.core import DataError, InputError
from unplug.sdk.cli import main
from unplug.sdk.learning.data import (
    SOURCES,
    Captioned,
    Dataset,
    SynthSource,
    captions_digest,
    captions_of,
    describe,
)
from unplug.sdk.learning.data.captions import WITH_CAPTIONS
from unplug.sdk.learning.data.prompts import prompt_of
from unplug.sdk.learning.data.sources import captions as captions_module
from unplug.sdk.learning.data.sources.caption_records import MAX_CHARACTERS
from unplug.sdk.learning.data.sources.captions import CaptionsSource
from unplug.sdk.learning.faces import attributes_of

from .conftest import Draw, assert_reasons, greys, load


def words(dataset: Dataset) -> dict[str, str]:
    """Id to its only caption."""
    texts = captions_of(dataset, seed=0, variants=3)
    assert all(len(some) == 1 for some in texts)
    return dict(zip(dataset.ids, [text for (text,) in texts], strict=True))


def table(folder: Path, *lines: object, raw: bytes = b"") -> None:
    """A metadata.jsonl of objects, and of `raw` bytes after them."""
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (folder / "metadata.jsonl").write_bytes(text.encode() + raw)


def test_tables_caption_images_below_them(fill: Draw) -> None:
    folder = fill("d", {"a.png": 10, "e.png": 40, "train/b.JPG": 20, "train/deep/c.png": 30})
    first = {"file_name": "a.png", "text": " a face,\n  smiling ", "age": 31, "subject": "anna"}
    german = {"file_name": "./train/deep/c.png", "caption": "ein Gesicht, lächelnd"}
    nulls = {"text": None, "caption": "null is not a text", "age": None, "subject": None}
    table(folder, first, "", {**german, "age": 0.5, "subject": 7}, {"file_name": "e.png", **nulls})
    both = {"file_name": "b.JPG", "text": "text wins", "caption": "over caption", "width": 12}
    table(folder / "train", both)
    (folder / "notes.txt").write_text("where there are tables, text files are not captions")
    dataset = load(f"captions:{folder}")
    assert words(dataset) == {
        "a.png": "a face, smiling",
        "e.png": "null is not a text",
        "train/b.JPG": "text wins",
        "train/deep/c.png": "ein Gesicht, lächelnd",
    }
    people = [(sample.age, sample.subject) for sample in dataset.samples]
    assert people == [(31.0, "anna"), (None, None), (None, None), (0.5, "7")]
    values = greys(dataset)
    del values["train/b.JPG"]  # JPEG keeps no values
    assert values == {"a.png": 10, "e.png": 40, "train/deep/c.png": 30}


BAD_RECORDS = {
    "gone.png": ({"text": "x"}, "no such image"),
    "01.png": ({"text": " \t\n"}, "empty"),
    "02.png": ({"text": "x" * (MAX_CHARACTERS + 1)}, "4097 characters, more than 4096"),
    "03.png": ({"text": "half a pair \ud83d"}, "not UTF-8"),
    "04.png": ({"text": "bell \x07"}, "control characters"),
    "05.png": ({"text": 5}, "not a string"),
    "06.png": ({}, "neither 'text' nor 'caption'"),
    "07.png": ({"text": "x", "age": 123}, "not plausible"),
    "08.png": ({"text": "x", "age": float("nan")}, "not plausible"),
    "09.png": ({"text": "x", "age": True}, "not plausible"),
    "10.png": ({"text": "x", "subject": "two\nlines"}, "printable"),
    "00.png": (
        {"text": "again"},
        "metadata.jsonl:13 captions it again (metadata.jsonl:1 did)",
    ),
}
BAD_LINES = [
    ({"file_name": "../secret.png", "text": "x"}, "leads out"),
    ({"file_name": "/etc/passwd", "text": "x"}, "leads out"),
    ({"text": "x"}, "names no file"),
    ({"file_name": ["a"], "text": "x"}, "names no file"),
    ("[]", "not a JSON object"),
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
]
"""On line 14 and below."""


def test_every_mismatch_in_a_table_is_named(draw: Draw, fill: Draw) -> None:
    folder = fill("d", [f"{number:02d}.png" for number in range(12)])
    draw("secret.png")
    records = [{"file_name": name, **record} for name, (record, _) in BAD_RECORDS.items()]
    lines = [line for line, _ in BAD_LINES]
    escape = {"file_name": "\x1b[31m.png", "text": "x"}
    raw = b'{"file_name": "11.png", "text": "\xff"}\n'
    table(folder, {"file_name": "00.png", "text": "good"}, *records, *lines, escape, raw=raw)
    first = r"22 of 23 samples cannot be used \(first: gone.png: metadata.jsonl:2 captions it"
    with pytest.raises(DataError, match=first):
        load(f"captions:{folder}")
    dataset = load(f"captions:{folder}", "skip")
    assert words(dataset) == {"00.png": "good"}
    expected = {name: why for name, (_, why) in BAD_RECORDS.items()}
    expected |= {
        f"metadata.jsonl:{number}": why for number, (_, why) in enumerate(BAD_LINES, start=14)
    }
    expected |= {
        "\\x1b[31m.png": "no such image",
        "metadata.jsonl:22": "not UTF-8",
        "11.png": "no line of a metadata.jsonl names it",
    }
    assert_reasons(dataset, expected)


def test_what_a_table_may_hold(fill: Draw, tmp_path: Path) -> None:
    longest = {"file_name": "a.png", "text": "é" * MAX_CHARACTERS}
    table(fill("d", ["a.png"]), "\ufeff" + json.dumps(longest))
    assert words(load(f"captions:{tmp_path}/d")) == {"a.png": "é" * MAX_CHARACTERS}
    folder = fill("linked", ["a.png"])
    (folder / "a.txt").write_text("inside")
    table(tmp_path, {"file_name": "a.png", "text": "outside"})
    (folder / "metadata.jsonl").symlink_to(tmp_path / "metadata.jsonl")
    assert words(load(f"captions:{folder}")) == {"a.png": "outside"}, "links are followed"


def test_tables_are_bounded(fill: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill("d", ["a.png"])
    with (folder / "metadata.jsonl").open("wb") as handle:
        handle.truncate(captions_module.MAX_JSON_BYTES + 1)  # a sparse file: no disk is used
    with pytest.raises(DataError, match="larger than"):
        load(f"captions:{folder}")
    table(folder, *[{"file_name": "a.png", "text": "x"}] * 3)
    monkeypatch.setattr(captions_module, "MAX_LINES", 2)
    with pytest.raises(DataError, match="more than 2 captions"):
        load(f"captions:{folder}", "skip")


def test_text_files_caption_the_image_of_their_name(fill: Draw) -> None:
    folder = fill("d", ("a.png", "sub/b.c.jpg", "sub/d.webp"))
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo  three\r\n")
    (folder / "sub/b.c.caption").write_text("dots in a name")
    (folder / "sub/d.TXT").write_text("capitals")
    assert words(load(f"captions:{folder}")) == {
        "a.png": "one two three",
        "sub/b.c.jpg": "dots in a name",
        "sub/d.webp": "capitals",
    }


def test_every_mismatch_of_text_files_is_named(fill: Draw, tmp_path: Path) -> None:
    contents = {
        "good.txt": b"good",
        "both.txt": b"x",
        "both.caption": b"y",
        "empty.txt": b"\n",
        "long.txt": b"x" * 4097,
        "huge.txt": b" " * 70_000,
        "latin.txt": b"l\xe4chelnd",
        "utf16.txt": "face".encode("utf-16"),
        "utf16be.txt": "face".encode("utf-16-be"),
    }
    images = {name.partition(".")[0] for name in contents} | {"bare", "link", "pipe"}
    folder = fill("d", [f"{name}.png" for name in images])
    for name, content in (contents | {"orphan.txt": b"x", "sub.txt": b"x"}).items():
        (folder / name).write_bytes(content)
    (tmp_path / "secret.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(folder / "pipe.txt")
    first = r"12 of 14 samples cannot be used \(first: pipe.txt: it is a device"
    with pytest.raises(DataError, match=first):
        load(f"captions:{folder}")
    dataset = load(f"captions:{folder}", "skip")
    assert words(dataset) == {"good.png": "good", "link.png": "outside"}
    expected = {
        "bare.png": "bare.txt",
        "both.png": "two captions: both.caption and both.txt",
        "empty.png": "empty",
        "huge.png": "65536 bytes",
        "latin.png": "not UTF-8",
        "pipe.txt": "a device, a pipe",
        "long.png": "4097 characters",
        "pipe.png": "no caption",
        "utf16.png": "not UTF-8",
        "utf16be.png": "control characters",
        "orphan.txt": "no image",
        "sub.txt": "no image",
    }
    assert_reasons(dataset, expected)


def test_data_without_captions_says_which_have_some(fill: Draw) -> None:
    folder = fill("d", ["a.png"])
    plain = load(f"imagefolder:{folder}")
    with pytest.raises(DataError, match=r"these have: captions:DIR, .*Put a metadata.jsonl"):
        captions_of(plain, seed=0, variants=1)
    assert describe(plain)["captions"] is None
    named = {spec.split(":")[0] for spec in WITH_CAPTIONS.split(", ")}
    assert named == {kind for kind in SOURCES if issubclass(SOURCES.get(kind), Captioned)}
    with pytest.raises(DataError, match=r"of 1 file none .*metadata.jsonl .*\"file_name\""):
        load(f"captions:{folder}")


def test_synthetic_faces_have_a_full_prompt_and_a_digest_of_words() -> None:
    source, dataset = (
        SynthSource("n=4,subjects=2,seed=3"),
        load("synth:n=4,subjects=2,seed=3", size=16),
    )
    captions = captions_of(dataset, seed=1, variants=4)
    for index, (full, *others) in enumerate(captions):
        assert len(others) == 3 and full == prompt_of(attributes_of(source.params(index)))
        for text in others:  # left out and reordered, never invented
            person, *details = text.split(", ")
            assert set(details) <= set(full.split(", "))
            assert person.endswith(full.split(", ")[0].split(" of ")[1])
    assert len({text for texts in captions for text in texts}) > 12
    assert captions_of(dataset, seed=1, variants=4) == captions
    # more variants change none
    assert captions_of(dataset, seed=1, variants=2) == tuple(texts[:2] for texts in captions)
    other = captions_of(dataset, seed=2, variants=4)
    assert [texts[0] for texts in other] == [texts[0] for texts in captions] and other != captions
    fewer = load("synth:n=3,subjects=2,seed=3", size=16)
    assert captions_of(fewer, seed=1, variants=4) == captions[:3]
    for seed, variants in ((-1, 1), (0, 0)):
        with pytest.raises(InputError, match="out of range"):
            captions_of(dataset, seed=seed, variants=variants)
    by_hand = hashlib.sha256(b'["a", "b"]\n["\\u00e9"]\n').hexdigest()
    assert captions_digest((("a", "b"), ("é",))) == by_hand
    nearly = ([["a", "b"]], [["a"], ["b"]], [["b", "a"]], [['a", "b']], [])
    assert len({captions_digest(texts) for texts in nearly}) == 5


def test_inspect_shows_the_captions_of_the_samples_that_are_left(fill: Draw) -> None:
    folder = fill("d", [f"{name}.png" for name in "abcd"])
    for name in "abd":
        (folder / f"{name}.txt").write_text(f"caption of {name}")
    (folder / "b.png").write_bytes(b"no image")
    assert words(load(f"captions:{folder}", "skip")) == {
        "a.png": "caption of a",
        "d.png": "caption of d",
    }
    call = ["data", "inspect", f"captions:{folder}", "--on-bad", "skip"]
    told = json.loads(CliRunner().invoke(main, [*call, "--json"]).stdout)
    assert told["captions"] == {"samples": 2, "first": "caption of a"}
    assert "captions  2, the first: caption of a" in CliRunner().invoke(main, call).stdout


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60).filter(
    lambda text: text.split()
)


@settings(max_examples=40)
@given(
    captions=st.lists(TEXTS, min_size=1, max_size=6),
    ascii_only=st.booleans(),
    key=st.sampled_from(["text", "caption"]),
)
def test_a_table_gives_back_what_was_written(
    captions: list[str], ascii_only: bool, key: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        for number in range(len(captions)):
            (Path(name) / f"{number}.png").touch()
        lines = [{"file_name": f"{number}.png", key: text} for number, text in enumerate(captions)]
        text = "\n".join(json.dumps(line, ensure_ascii=ascii_only) for line in reversed(lines))
        (Path(name) / "metadata.jsonl").write_text(text, encoding="utf-8")
        source = CaptionsSource(name)
        listing = source.listing()
        read = [source.captions(sample, 0, 1) for sample in listing.samples]
    assert read == [(" ".join(text.split()),) for text in captions] and listing.problems == ()
