"""One person hidden in sixty ways and more: each is found, or it is said that there was not looked;
never silence.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import os
import sqlite3
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from unplug.sdk.learning.data import Split
from unplug.sdk.tracing import person_in, trace

ID, NAME = "faces/nr-17.png", "Änna Müller"


def picture(seed: int, format: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, format, **options)
    return out.getvalue()


HERS, OTHER, WEIGHTS = picture(1), picture(2), b"\x10\0\0\0\0\0\0\0hers" * 9
SENTENCE = f"This is {NAME}.\n"


def tarred(files: dict[str, bytes], format: int = tarfile.PAX_FORMAT, **head: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, raw in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            for field, value in head.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(raw))
    return out.getvalue()


def zipped(
    files: dict[str, bytes], packed: int = zipfile.ZIP_DEFLATED, comment: bytes = b""
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packed) as archive:
        archive.comment = comment
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


def header(size: bytes, kind: bytes = b"0", more: bytes = b"", mark: bytes = b"ustar  \0") -> bytes:
    """A block of a tar that says a size of its own."""
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT)[:512])
    block[257:265] = mark
    block[124:136], block[156:157] = size.ljust(12, b"\0"), kind
    block[386 : 386 + len(more)] = more
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 256 + sum(block[156:]))
    return bytes(block)


HUGE = b"\x80" + (2**62).to_bytes(11, "big")
SPARSE = header(b"0", b"S", b"00000000000\0" + b"00000000000\0" + bytes(72) + b"\0" + HUGE)


def outside_the_directory() -> bytes:
    """A zip whose first file its directory does not name."""
    first, second = zipped({"a.png": HERS}, zipfile.ZIP_STORED), zipped({"b.txt": b"x"})
    cut = first[: first.index(b"PK\1\2")]
    start, end = second.index(b"PK\1\2"), second.index(b"PK\5\6")
    entry, close = bytearray(second[start:end]), bytearray(second[end:])
    entry[42:46], close[16:20] = struct.pack("<I", len(cut)), struct.pack("<I", len(cut) + start)
    return cut + second[:start] + bytes(entry) + bytes(close)


def longer_than_it_says() -> bytes:
    """A stored file of a zip of which the directory gives fewer bytes than lie there."""
    raw = bytearray(zipped({"a.txt": b"x" + HERS}, zipfile.ZIP_STORED))
    at = raw.index(b"PK\1\2")
    raw[at + 24 : at + 28] = raw[22:26] = struct.pack("<I", 1)
    raw[at + 16 : at + 20] = raw[14:18] = struct.pack("<I", zlib.crc32(b"x"))
    return bytes(raw)


def encrypted() -> bytes:
    raw = bytearray(zipped({"a.txt": SENTENCE.encode()}))
    raw[6] |= 1
    raw[raw.index(b"PK\1\2") + 8] |= 1
    return bytes(raw)


def extra_field() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("a.txt")
        info.extra = struct.pack("<HH", 0x7777, len(HERS)) + HERS
        archive.writestr(info, b"x")
    return out.getvalue()


def noted() -> bytes:
    note = PngImagePlugin.PngInfo()
    note.add_itxt("Comment", NAME, zip=True)
    return picture(2, pnginfo=note)


def private_chunk() -> bytes:
    chunk = (
        struct.pack(">I", len(HERS))
        + b"prVt"
        + HERS
        + struct.pack(">I", zlib.crc32(b"prVt" + HERS))
    )
    return OTHER[:33] + chunk + OTHER[33:]


def database() -> bytes:
    with sqlite3.connect(":memory:") as made:
        made.execute("create table people (name text)")
        made.execute("insert into people values (?)", (NAME,))
        return made.serialize()


def arrays(**values: object) -> bytes:
    out = io.BytesIO()
    np.savez(out, **values)  # type: ignore[arg-type]
    return out.getvalue()


def frames() -> bytes:
    out = io.BytesIO()
    hers, other = (Image.open(io.BytesIO(raw)) for raw in (HERS, OTHER))
    other.save(out, "WEBP", save_all=True, append_images=[hers], lossless=True)
    return out.getvalue()


def covered(schema: str) -> dict[str, bytes]:
    """Weights beside a JSON of which nothing but its schema counts."""
    return {
        "a/x.json": json.dumps({"schema": schema}).encode(),
        "a/b/w.safetensors": b"\x08\0\0\0\0\0\0\0{}      ",
    }


def split(*ids: str) -> dict[str, object]:
    made = Split(
        data_digest="0" * 64,
        seed=0,
        subject_disjoint=True,
        train=("b/1.png", *ids),
        validation=(),
        test=(),
        forget=(),
    )
    return made.to_dict()


def model(*ids: str, weights: bytes = WEIGHTS) -> bytes:
    """The record of a model that was trained on some pictures."""
    record = {
        "schema": "unplug-checkpoint/1",
        "split": split(*ids),
        "weights_sha256": sha256(weights).hexdigest(),
    }
    return json.dumps(record).encode()


LINES = base64.encodebytes(HERS)
MAIL = b"Subject: x\nContent-Transfer-Encoding: base64\n\n" + LINES
NFD = "A\u0308nna Mu\u0308ller"


def behind_pixels() -> bytes:
    at, part = OTHER.index(b"IEND") - 4, b"IDAT" + HERS
    return (
        OTHER[:at]
        + struct.pack(">I", len(HERS))
        + part
        + struct.pack(">I", zlib.crc32(part))
        + OTHER[at:]
    )


def extra_of_gzip() -> bytes:
    packed = gzip.compress(b"nobody")
    return (
        packed[:3]
        + bytes([packed[3] | 4])
        + packed[4:10]
        + struct.pack("<H", len(HERS))
        + HERS
        + packed[10:]
    )


def wide_note() -> bytes:
    note = b"UNICODE\0" + NAME.encode("utf-16-le")
    raw = picture(2, "JPEG")
    return raw[:2] + b"\xff\xe1" + struct.pack(">H", len(note) + 2) + note + raw[2:]


SPECIMENS: dict[str, dict[str, bytes] | Callable[[Path], object]] = {
    "behind the pixels of a PNG": {"a.png": behind_pixels()},
    "an extra field of gzip": {"a.gz": extra_of_gzip()},
    "a note of two bytes a letter": {"a.jpg": wide_note()},
    "a sentence": {"a.txt": SENTENCE.encode()},
    "capital letters": {"a.txt": NAME.upper().encode()},
    "small letters in brackets": {"a.md": f"[{NAME.lower()}]".encode()},
    "the other Unicode form": {"a.txt": f"to {NFD}, today".encode()},
    "a genitive": {"a.txt": f"{NAME}'s photo".encode()},
    "quotes of print": {"a.txt": f"\u201e{NAME}\u201c".encode()},
    "a no-break space": {"a.txt": NAME.replace(" ", "\u00a0").encode()},
    "a name over two lines": {"a.txt": NAME.replace(" ", "\n   ").encode()},
    "a soft hyphen": {"a.txt": NAME.replace("nn", "n\u00adn").encode()},
    "between ideographs": {"a.txt": f"\u8fd9\u662f{NAME}\u3002".encode()},
    "an underscore": {"a.txt": NAME.replace(" ", "_").encode()},
    "a path of Windows": {"a.txt": b"D:\\faces\\nr-17.png"},
    "an escaped name": {"a.py": b"name = '\\xc3\\x84nna M\\u00fcller'"},
    "entities": {"a.html": b"<b>&Auml;nna M&#252;ller</b>"},
    "an address": {"a.txt": b"https://x.example/%C3%84nna%20M%C3%BCller.jpg"},
    "quoted-printable": {"a.eml": b"From: =C3=84nna M=C3=BC=\nller"},
    "a sentence in JSON": {"a.json": json.dumps({"note": SENTENCE}).encode()},
    "a key in JSON": {"a.json": json.dumps({f"{NAME}:": 1}).encode()},
    "JSON under a schema of ours": {
        "a.json": json.dumps({"schema": "unplug-bundle/2", "note": SENTENCE}).encode()
    },
    "a record in a record": {
        "a.json": json.dumps({"schema": "unplug-x/1", "of": [split(ID)]}).encode()
    },
    "UTF-16 with a mark": {"a.txt": SENTENCE.encode("utf-16")},
    "UTF-16 without": {"a.txt": SENTENCE.encode("utf-16-le")},
    "Latin-1": {"a.txt": SENTENCE.encode("latin-1")},
    "over the border of two pieces": {
        "a.txt": b"x " * (2**15 - 4) + SENTENCE.encode() + b"x " * 99
    },
    "far into a text": {"a.txt": b"nobody here\n" * 9_000 + SENTENCE.encode()},
    "base64 in a mail": {"a.eml": MAIL},
    "base64 in a page": {
        "a.html": b"<img src='data:image/png;base64," + base64.b64encode(HERS) + b"'>"
    },
    "hexadecimal digits": {"a.rtf": b"{\\rtf " + HERS.hex().encode()},
    "a program with a picture behind it": {"a.sh": b"#!/bin/sh\n" + b"exit 0\n" * 99 + HERS},
    "a portable pixmap": {"a.ppm": b"P6 24 24 255\n" + Image.open(io.BytesIO(HERS)).tobytes()},
    "a document": {"a.pdf": b"%PDF-1.4\n" + b"stream of letters\n" * 40},
    "a file name": {f"{NAME}.mp4": bytes(range(256))},
    "a file name as an address has it": {"%C3%84nna%20M%C3%BCller.txt": b"nobody"},
    "a file name in Latin-1": {
        f"{NAME}.txt".encode("latin-1").decode("utf-8", "surrogateescape"): b"nobody"
    },
    "an empty folder": lambda folder: (folder / f"{NAME} 2020").mkdir(),
    "a link": lambda folder: (folder / "out").symlink_to(folder.parent),
    "a pipe": lambda folder: os.mkfifo(folder / "pipe"),
    "a picture": {"x.dat": HERS},
    "a picture as BMP": {"x.bmp": picture(1, "BMP")},
    "a zip behind a picture": {"a.png": OTHER + zipped({"x.png": HERS})},
    "a picture behind a picture": {"a.jpg": picture(2, "JPEG") + HERS},
    "a picture behind a BMP": {"a.bmp": picture(2, "BMP") + HERS},
    "a picture behind a WebP": {"a.webp": picture(2, "WEBP") + HERS},
    "the second frame": {"a.webp": frames()},
    "a chunk of its own": {"a.png": private_chunk()},
    "a comment of a JPEG": {"a.jpg": picture(2, "JPEG", comment=SENTENCE.encode())},
    "between the segments of a JPEG": {
        "a.jpg": picture(2, "JPEG").replace(b"\xff\xdb", SENTENCE.encode() + b"\xff\xdb", 1)
    },
    "a packed note of a PNG": {"a.png": noted()},
    "weights below a base": covered("unplug-base/1"),
    "weights below a pipeline": covered("unplug-pipeline/1"),
    "weights below a cache": covered("unplug-cache/1"),
    "weights below references": covered("unplug-references/1"),
    "a copy of weights": {"m/unplug.json": model(ID), "other/final.dat": WEIGHTS},
    "a copy beside another record": {
        "m/unplug.json": model(ID),
        "n/unplug.json": model(weights=b"x"),
        "n/w.dat": WEIGHTS,
    },
    "weights that a pipeline lists": {
        "m/unplug.json": model(ID),
        "n/w.dat": WEIGHTS,
        "n/p.json": json.dumps(
            {"schema": "unplug-pipeline/1", "of": sha256(WEIGHTS).hexdigest()}
        ).encode(),
    },
    "a zip": {"a.zip": zipped({"x.png": HERS})},
    "two zips": {"a.zip": zipped({"x.png": HERS}) + zipped({"y.txt": b"nobody"})},
    "a zip behind a text": {"a.txt": b"nobody\n" * 99 + zipped({"x.png": HERS})},
    "outside the directory of a zip": {"a.zip": outside_the_directory()},
    "longer than a zip says": {"a.zip": longer_than_it_says()},
    "packed with something else": {
        "a.zip": zipped({"a.txt": b"x"}).replace(b"PK\1\2", HERS + b"PK\1\2", 1)
    },
    "encrypted": {"a.zip": encrypted()},
    "a zip in a zip": {"a.zip": zipped({"b.zip": zipped({"x.png": HERS})})},
    "the comment of a zip": {"a.zip": zipped({"a.txt": b"x"}, comment=SENTENCE.encode())},
    "an extra field of a zip": {"a.zip": extra_field()},
    "a folder in a zip": {"a.zip": zipped({f"{NAME}/": b""})},
    "a zip64": {"a.zip": zipped({"x.png": HERS})[:-22] + b"PK\6\7" + bytes(16) + zipped({})},
    "a tar": {"a.tar": tarred({"x.png": HERS})},
    "two tars": {"a.tar": tarred({"y.txt": b"nobody"}) + tarred({"x.png": HERS})},
    "two tars without zeros between": {
        "a.tar": tarred({"y.txt": b"nobody"})[:1024] + tarred({"x.png": HERS})
    },
    "zeros in front of a tar": {"a.tar.gz": gzip.compress(bytes(1024) + tarred({"x.png": HERS}))},
    "bytes behind a tar": {"a.tar": tarred({"y.txt": b"nobody"}) + HERS},
    "a torn tar": {"a.tar": tarred({"y.txt": b"nobody", "x.png": HERS * 3})[:1800]},
    "a tar torn in a header": {"a.tar": tarred({"y.txt": b"nobody", "x.png": HERS})[:1300]},
    "the padding of a tar": {
        "a.tar": tarred({"y.txt": b"nobody"})[:600] + SENTENCE.encode() + bytes(1424)
    },
    "who owns a file in a tar": {"a.tar": tarred({"y.txt": b"x"}, tarfile.GNU_FORMAT, uname=NAME)},
    "a PAX header": {"a.tar": tarred({"y.txt": b"x"}, pax_headers={"comment": NAME})},
    "a size in a PAX header": {"a.tar": tarred({"y.txt": b"x"}, pax_headers={"size": "99999"})},
    "a sparse file of 4 EiB": {"a.tar": SPARSE + bytes(1536)},
    "a file of 4 EiB": {"a.tar": header(HUGE) + bytes(1536)},
    "a name of 4 EiB": {"a.tar": header(HUGE, b"L") + bytes(1536)},
    "a tar without a mark": {"a.tar": header(b"%011o\0" % len(HERS), mark=bytes(8)) + HERS},
    "gzip": {"a.png.gz": gzip.compress(HERS)},
    "gzip in gzip": {"a.gz": gzip.compress(gzip.compress(HERS))},
    "two gzips": {"a.txt.gz": gzip.compress(b"nobody\n" * 9) + gzip.compress(SENTENCE.encode())},
    "a picture behind gzip": {"a.txt.gz": gzip.compress(b"nobody\n" * 9) + HERS},
    "the name in gzip": {
        "a.gz": b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + NAME.encode() + b"\0" + gzip.compress(b"x")[10:]
    },
    "a torn gzip": {"a.tar.gz": gzip.compress(tarred({"x.png": HERS}))[:-40]},
    "bytes behind a tar in gzip": {"a.tgz": gzip.compress(tarred({"y.txt": b"nobody"}) + HERS)},
    "bzip2": {"a.bz2": bz2.compress(HERS)},
    "a picture behind bzip2": {"a.tar.bz2": bz2.compress(tarred({"y.txt": b"nobody"})) + HERS},
    "xz": {"a.tar.xz": lzma.compress(tarred({"x.png": HERS}))},
    "zstd": {"a.zst": b"\x28\xb5\x2f\xfd" + bytes(40)},
    "7z": {"a.7z": b"7z\xbc\xaf'\x1c" + bytes(40)},
    "rar": {"a.rar": b"Rar!\x1a\x07" + bytes(40)},
    "SQLite": {"a.db": database()},
    "NumPy": {"a.npz": arrays(names=np.array([NAME]))},
    "safetensors": {
        "a.safetensors": struct.pack("<Q", 40)
        + json.dumps({"__metadata__": {"of": NAME}}).ljust(40).encode()
    },
    "a pickle": {"a.pkl": b"\x80\x04\x8c\x0d" + NAME.encode() + b"\x94."},
    "parquet": {"a.parquet": b"PAR1\0" + NAME.encode() + b"\0PAR1"},
    "deep folders": lambda folder: (folder / "/".join("d" * 202)).mkdir(parents=True),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    faces = tmp_path_factory.mktemp("data")
    (faces / "faces").mkdir()
    (faces / ID).write_bytes(HERS)
    (faces / "faces" / "other.png").write_bytes(OTHER)
    (faces / "labels.csv").write_text(
        f"path,age,subject\n{ID},20,{NAME}\nfaces/other.png,30,berta\n", encoding="utf-8"
    )
    return f"csv:{faces / 'labels.csv'}"


def outcome(
    data: str,
    folder: Path,
    specimen: dict[str, bytes] | Callable[[Path], object],
    monkey: pytest.MonkeyPatch,
) -> str:
    """``found``, ``told`` or ``silent``."""
    monkey.setenv("UNPLUG_CACHE", str(folder.parent / "cache"))
    folder.mkdir()
    if callable(specimen):
        specimen(folder)
    else:
        for name, raw in specimen.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(raw)
    places, _ = trace(data, person_in(data, f"subject:{NAME}"), [], deep=[folder])
    stand = {place.standing for place in places if place.kind not in ("data", "checkpoint")}
    return (
        "found"
        if stand & {"holds", "names", "remembers", "derived"}
        else "told"
        if "unknown" in stand
        else "silent"
    )


@pytest.mark.parametrize("name", SPECIMENS)
def test_whoever_is_hidden_is_found_or_it_is_told(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert outcome(data, tmp_path / "hiding", SPECIMENS[name], monkeypatch) != "silent"


CLEAN: dict[str, dict[str, bytes]] = {
    "texts": {
        "a.txt": "Hannah, anna, Müllerin, faces/nr-170.png".encode(),
        "b.json": b'{"a": [17]}',
        "c.csv": b"a,b\n1,2\n",
    },
    "hashes": {
        "sums.txt": "".join(
            f"{sha256(bytes([n])).hexdigest()}  file{n}\n" for n in range(9)
        ).encode()
    },
    "pictures": {
        "a.png": OTHER,
        "b.jpg": picture(2, "JPEG"),
        "c.webp": picture(2, "WEBP"),
        "d.bmp": picture(2, "BMP"),
    },
    "progressive": {"a.jpg": picture(2, "JPEG", progressive=True, comment=b"nobody", dpi=(72, 72))},
    "archives": {
        "a.zip": zipped({"a/": b"", "a/x.txt": b"nobody", "a/y.png": OTHER}),
        "a.tar": tarred({"\u00e5.txt": b"nobody"}),
        "a.tar.gz": gzip.compress(tarred({"x" * 150: b"nobody"}, tarfile.GNU_FORMAT)),
        "a.txt.xz": lzma.compress(b"nobody"),
    },
    "a model and its copy": {"m/unplug.json": model(), "m/w.bin": WEIGHTS, "copy.bin": WEIGHTS},
    "nothing": {"empty.txt": b""},
}


@pytest.mark.parametrize("name", CLEAN)
def test_where_nobody_is_hidden_nothing_is_said(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert outcome(data, tmp_path / "clean", CLEAN[name], monkeypatch) == "silent"


def test_a_zip_that_was_written_as_a_stream_has_no_bytes_of_nobody(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pipe(io.RawIOBase):
        raw = b""

        def writable(self) -> bool:
            return True

        def write(self, block: bytes) -> int:  # type: ignore[override]
            self.raw += bytes(block)
            return len(block)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"nobody")
        archive.writestr("b.txt", b"nobody")
    assert outcome(data, tmp_path / "clean", {"a.zip": pipe.raw}, monkeypatch) == "silent"
