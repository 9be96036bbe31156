"""Files that nobody vouches for become pixels or one typed error, once: the cache, and workers that
give the same.
"""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError
from unplug.sdk.learning.data import Dataset, SampleProblem, decode_file, parse_spec
from unplug.sdk.learning.data.decode import MAX_FILE_BYTES
from unplug.sdk.learning.data.picture_cache import CHUNK, SERIAL_BELOW, decode_in_processes
from unplug.sdk.learning.data.sources.files import FileSource

from .conftest import Draw, load

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::PIL.Image.DecompressionBombWarning"
)
JPEG_SLACK = 3  # grey levels; flat areas at quality 95


def png(width: int, height: int, rows: bytes = b"", bits: int = 8, colour: int = 2) -> bytes:
    """A PNG written by hand, so that its header can lie."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


BROKEN = {
    "zero.jpg": b"",
    "text.jpg": b"Dear reader, this is no photograph. " * 20,
    "header.png": b"\x89PNG\r\n\x1a\n",
    "bomb.png": png(60_000, 60_000),
    "big.png": png(10_001, 10_000),
    "short.png": png(12, 12, b"\0" * 30),
    "gif.png": b"GIF89a" + b"\0" * 50,
    "svg.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "flat.png": png(0, 5),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_data_errors_that_name_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(DataError, match=name):
        decode_file(tmp_path / name, 8)


def test_files_that_are_too_large_are_refused_by_header_and_size(tmp_path: Path) -> None:
    assert len(BROKEN["bomb.png"]) < 100
    path = tmp_path / "a_0_0_0.png"
    with path.open("wb") as handle:
        handle.truncate(MAX_FILE_BYTES + 1)  # a sparse file: no disk is used
    with pytest.raises(DataError, match=f"larger than {MAX_FILE_BYTES} bytes"):
        load(f"imagefolder:{tmp_path}")


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "BMP"])
def test_damage_of_any_kind_is_a_data_error_or_an_image(tmp_path: Path, format_: str) -> None:
    """A law: whatever the bytes, the result is (8, 8, 3) or a `DataError`."""
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112], exif[0x010E] = 6, "a description"
    noise = np.random.default_rng(0).integers(0, 256, (20, 31, 3), dtype=np.uint8)
    Image.fromarray(noise).save(out, format_, **({} if format_ == "BMP" else {"exif": exif}))
    raw, chance, path = out.getvalue(), random.Random(1), tmp_path / "x.img"
    for _ in range(250):
        damaged = bytearray(raw if chance.random() < 0.8 else raw[: chance.randrange(1, len(raw))])
        for _ in range(chance.choice([1, 2, 8])):
            damaged[int(chance.random() ** 3 * len(damaged))] = chance.choice(
                [0, 255, chance.randrange(256)]
            )
        path.write_bytes(damaged)
        try:
            assert decode_file(path, 8).shape == (8, 8, 3)
        except DataError as error:
            assert str(path) in str(error)


def test_an_exif_block_that_pillow_stumbles_over_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in a fuzzing run: struct.error is no ValueError."""

    def stumble(_: Image.Image, *, in_place: bool) -> None:
        raise struct.error("required argument is not an integer")

    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path)
    monkeypatch.setattr("PIL.ImageOps.exif_transpose", stumble)
    with pytest.raises(DataError, match="required argument"):
        decode_file(path, 8)


def test_bad_files_are_counted_and_the_others_stay_with_their_labels(
    draw: Draw, tmp_path: Path
) -> None:
    for age in range(1, 9):
        draw(f"faces/{age:02d}_0_0_x.png", 20 * age)
    for number, (name, content) in enumerate(BROKEN.items()):
        # between the good ones
        (tmp_path / "faces" / f"{number:02d}_1_1_{name}").write_bytes(content)
    spec = f"utkface:{tmp_path}/faces"
    with pytest.raises(DataError, match=f"{len(BROKEN)} of {len(BROKEN) + 8} samples cannot be"):
        load(spec)
    for _ in range(2):  # decoded, then from the cache
        dataset = load(spec, "skip")
        assert dataset.ages.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert len(dataset.problems) == len(BROKEN)
        assert (dataset.pixels(range(8)) == (20 * np.arange(1, 9))[:, None, None, None]).all()
        assert dataset.pixels([7, 0])[:, 0, 0, 0].tolist() == [160, 20]


