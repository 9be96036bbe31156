"""Files at the edge: all or nothing, typed errors, known hashes."""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import AbstractContextManager
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


def write_file(out: Path) -> AbstractContextManager[Path]:
    return atomic_path(out / "config.json")


def write_folder(out: Path) -> AbstractContextManager[Path]:
    return atomic_dir(out, owner="config.json")


@pytest.mark.parametrize("error", [ValueError, Interrupt])
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_a_failed_write_leaves_the_old_result_and_no_other(
    tmp_path: Path, write: Any, error: type[BaseException]
) -> None:
    out = tmp_path / "out"
    for text in ("old", "new"):
        with write(out) as temporary:
            (temporary / "config.json" if temporary.is_dir() else temporary).write_text(text)
    with pytest.raises(error), write(out):
        raise error
    assert names(tmp_path) == ["out"] and names(out) == ["config.json"]
    assert (out / "config.json").read_text() == "new"


def test_a_file_is_written_in_a_private_folder_on_the_same_disk(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "result.json"
    with atomic_path(target) as temporary:
        assert temporary.parent.stat().st_dev == target.parent.stat().st_dev, (
            "a rename is atomic within one file system only"
        )
        assert temporary.name == target.name and temporary.parent.stat().st_mode & 0o777 == 0o700
        temporary.write_text("one")
    assert names(target.parent) == ["result.json"] and target.stat().st_mode & 0o777 == 0o644


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
DENIED = OSError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.parametrize("write", [atomic_path, atomic_dir])
@pytest.mark.parametrize(
    ("error", "words", "at_rename"),
    [(FULL, "disk is full", False), (FULL, "disk is full", True), (DENIED, "Permission", False)],
)
def test_os_errors_become_output_errors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Any,
    error: OSError,
    words: str,
    at_rename: bool,
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(results.os, "replace", fails)
    with pytest.raises(OutputError, match=words), write(tmp_path / "out"):
        if not at_rename:
            fails()
    assert names(tmp_path) == []


def test_a_folder_where_the_file_should_go_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "taken", tmp_path / "file" / "below.json"):
        with pytest.raises(OutputError, match=path.parent.name):
            write_json(path, {})


def test_a_folder_of_ours_or_an_empty_one_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for number in range(2):
        with write_folder(out) as temporary:
            (temporary / "config.json").write_text("{}")
            (temporary / f"{number}.txt").write_text("")
        assert names(out) == [f"{number}.txt", "config.json"] and names(tmp_path) == ["out"]


@pytest.mark.parametrize("owner", [None, "config.json"])
@pytest.mark.parametrize("name", ["photos", "photos/wedding.jpg"])
def test_foreign_folders_and_files_are_not_replaced(
    tmp_path: Path, name: str, owner: str | None
) -> None:
    precious = tmp_path / "photos" / "wedding.jpg"
    precious.parent.mkdir()
    precious.write_text("precious")
    with (
        pytest.raises(OutputError, match="not written by this command"),
        atomic_dir(tmp_path / name, owner=owner),
    ):
        pytest.fail("the body must not run")
    assert precious.read_text() == "precious" and names(precious.parent) == ["wedding.jpg"]


def test_json_is_canonical_and_comes_back(tmp_path: Path) -> None:
    path, value = tmp_path / "a.json", {"b": [1.5, None], "a": "ü"}
    write_json(path, value)
    assert path.read_text() == '{\n "a": "\\u00fc",\n "b": [\n  1.5,\n  null\n ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    assert read_json(path) == value


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000])
def test_broken_json_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(path)


def test_hashes_are_the_published_ones_and_do_not_depend_on_order(tmp_path: Path) -> None:
    # FIPS 180-2, appendix B.1
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    content = {"b.txt": b"abc", "a/x": b"", "a/y": b"1", "a.txt": b"2"}
    for folder, order in (("one", list(content)), ("two", list(reversed(content)))):
        for name in order:
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(content[name])
    file = tmp_path / "one" / "b.txt"
    assert sha256_file(file) == known and sha256_tree(file) == (known, 3)
    tree = hashlib.sha256()
    # path by path, folders first where their name is shorter
    for name in ("a/x", "a/y", "a.txt", "b.txt"):
        tree.update(f"{name}\0{hashlib.sha256(content[name]).hexdigest()}\n".encode())
    for folder in ("one", "two"):
        assert sha256_tree(tmp_path / folder) == (tree.hexdigest(), 5)


def test_hash_of_a_tree_sees_names_contents_and_places(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    file = tmp_path / "a"
    seen = set()
    for path, text in (("a", "1"), ("a", "2"), ("b", "2"), ("c/b", "2")):
        file = file.rename(tmp_path / path) if file.exists() else tmp_path / path
        file.write_text(text)
        seen.add(sha256_tree(tmp_path)[0])
    assert len(seen) == 4
    with pytest.raises(InputError, match="no such file or folder"):
        sha256_tree(tmp_path / "none")  # and not the hash of an empty folder
