"""What a checkpoint's record says of the models that it was made from."""

from __future__ import annotations

from typing import Any

from unplug.plugins import Checkpoint


def lineage_of(original: Checkpoint) -> dict[str, Any]:
    """The ``lineage`` of a model that is made from another: all in front of it stand there, for
    their folders may be gone.
    """
    before = original.record.get("lineage") or {}
    older = (
        [before["original_sha256"], *before.get("ancestors", ())]
        if "original_sha256" in before
        else []
    )
    found = {"original": str(original.path), "original_sha256": original.sha256}
    return {**found, "ancestors": older} if older else found
