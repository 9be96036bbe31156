"""What everything stands on: errors, files, the registry, named tensors, child processes, typed records."""

from .lazy import attach
from .telemetry import disable_telemetry

disable_telemetry()  # first of all: every package of ours imports this one before any of theirs

__getattr__, __all__ = attach(__name__, __file__)
