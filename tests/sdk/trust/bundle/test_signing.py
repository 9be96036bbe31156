"""Keys, signing, trust and packing through the command line, and OpenSSF's own package as the
oracle of the format.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.vectors.bundles.recipe import OURS, Recipe, pem

from unplug.core import CheckFailed, InputError
from unplug.trust.bundle import (
    Publication,
    PublicKey,
    Refused,
    Signing,
    Trust,
    canonical,
    load_signer,
    make_key,
    open_source,
    public_key,
    read_trust,
    sign_bundle,
    strict_json,
    verify,
    verify_bundle,
)

from ..commands import called, refused, shown
from .test_bundle import edit, make_bundle, relinked, rewrite

ORACLE = os.environ.get("UNPLUG_MODEL_SIGNING")
"""The `model_signing` program of OpenSSF's package, in an environment of its own."""
ENDS = "--name face-age --expires 2999-01-01T00:00:00Z"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path)


@pytest.fixture
def signed(bundle: Path, key: Path, tmp_path: Path) -> Path:
    called(f"bundle sign {bundle} --sign {key} {ENDS} -o {tmp_path}/one.unplug")
    return tmp_path / "one.unplug"


def trusted(bundle: Path, key: Path) -> Any:
    return called(f"bundle verify {bundle} --trust {key}.pub")


# Signing and verifying


def test_a_signed_bundle_is_known_by_its_key_and_its_manifest(
    signed: Path, bundle: Path, key: Path
) -> None:
    told = trusted(signed, key)
    assert (
        told["signed"] and called(f"bundle inspect {signed}")["publication"] == told["publication"]
    )
    assert (told["publication"]["release"], told["publication"]["name"]) == (1, "face-age")
    assert told["id"] == called(f"bundle sign {bundle} --sign {key} {ENDS}")["id"]
    assert (bundle / "model.sig").read_bytes() == (signed / "model.sig").read_bytes()
    raw = (signed / "manifest.json").read_bytes()
    assert canonical(strict_json(raw)) == raw


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: (b / "more").write_text("x"), "'more' is not in the manifest"),
        (lambda b: (b / "README.md").write_text("A text."), "README.md was changed"),
        (lambda b: (b / "manifest.json").write_bytes(b"{}"), "does not follow its schema"),
        (lambda b: (b / "model.sig").unlink(), "not signed"),
        (lambda b: (b / "model.sig").write_bytes(b""), "not strict JSON"),
        (lambda b: relinked(b / "model.sig"), "'model.sig' is a link"),
    ],
)
def test_what_was_changed_after_signing(
    signed: Path, key: Path, change: Callable[[Path], object], message: str
) -> None:
    change(signed)
    assert message in refused(f"bundle verify {signed} --trust {key}.pub", code=1)


