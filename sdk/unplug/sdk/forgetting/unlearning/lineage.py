"""What a checkpoint's record says of the models that it was made from."""

from __future__ import annotations

from typing import Any

from unplug.plugins import Checkpoint


def lineage_of(original: Checkpoint) -> dict[str, Any]:
    """The ``lineage`` of a model that is made from another: all in front of it stand there, for
    their folders may be gone.
    """
    before = original.record.get("lineage") or {}
    parent = {"original": str(original.path), "original_sha256": original.sha256}
    if "original_sha256" not in before:
        return parent
    return parent | {"ancestors": [before["original_sha256"], *before.get("ancestors", ())]}
