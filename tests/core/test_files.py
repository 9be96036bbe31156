"""Files at the edge: all or nothing, typed errors, known hashes."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from unplug.core import (
    InputError,
    OutputError,
    atomic_dir,
    atomic_path,
    read_json,
    results,
    sha256_file,
    sha256_tree,
    write_json,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Interrupt(BaseException):
    """Stands for Ctrl-C, which is no Exception."""


@pytest.mark.parametrize("error", [ValueError, Interrupt])
def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    with pytest.raises(error), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise error
    assert names(tmp_path) == ["result.json"] and target.read_text() == "old"


def test_a_write_replaces_the_file_and_makes_its_folders(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "result.json"
    for text in ("one", "two"):
        with atomic_path(target) as temporary:
            assert temporary.parent.stat().st_dev == target.parent.stat().st_dev, (
                "a rename is atomic within one file system only"
            )
            assert (
                temporary.name == target.name and temporary.parent.stat().st_mode & 0o777 == 0o700
            )
            temporary.write_text(text)
        assert target.read_text() == text and names(target.parent) == ["result.json"]
    assert target.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "Permission denied")]
)
def test_os_errors_become_output_errors(tmp_path: Path, number: int, words: str) -> None:
    for kind in (atomic_path, atomic_dir):
        with pytest.raises(OutputError, match=words), kind(tmp_path / "out"):
            raise OSError(number, os.strerror(number))
    assert names(tmp_path) == []


def test_a_full_disk_at_the_rename_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results.os, "replace", full)
    with pytest.raises(OutputError, match="disk is full"):
        write_json(tmp_path / "a.json", {})
    with pytest.raises(OutputError, match="disk is full"), atomic_dir(tmp_path / "out"):
        pass
    assert names(tmp_path) == []


def test_a_folder_where_the_file_should_go_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="taken"):
        write_json(tmp_path / "taken", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write_json(tmp_path / "file" / "below.json", {})


def test_atomic_dir_replaces_its_own_and_empty_folders(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for number in range(2):
        with atomic_dir(out, owner="config.json") as temporary:
            (temporary / "config.json").write_text("{}")
            (temporary / f"{number}.txt").write_text("")
        assert names(out) == [f"{number}.txt", "config.json"] and names(tmp_path) == ["out"]


@pytest.mark.parametrize("owner", [None, "config.json"])
def test_atomic_dir_refuses_foreign_folders_and_files(tmp_path: Path, owner: str | None) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "wedding.jpg").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for name in ("photos", "file"):
        with (
            pytest.raises(OutputError, match="not written by this command"),
            atomic_dir(tmp_path / name, owner=owner),
        ):
            pytest.fail("the body must not run")
    assert (tmp_path / "photos" / "wedding.jpg").read_text() == "precious" and names(tmp_path) == [
        "file",
        "photos",
    ]


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with atomic_dir(out, owner="config.json") as temporary:
        (temporary / "config.json").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_dir(out, owner="config.json") as temporary:
        (temporary / "config.json").write_text("new")
        raise ZeroDivisionError
    assert (out / "config.json").read_text() == "old" and names(tmp_path) == ["out"]


def test_json_is_canonical_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": [1.5, None], "a": "ü"})
    assert path.read_text() == '{\n "a": "\\u00fc",\n "b": [\n  1.5,\n  null\n ]\n}\n'
    assert read_json(path) == {"a": "ü", "b": [1.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    assert read_json(path) == {"a": "ü", "b": [1.5, None]}


def test_json_reads_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" + "1," * 4 + "1]")  # 11 bytes
    assert read_json(path, max_bytes=11) == [1] * 5
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_json(path, max_bytes=10)
    with pytest.raises(InputError, match="a device, a pipe"):
        read_json(Path("/dev/zero"), max_bytes=1000)  # claims 0 bytes and never ends


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000])
def test_broken_json_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(path)


def test_missing_json_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(InputError, match="Is a directory"):
        read_json(tmp_path)


def test_hash_of_a_file_is_the_published_one(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(path) == known and sha256_tree(path) == (known, 3)


def test_hash_of_a_tree_does_not_depend_on_the_order_of_creation(tmp_path: Path) -> None:
    content = {"b.txt": b"abc", "a/x": b"", "a/y": b"1", "a.txt": b"2"}
    for folder, order in (("one", list(content)), ("two", list(reversed(content)))):
        for name in order:
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(content[name])
    expected = hashlib.sha256()
    for name in (
        "a/x",
        "a/y",
        "a.txt",
        "b.txt",
    ):  # path by path, folders first where their name is shorter
        expected.update(f"{name}\0{hashlib.sha256(content[name]).hexdigest()}\n".encode())
    assert (
        sha256_tree(tmp_path / "one") == sha256_tree(tmp_path / "two") == (expected.hexdigest(), 5)
    )


def test_hash_of_a_tree_sees_names_contents_and_places(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    seen = {sha256_tree(tmp_path)[0]}
    (tmp_path / "a").write_text("2")
    seen.add(sha256_tree(tmp_path)[0])
    (tmp_path / "a").rename(tmp_path / "b")
    seen.add(sha256_tree(tmp_path)[0])
    (tmp_path / "c").mkdir()
    (tmp_path / "b").rename(tmp_path / "c" / "b")
    seen.add(sha256_tree(tmp_path)[0])
    assert len(seen) == 4


def test_hash_of_nothing_is_an_error_not_the_hash_of_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        sha256_tree(tmp_path / "none")


def test_what_is_published_can_be_read_by_others(tmp_path: Path) -> None:
    """safetensors writes files that are private to their owner; an exported file is for CI,
    containers and colleagues too.
    """
    with atomic_path(tmp_path / "one.bin") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)
    with atomic_dir(tmp_path / "folder") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "two.bin").touch(mode=0o600)
    for file in (tmp_path / "one.bin", tmp_path / "folder" / "inner" / "two.bin"):
        assert file.stat().st_mode & 0o777 == 0o644, file
