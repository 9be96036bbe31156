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
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.vectors.bundles.recipe import OURS, Recipe, pem

from unplug.core import CheckFailed, InputError
from unplug.sdk.cli import main
from unplug.trust.bundle import (
    Publication,
    Refused,
    Signing,
    Trust,
    load_signer,
    make_key,
    open_source,
    read_trust,
    sign_bundle,
    verify,
    verify_bundle,
)
from unplug.trust.bundle.p256 import public_key
from unplug.trust.bundle.signed_json import canonical, strict_json

from ...cli.calls import fail
from .test_bundle import edit, make_bundle, rewrite

ORACLE = os.environ.get("UNPLUG_MODEL_SIGNING")
"""The `model_signing` program of OpenSSF's package, in an environment of its own."""
REST: list[tuple[str, Callable[[Path], object], str]] = [
    ("another file", lambda b: (b / "more").write_text("x"), "'more' is not in the manifest"),
    ("a changed file", lambda b: (b / "README.md").write_text("A text."), "README.md was changed"),
    (
        "a changed manifest",
        lambda b: (b / "manifest.json").write_bytes(b"{}"),
        "does not follow its schema",
    ),
    ("no signature", lambda b: (b / "model.sig").unlink(), "not signed"),
    ("an empty signature", lambda b: (b / "model.sig").write_bytes(b""), "no strict JSON"),
    ("a link to the signature", lambda b: relinked(b / "model.sig"), "'model.sig' is a link"),
]


def relinked(path: Path) -> None:
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def call(*args: object) -> Any:
    """A command that must succeed, and its JSON."""
    done = CliRunner().invoke(main, ["bundle", *map(str, args), "--json"])
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path)


@pytest.fixture
def signed(bundle: Path, key: Path, tmp_path: Path) -> Path:
    call(
        "sign",
        bundle,
        "--key",
        key,
        "--name",
        "face-age",
        "--expires",
        "2999-01-01T00:00:00Z",
        "-o",
        tmp_path / "one.unplug",
    )
    return tmp_path / "one.unplug"


# Signing and verifying


def test_a_signed_bundle_is_known_by_its_key_and_its_manifest(
    signed: Path, bundle: Path, key: Path
) -> None:
    said = call("verify", signed, "--trust", f"{key}.pub")
    assert (
        said["signed"]
        and said["publication"]["release"] == 1
        and said["publication"]["name"] == "face-age"
    )
    assert (
        said["id"]
        == call(
            "sign", bundle, "--key", key, "--name", "face-age", "--expires", "2999-01-01T00:00:00Z"
        )["id"]
    )
    assert (bundle / "model.sig").read_bytes() == (signed / "model.sig").read_bytes(), (
        "the same bundle, the same signature"
    )
    assert call("inspect", signed)["publication"] == said["publication"]
    raw = (signed / "manifest.json").read_bytes()
    assert canonical(strict_json(raw)) == raw


@pytest.mark.parametrize(("what", "change", "message"), REST, ids=[what for what, _, _ in REST])
def test_what_was_changed_after_signing(
    signed: Path, key: Path, what: str, change: Callable[[Path], object], message: str
) -> None:
    change(signed)
    assert message in fail("bundle", "verify", signed, "--trust", f"{key}.pub", code=1).line


def test_whom_nobody_trusts(signed: Path, bundle: Path, tmp_path: Path) -> None:
    assert "signed by an unknown key" in fail("bundle", "verify", signed, code=1).line
    make_key(tmp_path / "other")
    assert (
        "signed by an unknown key"
        in fail("bundle", "verify", signed, "--trust", tmp_path / "other.pub", code=1).line
    )
    assert (
        "it is not signed"
        in fail("bundle", "verify", bundle, "--trust", tmp_path / "other.pub", code=1).line
    )
    assert not call("verify", bundle)["signed"]


def test_a_first_version_reads_as_unsigned_and_can_be_signed(bundle: Path, key: Path) -> None:
    edit(
        bundle, lambda m: (m.pop("publication"), m.update(schema="unplug-bundle/1", signature=None))
    )
    assert call("verify", bundle)["publication"] is None
    call("sign", bundle, "--key", key)
    said = call("verify", bundle, "--trust", f"{key}.pub")
    assert said["signed"] and said["publication"]["name"] == "copy"


