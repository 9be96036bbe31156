"""Patterns of shards and the index of one: every kind of damage is one typed error."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import tarfile
from pathlib import Path

import pytest

from unplug.core import DataError
from unplug.sdk.data import parse_spec
from unplug.sdk.data.sources import shards as shards_module
from unplug.sdk.data.sources import webdataset as webdataset_module
from unplug.sdk.data.sources.shards import members, shards_of
from unplug.sdk.data.sources.webdataset import WebDatasetSource

from .tars import load, pair, picture, rows, tar

# --- patterns


def test_patterns_name_shards_in_order(tmp_path: Path) -> None:
    for place, name in enumerate(("s/08.tar", "s/09.tar", "s/10.tar", "s/x.tar", "t/08.tar")):
        tar(tmp_path / name, pair("000", place))
    (tmp_path / "s" / "08.parquet").write_bytes(b"a table that img2dataset writes")
    tar(tmp_path / "s" / ".hidden.tar", pair("000"))

    def named(pattern: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in shards_of(f"{tmp_path}/{pattern}")]

    assert named("s/10.tar") == ["s/10.tar"]
    assert named("s") == named("s/*.tar") == ["s/08.tar", "s/09.tar", "s/10.tar", "s/x.tar"]
    assert named("s/{08..10}.tar") == ["s/08.tar", "s/09.tar", "s/10.tar"]
    assert named("s/{x,08,08}.tar") == ["s/x.tar", "s/08.tar"]
    assert named("{s,t}/0{8..8}.tar") == ["s/08.tar", "t/08.tar"]
    assert named("{t,s}/[0-9]*.tar") == ["t/08.tar", "s/08.tar", "s/09.tar", "s/10.tar"]
    # One key in several shards is several samples.
    assert {name: grey for name, (_, grey) in rows(load(f"webdataset:{tmp_path}/s/{{08..10}}.tar")).items()} == {
        "08.tar/000": 0,
        "09.tar/000": 1,
        "10.tar/000": 2,
    }
    assert load(f"webdataset:{tmp_path}/{{s,t}}/08.tar").ids == ("s/08.tar/000", "t/08.tar/000")
    tar(tmp_path / "s{1}.tar", pair("000"))
    assert named("s{1}.tar") == ["s{1}.tar"]  # a file of this very name


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{08..09}.tar", "no such file or folder, or no .tar in it: .*09.tar"), ("*.zip", "no such file"),
        ("{08}.tar", r"cannot read \{08\}"), ("{2..1}.tar", r"cannot read \{2..1\}"), ("{0..99999999}.tar", "cannot read"),
        ("{0..999}{0..999}.tar", "more than 100000 shards"), ("{a,b", "no such file"), ("nul\0.tar", "no such file"),
        ("**x/a.tar", "no such file"), ("n" * 5000, "no such file"),
    ],
)  # fmt: skip
def test_patterns_that_name_nothing_are_refused(tmp_path: Path, pattern: str, words: str) -> None:
    tar(tmp_path / "08.tar", pair("a"))
    with pytest.raises(DataError, match=words):
        parse_spec(f"webdataset:{tmp_path}/{pattern}")


# --- damage


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz"])
def test_compressed_shards_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[kind]
    raw = tar(tmp_path / "a.tar", pair("a")).read_bytes()
    (tmp_path / "a.tar").unlink()
    (tmp_path / "b.tar.gz").write_bytes(pack(raw))
    for pattern in (tmp_path, tmp_path / "b.tar.gz"):
        with pytest.raises(DataError, match=rf"b.tar.gz: it is compressed \({kind}\).*uncompressed"):
            load(f"webdataset:{pattern}", "skip")


def test_what_is_no_tar_file_is_refused(tmp_path: Path) -> None:
    for name, content in (("text.tar", b"Dear reader, " * 100), ("zero.tar", b""), ("png.tar", picture())):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: not a whole tar file"):
            load(f"webdataset:{tmp_path}/{name}")
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(DataError, match="not a regular file"):
        load(f"webdataset:{tmp_path}/pipe.tar")
    tar(tmp_path / "empty.tar", {})
    with pytest.raises(DataError, match="holds no samples"):
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
            with pytest.raises(DataError, match=r"s.tar: not a whole tar file"):
                source.listing()
        else:
            assert {sample.id for sample in source.listing().samples} == whole and len(whole) == 2


def test_damage_of_any_kind_is_a_data_error_or_a_listing(tmp_path: Path) -> None:
    """A law: whatever the bytes, `listing` ends with a listing or a `DataError`."""
    sparse = tarfile.TarInfo("s.png")
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    old = tar(tmp_path / "gnu.tar", pair("n" * 120), tarfile.GNU_FORMAT).read_bytes()
    new = tar(tmp_path / "pax.tar", pair("ä" * 60), tarfile.PAX_FORMAT, sparse).read_bytes()
    path, chance = tmp_path / "x.tar", random.Random(1)
    endings = {"listing": 0, "error": 0}
    for _ in range(400):
        damaged = bytearray(chance.choice([old, new]).rstrip(b"\0") + b"\0" * 1024)
        for _ in range(chance.choice([1, 2, 8])):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 255, 128, *b"0189gKLxSVMD", chance.randrange(256)])
        for start in range(0, len(damaged) - 511, 512):  # sums that are right let the damage through
            header = damaged[start : start + 512]
            if header[257:262] == b"ustar" and chance.random() < 0.9:
                damaged[start + 148 : start + 156] = f"{sum(header[:148]) + 256 + sum(header[156:]):06o}\0 ".encode()
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
    block[124:136] = f"{size:011o}\0".encode() if 0 <= size < 8**11 else size.to_bytes(12, "big", signed=True)
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
        handle.truncate(2**36)  # a sparse file: what a header claims is there to be read, and must not be
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