QUADRANTS = np.array([[0, 1], [2, 3]])  # as displayed


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    """The eight stored forms of one picture (EXIF 2.3, tag 0x0112) decode to the same pixels."""
    stored = {
        1: QUADRANTS,
        2: QUADRANTS[:, ::-1],
        3: QUADRANTS[::-1, ::-1],
        4: QUADRANTS[::-1],
        5: QUADRANTS.T,
        6: np.rot90(QUADRANTS),
        7: QUADRANTS[::-1, ::-1].T,
        8: np.rot90(QUADRANTS, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    grey = np.kron(stored * 60, np.ones((8, 8))).astype(np.uint8)
    Image.fromarray(grey).convert("RGB").save(tmp_path / "a.png", exif=exif)
    decoded = decode_file(tmp_path / "a.png", 16)[..., 0]
    assert [[int(decoded[y, x]) // 60 for x in (3, 12)] for y in (3, 12)] == QUADRANTS.tolist()


@pytest.mark.parametrize(
    ("image", "suffix", "colour"),
    [
        (Image.new("L", (9, 9), 77), "png", (77, 77, 77)),
        (Image.new("LA", (9, 9), (77, 0)), "png", (77, 77, 77)),
        (Image.new("RGBA", (9, 9), (10, 200, 30, 0)), "png", (10, 200, 30)),
        (Image.new("RGB", (9, 9), (10, 200, 30)).quantize(4), "png", (10, 200, 30)),
        (Image.new("1", (9, 9), 1), "png", (255, 255, 255)),
        (Image.fromarray(np.full((9, 9), 200 * 257, np.uint16)), "png", (200, 200, 200)),
        (Image.new("CMYK", (9, 9), (255, 0, 0, 0)), "jpg", (0, 255, 255)),
        (Image.new("L", (9, 9), 77), "jpg", (77, 77, 77)),
    ],
)
def test_every_colour_mode_becomes_the_colour_that_it_shows(
    tmp_path: Path, image: Image.Image, suffix: str, colour: tuple[int, int, int]
) -> None:
    image.save(tmp_path / f"a.{suffix}")
    decoded = decode_file(tmp_path / f"a.{suffix}", 8)
    assert decoded.dtype == np.uint8 and decoded.shape == (8, 8, 3)
    assert np.abs(decoded.astype(int) - colour).max() <= (JPEG_SLACK if suffix == "jpg" else 0)


def test_sixteen_bits_keep_their_steps_and_the_square_is_the_centre(tmp_path: Path) -> None:
    ramp = np.repeat(np.arange(8) * 30 * 257, 8).reshape(8, 8).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / "a.png")
    assert decode_file(tmp_path / "a.png", 8)[:, 0, 0].tolist() == [30 * step for step in range(8)]
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert decode_file(tmp_path / "a.png", 10).min() == 255


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 900), (900, 1), (3, 7)])
def test_odd_shapes_become_squares(tmp_path: Path, width: int, height: int) -> None:
    Image.new("RGB", (width, height), (9, 8, 7)).save(tmp_path / "a.png")
    assert (decode_file(tmp_path / "a.png", 8) == (9, 8, 7)).all()