def test_whom_nobody_trusts(signed: Path, bundle: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    other = f"--trust {tmp_path}/other.pub"
    assert "signed by an unknown key" in refused(f"bundle verify {signed}", code=1)
    assert "signed by an unknown key" in refused(f"bundle verify {signed} {other}", code=1)
    assert "it is not signed" in refused(f"bundle verify {bundle} {other}", code=1)
    assert not called(f"bundle verify {bundle}")["signed"]


def test_a_first_version_reads_as_unsigned_and_can_be_signed(bundle: Path, key: Path) -> None:
    first = {"schema": "unplug-bundle/1", "signature": None}
    edit(bundle, lambda m: (m.pop("publication"), m.update(first)))
    assert called(f"bundle verify {bundle}")["publication"] is None
    called(f"bundle sign {bundle} --sign {key}")
    told = trusted(bundle, key)
    assert told["signed"] and told["publication"]["name"] == "copy"


def overridden_gates(bundle: Path, count: int) -> None:
    """The first gates fail and are overridden, as a release with --override writes it."""

    def change(report: dict[str, Any]) -> None:
        for gate in report["gates"][:count]:
            gate.update(value=0.9, passed=False, override="the board has seen it")

    edit(bundle, change)
    rewrite(bundle, "reports/release.json", change)


@pytest.mark.parametrize("count", [1, 10])
def test_what_was_overridden_is_named_and_counts_by_its_signature_alone(
    bundle: Path, key: Path, tmp_path: Path, count: int
) -> None:
    overridden_gates(bundle, count)
    why = "the gate 'forgotten (gain)' was overridden, and nobody signed that"
    pack = f"bundle pack {bundle} --hub {tmp_path}/hub"
    assert why in refused(f"bundle verify {bundle}", code=1)
    assert why in refused(f"{pack} --allow-unsigned", code=1)
    called(f"bundle sign {bundle} --sign {key}")
    told = trusted(bundle, key)
    assert told["gates"] == 10 - count and len(told["overridden"]) == count
    assert told["overridden"]["forgotten (gain)"] == "the board has seen it"
    text = f"{10 - count} of 10 gates hold, {count} were overridden: forgotten (gain) (the board"
    assert text in shown(f"bundle verify {bundle} --trust {key}.pub")
    called(f"{pack} --trust {key}.pub")
    card = (tmp_path / "hub" / "README.md").read_text()
    assert card.count("overridden: the board has seen it") == count


def test_a_newer_release_takes_the_place_of_an_older_one(
    signed: Path, bundle: Path, key: Path, tmp_path: Path
) -> None:
    newer, sign = tmp_path / "two.unplug", f"bundle sign {bundle} --sign {key}"
    old = trusted(signed, key)["id"]
    judged = f"bundle verify {signed} --newer {newer}"
    made = called(f"{sign} --supersedes {signed} --request 2026-17 -o {newer}")
    assert (made["release"], made["name"]) == (2, "face-age")
    assert (made["supersedes"], made["requests"]) == ([old], ["2026-17"])
    trust = f"--trust {key}.pub"
    assert "a newer release took its place" in refused(f"{judged} {trust}", code=1)
    assert called(f"bundle verify {newer} {trust} --newer {signed}")["signed"]
    third = f"{sign} --name face-age --number 3 -o {newer}"
    called(f"{third} --revokes {old}")
    assert "it was revoked" in refused(f"{judged} {trust}", code=1)
    called(third)
    assert "it is release 1, older than 3" in refused(f"{judged} {trust}", code=1)
    assert "count up within one product" in refused(f"{sign} --supersedes {newer} --number 2")
    assert "signed" in refused(judged), "nobody is trusted"


def test_a_reader_that_is_never_given_a_newer_bundle_goes_on_until_the_old_one_expires(
    bundle: Path, key: Path
) -> None:
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=90)
    called(
        f"bundle sign {bundle} --sign {key} --name face-age --expires {expires:%Y-%m-%dT%H:%M:%SZ}"
    )
    trust = read_trust(Path(f"{key}.pub"))
    with open_source(bundle) as source:
        after = trust.after(verify(source, trust).publication)
        assert verify(source, after, now=expires - timedelta(seconds=1)).publication.release == 1
        with pytest.raises(Refused) as caught:
            verify(source, after, now=expires)
    assert caught.value.verdict == "expired"


def test_what_readers_know_may_lie_in_a_file(signed: Path, key: Path, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"

    def knowing(**more: object) -> str:
        known = {"schema": "unplug-trust/1", "keys": [Path(f"{key}.pub").read_text()]}
        file.write_text(json.dumps(known | more))
        return f"bundle verify {signed} --trust {file}"

    assert called(knowing())["signed"]
    id_ = called(knowing(name="face-age", minimum_release=1))["id"]
    assert "is expected" in refused(knowing(name="face-pose"), code=1)
    assert "older than 2" in refused(knowing(minimum_release=2), code=1)
    assert "it was revoked" in refused(knowing(revoked=[id_]), code=1)
    assert "follow its schema" in refused(knowing(minimum=1))


def test_a_bundle_that_does_not_verify_is_not_signed(
    bundle: Path, key: Path, tmp_path: Path
) -> None:
    edit(bundle, lambda m: m["gates"][4].update(value=9.0))
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    signing = Signing(signer=load_signer(str(key)), publication=Publication(name="a", release=1))
    for out in (bundle, tmp_path / "out.unplug"):
        with pytest.raises(CheckFailed, match="does not hold"):
            sign_bundle(bundle, signing, out)
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "out.unplug").exists()
    (bundle / "README.md").write_text("A text")
    assert "README.md" in refused(f"bundle sign {bundle} --sign {key}", code=1)
    assert not (bundle / "model.sig").exists()


