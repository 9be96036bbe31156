"""The cases of the conformance suite of OpenSSF's specification, on P-256: OpenSSF's program signs, both verify.

The suite (``sampras343/model-signing-spec``, ``conformance/``) makes keys and signatures when it runs; what it held before was
signed with P-384 and leaves files out. Its cases are made here, by their ids; nothing is copied. docs/bundles.md has the sum.
"""

from __future__ import annotations

import base64
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
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from unplug.sdk.bundle import Refused, make_key, read_trust, verify_bundle
from unplug.sdk.bundle.envelope import pae
from unplug.sdk.cli import main

from .test_bundle import make_bundle
from .test_chain import Holder
from .test_chain import pem as write_pem

ORACLE = os.environ.get("UNPLUG_MODEL_SIGNING")
pytestmark = pytest.mark.skipif(ORACLE is None, reason="UNPLUG_MODEL_SIGNING names no `model_signing` program")
Bundle = dict[str, Any]


def oracle(*words: object) -> bool:
    done = subprocess.run([str(ORACLE), *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode == 0


def ours(folder: Path, trusted: Path) -> str:
    """The verdict, or ""."""
    try:
        verify_bundle(folder, read_trust(trusted))
    except Refused as refused:
        return refused.verdict
    return ""


def edited(folder: Path, change: Callable[[Bundle], object]) -> None:
    """The signature file, changed as JSON."""
    value = json.loads((folder / "model.sig").read_text())
    change(value)
    (folder / "model.sig").write_text(json.dumps(value))


def signed_anew(folder: Path, key: Path, change: Callable[[Bundle], object]) -> None:
    """The statement, changed and signed again with the same key."""

    def renew(value: Bundle) -> None:
        payload = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
        change(payload)
        raw = json.dumps(payload).encode()
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        signature = private.sign(pae(raw), ec.ECDSA(hashes.SHA256()))
        value["dsseEnvelope"]["payload"] = base64.b64encode(raw).decode()
        value["dsseEnvelope"]["signatures"] = [{"sig": base64.b64encode(signature).decode(), "keyid": ""}]

    edited(folder, renew)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    make_key(path)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """A bundle that OpenSSF's program signed."""
    folder = make_bundle(tmp_path_factory.mktemp("made"))
    done = CliRunner().invoke(main, ["bundle", "sign", str(folder), "--key", str(key), "--name", "age"])
    assert done.exit_code == 0, done.stderr
    (folder / "model.sig").unlink()
    assert oracle("sign", "key", folder, "--signature", folder / "model.sig", "--private_key", key, "--no-ignore-git-paths")
    return folder


def drop(name: str) -> Callable[[Bundle], object]:
    return lambda value: value.pop(name)


CASES: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "key-simple": ("", lambda b, k: None),
    "key-multi-file": ("", lambda b, k: None),
    "key-simple-tampered-content_fail": ("wrong-size", lambda b, k: (b / "README.md").write_text("TAMPERED")),
    "key-simple-missing-file_fail": ("missing", lambda b, k: (b / "README.md").unlink()),
    "key-simple-extra-file_fail": ("unlisted", lambda b, k: (b / "injected.bin").write_text("injected")),
    "key-simple-corrupted-bundle_fail": ("envelope", lambda b, k: (b / "model.sig").write_text("{no json")),
    "key-simple-truncated-bundle_fail": ("envelope", lambda b, k: os.truncate(b / "model.sig", 90)),
    "malformed-empty-bundle_fail": ("envelope", lambda b, k: (b / "model.sig").write_bytes(b"")),
    "malformed-missing-envelope_fail": ("envelope", lambda b, k: edited(b, drop("dsseEnvelope"))),
    "key-simple-no-signature_fail": ("envelope", lambda b, k: edited(b, lambda v: v["dsseEnvelope"].update(signatures=[]))),
    "key-simple-wrong-mediatype_fail": ("wrong-type", lambda b, k: edited(b, lambda v: v.update(mediaType="text/plain"))),
    "key-simple-wrong-payload-type_fail": (
        "wrong-type", lambda b, k: edited(b, lambda v: v["dsseEnvelope"].update(payloadType="text/plain"))
    ),
    "key-simple-wrong-statement-type_fail": ("wrong-type", lambda b, k: signed_anew(b, k, lambda v: v.update(_type="other"))),
    "malformed-wrong-predicate_fail": ("wrong-type", lambda b, k: signed_anew(b, k, lambda v: v.update(predicateType="other"))),
    "malformed-no-predicate_fail": ("statement", lambda b, k: signed_anew(b, k, drop("predicate"))),
    "malformed-no-subject_fail": ("statement", lambda b, k: signed_anew(b, k, drop("subject"))),
    "key-simple-empty-resources_fail": (
        "statement", lambda b, k: signed_anew(b, k, lambda v: v["predicate"].update(resources=[]))
    ),
    "key-simple-missing-serialization_fail": (
        "statement", lambda b, k: signed_anew(b, k, lambda v: v["predicate"].pop("serialization"))
    ),
}  # fmt: skip
SIGNED: dict[str, tuple[str, tuple[str, ...], Callable[[Path], object]]] = {
    "key-ignore-paths": ("excluded", ("--ignore-paths", "README.md"), lambda b: None),
    "key-default-ignores": ("excluded", (), lambda b: None),
    "key-dotfile-included": ("unsafe-name", ("--no-ignore-git-paths",), lambda b: (b / ".env").write_text("x")),
    "key-nested-git-not-excluded": (
        "unsafe-name", ("--no-ignore-git-paths",), lambda b: (b / "artifacts" / ".gitignore").write_text("x")
    ),
    "key-unicode-filename": ("unsafe-name", ("--no-ignore-git-paths",), lambda b: (b / "模型.bin").write_text("x")),
    "key-special-chars-path": ("unsafe-name", ("--no-ignore-git-paths",), lambda b: (b / "a b (1).bin").write_text("x")),
}  # fmt: skip
"""What the suite wants accepted and a bundle refuses: files left out, and names that are not safe everywhere."""


@pytest.mark.parametrize("case", CASES)
def test_signatures_of_the_reference(case: str, made: Path, key: Path, tmp_path: Path) -> None:
    verdict, change = CASES[case]
    folder = Path(shutil.copytree(made, tmp_path / "b"))
    change(folder, key)
    assert ours(folder, Path(f"{key}.pub")) == verdict
    there = oracle("verify", "key", folder, "--signature", folder / "model.sig", "--public_key", f"{key}.pub")
    assert there == (verdict == ""), "the reference agrees"


@pytest.mark.parametrize("case", SIGNED)
def test_what_a_bundle_refuses_beyond_the_specification(case: str, made: Path, key: Path, tmp_path: Path) -> None:
    verdict, options, change = SIGNED[case]
    folder = Path(shutil.copytree(made, tmp_path / "b"))
    (folder / "model.sig").unlink()
    change(folder)
    words = [str(folder / word) if word == "README.md" else word for word in options]
    assert oracle("sign", "key", folder, "--signature", folder / "model.sig", "--private_key", key, *words)
    assert ours(folder, Path(f"{key}.pub")) == verdict


def test_another_key_and_the_other_kind_of_signer(made: Path, key: Path, tmp_path: Path) -> None:
    """``key-simple-wrong-key_fail``, ``key-verify-as-certificate_fail``."""
    make_key(tmp_path / "wrong")
    assert ours(made, tmp_path / "wrong.pub") == "unknown-key"
    root = write_pem(tmp_path / "root.pem", Holder("root", authority=True, valid=TODAY))
    assert ours(made, root) == "unknown-key"


NOW = datetime.now(UTC)
TODAY, PAST, FUTURE = ((NOW + timedelta(days=first), NOW + timedelta(days=last)) for first, last in ((-9, 9), (-9, -1), (1, 9)))
CHAINS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "certificate-simple": ("", {}, {}, {}),
    "certificate-expired_fail": ("certificate", {}, {}, {"valid": PAST}),
    "certificate-not-yet-valid_fail": ("certificate", {}, {}, {"valid": FUTURE}),
    "certificate-no-code-signing-eku_fail": ("certificate", {}, {}, {"purpose": ExtendedKeyUsageOID.SERVER_AUTH}),
    "certificate-expired-intermediate_fail": ("certificate", {}, {"valid": PAST}, {}),
    "certificate-not-yet-valid-intermediate_fail": ("certificate", {}, {"valid": FUTURE}, {}),
    "certificate-expired-root_fail": ("certificate", {"valid": PAST}, {}, {}),
    "certificate-all-expired_fail": ("certificate", {"valid": PAST}, {"valid": PAST}, {"valid": PAST}),
    "certificate-expired-intermediate-expired-leaf_fail": ("certificate", {}, {"valid": PAST}, {"valid": PAST}),
}


