"""The certificate in ``docs/images/certificate.png``: of a drawn person, whom the model of `unplug
demo` forgot.

    unplug demo --out DEMO
    python -m benchmarks.certificate_page DEMO --out docs/images/certificate.png

Records the demo's request in a ledger of its own, searches the demo's folder for the person,
certifies, verifies, and photographs the HTML page with a headless Chromium. Run with the operator's
key that the demo had (``UNPLUG_KEY``): under another one models that forgot cannot be looked into,
and the page says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from unplug.core import json_sha256, write_json
from unplug.sdk.releasing import DEMO_SPEC
from unplug.sdk.tracing import person_in, trace
from unplug.trust.bundle import bundle_id, load_signer, make_key, read_trust
from unplug.trust.certificates import Issued, check_certificate, issue_certificate, said_place
from unplug.trust.ledger import Ledger, LedgerSigner, open_ledger

REQUEST, SYSTEM = "TICKET-17", "training server"
SIZE = (1740, 1310)
BESIDE = "<style>body{display:flex;gap:24px;padding:24px;align-items:stretch}main{margin:0!important;flex:1}</style></head>"


def example(demo: Path, work: Path) -> Issued:
    """The request of a demo, certified and verified, in a work folder."""
    os.environ["UNPLUG_CACHE"] = str(work / "cache")
    (bundle,) = demo.glob("*.unplug")
    name = (demo / "forget.txt").read_text(encoding="utf-8").split()[0]
    ledger = open_ledger(
        str(work / "ledger.db"),
        signer=lambda: LedgerSigner(name="example.com", seed=bytes(range(32))),
    )
    ledger.create()
    ledger.add([name], id=REQUEST, identity="seen in person")
    search = _searched(ledger, name, demo, work / "trace.json")
    ledger.record("release", [REQUEST], facts={"bundle_sha256": bundle_id(bundle)})
    ledger.record("informed", [REQUEST], note="the labelling company")
    ledger.record("answered", [REQUEST])
    make_key(work / "release.key")
    issued = issue_certificate(
        REQUEST,
        ledger=ledger,
        bundle=bundle,
        signer=load_signer(str(work / "release.key")),
        out=work / "certificate",
        traces={SYSTEM: search},
        issuer="Example Ltd",
        places=[
            said_place("backups=kept: overwritten after 30 days"),
            said_place("deltas=none found: none were shipped"),
        ],
    )
    checked = check_certificate(
        issued.file, read_trust(work / "release.key.pub").keys[0], bundle, request=REQUEST
    )
    if checked.problems:
        raise SystemExit("\n".join(checked.problems))
    return issued


def _searched(ledger: Ledger, name: str, folder: Path, out: Path) -> Path:
    """What `unplug trace --request` writes and records."""
    places, _ = trace(DEMO_SPEC, person_in(DEMO_SPEC, name), [folder])
    value = {
        "nonce": "00" * 32,
        "person": name,
        "data": DEMO_SPEC,
        "searched": [str(folder)],
        "places": [vars(place) for place in places],
        "purged": [],
        "out_of_reach": "phones",
    }
    write_json(out, value)
    ledger.record(
        "step", [REQUEST], note="searched for traces", facts={"trace_sha256": json_sha256(value)}
    )
    return out


def photograph(page: Path, out: Path, chromium: str) -> None:
    """Both pages side by side, as a PNG file."""
    beside = page.with_name("beside.html")
    beside.write_text(page.read_text(encoding="utf-8").replace("</head>", BESIDE), encoding="utf-8")
    shot = page.with_name("shot.png")
    subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={SIZE[0]},{SIZE[1]}",
            f"--screenshot={shot}",
            beside.resolve().as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    few = (
        Image.open(shot)
        .convert("RGB")
        .quantize(128, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    few.save(out, optimize=True)
    for path in (beside, shot):
        path.unlink()


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        photograph(example(options.demo, Path(work)).page, options.out, options.chromium)


if __name__ == "__main__":
    main()
