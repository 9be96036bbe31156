"""One writer an --out; what the dead leave behind stands in nobody's way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
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


def refused(out: Path, why: str) -> str:
    with pytest.raises(OutputError, match=why) as caught, hold(out):
        pytest.fail("the body must not run")
    return str(caught.value)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes ``out``."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "out"), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process
    kill(process)
    process.stdout.close()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_the_second_is_told_who_has_it_and_since_when(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    line = refused(
        tmp_path / "out",
        rf"process {holder.pid} on \S+ writes it since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\. "
        r"Wait for it, or choose another",
    )
    assert "\n" not in line
    with hold(tmp_path / "other"):
        pass
    assert temporaries.sweep(tmp_path) == [], "what belongs to somebody alive stays"


def test_a_kill_frees_the_place_and_the_next_start_sweeps(
    tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / ".faces.npy.x1.unplug-tmp").mkdir(parents=True)
    (tmp_path / "notes.unplug-tmp").write_text("a file of the user")
    (tmp_path / ".out.lock.txt").write_text("another one")
    kill(holder)
    left = [name for name in names(tmp_path) if name.endswith((".unplug-tmp", ".lock"))]
    assert len(left) == 4, "a lock, two temporary folders, and what is not ours"
    with hold(tmp_path / "out"):
        assert names(tmp_path) == [".out.lock", ".out.lock.txt", "cache", "notes.unplug-tmp"]
        assert names(tmp_path / "cache") == [], "though nothing is written into it"
    assert names(tmp_path) == [".out.lock.txt", "cache", "notes.unplug-tmp"]


def test_the_first_temporary_folder_of_a_process_sweeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: subprocess.Popen[str]
) -> None:
    kill(holder)
    monkeypatch.setattr(temporaries, "_swept", set())
    with temporary_folder("unplug-test-", tmp_path) as folder:
        assert [name for name in names(tmp_path) if name.endswith(".unplug-tmp")] == [folder.name]


def test_who_has_it_may_hold_it_again_and_its_threads_may_not(tmp_path: Path) -> None:
    out, told = tmp_path / "a" / "out", []
    thread = threading.Thread(target=lambda: told.append(refused(out, "")))
    with hold(out):
        with hold(tmp_path / "a" / ".." / "a" / "out"):
            pass
        thread.start()
        thread.join()
        assert names(tmp_path / "a") == [".out.lock"]
    assert re.search(f"process {os.getpid()} ", told[0])
    assert names(tmp_path) == [], "folders that stayed empty are gone too"


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
    told = "has no file locks, so nothing stops a second command with the same `out`"
    assert told in caplog.text and names(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"pid": "x"}',
        "\xff",
        '{"pid": 1, "host": "h", "since": 3',
        '{"pid": Infinity}',
        "[" * 4000,
    ],
)
def test_a_lock_that_says_nonsense_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / ".out.lock").write_text(text, encoding="latin-1")
    handle = os.open(tmp_path / ".out.lock", os.O_RDWR)
    assert temporaries.try_lock(handle)
    refused(tmp_path / "out", "another process has just begun to write it")
    os.close(handle)


def test_a_place_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "out", "Choose an `out`")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_temporary_folders_go_with_any_end(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), atomic_path(tmp_path / "a"), temporary_folder("unplug-", tmp_path):
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

    out = tmp_path / "out"
    assert work("a", out) == work("a", out=out) == [".out.lock"] and work.__name__ == "work"
