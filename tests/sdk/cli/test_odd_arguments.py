"""Arguments that no system call has seen, or that readers would refuse after all the work: one
line, before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.sdk.trust.bundle.test_bundle import make_bundle

from unplug.sdk.cli import main
from unplug.sdk.cli.base import Common, Outcome, command
from unplug.trust.bundle import make_key

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("UNPLUG_LEDGER_KEY", str(tmp_path / "ledger-key"))
    monkeypatch.setenv("UNPLUG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "loop").symlink_to("loop")
    return lambda *words: CliRunner().invoke(
        main, [word.replace("{}", str(tmp_path)) for word in words]
    )


def refused(result: Result, why: str, code: int = 2) -> None:
    (line,) = result.stderr.splitlines()
    assert result.exit_code == code and line.startswith("error: ") and why in line, result.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("bundle", "keygen", ""), "it names no file"),
        (("bundle", "keygen", "{}/loop/key"), "loop"),
        *(
            (("ledger", "init", "--ledger", "{}/l.db", "--origin", name), "ASCII")
            for name in ("ä", "a\x1b[2J", "a\nb")
        ),
    ],
)
def test_what_is_refused_leaves_nothing(
    call: Call, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    refused(call(*words), why)
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--name", name) for name in ("a\nb", "a b", "ä", "x" * 201)),
        ("--revokes", "abc"),
        ("--request", "R-1\n"),
        ("--request", "ä"),
        ("--number", "9" * 40),
        ("--number", str(2**53)),
    ],
)
def test_what_no_reader_of_a_bundle_takes_is_not_signed(
    call: Call, tmp_path: Path, option: str, value: str
) -> None:
    make_key(tmp_path / "key")
    words = ("bundle", "sign", str(make_bundle(tmp_path)), "--sign", "{}/key", "--out", "{}/signed")
    refused(call(*words, option, value), option)
    assert not (tmp_path / "signed").exists()


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only root may read /proc/kmsg")
def test_a_bundle_that_has_nothing_to_say_now(call: Call) -> None:
    refused(call("bundle", "inspect", "/proc/kmsg"), "not a zip archive", code=1)


def test_a_pipe_for_the_cache_is_not_waited_for(call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cache")
    refused(call("data", "inspect", "synth:n=2"), "Not a directory")


def test_a_name_that_is_no_text_of_this_locale() -> None:
    @click.command()
    @command
    def odd(common: Common) -> Outcome:
        return Outcome(value="\udcff".encode())

    refused(CliRunner().invoke(odd), "not text in this locale")
