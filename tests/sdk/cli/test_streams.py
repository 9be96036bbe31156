"""The last write can fail: the work is kept, the line comes out escaped, and the exit code is that
of the work.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from unplug.core import follow, progress
from unplug.sdk.cli import main
from unplug.sdk.cli.streams import kept_streams

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def called(*words: str) -> object:
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def spelled(encoding: str) -> tuple[io.BytesIO, TextIO]:
    buffer = io.BytesIO()
    return buffer, io.TextIOWrapper(buffer, encoding=encoding)


def left() -> TextIO:
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w", encoding="utf-8")  # noqa: PTH123 (a descriptor)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", "Jos\\xe9 \\u540d"), ("latin-1", "José \\u540d"), ("cp1252", "José \\u540d")],
)
@pytest.mark.parametrize("json", [False, True])
def test_what_a_console_cannot_show_is_escaped(
    encoding: str, shown: str, json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = spelled(encoding), spelled(encoding)
    monkeypatch.setattr(sys, "stdout", out[1])
    monkeypatch.setattr(sys, "stderr", err[1])
    place = tmp_path / "José 名"
    assert called("bundle", "keygen", str(place), *["--json"] * json) == 0
    assert place.is_file() and Path(f"{place}.pub").is_file()
    said = out[0].getvalue().decode(encoding)
    assert ("Jos\\u00e9 \\u540d" if json else f"{shown}: the private key") in said
    assert called("bundle", "inspect", f"{place}.none") == 2  # and an error alike
    line = err[0].getvalue().decode(encoding)
    assert line.startswith("error: ") and shown in line and line.count("\n") == 1


def test_bars_escape_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, stream = spelled("ascii")
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    with kept_streams():
        assert list(progress(["a"], label="José", show=True)) == ["a"]
        with follow("名", show=True) as report:
            report(1, 2, "größer")
    said = buffer.getvalue().decode("ascii")
    assert "Jos\\xe9" in said and "\\u540d" in said and "gr\\xf6\\xdfer" in said


@pytest.mark.parametrize("which", ["stdout", "stderr", "both"])
def test_a_reader_who_left_ends_nothing(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stdout", "stderr") if which == "both" else (which,):
        monkeypatch.setattr(sys, name, left())
    assert (
        called("data", "synth", "--count", "2", "--pixels", "16", "--out", str(tmp_path / "faces"))
        == 0
    )
    assert (tmp_path / "faces" / "labels.csv").is_file()
    assert called("list", "nothing") == 2


@needs_full
@pytest.mark.parametrize(
    "words", [("list", "data"), ("list", "data", "--json"), ("--version",), ("list", "--help")]
)
def test_a_full_disk_under_standard_output(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(*words) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdout", FULL.open("w"))
    assert called(*words) == 2
    said = capsys.readouterr().err
    last = (
        "error: standard output: No space left on device. The work is done, and what it said "
        "stands above.\n"
    )
    assert said == whole + last


@needs_full
def test_a_refusal_stays_one_line_over_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", FULL.open("w"))
    assert called("bundle", "inspect", "nowhere") == 2
    assert (
        capsys.readouterr().err
        == "error: nowhere: no such bundle. Give a bundle folder, or the zip file of one.\n"
    )
    monkeypatch.setattr(sys, "stderr", FULL.open("w"))
    assert called("list", "data") == 2


def closed(number: int) -> Callable[[], None]:
    return lambda: os.close(number)


@needs_full
def test_python_adds_nothing_when_it_ends() -> None:
    """What the streams still held would be written once more then: exit code 120, and two lines
    nobody asked for.
    """
    words = [sys.executable, "-m", "unplug.sdk.cli", "list", "data"]
    with FULL.open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(
        "error: standard output: "
    )
    without = subprocess.run(
        words, preexec_fn=closed(1), stderr=subprocess.PIPE, text=True, check=False
    )
    assert (without.returncode, without.stderr) == (0, "")
