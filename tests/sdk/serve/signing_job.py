"""A release that forgets nothing and signs a bundle that is there already: what follows the
computing is the real thing.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from unplug.core import Job, Reply
from unplug.trust.bundle import Publication, Signing, bundle_id, load_signer, sign_bundle

BEFORE = "before.json"
"""In the folder of a job: from which checkpoint it started."""
SECONDS = "UNPLUG_CHEAP_SECONDS"


def run(job: Job) -> Reply:
    """Signs the bundle ``made`` next to the recipe's key as the next release; the folder of the job
    stands for its weights.
    """
    folder, recipe, before = Path(job.values["folder"]), job.values["recipe"], job.values["before"]
    (folder / BEFORE).write_text(json.dumps(before and before["checkpoint"]), encoding="utf-8")
    time.sleep(float(os.environ.get(SECONDS, "0")))
    key = Path(recipe["sign"])
    publication = Publication(
        name=recipe["name"],
        release=1 + (before["number"] if before else 0),
        requests=tuple(job.values["requests"]),
    )
    out = folder / "age.unplug"
    if not out.exists():
        sign_bundle(
            key.parent / "made", Signing(signer=load_signer(str(key)), publication=publication), out
        )
    return Reply(
        values={
            "requests": job.values["requests"],
            "bundle": str(out),
            "bundle_id": bundle_id(out),
            "checkpoint": str(folder),
            "weights": [
                weights_of(before["checkpoint"]) if before else "0" * 64,
                weights_of(str(folder)),
            ],
            "files": {},
        }
    )


def weights_of(folder: str) -> str:
    """A hash that stands for the weights of a job."""
    return hashlib.sha256(folder.encode()).hexdigest()
