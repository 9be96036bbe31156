"""One writer an --out; what the dead leave behind stands in nobody's way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from unplug.core import (
    OutputError,
    atomic_dir,
    atomic_path,
    hold,
    locks,
    one_writer,
    temporaries,
    temporary_folder,
)

HOLDER = """
import sys, time
from pathlib import Path
from unplug.core import atomic_path, hold, temporary_folder
with hold(Path(sys.argv[1])), atomic_path(Path(sys.argv[1])) as half, temporary_folder("unplug-test-", Path(sys.argv[2])):
    half.write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def holder(tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "out"), str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    return start


def test_the_second_is_told_who_has_it_and_since_when(
    tmp_path: Path, holder: Callable[[], subprocess.Popen[str]]
) -> None:
    process = holder()
    try:
        with pytest.raises(OutputError) as caught, hold(tmp_path / "out"):
            pytest.fail("the body must not run")
        told = (
            rf"process {process.pid} on \S+ writes it since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\. "
            r"Wait for it, or choose another"
        )
        assert re.search(told, str(caught.value)) and "\n" not in str(caught.value)
        with hold(tmp_path / "other"):
            pass
        assert temporaries.sweep(tmp_path) == [], "what belongs to somebody alive stays"
    finally:
        process.kill()
        process.communicate()


def test_a_kill_frees_the_place_and_the_next_start_sweeps(
    tmp_path: Path, holder: Callable[[], subprocess.Popen[str]]
) -> None:
    process = holder()
    (tmp_path / "notes.unplug-tmp").write_text("a file of the user")
    (tmp_path / ".out.lock.txt").write_text("another one")
    process.kill()
    process.communicate()
    left = [name for name in names(tmp_path) if name.endswith((".unplug-tmp", ".lock"))]
    assert len(left) == 4, "a lock, two temporary folders, and what is not ours"
    with hold(tmp_path / "out"):
        assert names(tmp_path) == [".out.lock", ".out.lock.txt", "notes.unplug-tmp"]
    assert names(tmp_path) == [".out.lock.txt", "notes.unplug-tmp"]


def test_the_cache_is_swept_too_though_nothing_is_written_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / ".faces.npy.x1.unplug-tmp").mkdir(parents=True)
    with hold(tmp_path / "out"):
        assert names(tmp_path / "cache") == []


def test_the_first_temporary_folder_of_a_process_sweeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: Callable[[], subprocess.Popen[str]]
) -> None:
    process = holder()
    process.kill()
    process.communicate()
    monkeypatch.setattr(temporaries, "_swept", set())
    with temporary_folder("unplug-test-", tmp_path) as folder:
        assert [name for name in names(tmp_path) if name.endswith(".unplug-tmp")] == [folder.name]


def test_who_has_it_may_hold_it_again_and_its_threads_may_not(tmp_path: Path) -> None:
    out, told = tmp_path / "a" / "out", []

    def other() -> None:
        with pytest.raises(OutputError) as caught, hold(out):
            pytest.fail("the body must not run")
        told.append(str(caught.value))

    with hold(out):
        with hold(tmp_path / "a" / ".." / "a" / "out"):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert names(tmp_path / "a") == [".out.lock"]
    assert f"process {os.getpid()} " in told[0] and names(tmp_path) == [], (
        "folders that stayed empty are gone too"
    )


def test_processes_of_one_training_write_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with hold(tmp_path / "out"):
        assert names(tmp_path) == []


def test_without_locks_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "try_lock", lambda _: None)
    with hold(tmp_path / "out"):
        pass
    assert (
        "has no file locks, so nothing stops a second command with the same `out`" in caplog.text
        and names(tmp_path) == []
    )


def test_a_lock_that_says_nonsense_is_one_line(tmp_path: Path) -> None:
    for text in (
        "",
        "[]",
        '{"pid": "x"}',
        "\xff",
        '{"pid": 1, "host": "h", "since": 3',
        '{"pid": Infinity}',
        "[" * 4000,
    ):
        (tmp_path / ".out.lock").write_text(text, encoding="latin-1")
        handle = os.open(tmp_path / ".out.lock", os.O_RDWR)
        assert temporaries.try_lock(handle)
        with (
            pytest.raises(OutputError, match="another process has just begun to write it"),
            hold(tmp_path / "out"),
        ):
            pytest.fail("the body must not run")
        os.close(handle)


def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="Choose an `out`"), hold(tmp_path / "file" / "out"):
        pytest.fail("the body must not run")


def test_temporary_folders_go_with_any_end(tmp_path: Path) -> None:
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with (
            pytest.raises(error),
            atomic_path(tmp_path / "a"),
            temporary_folder("unplug-test-", tmp_path),
        ):
            raise error
    assert names(tmp_path) == []


def test_what_a_kill_left_inside_a_result_does_not_make_it_foreign(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".metrics.jsonl.x1.unplug-tmp").mkdir(parents=True)
    (out / "config.json").touch()
    with atomic_dir(out, owner="config.json", ours=()) as temporary:
        (temporary / "config.json").touch()
    assert names(out) == ["config.json"]


def test_a_function_holds_what_it_writes(tmp_path: Path) -> None:
    @one_writer
    def work(name: str, out: Path) -> list[str]:
        return names(out.parent)

    assert work("a", tmp_path / "out") == [".out.lock"] and work("a", out=tmp_path / "out") == [
        ".out.lock"
    ]
    assert work.__name__ == "work"
