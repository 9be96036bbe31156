"""Files, errors, children, records, the registry: knows no model."""

from .lazy import attach
from .telemetry import disable_telemetry
from .waiting import watch_for_torch

# First of all: every package of ours imports this one before any of theirs.
disable_telemetry()
watch_for_torch()

__getattr__, __all__ = attach(__name__, __file__)
