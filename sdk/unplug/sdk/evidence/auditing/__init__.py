"""Auditing: attacks, utility and the distance to the oracle, on checkpoints and on artifacts."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
