"""A small bundle with a whole audit, a ledger with a request that it answers, and the certificate
of that.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from unplug.core import json_sha256, sha256_file, write_json
from unplug.sdk.evidence.auditing import AuditReport
from unplug.trust.bundle import Signer, bundle_id, canonical, load_signer, make_key, verify_bundle
from unplug.trust.certificates import Issued, issue_certificate, said_place
from unplug.trust.ledger import Ledger, LedgerSigner, open_ledger

from ...report.conftest import audit, audited
from ..bundle.test_bundle import make_bundle

PERSON, REQUEST = "subject:ada-lovelace", "TICKET-17"
LEDGER_SIGNER = LedgerSigner(name="tests.example", seed=bytes(range(32)))
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a certificate is made from; tests that harm something copy it first."""

    folder: Path
    bundle: Path
    ledger: Ledger
    signer: Signer
    public: Path
    trace: Path
    issued: Issued


def whole_bundle(folder: Path) -> Path:
    """A bundle whose audit has every number that a certificate shows: one attack a pair of gates."""
    bundle = make_bundle(folder)
    report = audit()
    report["models"] = [
        audited("original", 0.71, 0.19, 0.6, 6.2, sha256="2" * 64),
        audited("unlearned", 0.53, 0.01, 0.1, 6.4, sha256="1" * 64),
        audited("retrained", 0.52, None, 0.0, 6.3, sha256="3" * 64),
    ]
    for model in report["models"]:
        model["attacks"]["gain"] = model["attacks"].pop("rmia")
    report["rounding"], report["skipped"] = [], {"rmia": "needs 1 reference model(s), 0 given"}
    published = TypeAdapter(AuditReport).validate_json(json.dumps(report)).published()
    write_json(bundle / "reports" / "audit.json", published.to_dict())
    refile(bundle, "reports/audit.json")
    verify_bundle(bundle)
    return bundle


def refile(bundle: Path, name: str, **changed: Any) -> None:
    """Gives the manifest the new hash of a file, and other fields, as somebody with time would do
    it.
    """
    manifest = json.loads((bundle / "manifest.json").read_text()) | changed
    path = bundle / name
    manifest["files"][name] = {"sha256": sha256_file(path), "bytes": path.stat().st_size}
    (bundle / "manifest.json").write_bytes(canonical(manifest))


def a_trace(path: Path, **changed: Any) -> str:
    """What `unplug trace --out` writes of somebody whose cache was purged; its hash, as the ledger
    keeps it.
    """
    places = [
        {"path": "csv:faces", "kind": "data", "standing": "holds", "samples": 3, "goes_by": ""},
        {
            "path": "/c/one.npy",
            "kind": "cache: pixels",
            "standing": "holds",
            "samples": None,
            "goes_by": "",
        },
        {
            "path": "/srv/ada-lovelace/original",
            "kind": "checkpoint",
            "standing": "remembers",
            "samples": 3,
            "goes_by": "",
        },
        {
            "path": "/srv/.age.unplug.release/x",
            "kind": "checkpoint",
            "standing": "remembers",
            "samples": 3,
            "goes_by": "",
        },
        {
            "path": "/srv/unlearned",
            "kind": "checkpoint",
            "standing": "forgot",
            "samples": 3,
            "goes_by": "",
        },
        {
            "path": "/srv/stray.unplug",
            "kind": "bundle",
            "standing": "unknown",
            "samples": None,
            "goes_by": "no weights",
        },
    ]
    value = {
        "nonce": "ab" * 32,
        "person": PERSON,
        "data": "csv:faces",
        "searched": ["/srv"],
        "places": places,
        "purged": ["/c/one.npy"],
        "out_of_reach": "phones",
        **changed,
    }
    write_json(path, value)
    return json_sha256(value)


def a_ledger(folder: Path) -> Ledger:
    """An empty one, with a key of its own."""
    made = open_ledger(str(folder / "ledger.db"), signer=lambda: LEDGER_SIGNER, wait_seconds=1)
    made.create()
    return made


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Nobody may write to its files."""
    folder = tmp_path_factory.mktemp("certificate")
    bundle, ledger = whole_bundle(folder), a_ledger(folder)
    make_key(folder / "release.key")
    signer = load_signer(str(folder / "release.key"))
    ledger.add([PERSON, "subject:somebody-else"], id="TICKET-16", identity="a letter")
    ledger.add([PERSON], id=REQUEST, identity="passport seen")
    ledger.record("step", [REQUEST], facts={"trace_sha256": a_trace(folder / "trace.json")})
    ledger.record(
        "release", [REQUEST, "TICKET-16"], facts={"sha256 manifest.json": bundle_id(bundle)}
    )
    ledger.record("informed", [REQUEST], note="the labelling company")
    ledger.record("answered", [REQUEST])
    issued = issue_certificate(
        REQUEST,
        ledger=ledger,
        bundle=bundle,
        signer=signer,
        out=folder / "out",
        traces={"server": folder / "trace.json"},
        places=[
            said_place("backups=kept: overwritten after 30 days"),
            said_place("deltas=none found"),
        ],
        issuer="Example Ltd",
        now=LATER,
    )
    return Case(
        folder=folder,
        bundle=bundle,
        ledger=ledger,
        signer=signer,
        public=folder / "release.key.pub",
        trace=folder / "trace.json",
        issued=issued,
    )


@pytest.fixture
def case(made: Case, tmp_path: Path) -> Case:
    """A copy whose bundle and certificate may be harmed."""
    shutil.copytree(made.bundle, tmp_path / "age.unplug")
    shutil.copytree(made.issued.folder, tmp_path / "out")
    return replace(
        made,
        folder=tmp_path,
        bundle=tmp_path / "age.unplug",
        issued=replace(made.issued, folder=tmp_path / "out"),
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