def test_decoding_in_threads_leaves_the_filters_of_warnings_alone(
    draw: Draw, tmp_path: Path
) -> None:
    for number in range(40):
        draw(f"faces/{number}_0_0_x.png", number)
    before = list(warnings.filters)
    load(f"utkface:{tmp_path}/faces")
    assert list(warnings.filters) == before


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the samples that were decoded, not read from the cache."""
    names: list[str] = []
    real = FileSource.decode

    def decode(self: FileSource, sample: Any, size: int) -> NDArray[np.uint8]:
        names.append(sample.id)
        return real(self, sample, size)

    monkeypatch.setattr(FileSource, "decode", decode)
    return names


@pytest.fixture
def pets(fill: Draw) -> Path:
    folder = fill("pets", {f"{number}.png": 10 * number for number in range(4)})
    (folder / "bad.png").write_bytes(b"no image")
    return folder


def pets_of(folder: Path, size: int = 8) -> Dataset:
    return load(f"imagefolder:{folder}", "skip", size)


def cached(suffix: str) -> list[Path]:
    return sorted(Path(os.environ["UNPLUG_CACHE"]).glob(f"*{suffix}"))


def test_the_second_load_decodes_nothing_and_gives_the_same(pets: Path, decoded: list[str]) -> None:
    first, large = pets_of(pets), pets_of(pets, 16)
    assert sorted(decoded) == [*(f"{number}.png" for number in "00112233"), "bad.png", "bad.png"]
    decoded.clear()
    for before in (first, large):
        again = pets_of(pets, before.size)
        assert (again.digest, again.ids) == (before.digest, before.ids)
        assert again.pixels(range(4)).tobytes() == before.pixels(range(4)).tobytes()
        assert again.problems == before.problems and again.problems[0].id == "bad.png"
    assert decoded == [] and len(cached(".npy")) == 2


def test_changed_content_labels_and_ids_are_seen(
    pets: Path, draw: Draw, decoded: list[str]
) -> None:
    first = pets_of(pets)
    decoded.clear()
    status = (pets / "2.png").stat()
    draw("pets/2.png", 99)
    # contents count, not times
    os.utime(pets / "2.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    second = pets_of(pets)
    assert "2.png" in decoded and (second.pixels([2]) == 99).all()
    assert first.pixels([2]).max() == 20
    (pets / "0.png").rename(pets / "renamed.png")
    renamed = pets_of(pets)
    (pets / "cat").mkdir()
    (pets / "renamed.png").rename(pets / "cat" / "renamed.png")
    assert len({data.digest for data in (first, second, renamed, pets_of(pets))}) == 4


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "truncate": lambda array, _: array.write_bytes(array.read_bytes()[:-1]),
    "empty": lambda array, _: array.write_bytes(b""),
    "junk": lambda array, _: array.write_bytes(b"\x80\x04junk" * 100),
    "shape": lambda array, _: np.save(array, np.zeros((5, 8, 8), np.uint8)),
    "notes": lambda _, notes: notes.write_text("[1, 2]"),
    "no notes": lambda _, notes: notes.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_rebuilt(pets: Path, decoded: list[str], damage: str) -> None:
    good = pets_of(pets).pixels(range(4)).tobytes()
    (array,), (notes,) = cached(".npy"), cached(".json")
    DAMAGES[damage](array, notes)
    for count in (5, 0):
        decoded.clear()
        assert pets_of(pets).pixels(range(4)).tobytes() == good
        assert len(decoded) == count


def test_an_interrupted_decode_leaves_no_cache(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "decode", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pets_of(pets)
    assert list(Path(os.environ["UNPLUG_CACHE"]).iterdir()) == []
    assert pets_of(pets).pixels([3]).max() == 30


def test_nobody_writes_into_the_cache_and_unknown_ids_are_a_data_error(pets: Path) -> None:
    dataset = pets_of(pets)
    with pytest.raises(ValueError, match="read-only"):
        dataset.images[0] = 0
    dataset.pixels([0])[:] = 7  # a copy
    assert pets_of(pets).pixels([0]).max() == 0
    assert dataset.indices(["3.png", "0.png"]).tolist() == [3, 0]
    with pytest.raises(DataError, match=r"1 of 2 wanted samples are not in it \(first: x.png\)"):
        dataset.indices(["0.png", "x.png"])


def test_workers_give_the_pixels_of_this_process_in_its_order(draw: Draw, tmp_path: Path) -> None:
    count = SERIAL_BELOW + 3
    spec = f"synth:n={count},subjects=5"
    source, dataset = parse_spec(spec), load(spec, size=16)
    for index in (0, 1, CHUNK - 1, CHUNK, count - 1):  # both sides of a border between two workers
        here = source.decode(source.listing().samples[index], 16)
        assert (dataset.pixels([index])[0] == here).all()
    for number in range(CHUNK + 8):
        draw(f"pets/{number:03d}.png", number)
    (tmp_path / "pets" / "005.png").write_bytes(b"broken")
    positions = [*range(CHUNK + 7, -1, -1)]
    results = list(decode_in_processes(f"imagefolder:{tmp_path}/pets", positions, 8, 2))
    assert len(results) == len(positions)
    for position, result in zip(positions, results, strict=True):
        if position == 5:
            assert isinstance(result, SampleProblem) and result.id == "005.png"
        else:
            assert not isinstance(result, SampleProblem) and (result == position).all()
    with pytest.raises(DataError, match="no such folder"):
        list(decode_in_processes("imagefolder:/nowhere", range(200), 8, 2))


@pytest.mark.long
def test_a_script_without_a_main_guard_loads_data(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('started')\nfrom unplug.sdk.learning.data import load_dataset\n"
        f"print(len(load_dataset('synth:n={SERIAL_BELOW},subjects=4', 16, show=False)))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == (f"started\n{SERIAL_BELOW}\n", 0), done.stderr
