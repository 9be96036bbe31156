"""What lies among pictures and is none is counted with its reason; what is linked is read.

Cases: hidden-folders, linked-folders.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from unplug.core import DataError
from unplug.sdk.learning.data import Dataset, describe, image_files

from .conftest import CASES, Draw, assert_reasons, load


def left_out(dataset: Dataset) -> dict[str, tuple[int, str]]:
    others = describe(dataset)["left_out"]
    return {other["reason"]: (other["count"], other["first"]) for other in others}


def made(case: str, folder: Path, *arguments: str) -> None:
    """Runs the case's own script, with this Python as ``python``."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", str(CASES / case / "make.sh"), *arguments]
    subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, check=True, capture_output=True
    )


def test_what_jupyter_macos_and_a_network_disk_leave_is_no_picture(tmp_path: Path) -> None:
    made("hidden-folders", tmp_path)
    dataset = load(f"imagefolder:{tmp_path}/tree")
    assert len(dataset) == 8 and dataset.classes == ("adult", "child") and not dataset.problems
    assert left_out(dataset) == {
        "hidden: its name begins with a dot": (2, ".ipynb_checkpoints"),
        "left by macOS": (1, "__MACOSX"),
        "left by a network disk": (1, "adult/@eaDir"),
    }
    hidden = tmp_path / ".cache" / "__MACOSX"
    hidden.parent.mkdir()
    (tmp_path / "tree").rename(hidden)
    assert len(load(f"imagefolder:{hidden}")) == 8, "of the folder's own path nothing is left out"


def test_linked_folders_and_pictures_are_read(draw: Draw, tmp_path: Path) -> None:
    for number in range(15):
        draw(f"faces/{number}.png", 10 * number + 10)
    made("linked-folders", tmp_path, "faces")
    dataset = load(f"imagefolder:{tmp_path}/mixed")
    assert len(dataset) == 16 and dataset.classes == ("a", "b", "c") and not dataset.problems
    assert len(load(f"imagefolder:{tmp_path}/store")) == 4
    for name in ("1", "2", "3", "4"):
        (tmp_path / "store" / "x" / f"{name}.txt").write_text(f"caption {name}")
    assert len(load(f"captions:{tmp_path}/store")) == 4
    (tmp_path / "store" / "labels.csv").write_text("path,age\nx/1.png,30\n")
    assert len(load(f"csv:{tmp_path}/store/labels.csv")) == 1


def test_what_programs_or_people_leave_refuses_nothing(draw: Draw, tmp_path: Path) -> None:
    files = ("Thumbs.db", "desktop.ini", "._0.png", ".0.png.swp", "Icon\r")
    files = (*files, "notes.txt", "labels.csv", "README")
    folders = ("$RECYCLE.BIN", "lost+found", "#recycle", "@__thumb", ".AppleDouble")
    folders = (*folders, "System Volume Information")
    draw("d/a/0.png")
    for name in files:
        (tmp_path / "d" / "a" / name).write_bytes(b"\0\5\x16\7")
    for folder in folders:
        draw(f"d/{folder}/deep/0.png")
    dataset = load(f"imagefolder:{tmp_path}/d")
    assert dataset.ids == ("a/0.png",)
    assert sum(count for count, _ in left_out(dataset).values()) == len(files) + len(folders)


def test_what_may_be_meant_and_is_not_read_is_unusable(draw: Draw, tmp_path: Path) -> None:
    good = draw("d/a/0.png")
    jpeg = io.BytesIO()
    Image.open(good).save(jpeg, "JPEG")
    for name in ("a/1.jfif", "a/2.JPE", "a/3.heic", "a/4.tiff", "a/5.weird", "a/6"):
        (tmp_path / "d" / name).write_bytes(jpeg.getvalue())
    os.mkfifo(tmp_path / "d" / "a" / "7.png")
    (tmp_path / "d" / "a" / ".8.png.icloud").write_bytes(b"bplist00")
    (tmp_path / "d" / "a" / "9.png.dvc").write_bytes(b"outs:\n- md5: 00\n")
    (tmp_path / "d" / "a" / "annexed.png").symlink_to(
        "../.git/annex/objects/x/y/SHA256E-s5--ab.png"
    )
    dataset = load(f"imagefolder:{tmp_path}/d", "skip")
    assert dataset.ids == ("a/0.png", "a/1.jfif", "a/2.JPE")
    expected = {
        "3.heic": ".heic is not read",
        "4.tiff": ".tiff is not read",
        "5.weird": ".weird is not read",
        "6": "without a suffix",
        "7.png": "a pipe",
        "8.png": "iCloud",
        "9.png": "dvc pull",
        "annexed.png": "git annex get",
    }
    assert_reasons(dataset, expected, "a/")
    with pytest.raises(
        DataError, match=r"8 of 11 samples cannot be used \(first: a/3.heic: .heic is not read"
    ):
        load(f"imagefolder:{tmp_path}/d")


