"""The operator's key: made once, private, and asked for by name where a record needs it."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from unplug.core import InputError, OutputError, key_file, operator_key


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("UNPLUG_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "unplug" / "key"


def _made(_: int) -> str:
    return operator_key().id


def test_it_is_made_at_its_first_use_for_its_owner_alone(place: Path) -> None:
    assert key_file() == place and not place.exists()
    key = operator_key()
    assert operator_key(key.id) == key and len(key.secret) == 32
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place, place.parent)] == [0o600, 0o700]
    assert [path.name for path in place.parent.iterdir()] == ["key"]
    assert key.secret.hex() not in repr(key) and key.secret.hex() not in key.id


def test_processes_that_make_it_at_once_have_the_same(place: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(_made, range(8)))) == 1


def test_digests_are_of_the_key_the_name_and_the_context(place: Path) -> None:
    one = operator_key()
    place.unlink()
    other = operator_key()
    digests = {
        key.digest(name, context)
        for key in (one, other)
        for name in ("a", "b")
        for context in ("x", "y")
    }
    assert len(digests) == 8 and all(len(digest) == 64 for digest in digests)
    assert one.digest("\udcff", "x") != one.digest("a", "x"), "a name that is not UTF-8"


def test_what_is_missing_broken_or_another_is_one_clear_error(place: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"key: no key is there, .* under the key 0123456789abcdef\. Copy that key .*UNPLUG_KEY=",
    ):
        operator_key("0123456789abcdef")
    assert not place.exists(), "a new key would not fit"
    key = operator_key()
    with pytest.raises(
        InputError,
        match=rf"it is the key {key.id}, .* under the key 0123456789abcdef\. Use the key that",
    ):
        operator_key("0123456789abcdef")
    for text in (
        "",
        "unplug-key/1 12\n",
        f"unplug-key/1 {'G' * 64}\n",
        f"unplug-key/1 {'a' * 64}\nmore",
    ):
        place.write_text(text)
        with pytest.raises(InputError, match="it is not a key of unplug"):
            operator_key()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o622, 0o604])
def test_a_key_that_others_can_open_is_refused(place: Path, mode: int) -> None:
    operator_key()
    place.chmod(mode)
    with pytest.raises(
        InputError, match=rf"others can read this key \(mode {mode:04o}\)\. Run `chmod 600 {place}`"
    ):
        operator_key()


@pytest.mark.parametrize("where", ["ledger.db", "postgresql://owner@db.example/forget"])
def test_none_is_made_silently_where_a_ledger_is(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    ledger = where if "://" in where else str(tmp_path / where)
    monkeypatch.setenv("UNPLUG_LEDGER", ledger)
    if "://" not in where:
        assert not place.exists()
        (tmp_path / where).touch()
    with pytest.raises(InputError, match="there is a ledger, but no key"):
        operator_key()
    assert not place.exists()
    assert operator_key(make=True) == operator_key()


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNPLUG_KEY", str(tmp_path / "file" / "key"))
    with pytest.raises(OutputError, match="no key can be written there"):
        operator_key()