def overridden_gates(bundle: Path, count: int) -> None:
    """The first gates fail and are overridden, as a release with --override writes it."""

    def change(report: dict[str, Any]) -> None:
        for gate in report["gates"][:count]:
            gate.update(value=0.9, passed=False, override="the board has seen it")

    edit(bundle, change)
    rewrite(bundle, "reports/release.json", change)


@pytest.mark.parametrize("count", [1, 4, 10])
def test_what_was_overridden_is_named_and_counts_by_its_signature_alone(
    bundle: Path, key: Path, tmp_path: Path, count: int
) -> None:
    overridden_gates(bundle, count)
    why = "the gate 'forgotten (gain)' was overridden, and nobody signed that"
    assert why in fail("bundle", "verify", bundle, code=1).line
    assert (
        why
        in fail(
            "bundle", "pack", bundle, "--hub", tmp_path / "hub", "--allow-unsigned", code=1
        ).line
    )
    call("sign", bundle, "--key", key)
    said = call("verify", bundle, "--trust", f"{key}.pub")
    assert said["gates"] == 10 - count and len(said["overridden"]) == count
    assert said["overridden"]["forgotten (gain)"] == "the board has seen it"
    text = (
        CliRunner().invoke(main, ["bundle", "verify", str(bundle), "--trust", f"{key}.pub"]).stdout
    )
    assert (
        f"{10 - count} of 10 gates hold, {count} were overridden: forgotten (gain) (the board has "
        "seen it)" in text
    )
    call("pack", bundle, "--hub", tmp_path / "hub", "--trust", f"{key}.pub")
    assert (tmp_path / "hub" / "README.md").read_text().count(
        "overridden: the board has seen it"
    ) == count


def test_a_newer_release_takes_the_place_of_an_older_one(
    signed: Path, bundle: Path, key: Path, tmp_path: Path
) -> None:
    newer, trust = tmp_path / "two.unplug", ("--trust", f"{key}.pub")
    old = call("verify", signed, *trust)["id"]
    made = call(
        "sign", bundle, "--key", key, "--supersedes", signed, "--answers", "2026-17", "-o", newer
    )
    assert (made["release"], made["name"], made["supersedes"], made["requests"]) == (
        2,
        "face-age",
        [old],
        ["2026-17"],
    )
    assert (
        "a newer release took its place"
        in fail("bundle", "verify", signed, *trust, "--newer", newer, code=1).line
    )
    assert call("verify", newer, *trust, "--newer", signed)["signed"]
    call(
        "sign",
        bundle,
        "--key",
        key,
        "--name",
        "face-age",
        "--number",
        3,
        "--revokes",
        old,
        "-o",
        newer,
    )
    assert (
        "it was revoked" in fail("bundle", "verify", signed, *trust, "--newer", newer, code=1).line
    )
    call("sign", bundle, "--key", key, "--name", "face-age", "--number", 3, "-o", newer)
    assert (
        "it is release 1, older than 3"
        in fail("bundle", "verify", signed, *trust, "--newer", newer, code=1).line
    )
    said = fail("bundle", "sign", bundle, "--key", key, "--supersedes", newer, "--number", 2).line
    assert "count up within one product" in said
    assert "signed" in fail("bundle", "verify", signed, "--newer", newer).line, "nobody is trusted"


def test_a_reader_that_is_never_given_a_newer_bundle_goes_on_until_the_old_one_expires(
    bundle: Path, key: Path
) -> None:
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=90)
    call(
        "sign",
        bundle,
        "--key",
        key,
        "--name",
        "face-age",
        "--expires",
        f"{expires:%Y-%m-%dT%H:%M:%SZ}",
    )
    trust = read_trust(Path(f"{key}.pub"))
    with open_source(bundle) as source:
        after = trust.after(verify(source, trust).publication)
        assert verify(source, after, now=expires - timedelta(seconds=1)).publication.release == 1
        with pytest.raises(Refused) as refused:
            verify(source, after, now=expires)
    assert refused.value.verdict == "expired"


