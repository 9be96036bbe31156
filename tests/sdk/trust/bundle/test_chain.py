"""Signers that are named by certificates: a chain leads to a root, or there is one verdict and a
reason.
"""

from __future__ import annotations

import base64
import json
import random
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

from ..commands import called, refused
from .test_bundle import make_bundle
from .test_signing import ORACLE, oracle

NOW = datetime(2027, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UNUSED = (
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "encipher_only",
    "decipher_only",
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
                "crl_sign": authority or not usage,  # one of them there must be
            }
            uses = x509.KeyUsage(**signs, **dict.fromkeys(UNUSED, False))
            made = made.add_extension(uses, critical=True)
        if purpose is not None and not authority:
            made = made.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if authority:
            identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
            made = made.add_extension(identifier, critical=False)
        issuer = above.key if above else self.key
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
        made = made.add_extension(known, critical=False)
        if critical:
            number = x509.ObjectIdentifier("1.3.6.1.4.1.99999.1")
            odd = x509.UnrecognizedExtension(number, b"\x05\x00")
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
        key = check_chain([item.der for item in chain], [item.der for item in roots], now, "bundle")
    except Refused as refused:
        assert (
            refused.verdict == "certificate"
            and "\n" not in str(refused)
            and len(str(refused)) < 600
        )
        return refused.why
    assert key == key_of(chain[0].der)
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
        harmed = draw.choice(chain)
        if draw.random() < 0.3:
            del harmed[draw.randrange(len(harmed)) :]
        else:
            harmed[draw.randrange(len(harmed))] ^= draw.randrange(1, 256)
        with pytest.raises(Refused) as caught:
            check_chain([bytes(harmed) for harmed in chain], [ROOT.der], NOW, "bundle")
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
        self.chain = pem(folder / "chain.pem", self.signer, self.middle)
        self.anchor = pem(folder / "root.pem", self.root)
        self.bundle = make_bundle(folder / "age.unplug")

    def sign(self) -> None:
        called(f"bundle sign {self.bundle} --sign {self.key} --chain {self.chain} --name age")

    def material(self) -> Any:
        return json.loads((self.bundle / "model.sig").read_bytes())["verificationMaterial"]

    def refused(self, trust: Trust | None = None, **more: Any) -> Refused:
        """Why it is; by its root unless told."""
        with pytest.raises(Refused) as caught:
            verify_bundle(self.bundle, trust or read_trust(self.anchor), **more)
        return caught.value


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_bundle_is_signed_under_a_root_and_verified_by_it(desk: Desk, tmp_path: Path) -> None:
    desk.sign()
    told = called(f"bundle verify {desk.bundle} --trust {desk.anchor}")
    assert told["signed"] and told["publication"]["name"] == "age"
    listed = desk.material()["x509CertificateChain"]["certificates"]
    certificates = [base64.b64decode(row["rawBytes"]) for row in listed]
    assert certificates == [desk.signer.der, desk.middle.der] and "publicKey" not in desk.material()
    pack_bundle(desk.bundle, tmp_path / "age.zip")
    packed = called(f"bundle verify {tmp_path}/age.zip --trust {desk.anchor}")
    assert packed["id"] == bundle_id(desk.bundle)
    (desk.bundle / "README.md").write_text("Another.")
    assert desk.refused().verdict in ("wrong-size", "changed")


def test_plain_keys_do_not_stand_for_certificates_nor_the_other_way_round(
    desk: Desk, tmp_path: Path
) -> None:
    desk.sign()
    stranger = pem(tmp_path / "stranger.pem", Holder("root", authority=True, valid=TODAY))
    for trust in (Trust(keys=(key_of(desk.signer.der),)), read_trust(stranger)):
        assert desk.refused(trust).verdict == "certificate"
    late = desk.refused(now=TODAY[1] + DAY)
    assert late.verdict == "certificate" and "not valid at validation time" in late.why
    called(f"bundle sign {desk.bundle} --sign {desk.key} --name age")
    assert desk.refused().verdict == "unknown-key"


def test_another_signature_or_another_chain_is_refused(desk: Desk) -> None:
    desk.sign()
    path = desk.bundle / "model.sig"
    signed = json.loads(path.read_bytes())
    whole = signed["verificationMaterial"]["x509CertificateChain"]["certificates"]

    def raw(*certificates: bytes) -> list[dict[str, str]]:
        return [{"rawBytes": base64.b64encode(der).decode()} for der in certificates]

    def listed(*certificates: Any) -> dict[str, Any]:
        return {"x509CertificateChain": {"certificates": list(certificates)}}

    other = Holder("signer", desk.middle, valid=TODAY)
    for verdict, material in (
        ("bad-signature", listed(*raw(other.der, desk.middle.der))),
        ("certificate", listed()),
        ("certificate", {**listed(*whole), "publicKey": {"hint": "0" * 64}}),
        ("certificate", listed(*whole * 5)),
        ("certificate", listed({"rawBytes": "AA"})),
        ("certificate", listed(*raw(bytes(20_000)))),
        ("certificate", listed(7)),
        ("certificate", {"x509CertificateChain": whole}),
        ("certificate", {"certificate": whole[0]}),
    ):
        changed = signed | {"verificationMaterial": {**material, "tlogEntries": []}}
        path.write_text(json.dumps(changed))
        assert desk.refused().verdict == verdict


def test_what_cannot_be_signed_with_is_refused_before_anything_is_written(
    desk: Desk, tmp_path: Path
) -> None:
    def chain(*holders: Holder) -> Path:
        return pem(tmp_path / "tried.pem", *holders)

    def refusal(key: Path, certificates: Path) -> str:
        sign = f"bundle sign {desk.bundle} --sign {key} --chain {certificates} --name age"
        line = refused(sign)
        assert not (desk.bundle / "model.sig").exists()
        return line

    other = Holder("other", desk.root, valid=TODAY)
    late = Holder("signer", desk.root, valid=(NOW - 9000 * DAY, NOW - 8999 * DAY))
    curve = Holder("signer", desk.root, valid=TODAY, curve=ec.SECP384R1())
    (tmp_path / "text.pem").write_text("no certificate")
    assert "it is not the private half of" in refusal(desk.key, chain(other, desk.root))
    assert "leads to no trusted root" in refusal(
        late.write(tmp_path / "late"), chain(late, desk.root)
    )
    assert "it holds no certificates" in refusal(desk.key, tmp_path / "text.pem")
    assert "more than 8 certificates" in refusal(desk.key, chain(*[desk.signer] * 9))
    assert "another kind than P-256" in refusal(desk.key, chain(curve))
    (tmp_path / "other.pub").write_text(key_of(other.der).pem)
    with pytest.raises(InputError, match="another key than `public`"):
        load_signer("command:false", tmp_path / "other.pub", desk.chain)


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
    desk.sign()
    certified = f"certificate {desk.bundle} --signature {desk.bundle}/model.sig"
    verify_there = f"verify {certified} --certificate_chain"
    stranger = pem(tmp_path / "stranger.pem", Holder("root", authority=True, valid=TODAY))
    assert oracle(f"{verify_there} {desk.anchor}") and not oracle(f"{verify_there} {stranger}")
    (desk.bundle / "model.sig").unlink()
    single, above = pem(tmp_path / "one.pem", desk.signer), pem(tmp_path / "two.pem", desk.middle)
    assert oracle(
        f"sign {certified} --private_key {desk.key} --signing_certificate {single} "
        f"--certificate_chain {above} --no-ignore-git-paths"
    )
    assert verify_bundle(desk.bundle, read_trust(desk.anchor)).publication is not None
