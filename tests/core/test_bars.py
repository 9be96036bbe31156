"""Progress is a bar where somebody looks, whole lines now and then in the log of a command, and
nothing anywhere else.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator

import pytest

from unplug.core import bars, follow, progress, progress_in_logs

LINE = re.compile(r"^train: (\d) of 5 steps, [\d:]+ gone, [\d:?]+ left(, loss=[\d.]+)?$")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """tqdm's time, set by the test."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


@pytest.fixture
def in_logs() -> Iterator[None]:
    """As a command is."""
    with progress_in_logs():
        yield


class Terminal(io.StringIO):
    """Standard error of somebody who looks."""

    def isatty(self) -> bool:
        return True


class Cell(io.StringIO):
    """What ipykernel gives a cell: no terminal."""


Cell.__module__ = "ipykernel.iostream"


@pytest.mark.usefixtures("in_logs")
def test_log_gets_a_line_each_interval(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress(total=5, label="train", unit="step", show=True) as bar:
        for _ in range(5):
            clock[0] += 20
            bar.update(1)
            bar.set_postfix(loss="0.5", refresh=False)
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert told.out == ""
    assert [int(found[1]) for found in map(LINE.match, lines) if found] == [2, 4]
    assert len(lines) == 2
    assert lines[1].endswith("left, loss=0.5")


@pytest.mark.usefixtures("in_logs")
def test_short_work_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress(range(5), label="train", unit="step", show=True):
        clock[0] += 5
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("in_logs")
def test_bars_inside_bars_are_lines_too(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in progress(range(2), label="outer", unit="step", show=True):
        for _ in progress(range(2), label="inner", unit="step", show=True):
            clock[0] += 40
    told = capsys.readouterr().err
    assert [line.split(" steps,")[0] for line in told.splitlines()] == [
        "inner: 1 of 2",
        "inner: 2 of 2",
        "outer: 1 of 2",
        "inner: 1 of 2",
        "inner: 2 of 2",
        "outer: 2 of 2",
    ]
    assert "\x1b" not in told
    assert "\r" not in told


@pytest.mark.usefixtures("in_logs")
def test_silence_where_nobody_asked(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress(range(5), label="train", show=False):
        clock[0] += 100
    assert capsys.readouterr().err == ""


def test_a_script_without_a_terminal_gets_nothing(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in progress(range(5), label="train", show=True):
        clock[0] += 100
    with follow("export", show=True) as report:
        report(1, 2, "age.fp32.onnx")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [Terminal, Cell])
def test_who_looks_gets_a_bar(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream := kind())
    with progress(total=4, done=1, label="train", show=True) as bar:
        bar.update(1)
        bar.refresh()
    with follow("export", show=True) as report:
        report(1, 2, "age\x1b[2J.onnx")
    told = stream.getvalue()
    assert told.startswith("\rtrain:")
    assert "1/4" in told and "2/4" in told and "picture/s" in told
    assert "1/2" in told and "age\\x1b[2J.onnx" in told, "names are printed, never obeyed"


@pytest.mark.parametrize("kind", [Terminal, Cell])
def test_one_switch_silences_all(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", stream := kind())
    assert list(progress([1, 2], label="train", show=False)) == [1, 2]
    with follow("export", show=False) as report:
        report(1, 2, "age.fp32.onnx")
    assert stream.getvalue() == ""


def test_a_terminal_that_tells_no_size_gets_a_bar_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """tqdm measures the stream, finds 0 columns and 0 rows, and prints nothing."""
    monkeypatch.setattr("tqdm.utils._screen_shape_wrapper", lambda: lambda _: (0, 0))
    monkeypatch.setattr("tqdm.std._screen_shape_wrapper", lambda: lambda _: (0, 0))
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    assert list(progress([1, 2], label="train", show=True)) == [1, 2]
    assert "train:" in stream.getvalue()


def test_a_bar_goes_on_where_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "TICK", 0.01)
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    with progress(total=4, label="convert", show=True):
        begun, until = len(stream.getvalue()), time.monotonic() + 20
        while len(stream.getvalue()) == begun and time.monotonic() < until:
            time.sleep(0.01)
        assert len(stream.getvalue()) > begun
    ended = stream.getvalue()
    time.sleep(0.05)
    assert stream.getvalue() == ended, "and ends with its work"
