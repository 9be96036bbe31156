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

from .conftest import Draw, assert_reasons, load, reasons


def words(dataset: Dataset) -> dict[str, str]:
    """Id to its only caption."""
    found = captions_of(dataset, seed=0, variants=3)
    assert all(len(texts) == 1 for texts in found)
    return {sample.id: texts[0] for sample, texts in zip(dataset.samples, found, strict=True)}


def table(folder: Path, *lines: object, raw: bytes = b"") -> None:
    """A metadata.jsonl of objects, and of `raw` bytes after them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (folder / "metadata.jsonl").write_bytes(text.encode() + raw)


def test_tables_caption_images_below_them(draw: Draw, tmp_path: Path) -> None:
    for name, value in (
        ("d/a.png", 10),
        ("d/train/b.JPG", 20),
        ("d/train/deep/c.png", 30),
        ("d/e.png", 40),
    ):
        draw(name, value)
    table(
        tmp_path / "d",
        {"file_name": "a.png", "text": " a face,\n  smiling ", "age": 31, "subject": "anna"},
        "",
        {
            "file_name": "./train/deep/c.png",
            "caption": "ein Gesicht, lächelnd",
            "age": 0.5,
            "subject": 7,
        },
        {
            "file_name": "e.png",
            "text": None,
            "caption": "null is no text",
            "age": None,
            "subject": None,
        },
    )
    table(
        tmp_path / "d" / "train",
        {"file_name": "b.JPG", "text": "text wins", "caption": "over caption", "width": 12},
    )
    (tmp_path / "d" / "notes.txt").write_text("where there are tables, text files are not captions")
    dataset = load(f"captions:{tmp_path}/d")
    assert words(dataset) == {
        "a.png": "a face, smiling",
        "e.png": "null is no text",
        "train/b.JPG": "text wins",
        "train/deep/c.png": "ein Gesicht, lächelnd",
    }
    assert [(s.id, s.age, s.subject) for s in dataset.samples] == [
        ("a.png", 31.0, "anna"),
        ("e.png", None, None),
        ("train/b.JPG", None, None),
        ("train/deep/c.png", 0.5, "7"),
    ]
    assert [int(dataset.pixels([row])[0, 4, 4, 0]) for row in (0, 1, 3)] == [10, 40, 30]


def test_every_mismatch_in_a_table_is_named(draw: Draw, tmp_path: Path) -> None:
    for number in range(12):
        draw(f"d/{number:02d}.png", 10 * number)
    draw("secret.png")
    good = {"file_name": "00.png", "text": "good"}
    bad = {
        "gone.png": {"file_name": "gone.png", "text": "x"},
        "01.png": {"file_name": "01.png", "text": " \t\n"},
        "02.png": {"file_name": "02.png", "text": "x" * (MAX_CHARACTERS + 1)},
        "03.png": {"file_name": "03.png", "text": "half a pair \ud83d"},
        "04.png": {"file_name": "04.png", "text": "bell \x07"},
        "05.png": {"file_name": "05.png", "text": 5},
        "06.png": {"file_name": "06.png"},
        "07.png": {"file_name": "07.png", "text": "x", "age": 123},
        "08.png": {"file_name": "08.png", "text": "x", "age": float("nan")},
        "09.png": {"file_name": "09.png", "text": "x", "age": True},
        "10.png": {"file_name": "10.png", "text": "x", "subject": "two\nlines"},
    }
    lines = [good, *bad.values()]
    table(
        tmp_path / "d",
        *lines,
        {**good, "text": "again"},
        {"file_name": "../secret.png", "text": "x"},
        {"file_name": "/etc/passwd", "text": "x"},
        {"text": "x"},
        {"file_name": ["a"], "text": "x"},
        "[]",
        "{",
        "[" * 100_000,
        {"file_name": "\x1b[31m.png", "text": "x"},
        raw=b'{"file_name": "11.png", "text": "\xff"}\n',
    )
    with pytest.raises(
        DataError,
        match=r"22 of 23 samples cannot be used \(first: gone.png: metadata.jsonl:2 captions it",
    ):
        load(f"captions:{tmp_path}/d")
    dataset = load(f"captions:{tmp_path}/d", "skip")
    assert words(dataset) == {"00.png": "good"}
    expected = {
        "gone.png": "no such image",
        "01.png": "empty",
        "02.png": "4097 characters, more than 4096",
        "03.png": "not UTF-8",
        "04.png": "control characters",
        "05.png": "not a string",
        "06.png": "neither 'text' nor 'caption'",
        "07.png": "not plausible",
        "08.png": "not plausible",
        "09.png": "not plausible",
        "10.png": "printable",
        "00.png": "metadata.jsonl:13 captions it again (metadata.jsonl:1 did)",
        "metadata.jsonl:14": "leads out",
        "metadata.jsonl:15": "leads out",
        "metadata.jsonl:16": "names no file",
        "metadata.jsonl:17": "names no file",
        "metadata.jsonl:18": "not a JSON object",
        "metadata.jsonl:19": "not JSON",
        "metadata.jsonl:20": "not JSON",
        "\\x1b[31m.png": "no such image",
        "metadata.jsonl:22": "not UTF-8",
        "11.png": "no line of a metadata.jsonl names it",
    }
    assert_reasons(dataset, expected)


def test_what_a_table_may_hold(draw: Draw, tmp_path: Path) -> None:
    draw("d/a.png")
    table(
        tmp_path / "d", "\ufeff" + json.dumps({"file_name": "a.png", "text": "é" * MAX_CHARACTERS})
    )
    assert words(load(f"captions:{tmp_path}/d")) == {"a.png": "é" * MAX_CHARACTERS}
    draw("linked/a.png")
    (tmp_path / "linked" / "a.txt").write_text("inside")
    table(tmp_path, {"file_name": "a.png", "text": "outside"})
    (tmp_path / "linked" / "metadata.jsonl").symlink_to(tmp_path / "metadata.jsonl")
    assert words(load(f"captions:{tmp_path}/linked")) == {"a.png": "outside"}, "links are followed"


def test_tables_are_bounded(draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw("d/a.png")
    with (tmp_path / "d" / "metadata.jsonl").open("wb") as handle:
        handle.truncate(captions_module.MAX_JSON_BYTES + 1)  # a sparse file: no disk is used
    with pytest.raises(DataError, match="larger than"):
        load(f"captions:{tmp_path}/d")
    table(tmp_path / "d", *[{"file_name": "a.png", "text": "x"}] * 3)
    monkeypatch.setattr(captions_module, "MAX_LINES", 2)
    with pytest.raises(DataError, match="more than 2 captions"):
        load(f"captions:{tmp_path}/d", "skip")


def test_text_files_caption_the_image_of_their_name(draw: Draw, tmp_path: Path) -> None:
    for name in ("a.png", "sub/b.c.jpg", "sub/d.webp"):
        draw(f"d/{name}")
    (tmp_path / "d/a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo  three\r\n")
    (tmp_path / "d/sub/b.c.caption").write_text("dots in a name")
    (tmp_path / "d/sub/d.TXT").write_text("capitals")
    assert words(load(f"captions:{tmp_path}/d")) == {
        "a.png": "one two three",
        "sub/b.c.jpg": "dots in a name",
        "sub/d.webp": "capitals",
    }


def test_every_mismatch_of_text_files_is_named(draw: Draw, tmp_path: Path) -> None:
    for name in (
        "bare",
        "both",
        "empty",
        "good",
        "huge",
        "latin",
        "link",
        "long",
        "pipe",
        "utf16",
        "utf16be",
    ):
        draw(f"d/{name}.png")
    contents = {
        "good.txt": b"good",
        "both.txt": b"x",
        "both.caption": b"y",
        "empty.txt": b"\n",
        "long.txt": b"x" * 4097,
        "huge.txt": b" " * 70_000,
        "latin.txt": b"l\xe4chelnd",
        "orphan.txt": b"x",
        "sub.txt": b"x",
        "utf16.txt": "face".encode("utf-16"),
        "utf16be.txt": "face".encode("utf-16-be"),
    }
    for name, content in contents.items():
        (tmp_path / "d" / name).write_bytes(content)
    (tmp_path / "secret.txt").write_text("outside")
    (tmp_path / "d" / "link.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(tmp_path / "d" / "pipe.txt")
    with pytest.raises(
        DataError, match=r"12 of 14 samples cannot be used \(first: pipe.txt: it is a device"
    ):
        load(f"captions:{tmp_path}/d")
    dataset = load(f"captions:{tmp_path}/d", "skip")
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


def test_data_without_captions_says_which_have_some(draw: Draw, tmp_path: Path) -> None:
    draw("d/a.png")
    with pytest.raises(
        DataError, match=r"no captions \(these have: captions:DIR, .*Put a metadata.jsonl"
    ):
        captions_of(load(f"imagefolder:{tmp_path}/d"), seed=0, variants=1)
    assert describe(load(f"imagefolder:{tmp_path}/d"))["captions"] is None
    named = {spec.split(":")[0] for spec in WITH_CAPTIONS.split(", ")}
    assert named == {kind for kind in SOURCES if issubclass(SOURCES.get(kind), Captioned)}
    draw("d/a.png")
    with pytest.raises(
        DataError, match=r"of 1 file none can be used .*metadata.jsonl .*\"file_name\""
    ):
        load(f"captions:{tmp_path}/d")


def test_synthetic_faces_have_a_full_prompt_and_a_digest_of_words() -> None:
    dataset, source = (
        load("synth:n=4,subjects=2,seed=3", size=16),
        SynthSource("n=4,subjects=2,seed=3"),
    )
    found = captions_of(dataset, seed=1, variants=4)
    for index, texts in enumerate(found):
        attributes = attributes_of(source.params(index))
        assert len(texts) == 4 and texts[0] == prompt_of(attributes)
        for text in texts[1:]:  # left out and reordered, never invented
            person, *details = text.split(", ")
            assert set(details) <= set(texts[0].split(", ")) and person.endswith(
                texts[0].split(", ")[0].split(" of ")[1]
            )
    assert len({text for texts in found for text in texts}) > 12
    assert captions_of(dataset, seed=1, variants=4) == found
    # more variants change none
    assert captions_of(dataset, seed=1, variants=2) == tuple(texts[:2] for texts in found)
    other = captions_of(dataset, seed=2, variants=4)
    assert [texts[0] for texts in other] == [texts[0] for texts in found] and other != found
    assert (
        captions_of(load("synth:n=3,subjects=2,seed=3", size=16), seed=1, variants=4) == found[:3]
    )
    for seed, variants in ((-1, 1), (0, 0)):
        with pytest.raises(InputError, match="out of range"):
            captions_of(dataset, seed=seed, variants=variants)
    by_hand = hashlib.sha256(b'["a", "b"]\n["\\u00e9"]\n').hexdigest()
    assert captions_digest((("a", "b"), ("é",))) == by_hand
    assert (
        len(
            {
                captions_digest(item)
                for item in ([["a", "b"]], [["a"], ["b"]], [["b", "a"]], [['a", "b']], [])
            }
        )
        == 5
    )


def test_captions_follow_the_samples_that_are_left(draw: Draw, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        draw(f"d/{name}.png")
        (tmp_path / "d" / f"{name}.txt").write_text(f"caption of {name}")
    (tmp_path / "d" / "b.png").write_bytes(b"no image")
    (tmp_path / "d" / "c.txt").unlink()
    dataset = load(f"captions:{tmp_path}/d", "skip")
    assert captions_of(dataset, seed=0, variants=1) == (("caption of a",), ("caption of d",))
    assert set(reasons(dataset)) == {"b.png", "c.png"}


def test_inspect_shows_captions(draw: Draw, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(f"d/{name}.png")
        (tmp_path / "d" / f"{name}.txt").write_text(f"caption of {name}")
    call = ["data", "inspect", f"captions:{tmp_path}/d"]
    said = json.loads(CliRunner().invoke(main, [*call, "--json"]).stdout)
    assert said["captions"] == {"samples": 2, "first": "caption of a"}
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
        found = [source.captions(sample, 0, 1) for sample in listing.samples]
    assert found == [(" ".join(text.split()),) for text in captions] and listing.problems == ()
