"""The cases of OpenSSF Model Signing's conformance suite on bundles that OpenSSF's own program
signed.

Reference: the verify cases (``policy-positive``, ``policy-negative``) of the suite beside the
    specification, by their names
there. Its committed bundles are of P-384 keys and of folders that are no bundles of ours, so each
case is made again with P-256.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from unplug.core import ReportError
from unplug.trust.bundle import (
    Publication,
    Refused,
    Signing,
    load_signer,
    make_key,
    read_trust,
    sign_bundle,
    verify_bundle,
)

from .test_bundle import make_bundle
from .test_chain import Holder, pem
from .test_signing import ORACLE, oracle

pytestmark = [
    pytest.mark.skipif(
        ORACLE is None, reason="UNPLUG_MODEL_SIGNING names no `model_signing` program"
    ),
    pytest.mark.long,
]
TODAY = datetime.now(UTC)
YEAR = timedelta(days=365)
NOW, PAST, FUTURE = (
    (TODAY - YEAR, TODAY + YEAR),
    (TODAY - 3 * YEAR, TODAY - YEAR),
    (TODAY + YEAR, TODAY + 3 * YEAR),
)
Change = Callable[[Path], object]


def oracle_signs(bundle: Path, key: Path, more: str = "") -> Path:
    """The bundle, signed by key by the other program, leaving nothing out unless told."""
    (bundle / "model.sig").unlink(missing_ok=True)
    words = f"sign key {bundle} --signature {bundle}/model.sig --private_key {key}"
    assert oracle(f"{words} --no-ignore-git-paths {more}")
    return bundle


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one`: signed by OpenSSF's program under `key`; `plain`: the same before."""
    folder = tmp_path_factory.mktemp("conformance")
    plain = make_bundle(folder / "work")
    make_key(folder / "key")
    signing = Signing(
        signer=load_signer(str(folder / "key")), publication=Publication(name="age", release=1)
    )
    sign_bundle(plain, signing, folder / "plain")
    (folder / "plain" / "model.sig").unlink()
    shutil.copytree(folder / "plain", folder / "one")
    oracle_signs(folder / "one", folder / "key")
    return folder


def verdict(bundle: Path, trust: Path) -> str:
    """Of our verifier; "valid" where it accepts."""
    try:
        verify_bundle(bundle, read_trust(trust))
    except Refused as refused:
        return refused.verdict
    return "valid"


def envelope(change: Callable[[dict[str, Any]], object]) -> Change:
    def apply(bundle: Path) -> None:
        value = json.loads((bundle / "model.sig").read_text())
        change(value)
        (bundle / "model.sig").write_text(json.dumps(value))

    return apply


def payload(change: Callable[[dict[str, Any]], object]) -> Change:
    def inner(value: dict[str, Any]) -> None:
        statement = json.loads(base64.b64decode(value["dsseEnvelope"]["payload"]))
        change(statement)
        raw = json.dumps(statement).encode()
        value["dsseEnvelope"]["payload"] = base64.b64encode(raw).decode()

    return envelope(inner)


def signature(raw: bytes) -> Change:
    return lambda bundle: (bundle / "model.sig").write_bytes(raw)


def truncated(bundle: Path) -> None:
    (bundle / "model.sig").write_bytes((bundle / "model.sig").read_bytes()[:100])


def enveloped(**changed: Any) -> Change:
    return envelope(lambda v: v["dsseEnvelope"].update(changed))


def stated(**changed: Any) -> Change:
    return payload(lambda v: v.update(changed))


def no_readme(bundle: Path) -> None:
    (bundle / "README.md").unlink()


NEGATIVE: dict[str, tuple[Change, str]] = {
    "key-simple-corrupted-bundle": (signature(b'{"garbage": true}'), "envelope"),
    "malformed-empty-bundle": (signature(b""), "envelope"),
    "key-simple-truncated-bundle": (truncated, "envelope"),
    "malformed-missing-envelope": (envelope(lambda v: v.pop("dsseEnvelope")), "envelope"),
    "key-simple-no-signature": (enveloped(signatures=[]), "envelope"),
    "key-simple-wrong-mediatype": (
        envelope(lambda v: v.update(mediaType="application/json")),
        "wrong-type",
    ),
    "key-simple-wrong-payload-type": (
        enveloped(payloadType="application/octet-stream"),
        "wrong-type",
    ),
    "key-simple-wrong-statement-type": (
        stated(_type="https://in-toto.io/Statement/v0.1"),
        "bad-signature",
    ),
    "malformed-wrong-predicate": (
        stated(predicateType="https://example.com/other/v1"),
        "bad-signature",
    ),
    "key-simple-empty-resources": (
        payload(lambda v: v["predicate"].update(resources=[])),
        "bad-signature",
    ),
    "key-simple-missing-serialization": (
        payload(lambda v: v["predicate"].pop("serialization")),
        "bad-signature",
    ),
    "key-simple-extra-file": (
        lambda b: (b / "injected.bin").write_text("injected after signing\n"),
        "unlisted",
    ),
    "key-simple-missing-file": (no_readme, "missing"),
    "key-missing-file-with-ignore-unsigned": (no_readme, "missing"),
    "key-simple-tampered-content": (
        lambda b: (b / "README.md").write_text("TAMPERED CONTENT\n"),
        "wrong-size",
    ),
    "key-tampered-with-ignore-unsigned": (
        lambda b: (b / "README.md").write_bytes(bytes((b / "README.md").stat().st_size)),
        "changed",
    ),
}


