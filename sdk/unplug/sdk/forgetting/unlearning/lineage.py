"""What a checkpoint's record says of the models that it was made from."""

from __future__ import annotations

from typing import Any

from unplug.plugins import Checkpoint
from unplug.sdk.learning.data import Split


def lineage_of(original: Checkpoint, stored: Split) -> dict[str, Any]:
    """The ``lineage`` of a model that is made from another: all in front of it stand there, for
    their folders may be gone, and whom each of them held that the next one forgot.

    Args:
        original: the model that it is made from.
        stored: the new model's split as its record keeps it.
    """
    before = original.record.get("lineage") or {}
    past = Split.from_dict(original.record["split"], str(original.path))
    held = dict(before.get("held", {}))
    if not past.forget or past.key == stored.key:  # else their digests tell nothing of each other
        held[original.sha256] = sorted({*stored.forget} - {*past.forget})
    lineage = {"original": str(original.path), "original_sha256": original.sha256, "held": held}
    if "original_sha256" in before:
        lineage["ancestors"] = [before["original_sha256"], *before.get("ancestors", ())]
    return lineage
