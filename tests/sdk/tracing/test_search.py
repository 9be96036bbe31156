"""A folder that nobody wrote down: whatever holds a person is found by what is in it, and what
cannot be opened is said.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unplug.core import InputError, write_json
from unplug.sdk.tracing import archives, person_in, trace
from unplug.sdk.tracing import walk as walking
from unplug.trust.certificates import TracedPlace

from ..conftest import SPEC, World
from ..trust.commands import called, refused, shown


def drawn(path: Path, seed: int, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (80, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three people, two pictures each."""
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    rows = ["path,age,subject"]
    for number, name in enumerate(("anna", "anna", "berta", "berta", "carl", "carl")):
        file = drawn(tmp_path / "faces" / f"{name}{number}.png", number)
        rows.append(f"{file.name},{20 + number},{name}")
    (tmp_path / "faces" / "labels.csv").write_text("\n".join(rows) + "\n")
    return f"csv:{tmp_path / 'faces' / 'labels.csv'}"


def searched(data: str, folder: Path, name: str = "subject:anna") -> dict[str, TracedPlace]:
    places, _ = trace(data, person_in(data, name), [], deep=[folder])
    root = os.path.realpath(folder)
    return {os.path.relpath(place.path, root): place for place in places if place.kind != "data"}


def standings(found: dict[str, TracedPlace]) -> dict[str, str]:
    return {path: place.standing for path, place in found.items()}


def test_pictures_are_found_by_their_pixels_under_any_name_and_in_archives(
    data: str, tmp_path: Path
) -> None:
    faces, folder = tmp_path / "faces", tmp_path / "share"
    (folder / "old").mkdir(parents=True)
    shutil.copy(faces / "anna0.png", folder / "old" / "holiday.dat")
    with Image.open(faces / "anna1.png") as image:
        image.save(folder / "scan.bmp")
    shutil.copy(faces / "berta2.png", folder / "other.png")
    drawn(folder / "anna" / "portrait.png", 77)
    (folder / "mail.txt").write_text("Please take (anna0.png) off the site\n")
    (folder / "notes.txt").write_text("nobody\n")
    with zipfile.ZipFile(folder / "backup.zip", "w") as archive:
        archive.write(faces / "anna0.png", "a/b.png")
        archive.write(faces / "carl4.png", "a/c.png")
    for name in ("x.tar", "x.tar.gz", "x.tar.bz2"):
        with tarfile.open(folder / name, f"w:{name[6:]}") as tar:
            tar.add(faces / "anna1.png", "x/1.png")
            tar.add(faces / "labels.csv", "x/labels.csv")
    assert standings(searched(data, folder)) == {
        "old/holiday.dat": "holds",
        "scan.bmp": "holds",
        "anna/portrait.png": "names",
        "mail.txt": "names",
        "anna": "names",
        "backup.zip/a/b.png": "holds",
        **{
            f"{name}/x/{file}": kind
            for name in ("x.tar", "x.tar.gz", "x.tar.bz2")
            for file, kind in (("1.png", "holds"), ("labels.csv", "names"))
        },
    }
    assert set(searched(data, folder, "subject:carl")) == {
        "backup.zip/a/c.png",
        *(f"{name}/x/labels.csv" for name in ("x.tar", "x.tar.gz", "x.tar.bz2")),
    }


def test_models_and_what_was_made_of_them_are_known_by_record_and_by_hash(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "share"
    shutil.copytree(world.original.path, folder / "a" / "original")
    shutil.copytree(world.unlearned.path, folder / "b")
    shutil.copy(world.original.path / "model.safetensors", folder / "final_v2.bin")
    shutil.copy(world.unlearned.path / "model.safetensors", folder / "final_v3.bin")
    (folder / "somebody.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    with zipfile.ZipFile(folder / "pickled.pth", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02")
    (folder / "film.mp4").write_bytes(bytes(range(256)))
    with zipfile.ZipFile(folder / "moved.zip", "w") as archive:
        for file in world.original.path.iterdir():
            archive.write(file, f"m/{file.name}")
    lines = world.forget_file.read_text().splitlines()
    gone = next(line for line in lines if line.startswith("subject:"))
    places = searched(SPEC, folder, gone)
    kinds = {path: (place.standing, place.kind) for path, place in places.items()}
    assert kinds["a/original"] == kinds["moved.zip/m"] == ("remembers", "checkpoint")
    assert kinds["b"][0] == "forgot"
    assert "a/original/model.safetensors" not in kinds, "its record says it already"
    assert kinds["final_v2.bin"] == ("remembers", "weights") and "final_v3.bin" not in kinds
    assert kinds["somebody.safetensors"] == kinds["pickled.pth"] == ("unknown", "weights")
    (rest,) = (place for place in places.values() if place.kind == "files")
    assert rest.goes_by == "1 file of formats that are not read (.mp4 1)"


def test_what_is_hostile_is_a_line_each(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, deep = tmp_path / "share", tmp_path / "share"
    folder.mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "inside").symlink_to(folder)
    (folder / "out").symlink_to(tmp_path / "faces")
    os.mkfifo(folder / "pipe")
    (folder / "torn.png").write_bytes((tmp_path / "faces" / "anna0.png").read_bytes()[:200])
    (folder / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + bytes(40))
    (folder / "photos.7z").write_bytes(b"7z\xbc\xaf'\x1c" + bytes(40))
    (folder / "bad.json").write_text('{"half": ')
    (folder / "name\udcff.txt").write_text("anna0.png\n")
    with zipfile.ZipFile(folder / "inner.zip", "w") as archive:
        archive.write(folder / "photos.7z", "x.7z")
        archive.write(folder / "cut.tar.gz", "../../evil.tar.gz")
    # pytest itself cannot delete a folder that is 200 deep
    monkeypatch.setattr(walking, "MAX_DEPTH", 20)
    for _ in range(25):
        deep = deep / "d"
        deep.mkdir()
    with tarfile.open(folder / "bomb.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 2**24
        tar.addfile(info, io.BytesIO(bytes(2**24)))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**24))
    monkeypatch.setattr(archives, "MAX_UNPACKED", 2**20)
    before = sorted(tmp_path.rglob("*"))
    places = searched(data, folder)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"
    why = {path: place.goes_by for path, place in places.items() if place.standing == "unknown"}
    assert not {"inside", "loop"} & set(why), "a link to what is searched anyway leads nowhere new"
    for path, words in {
        "out": "leads out",
        "pipe": "pipe",
        "torn.png": "not a readable image",
        "cut.tar.gz": "cannot be unpacked",
        "photos.7z": "7z packed",
        "bad.json": "not valid JSON",
        "inner.zip/x.7z": "7z packed",
        "inner.zip/evil.tar.gz": "archive in an archive",
        "bomb.tar.gz": f"more than {2**20} bytes",
        "bomb.zip": f"{2**20} bytes",
    }.items():
        assert words in why[path], path
    assert sum("folders deep" in text for text in why.values()) == 1
    assert places["name\udcff.txt"].standing == "names"
    search = f"trace subject:anna --data {data} --search {folder}"
    told = {place["standing"] for place in called(search)["places"]}
    assert told == {"holds", "names", "unknown"} and "other pixels" in shown(search)