@pytest.mark.parametrize("case", NEGATIVE)
def test_what_must_fail_fails_for_its_reason(made: Path, case: str, tmp_path: Path) -> None:
    change, expected = NEGATIVE[case]
    shutil.copytree(made / "one", tmp_path / "b")
    change(tmp_path / "b")
    assert verdict(tmp_path / "b", made / "key.pub") == expected


def test_whom_the_reader_does_not_trust(made: Path, tmp_path: Path) -> None:
    """``key-simple-wrong-key``, ``key-verify-as-certificate``."""
    make_key(tmp_path / "other")
    assert verdict(made / "one", tmp_path / "other.pub") == "unknown-key"
    assert (
        verdict(made / "one", pem(tmp_path / "root.pem", Holder("root", authority=True, valid=NOW)))
        == "unknown-key"
    )


def chained(
    made: Path,
    where: Path,
    leaf: Holder,
    above: Holder,
    root: Holder,
    trusted: Holder | None = None,
) -> str:
    """The verdict on what the leaf's key signed by OpenSSF's program, its certificates in the place
    of its key.
    """
    bundle = Path(shutil.copytree(made / "plain", where / "b"))
    oracle_signs(bundle, leaf.write(where / "leaf"))
    listed = [{"rawBytes": base64.b64encode(item.der).decode()} for item in (leaf, above)]
    material = {"x509CertificateChain": {"certificates": listed}, "tlogEntries": []}
    envelope(lambda v: v.update(verificationMaterial=material))(bundle)
    return verdict(bundle, pem(where / "root.pem", trusted or root))


Times = tuple[datetime, datetime]
CHAINS: dict[str, tuple[Times, Times, Times]] = {  # of root, of the one between, of the signer
    "certificate-expired": (NOW, NOW, PAST),
    "certificate-not-yet-valid": (NOW, NOW, FUTURE),
    "certificate-expired-intermediate": (NOW, PAST, NOW),
    "certificate-not-yet-valid-intermediate": (NOW, FUTURE, NOW),
    "certificate-expired-root": (PAST, NOW, NOW),
    "certificate-all-expired": (PAST, PAST, PAST),
    "certificate-expired-intermediate-expired-leaf": (NOW, PAST, PAST),
}


def holders(root: Times, middle: Times, leaf: Times, **more: Any) -> tuple[Holder, Holder, Holder]:
    top = Holder("root", authority=True, valid=root)
    between = Holder("middle", top, authority=True, valid=middle)
    return Holder("leaf", between, valid=leaf, **more), between, top


@pytest.mark.parametrize("case", CHAINS)
def test_chains_out_of_their_time(made: Path, case: str, tmp_path: Path) -> None:
    assert chained(made, tmp_path, *holders(*CHAINS[case])) == "certificate"


def test_chains_of_the_wrong_kind(made: Path, tmp_path: Path) -> None:
    """``certificate-no-code-signing-eku``, ``certificate-simple-wrong-ca``,
    ``certificate-verify-as-key``.
    """
    where = [tmp_path / name for name in "abc"]
    for folder in where:
        folder.mkdir()
    server = holders(NOW, NOW, NOW, purpose=ExtendedKeyUsageOID.SERVER_AUTH)
    assert chained(made, where[0], *server) == "certificate"
    good = holders(NOW, NOW, NOW)
    assert (
        chained(made, where[1], *good, trusted=Holder("root", authority=True, valid=NOW))
        == "certificate"
    )
    assert chained(made, where[2], *good) == "valid", "``certificate-simple``"
    assert verdict(where[2] / "b", made / "key.pub") == "certificate"


def test_what_must_pass(made: Path, tmp_path: Path) -> None:
    """``key-simple`` and ``key-multi-file``; what the suite lets a signer or a reader leave out is
    refused here, on purpose.
    """
    assert verdict(made / "one", made / "key.pub") == "valid"
    assert len([path for path in (made / "one").rglob("*") if path.parent != made / "one"]) > 1, (
        "it has files in folders"
    )
    ignoring = Path(shutil.copytree(made / "plain", tmp_path / "ignoring"))
    oracle_signs(ignoring, made / "key", f"--ignore-paths {ignoring}/README.md")
    assert verdict(ignoring, made / "key.pub") == "excluded", "``key-ignore-paths``"
    extra = Path(shutil.copytree(made / "one", tmp_path / "extra"))
    (extra / "extra.bin").write_text("extra file added after signing\n")
    assert verdict(extra, made / "key.pub") == "unlisted", "``key-simple-ignore-unsigned-files``"
    single = tmp_path / "single"
    single.mkdir()
    (single / "model.bin").write_bytes(b"\xef" * 256)
    oracle_signs(single, made / "key")
    with pytest.raises(
        ReportError, match=r"no manifest\.json in it"
    ):  # ``key-single-file``: nothing says what it is
        verdict(single, made / "key.pub")