OUR_TRUST = Trust(keys=(public_key(pem(OURS), "test"),))


def written(recipe: Recipe, folder: Path) -> Path:
    for name, raw in recipe.files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(raw)
    return folder


def test_what_changes_after_verification_is_not_used(tmp_path: Path) -> None:
    with open_source(written(Recipe(), tmp_path)) as source:
        verified = verify(source, OUR_TRUST)
        (tmp_path / "README.md").write_bytes(b"B card.\n")
        with pytest.raises(Refused, match="changed since it was verified"):
            verified.read("README.md")
        (tmp_path / "README.md").unlink()
        (tmp_path / "README.md").symlink_to("/dev/zero")
        with pytest.raises(Refused):
            verified.read("README.md")


@pytest.mark.parametrize(
    ("verdict", "recipe"),
    [
        ("too-large", Recipe(after=lambda files: {**files, "model.sig": bytes(8 * 2**20 + 1)})),
        ("too-large", Recipe(manifest_bytes=lambda raw: raw + bytes(8 * 2**20))),
        ("too-many", Recipe(content={f"f{number}": b"" for number in range(4098)})),
    ],
)
def test_bundles_that_are_too_large(verdict: str, recipe: Recipe, tmp_path: Path) -> None:
    with open_source(written(recipe, tmp_path)) as source, pytest.raises(Refused) as caught:
        verify(source, OUR_TRUST)
    assert caught.value.verdict == verdict


# Packing and comparing


