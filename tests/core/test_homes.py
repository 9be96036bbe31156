"""A user without a home, or with somebody else's, works; what must last says which variable gives
it a place.

The case is ``tests/cases/no-home``; ``run.sh`` there runs it as root with another user's number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import unplug.core.homes as homes
from unplug.core import (
    InputError,
    OutputError,
    atomic_path,
    cache_dir,
    expanded,
    key_file,
    ledger_place,
    operator_key,
    use_cache,
    write_json,
)
from unplug.sdk.learning.data import load_dataset

VARIABLES = (
    "HOME",
    "UNPLUG_CACHE",
    "UNPLUG_KEY",
    "UNPLUG_LEDGER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
CACHE = f"unplug-cache-{os.getuid()}"


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process without any of these variables and without a line in passwd; where its temporary
    files are.
    """
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def unknown(_: int) -> None:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def check_private(cache: Path, below: Path) -> None:
    status = cache.lstat()
    assert cache.parent == below and stat.S_ISDIR(status.st_mode)
    assert status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) == 0o700


def read_faces() -> None:
    load_dataset("synth:n=4,subjects=2", 16, show=False)


def test_without_a_home_the_cache_is_a_private_folder_for_temporary_files(nobody: Path) -> None:
    read_faces()
    check_private(cache_dir(), nobody)
    kinds = sorted(path.suffix for path in cache_dir().iterdir())
    assert use_cache() == cache_dir() and kinds == [".json", ".npy", ".people"]


@pytest.mark.parametrize("place", ["/", "/nonexistent", "/root"])
def test_so_it_is_with_a_home_that_cannot_be_written(
    nobody: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Root may write everywhere, so the question is answered here."""
    monkeypatch.setattr(homes.os, "access", lambda path, mode: False)
    monkeypatch.setenv("HOME", place)
    check_private(cache_dir(), nobody)


def test_a_home_that_may_not_be_looked_into_is_none(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/root")

    def denied(self: Path, **_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(homes.Path, "exists", denied)
    check_private(cache_dir(), nobody)
    assert not homes.is_there(Path("/root/.config/unplug/key"))


def test_a_folder_of_that_name_that_somebody_else_made_is_not_used(nobody: Path) -> None:
    elsewhere = nobody / "elsewhere"
    elsewhere.mkdir()
    (nobody / CACHE).symlink_to(elsewhere)
    cache = cache_dir()
    check_private(cache, nobody)
    assert cache == cache_dir() and cache.name != CACHE and not any(elsewhere.iterdir())


def test_ones_own_is_narrowed(nobody: Path) -> None:
    (nobody / CACHE).mkdir(mode=0o755)
    check_private(cache_dir(), nobody)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            operator_key,
            "operator's key: it must last, .*no home.* Set UNPLUG_KEY to a file, or XDG_C",
        ),
        (ledger_place, "the ledger: .*no home.* Set UNPLUG_LEDGER to a file, or XDG_DATA_HOME"),
    ],
)
def test_what_must_last_names_the_variable(
    nobody: Path, place: Callable[[], object], words: str
) -> None:
    with pytest.raises(OutputError, match=words):
        place()


def test_a_place_that_is_named_is_taken(nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(nobody / "config"))
    assert key_file() == nobody / "config" / "unplug" / "key"
    assert operator_key() == operator_key()


@pytest.mark.parametrize(
    "spec",
    ["imagefolder:~/faces", "csv:~/labels.csv", "webdataset:~/s.tar", "captions:~stranger-9/x"],
)
def test_a_tilde_without_a_home_is_one_line(nobody: Path, spec: str) -> None:
    words = "no home is known that it begins with. Write the whole path, or set HOME"
    with pytest.raises(InputError, match=words):
        load_dataset(spec, 16, show=False)
    with pytest.raises(InputError, match=words):
        expanded(spec.partition(":")[2])


@pytest.mark.parametrize("variable", ["UNPLUG_CACHE", "XDG_CACHE_HOME"])
def test_a_cache_that_cannot_be_written_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.delenv("UNPLUG_CACHE")
    monkeypatch.setenv(variable, str(tmp_path / "file" / "cache"))
    words = rf"Not a directory: the cache lies there \(so says {variable}\)\. Set UNPLUG_CACHE"
    with pytest.raises(OutputError, match=words) as caught:
        read_faces()
    assert "--out" not in str(caught.value)
    write_json(tmp_path / "out.json", {})  # nothing of a result depends on it


def test_a_full_disk_under_the_cache_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path))
    full = r"the disk is full: the cache lies there .* Free some space, or set UNPLUG_CACHE"
    with pytest.raises(OutputError, match=full), atomic_path(tmp_path / "a.npy"):
        raise OSError(28, "No space left on device")


def test_no_place_for_temporary_files_names_tmpdir(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: [str(nobody / "gone")])
    words = r"temporary files: No usable temporary directory .* Set TMPDIR"
    with pytest.raises(OutputError, match=words):
        cache_dir()
