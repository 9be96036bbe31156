"""Signers that are named by certificates: a chain leads to a root, or there is one verdict and a
reason.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unplug.core import InputError
from unplug.trust.bundle import (
    Publication,
    Refused,
    Signing,
    Trust,
    bundle_id,
    load_signer,
    pack_bundle,
    read_trust,
    verify_bundle,
)
from unplug.trust.bundle.x509_chain import check_chain, key_of, read_certificates

from .test_bundle import make_bundle
from .test_signing import call, fail

ORACLE = os.environ.get("UNPLUG_MODEL_SIGNING")
NOW = datetime(2027, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UNUSED = dict.fromkeys(
    (
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


class Holder:
    """A key and its certificate, and whoever it certifies."""

    def __init__(
        self,
        name: str,
        above: Holder | None = None,
        *,
        authority: bool = False,
        length: int | None = None,
        valid: tuple[datetime, datetime] = (NOW - DAY, NOW + DAY),
        curve: ec.EllipticCurve | None = None,
        usage: bool | None = True,
        purpose: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
        critical: bool = False,
    ) -> None:
        self.key = ec.generate_private_key(curve or ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(above.certificate.subject if above else subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(valid[0])
            .not_valid_after(valid[1])
            .add_extension(x509.BasicConstraints(authority, length), critical=True)
        )
        if usage is not None:
            signs = {
                "digital_signature": usage and not authority,
                "key_cert_sign": authority,
                "crl_sign": authority,
            }
            if not any(signs.values()):
                signs["crl_sign"] = True
            made = made.add_extension(x509.KeyUsage(**signs, **UNUSED), critical=True)
        if purpose is not None and not authority:
            made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if authority:
            made = made.add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False
            )
        issuer = above.key if above else self.key
        made = made.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False
        )
        if critical:
            odd = x509.UnrecognizedExtension(
                x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"
            )
            made = made.add_extension(odd, critical=True)
        self.certificate = made.sign(issuer, hashes.SHA256())

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write(self, path: Path) -> Path:
        """Its private key."""
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(
            self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        )
        path.chmod(0o600)
        return path


def pem(path: Path, *holders: Holder) -> Path:
    path.write_bytes(
        b"".join(item.certificate.public_bytes(serialization.Encoding.PEM) for item in holders)
    )
    return path


ROOT = Holder("root", authority=True)
MIDDLE = Holder("middle", ROOT, authority=True, length=0)
SIGNER = Holder("signer", MIDDLE)


def verdict(*chain: Holder, roots: Sequence[Holder] = (ROOT,), now: datetime = NOW) -> str:
    """Why a chain is refused, or ""."""
    try:
        found = check_chain(
            [item.der for item in chain], [item.der for item in roots], now, "bundle"
        )
    except Refused as refused:
        assert (
            refused.verdict == "certificate"
            and "\n" not in str(refused)
            and len(str(refused)) < 600
        )
        return refused.why
    assert found == key_of(chain[0].der)
    return ""


def test_a_chain_leads_to_a_root() -> None:
    assert verdict(SIGNER, MIDDLE) == "" and verdict(SIGNER, MIDDLE, ROOT) == ""
    assert verdict(Holder("one", ROOT)) == "", "without anybody between"
    assert verdict(SIGNER, roots=(MIDDLE,)) == "", "a root is whom the reader trusts"
    assert verdict(SIGNER, Holder("stranger", authority=True), MIDDLE) == "", (
        "what is in the way is passed over"
    )


SECOND = Holder("second", MIDDLE, authority=True)
ANOTHER = Holder("middle", Holder("root", authority=True), authority=True)
OLD = Holder("root", authority=True, valid=(NOW - 3 * DAY, NOW - DAY))
BAD: dict[str, Callable[[], str]] = {
    "nobody above it": lambda: verdict(SIGNER),
    "no roots": lambda: verdict(SIGNER, MIDDLE, roots=()),
    "a root of the same name": lambda: verdict(
        SIGNER, MIDDLE, roots=(Holder("root", authority=True),)
    ),
    "an authority of the same name": lambda: verdict(Holder("one", ANOTHER), MIDDLE),
    "expired": lambda: verdict(SIGNER, MIDDLE, now=NOW + 2 * DAY),
    "not valid yet": lambda: verdict(SIGNER, MIDDLE, now=NOW - 2 * DAY),
    "a root that expired": lambda: verdict(Holder("one", OLD), roots=(OLD,)),
    "longer than its path length": lambda: verdict(Holder("one", SECOND), SECOND, MIDDLE),
    "certified by no authority": lambda: verdict(Holder("one", SIGNER), SIGNER, MIDDLE),
    "an authority that signs files": lambda: verdict(MIDDLE),
    "a key not for signatures": lambda: verdict(Holder("one", ROOT, usage=False)),
    "no key usage": lambda: verdict(Holder("one", ROOT, usage=None)),
    "a certificate for servers": lambda: verdict(
        Holder("one", ROOT, purpose=ExtendedKeyUsageOID.SERVER_AUTH)
    ),
    "no purpose": lambda: verdict(Holder("one", ROOT, purpose=None)),
    "something critical that is not known": lambda: verdict(Holder("one", ROOT, critical=True)),
    "another curve": lambda: verdict(Holder("one", ROOT, curve=ec.SECP384R1())),
}


@pytest.mark.parametrize("case", BAD)
def test_what_leads_nowhere_is_refused(case: str) -> None:
    assert BAD[case]().startswith("its signer's certificate leads to no trusted root (")


def test_harmed_certificates_are_refused() -> None:
    draw = random.Random(0)
    for _ in range(300):
        chain = [bytearray(SIGNER.der), bytearray(MIDDLE.der)]
        item = draw.choice(chain)
        if draw.random() < 0.3:
            del item[draw.randrange(len(item)) :]
        else:
            item[draw.randrange(len(item))] ^= draw.randrange(1, 256)
        with pytest.raises(Refused) as caught:
            check_chain([bytes(item) for item in chain], [ROOT.der], NOW, "bundle")
        assert caught.value.verdict == "certificate"


# Bundles

TODAY = (datetime.now(UTC) - DAY, datetime.now(UTC) + DAY)


class Desk:
    """A bundle that is signed under a root, today."""

    def __init__(self, folder: Path) -> None:
        self.root = Holder("root", authority=True, valid=TODAY)
        self.middle = Holder("middle", self.root, authority=True, valid=TODAY)
        self.signer = Holder("signer", self.middle, valid=TODAY)
        self.key = self.signer.write(folder / "key")
        self.chain, self.anchor = (
            pem(folder / "chain.pem", self.signer, self.middle),
            pem(folder / "root.pem", self.root),
        )
        self.bundle = make_bundle(folder / "age.unplug")

    def sign(self, **changed: Any) -> None:
        words = {"--key": self.key, "--chain": self.chain, "--name": "age"} | changed
        call("sign", self.bundle, *(word for pair in words.items() for word in pair))

    def material(self) -> Any:
        return json.loads((self.bundle / "model.sig").read_bytes())["verificationMaterial"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_bundle_is_signed_under_a_root_and_verified_by_it(desk: Desk, tmp_path: Path) -> None:
    desk.sign()
    told = call("verify", desk.bundle, "--trust", desk.anchor)
    assert told["signed"] and told["publication"]["name"] == "age"
    certificates = [
        base64.b64decode(item["rawBytes"])
        for item in desk.material()["x509CertificateChain"]["certificates"]
    ]
    assert certificates == [desk.signer.der, desk.middle.der] and "publicKey" not in desk.material()
    pack_bundle(desk.bundle, tmp_path / "age.zip")
    assert call("verify", tmp_path / "age.zip", "--trust", desk.anchor)["id"] == bundle_id(
        desk.bundle
    )
    (desk.bundle / "README.md").write_text("Another.")
    with pytest.raises(Refused) as caught:
        verify_bundle(desk.bundle, read_trust(desk.anchor))
    assert caught.value.verdict in ("wrong-size", "changed")


def test_plain_keys_do_not_stand_for_certificates_nor_the_other_way_round(
    desk: Desk, tmp_path: Path
) -> None:
    desk.sign()
    stranger = pem(tmp_path / "stranger.pem", Holder("root", authority=True, valid=TODAY))
    for trust in (Trust(keys=(key_of(desk.signer.der),)), read_trust(stranger), Trust()):
        with pytest.raises(Refused) as caught:
            verify_bundle(desk.bundle, trust)
        assert caught.value.verdict == "certificate"
    with pytest.raises(Refused) as caught:
        verify_bundle(desk.bundle, read_trust(desk.anchor), now=TODAY[1] + DAY)
    assert (
        caught.value.verdict == "certificate" and "not valid at validation time" in caught.value.why
    )
    call("sign", desk.bundle, "--key", desk.key, "--name", "age")
    with pytest.raises(Refused) as caught:
        verify_bundle(desk.bundle, read_trust(desk.anchor))
    assert caught.value.verdict == "unknown-key"


def test_another_signature_or_another_chain_is_refused(desk: Desk) -> None:
    desk.sign()
    path, trust = desk.bundle / "model.sig", read_trust(desk.anchor)
    signed = json.loads(path.read_bytes())
    other = Holder("signer", desk.middle, valid=TODAY)
    chain = [{"rawBytes": base64.b64encode(item).decode()} for item in (other.der, desk.middle.der)]
    whole = signed["verificationMaterial"]["x509CertificateChain"]["certificates"]
    wanted: dict[str, Any] = {
        "bad-signature": {"x509CertificateChain": {"certificates": chain}},
        "certificate": {"x509CertificateChain": {"certificates": []}},
    }
    odd = [
        {"x509CertificateChain": {"certificates": whole}, "publicKey": {"hint": "0" * 64}},
        {"x509CertificateChain": {"certificates": whole * 5}},
        {"x509CertificateChain": {"certificates": [{"rawBytes": "AA"}]}},
        {"x509CertificateChain": whole},
        {"certificate": whole[0]},
        {"x509CertificateChain": {"certificates": [7]}},
        {
            "x509CertificateChain": {
                "certificates": [{"rawBytes": base64.b64encode(bytes(20_000)).decode()}]
            }
        },
    ]
    for expected, material in (*wanted.items(), *(("certificate", item) for item in odd)):
        path.write_text(
            json.dumps(signed | {"verificationMaterial": {**material, "tlogEntries": []}})
        )
        with pytest.raises(Refused) as caught:
            verify_bundle(desk.bundle, trust)
        assert caught.value.verdict == expected


def test_what_cannot_be_signed_with_is_refused_before_anything_is_written(
    desk: Desk, tmp_path: Path
) -> None:
    other = Holder("other", desk.root, valid=TODAY)
    late = Holder("signer", desk.root, valid=(NOW - 9000 * DAY, NOW - 8999 * DAY))
    (tmp_path / "text.pem").write_text("no certificate")
    cases = {
        "it is not the private half of": (desk.key, pem(tmp_path / "other.pem", other, desk.root)),
        "leads to no trusted root": (
            late.write(tmp_path / "late"),
            pem(tmp_path / "late.pem", late, desk.root),
        ),
        "it holds no certificates": (desk.key, tmp_path / "text.pem"),
        "more than 8 certificates": (desk.key, pem(tmp_path / "many.pem", *([desk.signer] * 9))),
        "another kind than P-256": (
            desk.key,
            pem(
                tmp_path / "curve.pem",
                Holder("signer", desk.root, valid=TODAY, curve=ec.SECP384R1()),
            ),
        ),
    }
    for why, (key, chain) in cases.items():
        assert (
            why
            in fail(
                "bundle", "sign", desk.bundle, "--key", key, "--chain", chain, "--name", "age"
            ).line
        )
        assert not (desk.bundle / "model.sig").exists()
    with pytest.raises(InputError, match="another key than --public"):
        public = tmp_path / "other.pub"
        public.write_text(key_of(other.der).pem)
        load_signer(f"command:openssl dgst -sha256 -sign {desk.key}", public, desk.chain)


def test_a_command_signs_under_a_chain_and_a_release_takes_it(desk: Desk) -> None:
    signer = load_signer(f"command:openssl dgst -sha256 -sign {desk.key}", None, desk.chain)
    assert signer.key == key_of(desk.signer.der) and signer.chain == read_certificates(desk.chain)
    signing = Signing(signer=signer, publication=Publication(name="age", release=1))
    assert signing.trust.roots == (desk.middle.der,)
    assert replace(signing, signer=load_signer(str(desk.key))).trust.roots == ()


@pytest.mark.skipif(ORACLE is None, reason="UNPLUG_MODEL_SIGNING names no `model_signing` program")
def test_openssf_model_signing_agrees_on_chains(desk: Desk, tmp_path: Path) -> None:
    """It verifies what is signed here under the root, and refuses another; what it signs verifies
    here.
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

    desk.sign()
    signature = desk.bundle / "model.sig"
    verify_there = (
        "verify",
        "certificate",
        desk.bundle,
        "--signature",
        signature,
        "--certificate_chain",
    )
    assert oracle(*verify_there, desk.anchor) == 0
    assert (
        oracle(
            *verify_there,
            pem(tmp_path / "stranger.pem", Holder("root", authority=True, valid=TODAY)),
        )
        != 0
    )
    signature.unlink()
    single, above = (
        pem(tmp_path / "single.pem", desk.signer),
        pem(tmp_path / "above.pem", desk.middle),
    )
    assert (
        oracle(
            "sign",
            "certificate",
            desk.bundle,
            "--signature",
            signature,
            "--private_key",
            desk.key,
            "--signing_certificate",
            single,
            "--certificate_chain",
            above,
            "--no-ignore-git-paths",
        )
        == 0
    )
    assert verify_bundle(desk.bundle, read_trust(desk.anchor)).publication is not None