def test_a_packed_bundle_is_the_bundle(signed: Path, key: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(signed, tmp_path / "copy"))
    made = called(f"bundle pack {signed} -o {tmp_path}/a.zip")
    assert made["id"] == trusted(tmp_path / "a.zip", key)["id"]
    called(f"bundle pack {copy} -o {tmp_path}/b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    called(f"bundle sign {tmp_path}/a.zip --sign {key} -o {tmp_path}/again")
    assert trusted(tmp_path / "again", key)["signed"]
    (copy / "README.md").write_text("A text.")
    line = refused(f"bundle pack {copy} -o {tmp_path}/c.zip", code=1)
    assert "README.md was changed" in line and not (tmp_path / "c.zip").exists()


def test_what_differs(signed: Path, bundle: Path) -> None:
    told = called(f"bundle diff {bundle} {signed}")
    assert told["facts"]["publication.release"] == [None, 1]
    assert not told["added"] and not told["changed"]
    same = {"added": {}, "removed": {}, "changed": {}, "facts": {}}
    assert called(f"bundle diff {signed} {signed}") == same


# Keys


def test_keys_are_private_and_never_overwritten(key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    for taken in (key, f"{key}.pub"):
        assert "never overwritten" in refused(f"bundle keygen {taken}")
    assert read_trust(Path(f"{key}.pub")).keys[0].loaded()


def test_wrong_keys(
    bundle: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signing(spec: object) -> str:
        return refused(f"bundle sign {bundle} --sign {spec}")

    def trusting(path: object) -> str:
        return refused(f"bundle verify {bundle} --trust {path}")

    def given(text: bytes) -> str:
        monkeypatch.setenv("UNPLUG_TEST_KEY", text.decode())
        return signing("env:UNPLUG_TEST_KEY")

    def private(made: Any, encryption: Any) -> bytes:
        form = serialization.PrivateFormat.PKCS8
        text: bytes = made.private_bytes(serialization.Encoding.PEM, form, encryption)
        return text

    assert "no such key" in signing(tmp_path / "nowhere")
    assert "it is a public key" in signing(f"{key}.pub")
    assert "it is a private key" in trusting(key)
    key.chmod(0o640)
    assert "others than its owner can read" in signing(key) and "chmod 600" in signing(key)
    key.chmod(0o600)
    assert "not set" in signing("env:UNPLUG_TEST_KEY")
    broken = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    assert "not a private key in PEM form" in given(broken)
    for made in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        other_kind = "of another kind than P-256"
        assert other_kind in given(private(made, serialization.NoEncryption()))
        public = made.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (tmp_path / "trusted").write_bytes(public)
        assert other_kind in trusting(tmp_path / "trusted")
    locked = private(OURS, serialization.BestAvailableEncryption(b"secret"))
    assert "under a passphrase" in given(locked)
    der = public_key(Path(f"{key}.pub").read_text(), "test").der
    off_curve = der[:-1] + bytes([der[-1] ^ 1])
    with pytest.raises(InputError, match="not a point of the curve"):
        public_key(PublicKey(der=off_curve).pem, "test")
    assert not (bundle / "model.sig").exists()


def test_a_key_from_the_environment_and_when_it_ends(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_TEST_KEY", key.read_text())
    sign = f"bundle sign {bundle} --sign env:UNPLUG_TEST_KEY"
    assert "Write for example" in refused(f"{sign} --expires tomorrow")
    past = refused(f"{sign} --expires 2020-01-01T00:00:00Z")
    assert "--expires 2020-01-01T00:00:00Z" in past and "has passed" in past
    assert not (bundle / "model.sig").exists()
    called(sign)
    assert trusted(bundle, key)["signed"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_key_behind_a_command(bundle: Path, key: Path, tmp_path: Path) -> None:
    sign, public = f"bundle sign {bundle} --sign", f"--trust {key}.pub"
    command = f"'command:openssl dgst -sha256 -sign {key}'"
    make_key(tmp_path / "other")
    for wrong, why in (
        (command, "Add --trust"),
        (f"{command} --trust {tmp_path}/other.pub", "does not verify"),
        (f"command:false {public}", "exit 1"),
        (f"command:/nowhere/sign {public}", "cannot be run"),
        (f"command:\\' {public}", "quotes do not match"),
        (f"command:cat {public}", "does not verify"),
        (f"{key} --trust {tmp_path}/other.pub", "not the private half"),
    ):
        assert why in refused(f"{sign} {wrong}")
        assert not (bundle / "model.sig").exists()
    called(f"{sign} {command} {public}")
    assert trusted(bundle, key)["signed"]


# OpenSSF's package


def oracle(command: str) -> bool:
    """Whether OpenSSF's program is content."""
    words = [str(ORACLE), *command.split()]
    return subprocess.run(words, capture_output=True, timeout=120, check=False).returncode == 0


@pytest.mark.skipif(ORACLE is None, reason="UNPLUG_MODEL_SIGNING names no `model_signing` program")
def test_openssf_model_signing_agrees(signed: Path, key: Path) -> None:
    """It verifies what is signed here, what it signs verifies here, and what it leaves out is
    refused.
    """
    signature, readme = signed / "model.sig", (signed / "README.md").read_text()
    verify_there = f"verify key {signed} --signature {signature} --public_key {key}.pub"
    sign_there = f"sign key {signed} --signature {signature} --private_key {key}"
    assert oracle(verify_there)
    (signed / "README.md").write_text("Another.")
    assert not oracle(verify_there)
    (signed / "README.md").write_text(readme)
    signature.unlink()
    assert oracle(f"{sign_there} --no-ignore-git-paths")
    assert verify_bundle(signed, read_trust(Path(f"{key}.pub"))).publication is not None
    signature.unlink()
    assert oracle(sign_there)
    with pytest.raises(Refused) as caught:
        verify_bundle(signed, read_trust(Path(f"{key}.pub")))
    assert caught.value.verdict == "excluded"
