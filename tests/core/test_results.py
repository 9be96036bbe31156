"""Results at their place: exchanged, on the disk before they are told of, put back after a kill
between two steps.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unplug.core import (
    OutputError,
    atomic_dir,
    atomic_entries,
    atomic_path,
    durable,
    hold,
    private_results,
    results,
    write_json,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def publish(out: Path, text: str) -> None:
    with atomic_dir(out, owner="config.json", ours=("inner",)) as temporary:
        (temporary / "config.json").write_text(text)
        (temporary / "inner").mkdir()
        (temporary / "inner" / "weights").write_text(text)


def published(out: Path) -> str:
    return (out / "config.json").read_text()


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that cannot exchange names."""
    monkeypatch.setattr(results, "exchange", lambda *_: False)


def test_an_older_result_is_never_missing_while_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, seen, exchange = tmp_path / "out", [], durable.exchange
    publish(out, "old")

    def watched(one: Path, other: Path) -> bool:
        seen.append(published(out))
        done = exchange(one, other)
        seen.append(published(out))
        return done

    monkeypatch.setattr(results, "exchange", watched)
    publish(out, "new")
    assert seen == ["old", "new"] and names(tmp_path) == ["out"]
    with pytest.raises(FileNotFoundError):
        exchange(out, tmp_path / "none")


@pytest.mark.parametrize("step", [1, 2])
def test_in_two_steps_a_failure_leaves_the_old_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_exchange: None, step: int
) -> None:
    out, replace, calls = tmp_path / "out", os.replace, []
    publish(out, "old")

    def fails(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) == step:
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(results.os, "replace", fails)
    with pytest.raises(OutputError, match="Input/output"):
        publish(out, "new")
    assert published(out) == "old" and names(tmp_path) == ["out"]


@pytest.mark.parametrize("start", ["write", "hold"])
def test_a_kill_between_the_two_steps_is_put_right_at_the_next_start(
    tmp_path: Path, no_exchange: None, start: str
) -> None:
    out = tmp_path / "out"
    publish(out, "old")
    out.rename(tmp_path / ".out.replaced")
    if start == "hold":
        with hold(out):
            assert published(out) == "old"
    else:
        publish(out, "new")
        assert published(out) == "new"
    assert names(tmp_path) == ["out"]


def test_bytes_and_names_are_on_the_disk_before_a_result_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real_sync, real_replace = durable._sync, os.replace

    def sync(path: Path, flags: int) -> None:
        order.append(f"sync {path.name.split('.')[0] or 'hidden'}")
        real_sync(path, flags)

    def replace(source: Any, target: Any) -> None:
        order.append(f"rename {Path(target).name}")
        real_replace(source, target)

    monkeypatch.setattr(durable, "_sync", sync)
    monkeypatch.setattr(results.os, "replace", replace)
    place = tmp_path / "place"
    place.mkdir()
    write_json(place / "a.json", {})
    assert order == ["sync a", "rename a.json", "sync place"]
    order.clear()
    publish(place / "out", "new")
    assert sorted(order[:4]) == ["sync config", "sync hidden", "sync inner", "sync weights"]
    assert order[3:] == ["sync hidden", "rename out", "sync place"]
    order.clear()
    write_json(place / "b" / "c.json", {})
    assert order == ["sync place", "sync c", "rename c.json", "sync b"], (
        "a new folder's name is on the disk before it is used"
    )


def test_what_is_at_the_place_after_the_work_is_looked_at_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        pytest.raises(OutputError, match=r"\(it holds diary.txt\)"),
        atomic_dir(out, owner="a", ours=("b",)),
    ):
        out.mkdir()
        (out / "diary.txt").write_text("precious")
    assert names(out) == ["diary.txt"] and names(tmp_path) == ["out"]


def test_a_linked_folder_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "large disk")
    for text in ("one", "two"):
        publish(tmp_path / "out", text)
    assert (tmp_path / "out").is_symlink() and published(tmp_path / "large disk") == "two"
    assert names(tmp_path) == ["large disk", "out"]


def test_entries_take_their_places_among_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("somebody's")
    for text, before in (("one", 1), ("two", 4)):
        with atomic_entries(tmp_path, "model.bin") as folder:
            (folder / "model.package").mkdir()
            for name in ("model.bin", "model.bin.json", "model.package/part"):
                (folder / name).write_text(text)
            assert len(names(tmp_path)) == before + 1, "nothing is in place yet"
        texts = {path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
        assert texts == {text, "somebody's"}
    with (
        pytest.raises(ValueError, match="amid the work"),
        atomic_entries(tmp_path, "model.bin") as folder,
    ):
        (folder / "model.bin").write_text("three")
        raise ValueError("amid the work")
    assert names(tmp_path) == ["model.bin", "model.bin.json", "model.package", "notes.txt"]
    assert (tmp_path / "model.bin").read_text() == "two"


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777
        for path in sorted(folder.rglob("*"))
    }


def write_all(folder: Path, **private: bool) -> None:
    """As libraries do whose files are private to their owner, or open to all."""
    write_json(folder / "new" / "one.json", {}, **private)
    with atomic_dir(folder / "two", **private) as temporary:
        (temporary / "inner").mkdir(0o700)
        (temporary / "inner" / "weights").touch(0o600)
        (temporary / "inner" / "page").touch(0o644)


def modes_of_all(folder: int, file: int) -> dict[str, int]:
    folders = dict.fromkeys(("new", "two", "two/inner"), folder)
    return folders | dict.fromkeys(("new/one.json", "two/inner/weights", "two/inner/page"), file)


def test_who_may_read_a_result_is_for_the_umask_to_say(tmp_path: Path, umask: int) -> None:
    """An exported file is for CI, containers and colleagues too."""
    write_all(tmp_path)
    with atomic_entries(tmp_path, "three") as temporary:
        (temporary / "three").touch(0o600)
    file, folder = 0o666 & ~umask, 0o777 & ~umask
    assert modes(tmp_path) == modes_of_all(folder, file) | {"three": file}


@pytest.mark.parametrize("how", ["each", "all", "in a folder that its lock made", "in the cache"])
def test_what_is_private_is_so_whatever_the_umask(
    tmp_path: Path, umask: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "each":
        write_all(tmp_path, private=True)
    elif how == "all":
        with private_results():
            write_all(tmp_path)
    elif how == "in the cache":
        monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path))
        write_all(tmp_path)
    else:
        with hold(tmp_path / "new" / "one.json"):
            write_all(tmp_path, private=True)
    assert modes(tmp_path) == modes_of_all(0o700, 0o600)


def test_what_ships_says_so_amid_private_results(tmp_path: Path, umask: int) -> None:
    with private_results(), atomic_dir(tmp_path / "out", private=False) as temporary:
        write_json(temporary / "reports" / "one.json", {})
    assert set(modes(tmp_path).values()) == {0o666 & ~umask, 0o777 & ~umask}


def test_a_folder_of_somebody_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(0o755)
    write_json(tmp_path / "shared" / "one.json", {}, private=True)
    assert modes(tmp_path) == {"shared": 0o755, "shared/one.json": 0o600}


@pytest.mark.parametrize("name", ["x" * 250, "é" * 120])
def test_long_names_are_written_like_short_ones(tmp_path: Path, name: str) -> None:
    with hold(tmp_path / name), atomic_path(tmp_path / name) as temporary:
        temporary.touch()
    assert names(tmp_path) == [name]
