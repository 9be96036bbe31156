"""Tar shards: what they hold by hand, the same pixels as files, and every kind of damage as one typed error."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unplug.core import DataError
from unplug.sdk.cli import main
from unplug.sdk.data import Dataset, parse_spec
from unplug.sdk.data.decode import MAX_FILE_BYTES, decode_bytes
from unplug.sdk.data.sources import webdataset as webdataset_module
from unplug.sdk.data.sources.webdataset import WebDatasetSource

from .tars import load, pair, picture, rows, tar
from .test_captions import TEXTS


def reasons(dataset: Dataset) -> dict[str, str]:
    return {problem.id: problem.reason for problem in dataset.problems}


# --- what shards hold


@pytest.mark.parametrize("format_", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_files_of_one_key(tmp_path: Path, format_: int) -> None:
    deep = f"{'folder/' * 12}{'n' * 60}"  # longer than a header's name field
    facts = {"text": "not this one", "age": 30, "subject": "anna", "width": 9}
    files = {
        "./b.txt": b"dot and slash", "./b.png": picture(10), "a.PNG": picture(20), "a.json": json.dumps(facts).encode(),
        "a.txt": b"from txt\n", "a.cls": b"5", "a.cond.png": b"another part", "c.json": b'{"caption": "from json"}',
        "c.webp": picture(30, "WEBP"), "README": b"", ".hidden.png": b"", "._a.png": b"", **pair(deep, 40, "lächelnd"),
        "dir.x/d.jpeg": picture(50, "JPEG"), "dir.x/d.txt": b"a dot in a folder",
    }  # fmt: skip
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
    assert [(sample.age, sample.subject) for sample in dataset.samples[:3]] == [(None, None), (30.0, "anna"), (None, None)]


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


def test_every_sample_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image, links = picture(), []
    for name, type_ in (("sym.png", tarfile.SYMTYPE), ("hard.txt", tarfile.LNKTYPE), ("dev.png", tarfile.CHRTYPE),
                        ("pipe.png", tarfile.FIFOTYPE)):  # fmt: skip
        link = tarfile.TarInfo(name)
        link.type, link.linkname = type_, "/etc/passwd"
        links.append(link)
    files = {
        **pair("good", 90), "bare.png": image, "lost.txt": b"x", "two.png": image, "two.jpg": image, "two.txt": b"x",
        "empty.png": image, "empty.txt": b" ", "latin.png": image, "latin.txt": b"\xe4", "json.png": image, "json.json": b"{",
        "age.png": image, "age.txt": b"x", "age.json": b'{"age": -1}', "none.png": image, "none.json": b'{"age": 5}',
        "../up.png": image, "/abs.png": image, "a/../b.png": image, "esc\x1b[31m.png": image, "n" * 1100 + ".png": image,
        "broken.png": image[:40], "broken.txt": b"x", "long.png": image, "long.txt": b"x" * 4097, "big.png": image * 9,
        "big.txt": b"x",
    }  # fmt: skip
    monkeypatch.setitem(webdataset_module.LIMITS, "image", 8 * len(image))
    tar(tmp_path / "s.tar", files, tarfile.PAX_FORMAT, *links)
    dataset = load(f"webdataset:{tmp_path}/s.tar", "skip")
    assert rows(dataset) == {"s.tar/good": ("caption of good", 90)}
    expected = {
        "bare": "no caption", "lost": "lost.txt has no image", "two": "2 files for its image: two.png and two.jpg",
        "empty": "empty", "latin": "not UTF-8", "json": "not JSON", "age": "not plausible", "none": "neither 'text' nor",
        "../up.png": "leads out", "/abs.png": "leads out", "a/../b.png": "leads out", "esc\\x1b[31m.png": "printable",
        "n" * 200: "1024", "broken": "not a readable image", "long": "4097 characters", "big": "bytes are too many",
        "sym.png": "a link", "hard.txt": "a link", "dev.png": "a device", "pipe.png": "a device",
    }  # fmt: skip
    found = reasons(dataset)
    assert set(found) == {f"s.tar/{name}" for name in expected}
    for name, why in expected.items():
        assert why in found[f"s.tar/{name}"], (name, found[f"s.tar/{name}"])
    assert " 0x" not in found["s.tar/broken"], "an address in memory is no reason, and differs from run to run"
    with pytest.raises(DataError, match=r"20 of 21 samples cannot be used \(first: s.tar/../up.png"):
        load(f"webdataset:{tmp_path}/s.tar")


def test_a_name_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    path = tar(tmp_path / "s.tar", pair("a#", 10, "x"), tarfile.USTAR_FORMAT)
    raw = path.read_bytes().replace(b"a#.", b"a\xff.")
    for start in (0, raw.index(b"a\xff.txt")):  # the sum over the header counts the byte
        header = raw[start : start + 512]
        total = sum(header[:148]) + 8 * 32 + sum(header[156:])
        raw = raw[: start + 148] + f"{total:06o}\0 ".encode() + raw[start + 156 :]
    path.write_bytes(raw)
    assert rows(load(f"webdataset:{path}")) == {"s.tar/a\\xff": ("x", 10)}


def test_sparse_members_are_named(tmp_path: Path) -> None:
    """Their bytes do not lie in one piece."""
    sparse = tarfile.TarInfo("sparse.png")
    sparse.pax_headers = {"GNU.sparse.map": "0,5", "GNU.sparse.size": "100", "GNU.sparse.numblocks": "1"}
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
    with pytest.raises(DataError, match=r"s.tar/a.png: not a readable image \(cannot identify image file a.png\)"):
        decode_bytes(b"no image", "s.tar/a.png", 8)


def test_inspect_shows_captions_of_shards(tmp_path: Path) -> None:
    tar(tmp_path / "s.tar", pair("a") | pair("b"))
    said = json.loads(CliRunner().invoke(main, ["data", "inspect", f"webdataset:{tmp_path}", "--json"]).stdout)
    assert said["captions"] == {"samples": 2, "first": "caption of a"} and said["samples"] == 2


KEYS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs"), exclude_characters="./"),
               min_size=1, max_size=30)  # fmt: skip


@settings(max_examples=40)
@given(
    captions=st.dictionaries(KEYS, TEXTS, min_size=1, max_size=6),
    as_json=st.booleans(),
    format_=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_a_shard_gives_back_what_was_written(captions: dict[str, str], as_json: bool, format_: int) -> None:
    files: dict[str, bytes] = {}
    for key, text in captions.items():
        files[f"{key}.png"] = key.encode()
        files[f"{key}.json" if as_json else f"{key}.txt"] = (json.dumps({"text": text}) if as_json else text).encode()
    with tempfile.TemporaryDirectory() as name:
        source = WebDatasetSource(str(tar(Path(name) / "s.tar", files, format_)))
        listing = source.listing()
        found = {sample.id: source.captions(sample, 0, 1)[0] for sample in listing.samples}
        contents = [source._bytes(sample).decode() for sample in listing.samples]
    assert found == {f"s.tar/{key}": " ".join(text.split()) for key, text in captions.items()} and listing.problems == ()
    assert contents == list(captions)
