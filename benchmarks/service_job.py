"""A release that does next to nothing, for the service's tests and its benchmark: it stands where
`run_release` stands.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from unplug.core import GateFailed, InputError, Job, Reply, sha256_file

SECONDS, FILES, FAIL = "UNPLUG_CHEAP_SECONDS", "UNPLUG_CHEAP_FILES", "UNPLUG_CHEAP_FAIL"
"""How long it takes; ONNX files that take turns in being served, apart by the system's path
separator; what it raises.
"""
STEPS = 10


def run(job: Job) -> Reply:
    """Waits, tells how far it is, and writes one file that names the requests; every run leaves a
    line in ``runs``.
    """
    folder = Path(job.values["folder"])
    with (folder / "runs").open("a", encoding="ascii") as runs:
        runs.write(f"{job.values['fence']}\n")
    if fail := os.environ.get(FAIL):
        if fail == "gate":
            raise GateFailed("release refused", "attack_auc 0.71 is above 0.55", "")
        raise InputError("subject:anna", "she is nobody's business", "")
    for step in range(STEPS):
        job.progress(step, STEPS, f"step {step}: subject:anna")
        time.sleep(float(os.environ.get(SECONDS, "0.2")) / STEPS)
    bundle = folder / "cheap.zip"
    bundle.write_text(json.dumps(job.values["requests"]), encoding="ascii")
    (folder / "certificate.html").write_bytes(b"<!doctype html>\n")
    files = [path for path in os.environ.get(FILES, "").split(os.pathsep) if path]
    served = (
        files[job.values["before"]["number"] % len(files) if job.values["before"] else 0]
        if files
        else None
    )
    return Reply(
        values={
            "requests": job.values["requests"],
            "checkpoint": str(folder),
            "bundle": None,
            "artifact": served,
            "sha256": None if served is None else sha256_file(Path(served)),
            "files": {
                "cheap.zip": str(bundle),
                "certificate.html": str(folder / "certificate.html"),
                "stray": "/etc/hostname",
            },
        }
    )
