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

from .conftest import assert_reasons, load, reasons
from .test_captions import TEXTS


def picture(value: int = 100, format_: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((9, 9, 3), value, np.uint8)).save(out, format_)
    return out.getvalue()


def pair(key: str, value: int = 100, caption: str | None = None) -> dict[str, bytes]:
    return {f"{key}.png": picture(value), f"{key}.txt": (caption or f"caption of {key}").encode()}


def tar(
    path: Path,
    files: Mapping[str, bytes],
    format_: int = tarfile.PAX_FORMAT,
    *more: tarfile.TarInfo,
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format_) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for entry in more:
            archive.addfile(entry)
    return path


def rows(dataset: Dataset) -> dict[str, tuple[str, int]]:
    """Id to caption and grey value: words and pixels belong together or this is wrong."""
    found = captions_of(dataset, seed=0, variants=2)
    greys = dataset.pixels(range(len(dataset)))[:, 4, 4, 0].tolist()
    return {
        sample.id: (texts[0], grey)
        for sample, texts, grey in zip(dataset.samples, found, greys, strict=True)
    }


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
    folder = tarfile.TarInfo("dir.x")
    folder.type = tarfile.DIRTYPE
    tar(tmp_path / "s.tar", files, format_, folder)
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


def test_every_sample_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, links = picture(), []
    for name, type_ in (
        ("sym.png", tarfile.SYMTYPE),
        ("hard.txt", tarfile.LNKTYPE),
        ("dev.png", tarfile.CHRTYPE),
        ("pipe.png", tarfile.FIFOTYPE),
    ):
        link = tarfile.TarInfo(name)
        link.type, link.linkname = type_, "/etc/passwd"
        links.append(link)
    files = {
        **pair("good", 90),
        "bare.png": image,
        "lost.txt": b"x",
        "two.png": image,
        "two.jpg": image,
        "two.txt": b"x",
        "empty.png": image,
        "empty.txt": b" ",
        "latin.png": image,
        "latin.txt": b"\xe4",
        "json.png": image,
        "json.json": b"{",
        "age.png": image,
        "age.txt": b"x",
        "age.json": b'{"age": -1}',
        "none.png": image,
        "none.json": b'{"age": 5}',
        "../up.png": image,
        "/abs.png": image,
        "a/../b.png": image,
        "esc\x1b[31m.png": image,
        "n" * 1100 + ".png": image,
        "broken.png": image[:40],
        "broken.txt": b"x",
        "long.png": image,
        "long.txt": b"x" * 4097,
        "big.png": image * 9,
        "big.txt": b"x",
    }
    monkeypatch.setitem(webdataset_module.LIMITS, "image", 8 * len(image))
    tar(tmp_path / "s.tar", files, tarfile.PAX_FORMAT, *links)
    dataset = load(f"webdataset:{tmp_path}/s.tar", "skip")
    assert rows(dataset) == {"s.tar/good": ("caption of good", 90)}
    expected = {
        "bare": "no caption",
        "lost": "lost.txt has no image",
        "two": "2 files for its image: two.png and two.jpg",
        "empty": "empty",
        "latin": "not UTF-8",
        "json": "not JSON",
        "age": "not plausible",
        "none": "neither 'text' nor",
        "../up.png": "leads out",
        "/abs.png": "leads out",
        "a/../b.png": "leads out",
        "esc\\x1b[31m.png": "printable",
        "n" * 200: "1024",
        "broken": "not a readable image",
        "long": "4097 characters",
        "big": "bytes are too many",
        "sym.png": "a link",
        "hard.txt": "a link",
        "dev.png": "a device",
        "pipe.png": "a device",
    }
    assert_reasons(dataset, expected, "s.tar/")
    assert " 0x" not in reasons(dataset)["s.tar/broken"], (
        "an address in memory is no reason, and differs from run to run"
    )
    with pytest.raises(
        DataError, match=r"20 of 21 samples cannot be used \(first: s.tar/../up.png"
    ):
        load(f"webdataset:{tmp_path}/s.tar")


def test_names_and_members_of_odd_forms_are_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", pair("a#", 10, "x"), tarfile.USTAR_FORMAT)
    raw = path.read_bytes().replace(b"a#.", b"a\xff.")
    for start in (0, raw.index(b"a\xff.txt")):  # the sum over the header counts the byte
        header = raw[start : start + 512]
        total = sum(header[:148]) + 8 * 32 + sum(header[156:])
        raw = raw[: start + 148] + f"{total:06o}\0 ".encode() + raw[start + 156 :]
    path.write_bytes(raw)
    assert rows(load(f"webdataset:{path}")) == {"s.tar/a\\xff": ("x", 10)}
    # Their bytes do not lie in one piece.
    sparse = tarfile.TarInfo("sparse.png")
    sparse.pax_headers = {
        "GNU.sparse.map": "0,5",
        "GNU.sparse.size": "100",
        "GNU.sparse.numblocks": "1",
    }
    tar(tmp_path / "s.tar", pair("a"), tarfile.PAX_FORMAT, sparse)
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
    with pytest.raises(
        DataError, match=r"s.tar/a.png: not a readable image \(cannot identify image file a.png\)"
    ):
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
        found = {sample.id: source.captions(sample, 0, 1)[0] for sample in listing.samples}
        contents = [source._bytes(sample).decode() for sample in listing.samples]
    assert (
        found == {f"s.tar/{key}": " ".join(text.split()) for key, text in captions.items()}
        and listing.problems == ()
    )
    assert contents == list(captions)


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
    assert {
        name: grey
        for name, (_, grey) in rows(load(f"webdataset:{tmp_path}/s/{{08..10}}.tar")).items()
    } == {"08.tar/000": 0, "09.tar/000": 1, "10.tar/000": 2}
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
        with pytest.raises(
            DataError, match=rf"b.tar.gz: it is compressed \({kind}\).*uncompressed"
        ):
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
        end = max(entry.offset_data + -(-entry.size // 512) * 512 for entry in archive.getmembers())
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
    sparse = tarfile.TarInfo("s.png")
    sparse.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.realsize": "9",
    }
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
        for start in range(
            0, len(damaged) - 511, 512
        ):  # sums that are right let the damage through
            header = damaged[start : start + 512]
            if header[257:262] == b"ustar" and chance.random() < 0.9:
                damaged[start + 148 : start + 156] = (
                    f"{sum(header[:148]) + 256 + sum(header[156:]):06o}\0 ".encode()
                )
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
    block[148:156] = f"{sum(block) + 256:06o}\0 ".encode()
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
