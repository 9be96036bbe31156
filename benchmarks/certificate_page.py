"""The certificate in ``docs/images/certificate.png``: of a drawn person, forgotten by a small model that was made to forget.

    python -m benchmarks.certificate_page --work DIR --out docs/images/certificate.png

Walks the demo's journey on few drawn faces, with a ledger, an operator's key and a signing key of its own, traces the person,
certifies the request, verifies that, and photographs the HTML page with a headless Chromium.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

from unplug.core import json_sha256, write_json
from unplug.sdk.bundle import bundle_id, load_signer, make_key, read_trust
from unplug.sdk.certificates import Issued, certify, check_certificate, said_place
from unplug.sdk.ledger import Ledger, open_ledger
from unplug.sdk.ledger import Signer as LedgerSigner
from unplug.sdk.releasing import DEMO_RECIPE, DemoConfig, run_demo
from unplug.sdk.tracing import person_in, trace

SPEC, TRUNK = "synth:n=1200,subjects=400,seed=0", "synth:n=900,subjects=900,seed=1"
REQUEST, SYSTEM = "TICKET-17", "training server"
SIZE = (1770, 1330)
BESIDE = "<style>body{display:flex;gap:24px;padding:24px;align-items:stretch}main{margin:0!important;flex:1}</style></head>"


def example(work: Path, say: Callable[[str], None]) -> Issued:
    """The whole story in a folder; what lies there of an earlier run is used again."""
    os.environ["UNPLUG_KEY"], os.environ["UNPLUG_CACHE"] = str(work / "key"), str(work / "cache")
    demo = work / "demo"
    config = DemoConfig(spec=SPEC, trunk_spec=TRUNK, recipe=replace(DEMO_RECIPE, epochs=4))
    done = run_demo(config, demo, device=torch.device("cpu"), say=say, show=False)
    if done.bundle is None:
        raise SystemExit(f"no bundle was released: {done.refusal}")
    name = (demo / "forget.txt").read_text(encoding="utf-8").split()[0]
    ledger = _ledger(work, name)
    search = _searched(ledger, name, demo, work / "trace.json")
    ledger.record("release", [REQUEST], facts={"bundle_sha256": bundle_id(done.bundle)})
    ledger.record("informed", [REQUEST], note="the labelling company")
    ledger.record("answered", [REQUEST])
    if not (work / "release.key").exists():
        make_key(work / "release.key")
    issued = certify(
        REQUEST, ledger=ledger, bundle=done.bundle, signer=load_signer(str(work / "release.key")), out=work / "certificate",
        traces={SYSTEM: search}, issuer="Example Ltd",
        places=[said_place("backups=kept: overwritten after 30 days"), said_place("deltas=none found: none were shipped")],
    )  # fmt: skip
    checked = check_certificate(issued.file, read_trust(work / "release.key.pub").keys[0], done.bundle, request=REQUEST)
    if checked.problems:
        raise SystemExit("\n".join(checked.problems))
    return issued


def _ledger(work: Path, name: str) -> Ledger:
    """A new one, with a request that names the person."""
    place = work / "ledger.db"
    for old in work.glob("ledger.db*"):
        old.unlink()
    ledger = open_ledger(str(place), signer=lambda: LedgerSigner(name="example.com", seed=bytes(range(32))))
    ledger.create()
    ledger.add([name], id=REQUEST, identity="seen in person")
    return ledger


def _searched(ledger: Ledger, name: str, folder: Path, out: Path) -> Path:
    """What `unplug trace --request` writes and records."""
    places, _ = trace(SPEC, person_in(SPEC, name), [folder])
    value = {
        "nonce": "00" * 32, "person": name, "data": SPEC, "searched": [str(folder)],
        "places": [vars(place) for place in places], "purged": [], "out_of_reach": "phones",
    }  # fmt: skip
    write_json(out, value)
    ledger.record("step", [REQUEST], note="searched for traces", facts={"trace_sha256": json_sha256(value)})
    return out


def photograph(page: Path, out: Path, chromium: str) -> None:
    """Both pages side by side, as a PNG file."""
    beside = page.with_name("beside.html")
    beside.write_text(page.read_text(encoding="utf-8").replace("</head>", BESIDE), encoding="utf-8")
    shot = page.with_name("shot.png")
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE[0]},{SIZE[1]}",
         f"--screenshot={shot}", beside.resolve().as_uri()], check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    Image.open(shot).convert("RGB").quantize(64).save(out, optimize=True)
    for path in (beside, shot):
        path.unlink()


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--chromium", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    issued = example(options.work, print)
    photograph(issued.page, options.out, options.chromium)


if __name__ == "__main__":
    main()
