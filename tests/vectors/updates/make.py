"""Good and hostile update metadata with the verdict that every verifier gives it: ``python -m tests.vectors.updates.make DIR``.

A case is one JSON file: the ``root`` that the reader trusts and the ``files`` beside it (base64), filled up with spaces to so
many bytes (``pad``), what the reader has ``seen``, the time ``now``, the ``bundle`` whose signature was checked, and the
``verdict``; where it is ``valid``, the ``answer`` as well. ``before`` are the files that ``seen`` comes from, and ``tuf`` says
whether python-tuf's own client takes the four files: it judges no releases, and reads some spellings that are refused here.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cases import CASES, Case
from .recipe import BYTES, IDS, World, id_of

OF_RELEASES = ("unknown-product", "superseded", "unpublished", "wrong-size", "revoked", "retired")


@dataclass(frozen=True)
class Made:
    """One case as it is written."""

    name: str
    case: Case

    def text(self) -> str:
        case = self.case
        files = case.world.files()
        trusted = case.trusted_sent(case.world.root_files()[case.trusted - 1])
        same = [name for name, raw in sorted(files.items()) if raw == trusted and name not in case.world.pad]
        value: dict[str, Any] = {
            "what": self.name.replace("-", " "), "verdict": case.verdict, "now": case.now,
            "root": same[0] if same else coded(trusted),
            "files": {name: coded(raw) for name, raw in sorted(files.items())}, "pad": dict(case.world.pad),
            "seen": None if case.before is None else seen(case.before), "bundle": bundle(case), "tuf": self.tuf(),
        }  # fmt: skip
        if case.before is not None:
            value["before"] = {name: coded(raw) for name, raw in sorted(case.before.files().items())}
        if case.verdict == "valid":
            value["answer"] = {"seen": seen(case.world), "until": case.until, "current": 9, "stops": case.stops}
        return json.dumps(value, indent=1) + "\n"

    def tuf(self) -> str:
        if self.case.tuf is not None:
            return self.case.tuf
        of_release = self.case.verdict in OF_RELEASES and self.case.of_release
        return "accepts" if self.case.verdict == "valid" or of_release else "refuses"


def coded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def seen(world: World) -> dict[str, Any]:
    keys = world.roots[world.signed_under].keys
    at, snap, targ = world.versions
    return {
        "schema": "unplug-updates-seen/1", "root": len(world.roots), "timestamp": at, "snapshot": snap, "targets": targ,
        "timestamp_keys": sorted(id_of(name) for name in world.timestamp.by or keys.timestamp),
        "snapshot_keys": sorted(id_of(name) for name in world.snapshot.by or keys.snapshot),
    }  # fmt: skip


def bundle(case: Case) -> dict[str, Any]:
    return {"name": case.name, "release": case.release, "id": case.id or IDS[case.release], "bytes": case.size or BYTES}


def corpus() -> dict[str, str]:
    """Text by file name."""
    assert len({name for name, _ in CASES}) == len(CASES)
    return {f"{name}.json": Made(name, case).text() for name, case in CASES}


if __name__ == "__main__":
    out = Path(sys.argv[1])
    for old in out.glob("*.json"):
        old.unlink()
    for file, text in corpus().items():
        (out / file).write_text(text)
