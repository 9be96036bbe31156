"""What computes an artifact's numbers where its own runtime cannot run."""

from __future__ import annotations

from ..artifact import Artifact
from ..targets import TARGETS
from . import RUNTIMES
from .base import Runtime

STAND_INS = {"coreml": "mil"}
"""Runtime to the one that gives the same numbers on other machines. For parity and audits, never for times."""


def runtime_of(artifact: Artifact) -> Runtime:
    """The runtime of an artifact's target, or what stands in for it on this machine.

    The name of what is returned belongs into every result: a stand-in checks the file, not Apple's framework.
    """
    runtime: Runtime = RUNTIMES.get(TARGETS.get(artifact.card.target).runtime)
    if runtime.unavailable() is not None and runtime.name in STAND_INS:
        runtime = RUNTIMES.get(STAND_INS[runtime.name])
    return runtime