def test_links_to_folders_end_in_no_circle(draw: Draw, tmp_path: Path) -> None:
    draw("d/a/0.png")
    draw("far/1.png")
    (tmp_path / "d" / "all").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "up").symlink_to("..")
    (tmp_path / "d" / "again").symlink_to("a")
    (tmp_path / "d" / "b").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "home").symlink_to(tmp_path / "d")
    dataset = load(f"imagefolder:{tmp_path}/d")
    assert dataset.ids == ("a/0.png", "again/0.png", "b/1.png")
    assert left_out(dataset) == {"a link to a folder that holds it": (3, "all")}


def test_a_folder_that_cannot_be_read_is_named(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw("d/a/0.png")
    draw("d/b/0.png")
    real = os.scandir

    def denied(path: object) -> object:
        if str(path).endswith("d/b"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("os.scandir", denied)
    assert_reasons(
        load(f"imagefolder:{tmp_path}/d", "skip"),
        {"b": "the folder cannot be read (Permission denied)"},
    )


def test_there_is_a_bound(draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw("d/a/0.png")
    monkeypatch.setattr("unplug.sdk.learning.data.sources.listed.MAX_ENTRIES", 1)
    with pytest.raises(DataError, match="more than 1 files and folders"):
        image_files(tmp_path / "d")


def test_a_folder_of_nothing_usable_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "d" / "__MACOSX").mkdir(parents=True)
    with pytest.raises(
        DataError,
        match=r"no samples \(1 entry left out, the first: __MACOSX: left by macOS\)",
    ):
        load(f"imagefolder:{tmp_path}/d")


def test_shards_are_read_by_the_same_rule(draw: Draw, tmp_path: Path) -> None:
    raw = draw("0.png").read_bytes()
    places = ("", "__MACOSX/", ".ipynb_checkpoints/", "@eaDir/")
    files = {
        f"{place}{name}": content
        for place in places
        for name, content in (("0.png", raw), ("0.txt", b"a face"))
    }
    files |= {
        "._0.png": b"",
        "0.cls": b"1",
        "1.jfif": raw,
        "1.txt": b"a face",
        "2.heic": raw,
        "Thumbs.db": b"",
    }
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    dataset = load(f"webdataset:{tmp_path}/s.tar", "skip")
    assert dataset.ids == ("s.tar/0", "s.tar/1")
    assert_reasons(dataset, {"2.heic": ".heic is not read"}, "s.tar/")
    assert left_out(dataset) == {
        "left by macOS": (2, "s.tar/__MACOSX/0.png"),
        "hidden: its name begins with a dot": (3, "s.tar/.ipynb_checkpoints/0.png"),
        "left by a network disk": (2, "s.tar/@eaDir/0.png"),
        "neither image nor caption by its name (cls)": (1, "s.tar/0.cls"),
        "left by Windows": (1, "s.tar/Thumbs.db"),
    }


def test_utkface_and_agedb_leave_the_same_out(draw: Draw, tmp_path: Path) -> None:
    for name in ("29_0_1_20170104202114602.png", "11706_OliviaHussey_31_f.png"):
        draw(f"{name[:2]}/{name}")
        draw(f"{name[:2]}/@eaDir/{name}")
    assert len(load(f"utkface:{tmp_path}/29")) == len(load(f"agedb:{tmp_path}/11")) == 1


def test_a_pointer_among_captions_is_no_caption(draw: Draw, tmp_path: Path) -> None:
    """It was read as the words that describe the picture."""
    draw("d/a.png")
    draw("d/b.png")
    (tmp_path / "d" / "a.txt").write_bytes((CASES / "lfs-pointer" / "pointer").read_bytes())
    (tmp_path / "d" / "b.txt").write_text("a face")
    dataset = load(f"captions:{tmp_path}/d", "skip")
    assert dataset.ids == ("b.png",)
    assert_reasons(dataset, {"a.png": "it is a Git LFS pointer"})
