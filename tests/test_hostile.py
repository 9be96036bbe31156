"""The hostile corpus: every input ends in one line and exit 2, or is taken; nothing it is called
reaches a terminal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.core import printable
from unplug.sdk.cli import main

from .vectors.hostile.make import CASES, Case

BIG = ("a million rows", "100,000 extra files", "64 million", "1.5 GiB of zeros")
"""Seconds to make or to read; the others take milliseconds."""


def named(big: bool) -> list[object]:
    return [
        pytest.param(case, id=case.what)
        for case in CASES
        if any(word in case.what for word in BIG) is big
    ]


def answered(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNPLUG_CHILD_SECONDS", "5")
    monkeypatch.setenv("UNPLUG_CACHE", str(folder / "cache"))
    monkeypatch.delenv("UNPLUG_FACE_LANDMARKER", raising=False)
    case.make(folder)
    before = sorted(folder.iterdir())
    result = CliRunner().invoke(main, [word.replace("{}", str(folder)) for word in case.command])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.output == printable(result.output)
    if not case.says:
        assert result.exit_code == 0, result.output
        return
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and case.says in line
    assert result.exit_code == (1 if case.command[0] == "bundle" else 2)
    assert [path for path in sorted(folder.iterdir()) if path.name != "cache"] == before


@pytest.mark.parametrize("case", named(big=False))
def test_every_input_ends_in_one_line(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.child:
        pytest.importorskip("onnxruntime")
    answered(case, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("case", named(big=True))
def test_large_ones_as_well(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(case, tmp_path, monkeypatch)