def test_a_folder_of_too_many_files_is_refused_and_a_missing_one_too(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "MAX_FILES", 3)
    with pytest.raises(InputError, match="more than 3 files"):
        searched(data, tmp_path / "faces")
    with pytest.raises(InputError, match="no such folder"):
        searched(data, tmp_path / "absent")
    assert "no folder is named" in refused(f"trace subject:anna --data {data}")


def test_whoever_lost_her_pictures_is_looked_for_by_name_and_it_is_said(
    data: str, tmp_path: Path
) -> None:
    (tmp_path / "faces" / "anna0.png").write_bytes(b"gone")
    drawn(tmp_path / "share" / "anna1.png", 1)
    places, _ = trace(data, person_in(data, "subject:anna"), [], deep=[tmp_path / "share"])
    (closed,) = (place for place in places if place.standing == "unknown")
    assert closed.kind == "data" and "found by name alone" in closed.goes_by
    assert [place.standing for place in places if place.kind == "picture"] == ["holds"]


def test_a_cache_that_lies_elsewhere_is_known_by_its_notes(data: str, tmp_path: Path) -> None:
    note = {"schema": "unplug-cache/1", "data": data, "ids": ["anna0.png"], "subjects": ["anna"]}
    write_json(tmp_path / "moved" / "pixels-1.people", note)
    (tmp_path / "moved" / "pixels-1.npy").write_bytes(b"\x93NUMPY" + bytes(64))
    places = searched(data, tmp_path / "moved")
    assert (places["pixels-1.people"].standing, places["pixels-1.people"].kind) == (
        "holds",
        "cache",
    )
    # a note lists no file by its hash
    assert places["."].goes_by == "1 file of formats that are not read (.npy 1)"


def test_memory_stays_bounded_on_a_large_archive(data: str, tmp_path: Path) -> None:
    """A member of 300 MB of zeros in 300 kB: it is hashed as it comes, never held."""
    folder = tmp_path / "share"
    folder.mkdir()
    with (
        zipfile.ZipFile(folder / "zeros.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("zeros", "w") as member,
    ):
        for _ in range(300):
            member.write(bytes(2**20))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert list(standings(searched(data, folder)).values()) == ["unknown"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 150_000, "kB"


def test_harmed_files_are_lines_and_never_a_crash(data: str, tmp_path: Path) -> None:
    """Pictures, archives, records and tables with bytes changed, cut out or doubled: a search ends,
    and says unknown.
    """
    folder, faces = tmp_path / "share", tmp_path / "faces"
    folder.mkdir()
    with zipfile.ZipFile(folder / "0.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(faces / "anna0.png", "a.png")
        record = {"schema": "unplug-checkpoint/1", "split": {"train": ["anna0.png"]}}
        archive.writestr("unplug.json", json.dumps(record))
    for name in ("0.tar", "0.tar.gz", "0.tar.bz2"):
        with tarfile.open(folder / name, f"w:{name[6:]}", format=tarfile.PAX_FORMAT) as tar:
            tar.add(faces / "labels.csv", "x/Å" + "y" * 120)
            tar.add(faces / "anna0.png", "x/a.png")
    shutil.copy(faces / "anna0.png", folder / "0.png")
    manifest = {"schema": "unplug-bundle/2", "files": {"a": {"sha256": "0"}}, "lineage": []}
    write_json(folder / "0.json", manifest)
    references = {"schema": "unplug-references/1", "key": 7, "data": [], "rows": {}}
    write_json(folder / "0.people", references)
    whole = [(path.suffix, path.read_bytes()) for path in sorted(folder.iterdir())]
    random = np.random.default_rng(5)
    for number in range(400):
        suffix, raw = whole[number % len(whole)]
        harmed, place = bytearray(raw), int(random.integers(len(raw)))
        if number % 3 == 0:
            harmed[place] = int(random.integers(256))
        elif number % 3 == 1:
            del harmed[place : place + int(random.integers(1, 200))]
        else:
            harmed[place:place] = harmed[: int(random.integers(1, 200))]
        (folder / f"{number + 1}{suffix}").write_bytes(harmed)
    places = searched(data, folder).values()
    assert {place.standing for place in places} == {"holds", "names", "unknown"}
    assert all(place.goes_by and "\n" not in place.goes_by for place in places)
