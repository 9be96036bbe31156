"""Reading what may be no file, or no JSON that anybody wrote for us."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unplug.core import ArtifactError, InputError, open_regular, parse_json, read_json, read_regular
from unplug.core.regular import MAX_DEPTH, MAX_DIGITS


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    assert read_regular(tmp_path / "a", max_bytes=1000) == b"x" * 1000
    with open_regular(tmp_path / "a", max_bytes=1000) as handle:
        assert handle.read(3) == b"xxx"
    with pytest.raises(ArtifactError, match=r"larger than 999 bytes. Split it"):
        read_regular(tmp_path / "a", max_bytes=999, error=ArtifactError, too_large="Split it")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 2**40)
    for path, why in (
        (tmp_path / "pipe", "a device, a pipe"),
        (Path("/dev/zero"), "a device, a pipe"),
        (tmp_path, "Is a directory"),
        (tmp_path / "sparse", "larger than"),
        (tmp_path / "none", "No such file"),
        (Path("a\0b"), "null"),
    ):
        with pytest.raises(InputError, match=why):
            read_regular(path, max_bytes=2**20)


def test_json_is_bounded_in_depth_and_digits(tmp_path: Path) -> None:
    nested = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json(nested.encode()) is not None
    assert parse_json(b'{"a": [1, "[[[[", {"b": null}]}') == {"a": [1, "[[[[", {"b": None}]}
    assert parse_json(b"9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    for raw in (
        f"[{nested}]",
        '{"a": ' * 70 + "1" + "}" * 70,
        "[" * 10**6,
        "9" * 400,
        "[" + "-" + "9" * 41 + "]",
    ):
        (tmp_path / "a.json").write_text(raw)
        with pytest.raises(InputError, match=r"nested more than 64 deep|impossible number"):
            read_json(tmp_path / "a.json")
    assert json.loads(nested) is not None


def test_a_key_twice_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    """Readers in other languages would take the other value."""
    for raw in (b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": 2}}]'):
        (tmp_path / "a.json").write_bytes(raw)
        with pytest.raises(InputError, match="it has a key twice"):
            read_json(tmp_path / "a.json")
    assert parse_json(b'{"a": {"a": 1}, "b": {"a": 1}}') == {"a": {"a": 1}, "b": {"a": 1}}
