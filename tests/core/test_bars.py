"""Progress off a terminal is whole lines now and then, and nothing where nobody asked."""

from __future__ import annotations

import re

import pytest

from unplug.core import progress

LINE = re.compile(r"^train: (\d) of 5 step, [\d:]+ gone, [\d:?]+ left(, loss=[\d.]+)?$")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """tqdm's time, set by the test."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


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


def test_short_work_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress(range(5), label="train", unit="step", show=True):
        clock[0] += 5
    assert capsys.readouterr().err == ""


def test_bars_inside_bars_are_lines_too(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in progress(range(2), label="outer", unit="step", show=True):
        for _ in progress(range(2), label="inner", unit="step", show=True):
            clock[0] += 40
    told = capsys.readouterr().err
    assert [line.split(" step")[0] for line in told.splitlines()] == [
        "inner: 1 of 2",
        "inner: 2 of 2",
        "outer: 1 of 2",
        "inner: 1 of 2",
        "inner: 2 of 2",
        "outer: 2 of 2",
    ]
    assert "\x1b" not in told
    assert "\r" not in told


def test_silence_where_nobody_asked(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress(range(5), label="train", show=False):
        clock[0] += 100
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress(total=4, done=1, label="train", unit="step", show=True) as bar:
        bar.update(1)
    told = capsys.readouterr().err
    assert told.startswith("\rtrain:")
    assert "1/4" in told
