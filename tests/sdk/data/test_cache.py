"""The pixel cache: hit, miss, rebuild; and worker processes that give what this process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unplug.core import DataError
from unplug.sdk.data import Dataset, Problem, load_dataset, parse_spec
from unplug.sdk.data.cache import CHUNK, SERIAL_BELOW, decode_in_processes
from unplug.sdk.data.sources.files import FileSource

from .conftest import Draw


def load(tmp_path: Path, size: int = 8) -> Dataset:
    return load_dataset(f"imagefolder:{tmp_path}/pets", size, on_bad="skip", show=False)


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
def pets(draw: Draw, tmp_path: Path) -> Path:
    for number in range(4):
        draw(f"pets/{number}.png", 10 * number)
    (tmp_path / "pets" / "bad.png").write_bytes(b"no image")
    return tmp_path


def cached(suffix: str) -> list[Path]:
    return sorted(Path(os.environ["UNPLUG_CACHE"]).glob(f"*{suffix}"))


def test_the_second_load_decodes_nothing_and_gives_the_same(pets: Path, decoded: list[str]) -> None:
    first = load(pets)
    assert sorted(decoded) == ["0.png", "1.png", "2.png", "3.png", "bad.png"]
    decoded.clear()
    second = load(pets)
    assert decoded == [] and second.digest == first.digest and second.ids == first.ids
    assert second.pixels(range(4)).tobytes() == first.pixels(range(4)).tobytes()
    assert [problem.id for problem in second.problems] == ["bad.png"] and second.problems == first.problems


def test_changed_content_labels_and_ids_are_seen(pets: Path, draw: Draw, decoded: list[str]) -> None:
    first = load(pets)
    decoded.clear()
    status = (pets / "pets" / "2.png").stat()
    draw("pets/2.png", 99)
    os.utime(pets / "pets" / "2.png", ns=(status.st_atime_ns, status.st_mtime_ns))  # contents count, not times
    second = load(pets)
    assert "2.png" in decoded and second.digest != first.digest
    assert second.pixels([2]).max() == 99 == second.pixels([2]).min() and first.pixels([2]).max() == 20
    first = load(pets).digest
    (pets / "pets" / "0.png").rename(pets / "pets" / "renamed.png")
    renamed = load(pets).digest
    (pets / "pets" / "cat").mkdir()
    (pets / "pets" / "renamed.png").rename(pets / "pets" / "cat" / "renamed.png")
    assert len({first, renamed, load(pets).digest}) == 3


def test_two_sizes_coexist(pets: Path, decoded: list[str]) -> None:
    assert (load(pets, 8).size, load(pets, 16).size) == (8, 16)
    decoded.clear()
    assert load(pets, 8).pixels([1]).shape == (1, 8, 8, 3) and load(pets, 16).pixels([1]).shape == (1, 16, 16, 3)
    assert decoded == [] and len(cached(".npy")) == 2


@pytest.mark.parametrize("damage", ["truncate", "empty", "junk", "notes", "no notes", "shape"])
def test_a_damaged_cache_is_rebuilt(pets: Path, decoded: list[str], damage: str) -> None:
    good = load(pets).pixels(range(4)).tobytes()
    (array,), (notes,) = cached(".npy"), cached(".json")
    if damage == "truncate":
        array.write_bytes(array.read_bytes()[:-1])
    elif damage == "empty":
        array.write_bytes(b"")
    elif damage == "junk":
        array.write_bytes(b"\x80\x04junk" * 100)
    elif damage == "notes":
        notes.write_text("[1, 2]")
    elif damage == "no notes":
        notes.unlink()
    else:
        np.save(array, np.zeros((5, 8, 8), np.uint8))
    decoded.clear()
    again = load(pets)
    assert len(decoded) == 5 and again.pixels(range(4)).tobytes() == good
    decoded.clear()
    assert load(pets).pixels(range(4)).tobytes() == good and decoded == []


def test_an_interrupted_decode_leaves_no_cache(pets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "decode", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load(pets)
    assert list(Path(os.environ["UNPLUG_CACHE"]).iterdir()) == []
    assert load(pets).pixels([3]).max() == 30


def test_nobody_writes_into_the_cache_and_unknown_ids_are_a_data_error(pets: Path) -> None:
    dataset = load(pets)
    with pytest.raises(ValueError, match="read-only"):
        dataset.images[0] = 0
    dataset.pixels([0])[:] = 7  # a copy
    assert load(pets).pixels([0]).max() == 0
    dataset = load(pets)
    assert dataset.indices(["3.png", "0.png"]).tolist() == [3, 0]
    with pytest.raises(DataError, match=r"1 of 2 wanted samples are not in it \(first: x.png\)"):
        dataset.indices(["0.png", "x.png"])


# --- worker processes


def test_processes_give_the_pixels_of_this_process() -> None:
    count = SERIAL_BELOW + 3
    spec = f"synth:n={count},subjects=5"
    source, dataset = parse_spec(spec), load_dataset(f"synth:n={count},subjects=5", 16, show=False)
    for index in (0, 1, CHUNK - 1, CHUNK, count - 1):  # both sides of a border between two workers
        assert (dataset.pixels([index])[0] == source.decode(source.listing().samples[index], 16)).all()


def test_what_workers_give_has_its_order_and_its_errors(draw: Draw, tmp_path: Path) -> None:
    for number in range(CHUNK + 8):
        draw(f"pets/{number:03d}.png", number)
    (tmp_path / "pets" / "005.png").write_bytes(b"broken")
    positions = [*range(CHUNK + 7, -1, -1)]
    results = list(decode_in_processes(f"imagefolder:{tmp_path}/pets", positions, 8, 2))
    assert len(results) == len(positions)
    for position, result in zip(positions, results, strict=True):
        if position == 5:
            assert isinstance(result, Problem) and result.id == "005.png"
        else:
            assert not isinstance(result, Problem) and (result == position).all()
    with pytest.raises(DataError, match="no such folder"):
        list(decode_in_processes("imagefolder:/nowhere", range(200), 8, 2))


@pytest.mark.long
def test_a_script_without_a_main_guard_loads_data(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('started')\nfrom unplug.sdk.data import load_dataset\n"
        f"print(len(load_dataset('synth:n={SERIAL_BELOW},subjects=4', 16, show=False)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == (f"started\n{SERIAL_BELOW}\n", 0), done.stderr
