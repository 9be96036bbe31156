"""Tar shards: what they hold by hand, the same pixels as files, their patterns, and every kind of
damage as one typed error.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unplug.core import DataError
from unplug.sdk.learning.data import Dataset, captions_of, parse_spec
from unplug.sdk.learning.data.decode import MAX_FILE_BYTES, decode_bytes
from unplug.sdk.learning.data.sources import shards as shards_module
from unplug.sdk.learning.data.sources import webdataset as webdataset_module
from unplug.sdk.learning.data.sources.shards import members, shards_of
from unplug.sdk.learning.data.sources.webdataset import WebDatasetSource

from .conftest import assert_reasons, greys, load, reasons
from .test_captions import TEXTS


def picture(value: int = 100, format_: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((9, 9, 3), value, np.uint8)).save(out, format_)
    return out.getvalue()


def pair(key: str, value: int = 100, caption: str | None = None) -> dict[str, bytes]:
    return {f"{key}.png": picture(value), f"{key}.txt": (caption or f"caption of {key}").encode()}


def entry(name: str, **facts: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(made, key, value)
    return made


def tar(
    path: Path, files: Mapping[str, bytes], format_: int = tarfile.PAX_FORMAT, *more: Any
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format_) as archive:
        for name, content in files.items():
            archive.addfile(entry(name, size=len(content)), io.BytesIO(content))
        for added in more:
            archive.addfile(added)
    return path


def rows(dataset: Dataset) -> dict[str, tuple[str, int]]:
    """Id to caption and grey value: words and pixels belong together or this is wrong."""
    captions = [texts[0] for texts in captions_of(dataset, seed=0, variants=2)]
    values = greys(dataset)
    return dict(zip(values, zip(captions, values.values(), strict=True), strict=True))


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_files_of_one_key(tmp_path: Path, format_: int) -> None:
    deep = f"{'folder/' * 12}{'n' * 60}"  # longer than a header's name field
    facts = {"text": "not this one", "age": 30, "subject": "anna", "width": 9}
    files = {
        "./b.txt": b"dot and slash",
        "./b.png": picture(10),
        "a.PNG": picture(20),
        "a.json": json.dumps(facts).encode(),
        "a.txt": b"from txt\n",
        "a.cls": b"5",
        "a.cond.png": b"another part",
        "c.json": b'{"caption": "from json"}',
        "c.webp": picture(30, "WEBP"),
        "README": b"",
        ".hidden.png": b"",
        "._a.png": b"",
        **pair(deep, 40, "lächelnd"),
        "dir.x/d.jpeg": picture(50, "JPEG"),
        "dir.x/d.txt": b"a dot in a folder",
    }
    tar(tmp_path / "s.tar", files, format_, entry("dir.x", type=tarfile.DIRTYPE))
    dataset = load(f"webdataset:{tmp_path}/s.tar")
    assert rows(dataset) == {
        "s.tar/b": ("dot and slash", 10),
        "s.tar/a": ("from txt", 20),
        "s.tar/c": ("from json", 30),
        f"s.tar/{deep}": ("lächelnd", 40),
        "s.tar/dir.x/d": ("a dot in a folder", 50),
    }
    assert [(sample.age, sample.subject) for sample in dataset.samples[:3]] == [
        (None, None),
        (30.0, "anna"),
        (None, None),
    ]


def test_pixels_and_fingerprints_are_those_of_the_files(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "d").mkdir()
    Image.fromarray(noise).save(tmp_path / "d" / "a.jpg", exif=exif)
    tar(tmp_path / "s.tar", {"a.txt": b"noise", "a.jpg": (tmp_path / "d" / "a.jpg").read_bytes()})
    inside, outside = load(f"webdataset:{tmp_path}/s.tar"), load(f"imagefolder:{tmp_path}/d")
    assert (inside.pixels([0]) == outside.pixels([0])).all()
    sources = [parse_spec(dataset.spec) for dataset in (inside, outside)]
    assert sources[0].fingerprint(inside.samples[0]) == sources[1].fingerprint(outside.samples[0])
    assert sources[0].parallel == "thread"


IMAGE = picture()
UNUSABLE: dict[str, tuple[str, dict[str, bytes]]] = {
    "bare": ("no caption", {"bare.png": IMAGE}),
    "lost": ("lost.txt has no image", {"lost.txt": b"x"}),
    "two": (
        "2 files for its image: two.png and two.jpg",
        {"two.png": IMAGE, "two.jpg": IMAGE, "two.txt": b"x"},
    ),
    "json": ("not JSON", {"json.png": IMAGE, "json.json": b"{"}),
    "age": ("not plausible", {"age.png": IMAGE, "age.txt": b"x", "age.json": b'{"age": -1}'}),
    "none": ("neither 'text' nor", {"none.png": IMAGE, "none.json": b'{"age": 5}'}),
    "../up.png": ("leads out", {"../up.png": IMAGE}),
    "/abs.png": ("leads out", {"/abs.png": IMAGE}),
    "a/../b.png": ("leads out", {"a/../b.png": IMAGE}),
    "esc\\x1b[31m.png": ("printable", {"esc\x1b[31m.png": IMAGE}),
    "n" * 200: ("1024", {"n" * 1100 + ".png": IMAGE}),
    "broken": ("not a readable image", {"broken.png": IMAGE[:40], "broken.txt": b"x"}),
    "big": ("bytes are too many", {"big.png": IMAGE * 9, "big.txt": b"x"}),
}
LINKS = {
    "sym.png": (tarfile.SYMTYPE, "a link"),
    "hard.txt": (tarfile.LNKTYPE, "a link"),
    "dev.png": (tarfile.CHRTYPE, "a device"),
    "pipe.png": (tarfile.FIFOTYPE, "a device"),
}


def test_every_sample_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pair("good", 90)
    for _, added in UNUSABLE.values():
        files |= added
    links = [entry(name, type=type_, linkname="/etc/passwd") for name, (type_, _) in LINKS.items()]
    monkeypatch.setitem(webdataset_module.LIMITS, "image", 8 * len(IMAGE))
    tar(tmp_path / "s.tar", files, tarfile.PAX_FORMAT, *links)
    dataset = load(f"webdataset:{tmp_path}/s.tar", "skip")
    assert rows(dataset) == {"s.tar/good": ("caption of good", 90)}
    expected = {name: why for name, (why, _) in UNUSABLE.items()}
    assert_reasons(dataset, expected | {name: why for name, (_, why) in LINKS.items()}, "s.tar/")
    assert " 0x" not in reasons(dataset)["s.tar/broken"], (
        "an address in memory is no reason, and differs from run to run"
    )
    with pytest.raises(
        DataError, match=r"17 of 18 samples cannot be used \(first: s.tar/../up.png"
    ):
        load(f"webdataset:{tmp_path}/s.tar")


def summed(block: bytes) -> bytes:
    """The field of a header that holds its sum, with blanks in its own place."""
    return f"{sum(block[:148]) + 8 * 32 + sum(block[156:512]):06o}\0 ".encode()


def test_names_and_members_of_odd_forms_are_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", pair("a#", 10, "x"), tarfile.USTAR_FORMAT)
    raw = path.read_bytes().replace(b"a#.", b"a\xff.")
    for start in (0, raw.index(b"a\xff.txt")):  # the sum over the header counts the byte
        raw = raw[: start + 148] + summed(raw[start : start + 512]) + raw[start + 156 :]
    path.write_bytes(raw)
    assert rows(load(f"webdataset:{path}")) == {"s.tar/a\\xff": ("x", 10)}
    # The bytes of a sparse file do not lie in one piece.
    facts = {"map": "0,5", "size": "100", "numblocks": "1"}
    headers = {f"GNU.sparse.{name}": value for name, value in facts.items()}
    tar(tmp_path / "s.tar", pair("a"), tarfile.PAX_FORMAT, entry("sparse.png", pax_headers=headers))
    assert "sparse" in reasons(load(f"webdataset:{tmp_path}/s.tar", "skip"))["s.tar/sparse.png"]


def test_members_that_change_or_are_too_large_are_data_errors(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", pair("a"))
    source = WebDatasetSource(str(path))
    (sample,) = source.listing().samples
    path.write_bytes(path.read_bytes()[:520])
    with pytest.raises(DataError, match="has become shorter"):
        source.decode(sample, 8)
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        source.fingerprint(sample)
    with pytest.raises(DataError, match=r"shard/a.png: .*too many for one image"):
        decode_bytes(bytes(MAX_FILE_BYTES + 1), "shard/a.png", 8)
    with pytest.raises(DataError, match=r"not a readable image \(cannot identify image file a.png"):
        decode_bytes(b"no image\xff", "s.tar/a.png", 8)


KEYS = st.text(
    st.characters(
        exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs"), exclude_characters="./"
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40)
@given(
    captions=st.dictionaries(KEYS, TEXTS, min_size=1, max_size=6),
    as_json=st.booleans(),
    format_=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_a_shard_gives_back_what_was_written(
    captions: dict[str, str], as_json: bool, format_: int
) -> None:
    files: dict[str, bytes] = {}
    for key, text in captions.items():
        files[f"{key}.png"] = key.encode()
        files[f"{key}.json" if as_json else f"{key}.txt"] = (
            json.dumps({"text": text}) if as_json else text
        ).encode()
    with tempfile.TemporaryDirectory() as name:
        source = WebDatasetSource(str(tar(Path(name) / "s.tar", files, format_)))
        listing = source.listing()
        texts = {sample.id: source.captions(sample, 0, 1)[0] for sample in listing.samples}
        contents = [source._bytes(sample).decode() for sample in listing.samples]
    assert texts == {f"s.tar/{key}": " ".join(text.split()) for key, text in captions.items()}
    assert listing.problems == () and contents == list(captions)


def test_patterns_name_shards_in_order(tmp_path: Path) -> None:
    for place, name in enumerate(("s/08.tar", "s/09.tar", "s/10.tar", "s/x.tar", "t/08.tar")):
        tar(tmp_path / name, pair("000", place))
    (tmp_path / "s" / "08.parquet").write_bytes(b"a table that img2dataset writes")
    tar(tmp_path / "s" / ".hidden.tar", pair("000"))

    def named(pattern: str) -> list[str]:
        return [
            path.relative_to(tmp_path).as_posix() for path in shards_of(f"{tmp_path}/{pattern}")
        ]

    assert named("s/10.tar") == ["s/10.tar"]
    assert named("s") == named("s/*.tar") == ["s/08.tar", "s/09.tar", "s/10.tar", "s/x.tar"]
    assert named("s/{08..10}.tar") == ["s/08.tar", "s/09.tar", "s/10.tar"]
    assert named("s/{x,08,08}.tar") == ["s/x.tar", "s/08.tar"]
    assert named("{s,t}/0{8..8}.tar") == ["s/08.tar", "t/08.tar"]
    assert named("{t,s}/[0-9]*.tar") == ["t/08.tar", "s/08.tar", "s/09.tar", "s/10.tar"]
    # One key in several shards is several samples.
    values = greys(load(f"webdataset:{tmp_path}/s/{{08..10}}.tar"))
    assert values == {"08.tar/000": 0, "09.tar/000": 1, "10.tar/000": 2}
    assert load(f"webdataset:{tmp_path}/{{s,t}}/08.tar").ids == ("s/08.tar/000", "t/08.tar/000")
    tar(tmp_path / "s{1}.tar", pair("000"))
    assert named("s{1}.tar") == ["s{1}.tar"]  # a file of this very name


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{08..09}.tar", "no such file or folder, or no .tar in it: .*09.tar"),
        ("*.zip", "no such file"),
        ("{08}.tar", r"cannot read \{08\}"),
        ("{2..1}.tar", r"cannot read \{2..1\}"),
        ("{0..99999999}.tar", "cannot read"),
        ("{0..999}{0..999}.tar", "more than 100000 shards"),
        ("{a,b", "no such file"),
        ("nul\0.tar", "no such file"),
        ("**x/a.tar", "no such file"),
        ("n" * 5000, "no such file"),
    ],
)
def test_patterns_that_name_nothing_are_refused(tmp_path: Path, pattern: str, words: str) -> None:
    tar(tmp_path / "08.tar", pair("a"))
    with pytest.raises(DataError, match=words):
        parse_spec(f"webdataset:{tmp_path}/{pattern}")


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz"])
def test_compressed_shards_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[kind]
    raw = tar(tmp_path / "a.tar", pair("a")).read_bytes()
    (tmp_path / "a.tar").unlink()
    (tmp_path / "b.tar.gz").write_bytes(pack(raw))
    for pattern in (tmp_path, tmp_path / "b.tar.gz"):
        with pytest.raises(DataError, match=rf"b.tar.gz: it is compressed \({kind}\).*uncompr"):
            load(f"webdataset:{pattern}", "skip")


def test_what_is_no_tar_file_is_refused(tmp_path: Path) -> None:
    wrong = {
        "text.tar": (b"Dear reader, " * 100, "it is a text"),
        "zero.tar": (b"", "it is empty"),
        "png.tar": (picture(), "not a whole"),
    }
    for name, (content, why) in wrong.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: {why}"):
            load(f"webdataset:{tmp_path}/{name}")
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(DataError, match="not a regular file"):
        load(f"webdataset:{tmp_path}/pipe.tar")
    tar(tmp_path / "empty.tar", {})
    with pytest.raises(DataError, match="begins with zeros"):
        load(f"webdataset:{tmp_path}/empty.tar")
    tar(tmp_path / "s.tar", pair("BZh9", 10), tarfile.USTAR_FORMAT)
    assert load(f"webdataset:{tmp_path}/s.tar").ids == ("s.tar/BZh9",)


@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_shard_cut_off_anywhere_is_a_data_error(tmp_path: Path, format_: int) -> None:
    """A law: whole up to its end mark, else refused; never a part of it in silence."""
    path = tar(tmp_path / "s.tar", pair("a") | pair("n" * 120, 20), format_)
    raw, source = path.read_bytes(), WebDatasetSource(str(path))
    with tarfile.open(path) as archive:
        end = max(file.offset_data + -(-file.size // 512) * 512 for file in archive.getmembers())
    whole = {sample.id for sample in source.listing().samples}
    for length in [*range(0, end + 512, 64), end - 1, end, end + 511, end + 512]:
        path.write_bytes(raw[:length])
        if length < end + 512:
            with pytest.raises(DataError, match=r"s.tar: (not a whole tar file|it is empty)"):
                source.listing()
        else:
            assert {sample.id for sample in source.listing().samples} == whole and len(whole) == 2


def test_damage_of_any_kind_is_a_data_error_or_a_listing(tmp_path: Path) -> None:
    """A law: whatever the bytes, `listing` ends with a listing or a `DataError`."""
    facts = {"major": "1", "minor": "0", "realsize": "9"}
    headers = {f"GNU.sparse.{name}": value for name, value in facts.items()}
    sparse = entry("s.png", pax_headers=headers)
    old = tar(tmp_path / "gnu.tar", pair("n" * 120), tarfile.GNU_FORMAT).read_bytes()
    new = tar(tmp_path / "pax.tar", pair("ä" * 60), tarfile.PAX_FORMAT, sparse).read_bytes()
    path, chance = tmp_path / "x.tar", random.Random(1)
    endings = {"listing": 0, "error": 0}
    for _ in range(400):
        damaged = bytearray(chance.choice([old, new]).rstrip(b"\0") + b"\0" * 1024)
        for _ in range(chance.choice([1, 2, 8])):
            damaged[chance.randrange(len(damaged))] = chance.choice(
                [0, 255, 128, *b"0189gKLxSVMD", chance.randrange(256)]
            )
        for start in range(0, len(damaged) - 511, 512):
            block = damaged[start : start + 512]
            if block[257:262] == b"ustar" and chance.random() < 0.9:
                damaged[start + 148 : start + 156] = summed(block)  # lets the damage through
        path.write_bytes(damaged)
        try:
            WebDatasetSource(str(path)).listing()
            endings["listing"] += 1
        except DataError as error:
            assert "x.tar" in str(error)
            endings["error"] += 1
    assert min(endings.values()) > 20, endings


def header(name: str, size: int, type_: bytes = b"0") -> bytes:
    """A tar header that claims any size, in base 256 where octal digits do not say it."""
    block = bytearray(512)
    block[: len(name)] = name.encode()
    block[100:108] = b"0000644\0"
    block[124:136] = (
        f"{size:011o}\0".encode() if 0 <= size < 8**11 else size.to_bytes(12, "big", signed=True)
    )
    if size >= 8**11:
        block[124] |= 0x80
    block[156:157] = type_
    block[257:265] = b"ustar\x0000"
    block[148:156] = summed(block)
    return bytes(block)


LIES = {
    "negative": (header("a.png", -512), "negative size"),
    "circle": (header("a.png", -1024) * 3, "negative size"),  # Python's CVE-2025-8194
    "huge": (header("a.png", 2**62), "unexpected end"),
    "large": (header("a.png", 2**35) + header("a.txt", 0), "a.png: 34359738368 bytes are too many"),
    "pax": (header("x", 2**40, b"x"), "a header is too long"),
    "pax-there": (header("x", 2**20, b"x") + b"1" * 2**20, "a header is too long"),
    "pax-negative": (header("x", -1, b"x"), "not a whole tar file"),
    "long-name": (header("x", 2**40, b"L"), "a header is too long"),
    "global": (header("x", 2**40, b"g"), "a header is too long"),
    "chain": (header("x", 0, b"x") * 3000, "not a whole tar file"),
    "sparse": (header("a.png", 512, b"S"), "a sparse file"),
}


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_data_errors(tmp_path: Path, lie: str) -> None:
    raw, words = LIES[lie]
    path = tmp_path / "x.tar"
    with path.open("wb") as handle:
        handle.write(header("first", 0) + raw)
        # a sparse file: what a header claims is there to be read, and must not be
        handle.truncate(2**36)
    with pytest.raises(DataError, match=rf"x.tar.*{words}"):
        load(f"webdataset:{path}", "skip")


def test_entries_and_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tar(tmp_path / "a.tar", pair("a") | pair("b"))
    assert len(members(path, 4)) == 4
    with pytest.raises(DataError, match="more than 2000000 entries"):
        members(path, 3)
    tar(tmp_path / "b.tar", pair("a"))
    monkeypatch.setattr(webdataset_module, "MAX_MEMBERS", 5)  # over all shards
    with pytest.raises(DataError, match=r"b.tar: with it there are more than"):
        load(f"webdataset:{tmp_path}")
    monkeypatch.setattr(shards_module, "MAX_SHARDS", 1)
    with pytest.raises(DataError, match="more than 1 shards"):
        shards_of(str(tmp_path))