@pytest.mark.parametrize("case", CHAINS)
def test_signatures_of_the_reference_under_a_root(case: str, made: Path, tmp_path: Path) -> None:
    """Where the reference refuses to sign already, so much the better; a key alone and another root do not do either."""
    verdict, of_root, of_middle, of_signer = CHAINS[case]
    root = Holder("root", authority=True, **{"valid": TODAY} | of_root)
    middle = Holder("middle", root, authority=True, **{"valid": TODAY} | of_middle)
    signer = Holder("signer", middle, **{"valid": TODAY} | of_signer)
    folder = Path(shutil.copytree(made, tmp_path / "b"))
    (folder / "model.sig").unlink()
    done = oracle(
        "sign", "certificate", folder, "--signature", folder / "model.sig", "--private_key", signer.write(tmp_path / "key"),
        "--signing_certificate", write_pem(tmp_path / "signer.pem", signer),
        "--certificate_chain", write_pem(tmp_path / "middle.pem", middle), "--no-ignore-git-paths",
    )  # fmt: skip
    if not done:
        assert verdict
        return
    assert ours(folder, write_pem(tmp_path / "root.pem", root)) == verdict
    make_key(tmp_path / "plain")
    assert ours(folder, tmp_path / "plain.pub") == "certificate"
    wrong = write_pem(tmp_path / "wrong.pem", Holder("root", authority=True, valid=TODAY))
    assert ours(folder, wrong) == "certificate"