def test_what_readers_know_may_lie_in_a_file(signed: Path, key: Path, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"

    def known(**more: object) -> tuple[str, Path]:
        file.write_text(
            json.dumps(
                {"schema": "unplug-trust/1", "keys": [Path(f"{key}.pub").read_text()], **more}
            )
        )
        return "--trust", file

    assert call("verify", signed, *known())["signed"]
    id_ = call("verify", signed, *known(name="face-age", minimum_release=1))["id"]
    assert "is expected" in fail("bundle", "verify", signed, *known(name="face-pose"), code=1).line
    assert (
        "older than 2" in fail("bundle", "verify", signed, *known(minimum_release=2), code=1).line
    )
    assert "it was revoked" in fail("bundle", "verify", signed, *known(revoked=[id_]), code=1).line
    assert "follow its schema" in fail("bundle", "verify", signed, *known(minimum=1)).line


def test_a_bundle_whose_gates_do_not_hold_is_not_signed(
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


def test_a_changed_bundle_is_not_signed(bundle: Path, key: Path) -> None:
    (bundle / "README.md").write_text("A text")
    assert "README.md" in fail("bundle", "sign", bundle, "--key", key, code=1).line
    assert not (bundle / "model.sig").exists()


def test_what_changes_after_verification_is_not_used(tmp_path: Path) -> None:
    for name, raw in Recipe().files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    with open_source(tmp_path) as source:
        found = verify(source, Trust(keys=(public_key(pem(OURS), "test"),)))
        (tmp_path / "README.md").write_bytes(b"B card.\n")
        with pytest.raises(Refused, match="changed since it was verified"):
            found.read("README.md")
        (tmp_path / "README.md").unlink()
        (tmp_path / "README.md").symlink_to("/dev/zero")
        with pytest.raises(Refused):
            found.read("README.md")


@pytest.mark.parametrize(
    ("verdict", "recipe"),
    [
        ("too-large", Recipe(after=lambda files: {**files, "model.sig": bytes(8 * 2**20 + 1)})),
        ("too-large", Recipe(manifest_bytes=lambda raw: raw + bytes(8 * 2**20))),
        ("too-many", Recipe(content={f"f{number}": b"" for number in range(4098)})),
    ],
)
def test_bundles_that_are_too_large(verdict: str, recipe: Recipe, tmp_path: Path) -> None:
    for name, raw in recipe.files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    with open_source(tmp_path) as source, pytest.raises(Refused) as caught:
        verify(source, Trust(keys=(public_key(pem(OURS), "test"),)))
    assert caught.value.verdict == verdict


# Packing and comparing


def test_a_packed_bundle_is_the_bundle(signed: Path, key: Path, tmp_path: Path) -> None:
    made = call("pack", signed, "-o", tmp_path / "a.zip")
    assert made["id"] == call("verify", tmp_path / "a.zip", "--trust", f"{key}.pub")["id"]
    shutil.copytree(signed, tmp_path / "copy")
    call("pack", tmp_path / "copy", "-o", tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    call("sign", tmp_path / "a.zip", "--key", key, "-o", tmp_path / "again")
    assert call("verify", tmp_path / "again", "--trust", f"{key}.pub")["signed"]
    (tmp_path / "copy" / "README.md").write_text("A text.")
    assert (
        "README.md was changed"
        in fail("bundle", "pack", tmp_path / "copy", "-o", tmp_path / "c.zip", code=1).line
    )
    assert not (tmp_path / "c.zip").exists()


def test_what_differs(signed: Path, bundle: Path) -> None:
    found = call("diff", bundle, signed)
    assert (
        found["facts"]["publication.release"] == [None, 1]
        and not found["added"]
        and not found["changed"]
    )
    assert call("diff", signed, signed) == {"added": {}, "removed": {}, "changed": {}, "facts": {}}


# Keys


def test_keys_are_private_and_never_overwritten(key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    assert "never overwritten" in fail("bundle", "keygen", key).line
    assert "never overwritten" in fail("bundle", "keygen", f"{key}.pub").line
    assert read_trust(Path(f"{key}.pub")).keys[0].loaded()


def test_wrong_keys(
    bundle: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(spec: object, *more: object) -> str:
        return fail("bundle", "sign", bundle, "--key", spec, *more).line

    assert "no such key" in refused(tmp_path / "nowhere")
    assert "it is a public key" in refused(f"{key}.pub")
    assert "it is a private key" in fail("bundle", "verify", bundle, "--trust", key).line
    key.chmod(0o640)
    assert "others than its owner can read" in refused(key) and "chmod 600" in refused(key)
    key.chmod(0o600)
    assert "not set" in refused("env:UNPLUG_TEST_KEY")
    monkeypatch.setenv(
        "UNPLUG_TEST_KEY", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    )
    assert "no private key in PEM form" in refused("env:UNPLUG_TEST_KEY")
    other: tuple[Any, ...] = (
        ec.generate_private_key(ec.SECP384R1()),
        rsa.generate_private_key(65537, 2048),
    )
    for made in other:
        text = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        monkeypatch.setenv("UNPLUG_TEST_KEY", text.decode())
        assert "of another kind than P-256" in refused("env:UNPLUG_TEST_KEY")
        public = made.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (tmp_path / "trusted").write_bytes(public)
        assert (
            "of another kind than P-256"
            in fail("bundle", "verify", bundle, "--trust", tmp_path / "trusted").line
        )
    locked = OURS.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    monkeypatch.setenv("UNPLUG_TEST_KEY", locked.decode())
    assert "under a passphrase" in refused("env:UNPLUG_TEST_KEY")
    off_curve = public_key(Path(f"{key}.pub").read_text(), "test").der[:-1] + b"\0"
    with pytest.raises(InputError, match="no point of the curve"):
        public_key(pem_of(off_curve), "test")
    assert (
        "Write for example"
        in fail("bundle", "sign", bundle, "--key", key, "--expires", "tomorrow").line
    )
    assert not (bundle / "model.sig").exists()


def pem_of(der: bytes) -> str:
    from unplug.trust.bundle.p256 import PublicKey

    return PublicKey(der=der).pem


def test_an_expired_release_is_not_signed(bundle: Path, key: Path) -> None:
    said = fail("bundle", "sign", bundle, "--key", key, "--expires", "2020-01-01T00:00:00Z").line
    assert (
        "--expires 2020-01-01T00:00:00Z" in said
        and "has passed" in said
        and not (bundle / "model.sig").exists()
    )


def test_a_key_from_the_environment(
    bundle: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNPLUG_TEST_KEY", key.read_text())
    call("sign", bundle, "--key", "env:UNPLUG_TEST_KEY")
    assert call("verify", bundle, "--trust", f"{key}.pub")["signed"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_key_behind_a_command(bundle: Path, key: Path, tmp_path: Path) -> None:
    command = f"command:openssl dgst -sha256 -sign {key}"
    assert "Add --public" in fail("bundle", "sign", bundle, "--key", command).line
    make_key(tmp_path / "other")
    for wrong, why in (
        (("--key", command, "--public", tmp_path / "other.pub"), "does not verify"),
        (("--key", "command:false", "--public", f"{key}.pub"), "exit 1"),
        (("--key", "command:/nowhere/sign", "--public", f"{key}.pub"), "cannot be run"),
        (("--key", "command:'", "--public", f"{key}.pub"), "quotes do not match"),
        (("--key", "command:cat", "--public", f"{key}.pub"), "does not verify"),
        (("--key", key, "--public", tmp_path / "other.pub"), "not the private half"),
    ):
        assert why in fail("bundle", "sign", bundle, *wrong).line
        assert not (bundle / "model.sig").exists()
    call("sign", bundle, "--key", command, "--public", f"{key}.pub")
    assert call("verify", bundle, "--trust", f"{key}.pub")["signed"]


# OpenSSF's package


@pytest.mark.skipif(ORACLE is None, reason="UNPLUG_MODEL_SIGNING names no `model_signing` program")
def test_openssf_model_signing_agrees(signed: Path, key: Path) -> None:
    """It verifies what is signed here, what it signs verifies here, and what it leaves out is
    refused.
    """

    def oracle(*words: object) -> int:
        done = subprocess.run(
            [str(ORACLE), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode

    signature = signed / "model.sig"
    verify_there = ("verify", "key", signed, "--signature", signature, "--public_key", f"{key}.pub")
    sign_there = ("sign", "key", signed, "--signature", signature, "--private_key", key)
    assert oracle(*verify_there) == 0
    readme = (signed / "README.md").read_text()
    (signed / "README.md").write_text("Another.")
    assert oracle(*verify_there) != 0
    (signed / "README.md").write_text(readme)
    signature.unlink()
    assert oracle(*sign_there, "--no-ignore-git-paths") == 0
    assert verify_bundle(signed, read_trust(Path(f"{key}.pub"))).publication is not None
    signature.unlink()
    assert oracle(*sign_there) == 0
    with pytest.raises(Refused) as caught:
        verify_bundle(signed, read_trust(Path(f"{key}.pub")))
    assert caught.value.verdict == "excluded"
