"""What an estimate knows of a file: for each kind of operator its multiply-accumulates and the bytes that it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unplug.core import InputError, call_in_child, require_modules
from unplug.export import Artifact

KINDS = ("conv1x1", "conv", "depthwise", "dense", "pool", "elementwise", "resize", "other")
MAC_KINDS = KINDS[:4]
"""Kinds that multiply and accumulate; of the others only the bytes count."""
COUNT_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Features:
    """Totals over the operators of a file.

    Args:
        macs: multiply-accumulates by kind of operator.
        bytes: of inputs, weights and outputs by kind, each operator's own.
        operators: their number.
    """

    macs: dict[str, int]
    bytes: dict[str, int]
    operators: int

    @property
    def total_macs(self) -> int:
        """Of all kinds."""
        return sum(self.macs.values())

    @property
    def total_bytes(self) -> int:
        """Of all kinds."""
        return sum(self.bytes.values())


def read_features(artifacts: Sequence[Artifact]) -> list[Features]:
    """Counts the operators of LiteRT files, in one child process.

    Args:
        artifacts: from `load_artifact`.

    Raises:
        InputError: a file is of another target.
        ArtifactError: a file is no flatbuffer that can be read.
        MissingExtraError: ai-edge-litert is not installed.
    """
    for artifact in artifacts:
        if artifact.card.target != "litert":
            why = f"an estimate reads the operators of LiteRT files, and this is for {artifact.card.target}"
            raise InputError(str(artifact.path), why, "Export it with --to litert")
    require_modules(("ai_edge_litert",), "litert")
    paths: list[Path] = [artifact.path.resolve() for artifact in artifacts]
    reply = call_in_child(
        "unplug.mobile_bench.estimate.operators:count", {"paths": [str(path) for path in paths]},
        what="counting operators", timeout=COUNT_SECONDS,
    )  # fmt: skip
    return [Features(**item) for item in reply.values["files"]]
