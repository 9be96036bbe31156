"""Update metadata from the first root to a rotated one, by the command line; python-tuf's client fetches what was published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.sdk.bundle.test_bundle import edit, make_bundle
from tuf.ngclient import Updater

from unplug.core import CheckFailed, InputError
from unplug.sdk.bundle import Publication, Signer, Signing, load_signer, make_key, read_trust, sign_bundle
from unplug.sdk.bundle.signing import write_manifest
from unplug.sdk.cli import main
from unplug.sdk.updates import (
    NotCurrent,
    RoleKeys,
    check_updates,
    folder_reader,
    publish_bundle,
    renew_updates,
    rotate_keys,
    verify_current,
    write_seen,
)

from ..cli.calls import fail
from .test_vectors import Served

NAMES = ("release", "root-a", "root-b", "root-c", "root-d", "targets", "snapshot", "timestamp", "timestamp-2")
NOW = datetime.now(UTC)


def call(*args: object) -> Any:
    """A command that must succeed, and its JSON."""
    done = CliRunner().invoke(main, ["updates", *map(str, args), "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def with_keys(folder: Path, *names: str) -> list[object]:
    return [word for name in names for word in ("--key", folder / name)]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for name in NAMES:
        make_key(tmp_path / "keys" / name)
    return tmp_path / "keys"


@pytest.fixture
def release(tmp_path: Path, keys: Path) -> Callable[..., Path]:
    plain = make_bundle(tmp_path)

    def make(number: int, **said: Any) -> Path:
        out = tmp_path / f"face-age-{number}.unplug"
        publication = Publication(name="face-age", release=number, **said)
        sign_bundle(plain, Signing(signer=load_signer(str(keys / "release")), publication=publication), out)
        return out

    return make


@pytest.fixture
def updates(tmp_path: Path, keys: Path) -> Path:
    roots = [word for name in ("root-a", "root-b", "root-c") for word in ("--root", keys / f"{name}.pub")]
    others = [word for role in ("targets", "snapshot", "timestamp") for word in (f"--{role}", keys / f"{role}.pub")]
    said = call("init", tmp_path / "updates", *roots, *others, *with_keys(keys, "root-a", "root-c", *NAMES[5:8]))
    assert Path(said["root"]).name == "1.root.json"
    return tmp_path / "updates"


def publish(updates: Path, bundle: Path, keys: Path, *more: object) -> Any:
    trust = ("--trust", keys / "release.pub")
    return call("publish", updates, bundle, *trust, *with_keys(keys, "targets", "snapshot", "timestamp"), *more)


def signers(keys: Path, *names: str) -> list[Signer]:
    return [load_signer(str(keys / name)) for name in names]


def first_root(updates: Path) -> Path:
    return updates / "metadata" / "1.root.json"


def test_a_model_older_than_a_forget_stops_after_its_grace_period(
    updates: Path, keys: Path, release: Callable[..., Path], tmp_path: Path
) -> None:
    old = release(1)
    publish(updates, old, keys)
    asked = ("--root", first_root(updates), "--trust", keys / "release.pub", "--seen", tmp_path / "seen.json")
    assert call("verify", updates, old, *asked)["bundle"]["current"] is True
    new = release(2, requests=("2026-0017",))
    said = publish(updates, new, keys, "--grace", 30)
    assert [item["below"] for item in said["retiring"]] == [2]
    standing = call("verify", updates, old, *asked)["bundle"]
    assert (standing["current"], standing["stops"]) == (False, said["retiring"][0]["until"])
    renewed = NOW + timedelta(days=29)
    for days, stops in ((29.9, False), (30.1, True)):
        renew_updates(updates, signers(keys, "timestamp"), now=renewed)
        now = NOW + timedelta(days=days)
        found = check_updates(first_root(updates).read_bytes(), folder_reader(updates / "metadata"), now=now)
        trust = read_trust(keys / "release.pub")
        assert verify_current(new, trust, found, now=now)[1].until is None
        if stops:
            with pytest.raises(NotCurrent, match="a newer release took its place; its time ended at") as refused:
                verify_current(old, trust, found, now=now)
            assert refused.value.verdict == "retired"
        else:
            assert verify_current(old, trust, found, now=now)[1].current == 2


def test_releases_are_taken_back(updates: Path, keys: Path, release: Callable[..., Path]) -> None:
    bundles = {number: release(number) for number in (1, 2, 3)}
    for bundle in bundles.values():
        publish(updates, bundle, keys)
    signed = with_keys(keys, "targets", "snapshot", "timestamp")
    asked = ("--root", first_root(updates), "--trust", keys / "release.pub")
    call("revoke", updates, "face-age", "--release", 2, *signed)
    assert "its publisher took it back" in fail("updates", "verify", updates, bundles[2], *asked, code=1).line
    said = call("revoke", updates, "face-age", "--minimum", 3, *signed)
    assert said["releases"].keys() == {"3"} and said["revoked"] == []
    assert "release 3 is the oldest that may be used" in fail("updates", "verify", updates, bundles[1], *asked, code=1).line
    assert call("verify", updates, bundles[3], *asked)["bundle"]["current"] is True
    assert "nothing would work any more" in fail("updates", "revoke", updates, "face-age", "--minimum", 4, *signed).line
    assert "no such release" in fail("updates", "revoke", updates, "face-age", "--release", 9, *signed).line
    assert "no such product" in fail("updates", "revoke", updates, "face", "--release", 9, *signed).line
    assert "nothing says what" in fail("updates", "revoke", updates, "face-age", *signed).line


def test_what_a_bundle_says_of_others_counts(updates: Path, keys: Path, release: Callable[..., Path]) -> None:
    first = publish(updates, release(1), keys)["id"]
    trust, signed = ("--trust", keys / "release.pub"), with_keys(keys, "targets", "snapshot", "timestamp")
    new = release(2, supersedes=(first,))
    assert "nothing says from when on they stop" in fail("updates", "publish", updates, new, *trust, *signed).line
    publish(updates, new, keys, "--grace", 1)
    assert publish(updates, release(3, revokes=(first,)), keys)["revoked"] == [1]


def test_only_a_sound_bundle_is_published(updates: Path, keys: Path, release: Callable[..., Path], tmp_path: Path) -> None:
    trust, signed = ("--trust", keys / "release.pub"), with_keys(keys, "targets", "snapshot", "timestamp")
    before = {path.name: path.read_bytes() for path in (updates / "metadata").iterdir()}
    good = release(2)
    assert "nothing says whose" in fail("updates", "publish", updates, good, *signed).line
    unsigned, altered = tmp_path / "unsigned", tmp_path / "altered"
    for copy in (unsigned, altered):
        shutil.copytree(good, copy)
    (unsigned / "model.sig").unlink()
    assert "it is not signed" in fail("updates", "publish", updates, unsigned, *trust, *signed, code=1).line
    (altered / "README.md").write_text("other")
    assert "README.md was changed" in fail("updates", "publish", updates, altered, *trust, *signed, code=1).line
    other = ("--trust", keys / "root-a.pub")
    assert "signed by an unknown key" in fail("updates", "publish", updates, good, *other, *signed, code=1).line
    assert "the role targets is signed by 1 of its keys" in fail(
        "updates", "publish", updates, good, *trust, *with_keys(keys, "timestamp")
    ).line  # fmt: skip
    assert {path.name: path.read_bytes() for path in (updates / "metadata").iterdir()} == before
    publish(updates, good, keys)
    assert "Releases count up" in fail("updates", "publish", updates, release(1), *trust, *signed).line


def test_python_tufs_client_fetches_the_manifest(
    updates: Path, keys: Path, release: Callable[..., Path], tmp_path: Path
) -> None:
    bundle = release(1)
    publish(updates, bundle, keys)
    files = {path.name: path.read_bytes() for path in updates.rglob("*.json")}
    (tmp_path / "kept").mkdir()
    updater = Updater(
        str(tmp_path / "kept"), "http://updates", str(tmp_path), "http://updates/targets", Served(files),
        bootstrap=first_root(updates).read_bytes(),
    )  # fmt: skip
    target = updater.get_targetinfo("face-age/manifest.json")
    assert target is not None
    assert Path(updater.download_target(target)).read_bytes() == (bundle / "manifest.json").read_bytes()


def test_keys_are_rotated(updates: Path, keys: Path, release: Callable[..., Path]) -> None:
    bundle = release(1)
    publish(updates, bundle, keys)
    new = [word for name in ("root-b", "root-c", "root-d") for word in ("--root", keys / f"{name}.pub")]
    change = [*new, "--timestamp", keys / "timestamp-2.pub"]
    lines = {
        ("root-a", "root-b"): "the role root is signed by 2 of its keys, and 1 were given",
        ("root-a", "root-b", "root-c"): "the role timestamp is signed by 1 of its keys, and 0 were given",
        ("root-d", "root-c", "timestamp-2"): "2 of the root keys of before must sign, and 1",
    }
    for given, line in lines.items():
        done = fail("updates", "rotate", updates, *change, *with_keys(keys, *given, "targets", "snapshot"))
        assert line in done.line
    call("rotate", updates, *change, *with_keys(keys, "root-a", "root-b", "root-d", "targets", "snapshot", "timestamp-2"))
    assert (updates / "metadata" / "2.root.json").is_file()
    asked = ("--trust", keys / "release.pub")
    for number in (1, 2):
        root = updates / "metadata" / f"{number}.root.json"
        assert call("verify", updates, bundle, "--root", root, *asked)["bundle"]["current"]
    assert "the role timestamp is signed by 1" in fail("updates", "renew", updates, *with_keys(keys, "timestamp")).line
    call("renew", updates, *with_keys(keys, "timestamp-2"), "--days", 1)


def test_a_rotation_that_was_killed_is_completed(
    updates: Path, keys: Path, release: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(updates, release(1), keys)
    held = signers(keys, "root-a", "root-b", "targets", "snapshot", "timestamp-2")
    timestamp = (updates / "metadata" / "timestamp.json").read_bytes()
    rotate_keys(updates, RoleKeys(timestamp=read_trust(keys / "timestamp-2.pub").keys), held)
    (updates / "metadata" / "timestamp.json").write_bytes(timestamp)
    root, read = first_root(updates).read_bytes(), folder_reader(updates / "metadata")
    with pytest.raises(NotCurrent, match="0 of its signatures"):
        check_updates(root, read)
    renew_updates(updates, held)
    assert check_updates(root, read).products["face-age"].release == 1


def test_a_folder_that_somebody_altered_is_not_signed_anew(updates: Path, keys: Path, release: Callable[..., Path]) -> None:
    publish(updates, release(1), keys)
    targets = updates / "metadata" / "2.targets.json"
    targets.write_bytes(targets.read_bytes().replace(b'"minimum_version":1', b'"minimum_version":9'))
    with pytest.raises(NotCurrent, match="another file than the one that was signed"):
        renew_updates(updates, signers(keys, "targets", "snapshot", "timestamp"))


def test_a_command_that_signs_with_another_key_writes_nothing(updates: Path, keys: Path) -> None:
    wrong = Signer(key=read_trust(keys / "timestamp.pub").keys[0], sign=load_signer(str(keys / "targets")).sign)
    before = (updates / "metadata" / "timestamp.json").read_bytes()
    with pytest.raises(InputError, match="readers would refuse it"):
        renew_updates(updates, [wrong])
    assert (updates / "metadata" / "timestamp.json").read_bytes() == before


def test_what_was_seen_is_kept_and_never_forgotten_silently(
    updates: Path, keys: Path, release: Callable[..., Path], tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(updates, old)
    publish(updates, release(1), keys)
    kept = tmp_path / "seen.json"
    asked = ("--root", first_root(updates), "--seen", kept)
    call("verify", updates, *asked)
    assert "it is version 1, and 2 was seen" in fail("updates", "verify", old, *asked, code=1).line
    kept.write_text("{}")
    assert "does not follow its schema" in fail("updates", "verify", updates, *asked).line
    found = check_updates(first_root(updates).read_bytes(), folder_reader(updates / "metadata"))
    write_seen(kept, found.seen)
    assert call("verify", updates, *asked)["products"][0]["release"] == 1


def test_what_stands_in_the_way(updates: Path, keys: Path, tmp_path: Path, release: Callable[..., Path]) -> None:
    signed = with_keys(keys, "targets", "snapshot", "timestamp")
    assert "no update metadata is there" in fail("updates", "renew", tmp_path / "nothing", *signed).line
    assert "the role has no key" in fail("updates", "init", tmp_path / "new", *signed).line
    assert not (tmp_path / "new" / "metadata").exists()
    roots = ("--root", keys / "root-a.pub", "--root", keys / "root-b.pub")
    others = [word for role in ("targets", "snapshot", "timestamp") for word in (f"--{role}", keys / f"{role}.pub")]
    again = fail("updates", "init", updates, *roots, *others, *signed, *with_keys(keys, "root-a", "root-b"))
    assert "is there already" in again.line
    one = fail("updates", "init", tmp_path / "new", *roots[:2], *others, *signed, *with_keys(keys, "root-a"))
    assert "2 of them are to sign, and fewer were given" in one.line
    unused = fail("updates", "renew", updates, *signed, "--public", keys / "root-a.pub")
    assert "no --key that is a command" in unused.line
    (updates / "metadata" / "3.root.json").write_bytes(first_root(updates).read_bytes())
    assert "a root file between the others is missing" in fail("updates", "renew", updates, *signed).line


def test_a_key_behind_a_command(updates: Path, keys: Path) -> None:
    words = f"command:openssl dgst -sha256 -sign {keys / 'timestamp'}"
    call("renew", updates, "--key", words, "--public", keys / "timestamp.pub")


def test_a_signed_bundle_whose_gate_fails_is_not_published(updates: Path, keys: Path, release: Callable[..., Path]) -> None:
    bundle, signer = release(1), load_signer(str(keys / "release"))
    edit(bundle, lambda manifest: manifest["gates"][0].update(value=9.0))
    write_manifest(bundle, json.loads((bundle / "manifest.json").read_text()))
    Signing(signer=signer, publication=Publication(name="face-age", release=1)).seal(bundle)
    with pytest.raises(CheckFailed, match="does not hold"):
        publish_bundle(updates, bundle, read_trust(keys / "release.pub"), signers(keys, "targets", "snapshot", "timestamp"))
