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
WORDS: dict[str, Any] = {
    "issuer": "Example Ltd",
    "places": [
        said_place("backups=kept: overwritten after 30 days"),
        said_place("deltas=none found"),
    ],
}
COLUMNS = ("path", "kind", "standing", "samples", "goes_by")
PLACES = (
    ("csv:faces", "data", "holds", 3, ""),
    ("/c/one.npy", "cache: pixels", "holds", None, ""),
    ("/srv/ada-lovelace/original", "checkpoint", "remembers", 3, ""),
    ("/srv/.age.unplug.release/x", "checkpoint", "remembers", 3, ""),
    ("/srv/unlearned", "checkpoint", "forgot", 3, ""),
    ("/srv/stray.unplug", "bundle", "unknown", None, "no weights"),
)


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

    def issue(self, request: str = REQUEST, *, out: str = "new", **changed: Any) -> Issued:
        """Another certificate by the same key."""
        known = {"ledger": self.ledger, "bundle": self.bundle, "signer": self.signer, "now": LATER}
        return issue_certificate(request, out=self.folder / out, **(known | changed))


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
    value = {
        "nonce": "ab" * 32,
        "person": PERSON,
        "data": "csv:faces",
        "searched": ["/srv"],
        "places": [dict(zip(COLUMNS, row, strict=True)) for row in PLACES],
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


def record_release(ledger: Ledger, bundle: Path, *ids: str) -> None:
    """As `unplug ledger record release --file` does it."""
    ledger.record("release", ids, facts={"sha256 manifest.json": bundle_id(bundle)})


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Nobody may write to its files."""
    folder = tmp_path_factory.mktemp("certificate")
    bundle, ledger = whole_bundle(folder), a_ledger(folder)
    make_key(folder / "release.key")
    ledger.add([PERSON, "subject:somebody-else"], id="TICKET-16", identity="a letter")
    ledger.add([PERSON], id=REQUEST, identity="passport seen")
    ledger.record("step", [REQUEST], facts={"trace_sha256": a_trace(folder / "trace.json")})
    record_release(ledger, bundle, REQUEST, "TICKET-16")
    ledger.record("informed", [REQUEST], note="the labelling company")
    ledger.record("answered", [REQUEST])
    parts: dict[str, Any] = {
        "bundle": bundle,
        "ledger": ledger,
        "signer": load_signer(str(folder / "release.key")),
    }
    traces = {"server": folder / "trace.json"}
    return Case(
        folder=folder,
        public=folder / "release.key.pub",
        trace=folder / "trace.json",
        issued=issue_certificate(
            REQUEST, out=folder / "out", traces=traces, now=LATER, **parts, **WORDS
        ),
        **parts,
    )


@pytest.fixture
def case(made: Case, tmp_path: Path) -> Case:
    """A copy whose bundle and certificate may be harmed."""
    bundle = Path(shutil.copytree(made.bundle, tmp_path / "age.unplug"))
    out = Path(shutil.copytree(made.issued.folder, tmp_path / "out"))
    return replace(made, folder=tmp_path, bundle=bundle, issued=replace(made.issued, folder=out))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
